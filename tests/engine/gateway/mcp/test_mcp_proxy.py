"""Calls between an MCP client and its server at a real gate: answers, withdrawals and results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.gateway import Address, AgentClient, Limits
from interlock.engine.gateway.mcp.gate import McpGate
from interlock.engine.gateway.mcp.proxy import LISTING, McpProxy, ProxySession
from interlock.engine.gateway.mcp.tools import MOST_PAGES
from interlock.engine.history.model.state import CallState

from ..served import Served, served, until

ASKING = "require human-approval before deploy"


FIELDS: list[tuple[dict[str, object], str | None]] = [
    ({"command": ["rm", "-rf", "/"]}, "delete"),
    ({"command": ["sh", "-c", "rm x"]}, "delete"),
    ({"command": [["rm", "x"]]}, "delete"),
    ({"command": {"run": "rm x"}}, "delete"),
    ({"command": {"run": "ls"}}, "unclear"),
    ({"command": "ls", "Command": "rm x"}, "delete"),
    ({"c\u200bommand": "ls"}, "unclear"),
    ({"command": ["ls", {"x": 1}]}, "unclear"),
    ({"command": "echo " + "x " * 40_000 + "; rm y"}, "unclear"),
    ({"command": ["ls", "rm x"], "timeout": 5}, None),
]
"""Inputs of a call that maps read, and the name that blocks it."""
MAPS = "map bash.command /^rm\\b/ as delete\nblock delete\nblock unclear"


class Ends:
    """A client and a server that record the messages they get."""

    def __init__(
        self,
        connect: Callable[[], AgentClient],
        session: str | None = None,
        listing: float = LISTING,
        wait: float | None = None,
        *,
        plans: bool = False,
        inform: bool = False,
    ) -> None:
        self.client: list[dict[str, Any]] = []
        self.server: list[dict[str, Any]] = []
        self.tools: list[str] = []
        self.pages: list[int] = []
        self.lists: Callable[[dict[str, Any]], Awaitable[None]] = self._list
        self.gate = McpGate(plans=plans, inform=inform)
        self.at_gate = ProxySession(lambda: "bot", session=session, client=connect)
        self.proxy = McpProxy(
            self.gate,
            self.at_gate,
            self._to_client,
            self._to_server,
            wait=wait,
            soon=0.01,
            often=0.01,
            listing=listing,
        )

    async def _to_client(self, line: bytes) -> None:
        self.client += map(json.loads, line.splitlines())

    async def _to_server(self, line: bytes) -> None:
        message = json.loads(line)
        if str(message.get("id", "")).startswith("interlock-tools-"):
            await self.lists(message)
        else:
            self.server.append(message)

    async def _list(self, asked: dict[str, Any]) -> None:
        """Answer the proxy's own request for the tools, with one tool per page."""
        at = int(asked["params"].get("cursor", 0))
        more = {"nextCursor": str(at + 1)} if at + 1 < len(self.tools) else {}
        listed = [{"name": name} for name in self.tools[at : at + 1]]
        self.pages.append(at)
        await self.answer(asked["id"], result={"tools": listed, **more})

    async def ask(self, call_id: object, name: str, arguments: object = None, **params: object) -> None:
        if name not in self.tools and not name.startswith("un"):
            self.tools.append(name)
        given = {"name": name, "arguments": arguments or {}, **params}
        await self.send(id=call_id, method="tools/call", params=given)

    async def send(self, **message: object) -> None:
        await self.proxy.handle_client(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def cancel(self, call_id: object, **params: object) -> None:
        await self.send(method="notifications/cancelled", params={"requestId": call_id, **params})

    async def answer(self, call_id: object, **answer: object) -> None:
        await self.line(json.dumps({"jsonrpc": "2.0", "id": call_id, **answer}))

    async def line(self, line: str) -> None:
        """Send a line from the server."""
        await self.proxy.handle_server(line.encode() + b"\n")

    async def done(self, call_id: object, text: str = "done", **result: object) -> None:
        content = [{"type": "text", "text": text}]
        await self.answer(call_id, result={"content": content, **result})

    async def forwarded(self, count: int = 1) -> dict[str, Any]:
        async def found() -> bool:
            return len(self.server) >= count

        await until(found)
        return self.server[count - 1]

    async def told(self, call_id: object) -> dict[str, Any]:
        """Return the answer to a request."""

        async def found() -> list[dict[str, Any]]:
            return [each for each in self.client if "method" not in each and each.get("id") == call_id]

        return (await until(found))[-1]

    async def ran(self, call_id: object, name: str, **result: object) -> dict[str, Any]:
        """Make a call that is allowed, and answer it."""
        count = len(self.server)
        await self.ask(call_id, name)
        await self.forwarded(count + 1)
        await self.done(call_id, **result)
        return await self.told(call_id)

    def progress(self) -> list[dict[str, Any]]:
        return [each["params"] for each in self.client if each.get("method") == "notifications/progress"]


@asynccontextmanager
async def between(
    server: Served,
    session: str | None = None,
    listing: float = LISTING,
    wait: float | None = None,
    *,
    plans: bool = False,
    inform: bool = False,
) -> AsyncGenerator[Ends]:
    ends = Ends(server.agent_client, session, listing, wait, plans=plans, inform=inform)
    try:
        yield ends
    finally:
        await ends.proxy.close()


async def waiting(server: Served) -> str:
    return (await until(server.hub.approvals))[0].id


async def calls(server: Served) -> list[CallState]:
    return [call for state in await server.hub.sessions() for call in state.calls.values()]


async def said(server: Served) -> list[str]:
    """Return the texts in the transcripts."""
    states = await server.hub.sessions()
    return [each.text for state in states for each in state.transcript if each.text]


def text(answer: dict[str, Any]) -> str:
    assert answer["result"]["isError"] is True
    return answer["result"]["content"][0]["text"]


class TestWaiting:
    async def test_progress_notifications_rise(self, tmp_path: Path) -> None:
        """A client with a progress token gets repeated notifications with rising numbers."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.ask(1, "deploy", _meta={"progressToken": "t"})

            async def three() -> bool:
                return sum("it needs approval" in each["message"] for each in ends.progress()) >= 3

            await until(three)
            found = ends.progress()
            numbers = [each["progress"] for each in found]
            assert numbers == sorted(set(numbers))
            assert {each["progressToken"] for each in found} == {"t"}
            assert ends.server == []
            await server.hub.decide(await waiting(server), approved=True, by="ada")
            assert (await ends.forwarded())["params"]["name"] == "deploy"

    async def test_no_token_no_progress(self, tmp_path: Path) -> None:
        """A client without a progress token gets no notification."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.ask(1, "deploy")
            await ends.ask(2, "deploy", _meta={"progressToken": 7})
            await until(_true(ends.progress))
            assert {each["progressToken"] for each in ends.progress()} == {7}

    async def test_call_survives_a_server_restart(self, tmp_path: Path) -> None:
        """A waiting call survives a restart of Interlock's server and is decided there."""
        async with served(tmp_path, rules=ASKING) as server:
            ends = Ends(server.agent_client)
            await ends.ask(1, "deploy", {"env": "prod"})
            await waiting(server)
            port = server.address.port
        assert ends.server == []
        async with served(tmp_path, rules=ASKING, address=Address(port=port)) as server:
            await server.hub.decide(await waiting(server), approved=True, by="ada")
            assert (await ends.forwarded())["params"]["arguments"] == {"env": "prod"}
            await ends.done(1)
            await ends.told(1)
            await ends.proxy.close()


class TestCancelling:
    async def test_waiting_call_leaves_the_queue(self, tmp_path: Path) -> None:
        """A cancelled call leaves the queue and does not reach its server."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.ask("a", "deploy")
            request = await waiting(server)
            await ends.cancel("a")

            async def none() -> bool:
                return not await server.hub.approvals()

            await until(none)
            assert not (await server.hub.decide(request, approved=True, by="ada")).ok
            assert ends.server == []
            assert ends.client == []
            # The id is free again, since no call was made under it.
            await ends.ran("a", "other")

    async def test_running_call_is_cancelled_at_the_server(self, tmp_path: Path) -> None:
        """The server gets the cancellation, and the call is recorded as failed."""
        async with served(tmp_path) as server, between(server) as ends:
            await ends.ask(1, "test")
            await ends.forwarded()
            await ends.cancel(1)
            assert (await ends.forwarded(2))["method"] == "notifications/cancelled"

            async def settled() -> bool:
                return (await calls(server))[0].output is not None

            await until(settled)
            await ends.done(1)
            assert (await ends.told(1))["result"]["content"]
            assert (await calls(server))[0].status == "failed"
            await ends.ask(2, "deploy")
            assert "requires" in text(await ends.told(2))

    async def test_closing_client_withdraws_its_request(self, tmp_path: Path) -> None:
        """The request of a client that closes is withdrawn, and its call does not run."""
        async with served(tmp_path, rules=ASKING) as server:
            async with between(server) as ends:
                await ends.ask(1, "deploy")
                await waiting(server)
            assert await server.hub.approvals() == []
            assert ends.server == []
            assert await server.hub.sessions() == []


class TestResults:
    async def test_successful_test_unlocks_deploy(self, tmp_path: Path) -> None:
        """A successful test unlocks the deploy."""
        async with (
            served(tmp_path, rules="require test before deploy") as server,
            between(server) as ends,
        ):
            await ends.ask(1, "deploy")
            assert "requires a successful call to test" in text(await ends.told(1))
            await ends.ran(2, "test")
            await ends.ask(3, "deploy")
            await ends.forwarded(2)

    async def test_any_error_form_fails_the_call(self, tmp_path: Path) -> None:
        """Every form of error that a server returns fails the call."""
        async with (
            served(tmp_path, rules="require test before deploy") as server,
            between(server) as ends,
        ):
            await ends.ran(1, "test", isError=True)
            await ends.ran(2, "test", isError="yes")
            await ends.ran(3, "test", resultType="unheard-of")
            await ends.ask(4, "test")
            await ends.forwarded(4)
            await ends.answer(4, error={"code": -32603, "message": "broken"})
            await ends.told(4)
            await ends.ask(5, "deploy")
            assert "requires" in text(await ends.told(5))
            assert [each.output for each in (await calls(server))[3:4]] == ["broken"]

    async def test_edited_input_runs_and_is_shown(self, tmp_path: Path) -> None:
        """The edited input runs, other parameters stay, and the model reads the edit."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.ask(1, "deploy", {"env": "prod"}, _meta={"x": 1})
            request = await waiting(server)
            await server.hub.decide(request, approved=True, by="ada", input={"env": "staging"})
            params = (await ends.forwarded())["params"]
            assert params == {"name": "deploy", "arguments": {"env": "staging"}, "_meta": {"x": 1}}
            await ends.done(1)
            content = (await ends.told(1))["result"]["content"]
            assert [each["text"] for each in content] == [
                "done",
                'Interlock: a person changed this call\'s input. It ran with: {"env": "staging"}',
            ]

    @pytest.mark.parametrize(
        ("tool", "told"),
        [
            ({}, True),
            ({"outputSchema": {"type": "object", "properties": {"ok": {}}}}, True),
            ({"outputSchema": {"type": "object", "additionalProperties": False}}, False),
            (None, False),
        ],
    )
    async def test_edited_result_data_has_the_note(
        self, tmp_path: Path, tool: dict | None, told: bool
    ) -> None:
        """A result's data contains the note about an edit, unless its schema forbids that."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.send(id=9, method="tools/list")
            await ends.forwarded()
            tools = [] if tool is None else [{"name": "deploy", **tool}]
            await ends.answer(9, result={"tools": tools})
            await ends.told(9)
            await ends.ask(1, "deploy", {"env": "prod"})
            request = await waiting(server)
            await server.hub.decide(request, approved=True, by="ada", input={"env": "staging"})
            await ends.forwarded(2)
            await ends.done(1, structuredContent={"ok": True})
            result = (await ends.told(1))["result"]
            note = 'Interlock: a person changed this call\'s input. It ran with: {"env": "staging"}'
            assert result["content"][1]["text"] == note
            assert result["structuredContent"] == {"ok": True} | ({"interlock": note} if told else {})

    async def test_unrecorded_result_becomes_an_error(self, tmp_path: Path) -> None:
        """A result that cannot be recorded is replaced by an error."""
        async with served(tmp_path) as server:
            ends = Ends(lambda: AgentClient(server.url, server.agent, patience=0.1))
            await ends.ask(1, "test")
            await ends.ask(2, "test", task={})
            await ends.forwarded(2)
            await ends.answer(2, result={"task": {"taskId": "t1"}})
            await ends.send(id=3, method="tasks/result", params={"taskId": "t1"})
        await ends.done(1, "12 passed")
        await ends.done(3, "12 passed")
        assert "could not be recorded" in text(await ends.told(1))
        assert "could not be recorded" in text(await ends.told(3))
        assert "12 passed" not in json.dumps(ends.client)
        await ends.proxy.close()

    async def test_request_for_more_input_needs_one_approval(self, tmp_path: Path) -> None:
        """A call for which the server requests more input needs one approval."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.ask(1, "deploy", {"env": "prod"})
            request = await waiting(server)
            await server.hub.decide(request, approved=True, by="ada", input={"env": "staging"})
            await ends.forwarded()
            await ends.answer(1, result={"resultType": "input_required", "requestState": "s"})
            await ends.told(1)
            await ends.ask(2, "deploy", {"env": "prod"}, requestState="s", inputResponses={"a": {}})
            params = (await ends.forwarded(2))["params"]
            assert params["arguments"] == {"env": "staging"}
            assert params["inputResponses"] == {"a": {}}
            await ends.done(2)
            await ends.told(2)
            assert [each.status for each in await calls(server)] == ["done"]
            # The state is valid once, and only for that call.
            await ends.ask(3, "deploy", {"env": "prod"}, requestState="s")
            await waiting(server)
            assert len(ends.server) == 2

    async def test_large_result_is_cut_in_record_only(self, tmp_path: Path) -> None:
        """A result larger than the gate's limit is cut in the record and passes completely."""
        limits = Limits(frame=1 << 14)
        async with served(tmp_path, limits=limits) as server, between(server) as ends:
            await ends.ask(1, "test")
            await ends.forwarded()
            await ends.done(1, "\0" * 50_000)
            assert len((await ends.told(1))["result"]["content"][0]["text"]) == 50_000
            assert 1000 < len((await calls(server))[0].output or "") < 50_000

    async def test_task_result_settles_the_call(self, tmp_path: Path) -> None:
        """A call that continues as a task is settled by the task's result."""
        async with (
            served(tmp_path, rules="require test before deploy") as server,
            between(server) as ends,
        ):
            await ends.ask(1, "test", task={"ttl": 1000})
            assert (await ends.forwarded())["params"]["task"] == {"ttl": 1000}
            await ends.answer(1, result={"task": {"taskId": "t1", "status": "working"}})
            await ends.told(1)
            await ends.ask(2, "deploy")
            assert "requires" in text(await ends.told(2))
            await ends.send(id=3, method="tasks/result", params={"taskId": "t1"})
            await ends.done(3)
            await ends.told(3)
            await ends.ask(4, "deploy")
            assert (await ends.forwarded(3))["params"]["name"] == "deploy"

    async def test_call_without_answer_has_failed(self, tmp_path: Path) -> None:
        """A call whose server ended before it answered is recorded as failed."""
        async with served(tmp_path) as server:
            async with between(server, "work") as ends:
                await ends.ask(1, "test")
                await ends.forwarded()
            assert [each.status for each in await calls(server)] == ["failed"]


class TestFields:
    async def test_nested_values_are_read_or_unclear(self, tmp_path: Path) -> None:
        """G-64, G-65: lists, objects, odd spellings and long texts are either read or unclear."""
        async with served(tmp_path, rules=MAPS) as server, between(server) as ends:
            for number, (given, name) in enumerate(FIELDS):
                await ends.ask(number, "bash", given)
                if name is None:
                    await ends.forwarded(1)
                else:
                    assert f"{name} is blocked" in text(await ends.told(number))
            assert [sent["params"]["arguments"] for sent in ends.server] == [
                given for given, name in FIELDS if name is None
            ]


class TestNobodyJudges:
    async def test_without_interlock_server_calls_get_a_remedy(self, tmp_path: Path) -> None:
        """Without Interlock's server, calls get a remedy and other messages pass.

        Calls work again as soon as the server runs.
        """
        async with served(tmp_path) as server:
            port = server.address.port
        ends = Ends(lambda: AgentClient(server.url, server.agent, patience=0.1))
        await ends.ask(1, "test")
        await ends.send(id=2, method="ping")
        assert "interlock serve" in text(await ends.told(1))
        assert [each["method"] for each in ends.server] == ["ping"]
        async with served(tmp_path, address=Address(port=port)):
            await ends.ran(3, "test")
            await ends.proxy.close()

    async def test_unknown_token_gets_a_remedy(self, tmp_path: Path) -> None:
        """An unknown token is reported with the remedy."""
        async with served(tmp_path) as server:
            ends = Ends(lambda: AgentClient(server.url, "nonsense", patience=0.1))
            await ends.ask(1, "test")
            assert "INTERLOCK_TOKEN" in text(await ends.told(1))
            assert ends.server == []
            await ends.proxy.close()

    async def test_ended_session_runs_no_call(self, tmp_path: Path) -> None:
        """After an operator ended the session, no call runs."""
        async with served(tmp_path) as server, between(server) as ends:
            await ends.ran(1, "test")
            [session] = await server.hub.sessions()
            await server.hub.close_session(session.id, "ada")
            await ends.ask(2, "test")
            assert "Restart this MCP server" in text(await ends.told(2))
            assert len(ends.server) == 1

    async def test_unjudgeable_inputs_are_refused(self, tmp_path: Path) -> None:
        """Inputs that are too large or no valid text are refused, and the session continues."""
        async with served(tmp_path) as server, between(server) as ends:
            await ends.ask(1, "test", {"a": "x" * (1 << 20)})
            assert "bytes" in text(await ends.told(1))
            await ends.ask(2, "test", {"a": "\ud800"})
            assert "could not judge" in text(await ends.told(2))
            await ends.ask(3, "t" * 300)
            assert "could not judge" in text(await ends.told(3))
            assert ends.server == []
            await ends.ran(4, "test")


class TestIds:
    async def test_id_in_use_is_refused(self, tmp_path: Path) -> None:
        """A request under an id that is still in use is refused."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.ask(1, "deploy")
            await waiting(server)
            await ends.ask(1, "other")
            await ends.send(id=1, method="ping")
            await ends.ask("1", "other")
            await ends.forwarded()
            assert [each["id"] for each in ends.client] == [None, None]
            assert [each["params"]["name"] for each in ends.server] == ["other"]

    async def test_answer_to_other_request_settles_no_call(self, tmp_path: Path) -> None:
        """The answer to another request does not settle a call of the same id."""
        async with (
            served(tmp_path, rules="require test before deploy") as server,
            between(server) as ends,
        ):
            await ends.send(id=1, method="ping")
            await ends.ask(1, "test")
            await ends.answer(1, result={})
            assert [each["params"] for each in ends.server if each["method"] == "tools/call"] == []
            await ends.ask(2, "deploy")
            assert "requires" in text(await ends.told(2))

    async def test_early_answer_is_dropped(self, tmp_path: Path) -> None:
        """An answer to a call that the server did not get is dropped."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.ask(1, "deploy")
            await waiting(server)
            await ends.done(1)
            assert ends.client == []


class TestIdsAgain:
    async def test_one_approval_serves_one_run(self, tmp_path: Path) -> None:
        """G-76: a client that reuses an id needs an approval for each call."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.ask(1, "deploy")
            await server.hub.decide(await waiting(server), approved=True, by="ada")
            await ends.forwarded(1)
            await ends.done(1)
            await ends.told(1)
            await ends.ask(1, "deploy")
            await server.hub.decide(await waiting(server), approved=False, by="ada")

            async def both() -> bool:
                return sum("method" not in each and each.get("id") == 1 for each in ends.client) == 2

            await until(both)
            assert "rejected" in text(await ends.told(1))
            assert len(ends.server) == 1
            assert sorted(call.status for call in await calls(server)) == ["blocked", "done"]

    async def test_two_connections_share_the_limit(self, tmp_path: Path) -> None:
        """G-76: two programs in one session that reuse an id share the limit."""
        rules = "limit push to 1 per session"
        async with (
            served(tmp_path, rules=rules) as server,
            between(server, session="shared") as first,
            between(server, session="shared") as second,
        ):
            await first.ran(1, "push")
            await second.ask(1, "push")
            assert "limit of 1" in text(await second.told(1))
            assert second.server == []


class TestSharedSessions:
    async def test_two_servers_of_one_session_are_judged_together(self, tmp_path: Path) -> None:
        """Two servers of one session are judged together, and the session outlives the first one."""
        async with served(tmp_path, rules="require test before deploy") as server:
            async with between(server, "work") as ends:
                await ends.ran(1, "test")
            async with between(server, "work") as ends:
                await ends.ask(1, "deploy")
                await ends.forwarded()
            assert [each.id for each in await server.hub.sessions()] == ["work"]


def _true(found: Callable[[], object]) -> Callable[[], Any]:
    async def ask() -> object:
        return found()

    return ask


CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


class TestUnlisted:
    """Only tools that the server lists are called (G-66)."""

    async def test_is_refused_and_recorded(self, tmp_path: Path) -> None:
        """An unlisted tool gets an error, and the transcript contains it."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            ends.tools = ["deploy", "Deploy2", "test"]
            await ends.ask(1, "undeploy", {"env": "prod"})
            error = (await ends.told(1))["error"]
            assert error["code"] == -32602
            expected = (
                'unknown tool "undeploy": the server\'s tools/list does not name it. Call a tool by'
            )
            assert expected in error["message"]
            assert ends.server == []
            assert ends.pages == [0, 1, 2]
            assert [each for each in await said(server) if 'unknown tool "undeploy"' in each]
            assert await calls(server) == []

    async def test_another_spelling_is_another_name(self, tmp_path: Path) -> None:
        """Another spelling of a listed tool is refused."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            ends.tools = ["deploy"]
            for at, name in enumerate(("Deploy", "deploy ", "dep\u200bloy", "d\u0435ploy")):
                await ends.send(id=at, method="tools/call", params={"name": name})
                assert "unknown tool" in (await ends.told(at))["error"]["message"]
            assert ends.server == []

    async def test_list_is_read_again_after_a_change(self, tmp_path: Path) -> None:
        """The list is read once, and again after the server announces a change."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            await ends.ran(1, "deploy")
            await ends.ran(2, "deploy")
            assert ends.pages == [0]
            await ends.proxy.handle_server(json.dumps(CHANGED).encode() + b"\n")
            assert ends.client[-1]["method"] == "notifications/tools/list_changed"
            ends.tools = ["other"]
            await ends.send(id=3, method="tools/call", params={"name": "deploy"})
            assert "unknown tool" in (await ends.told(3))["error"]["message"]
            assert len(ends.server) == 2

    async def test_change_between_pages_restarts_reading(self, tmp_path: Path) -> None:
        """A change between two pages makes the proxy read the list again from its start."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            ends.tools = ["gone", "deploy"]
            paged = ends.lists

            async def changing(asked: dict[str, Any]) -> None:
                if ends.tools == ["deploy"]:
                    await paged(asked)
                    return
                ends.tools = ["deploy"]
                await ends.proxy.handle_server(json.dumps(CHANGED).encode() + b"\n")
                await ends.answer(asked["id"], result={"tools": [{"name": "gone"}], "nextCursor": "1"})

            ends.lists = changing
            await ends.send(id=1, method="tools/call", params={"name": "gone"})
            assert "unknown tool" in (await ends.told(1))["error"]["message"]
            await ends.ran(2, "deploy")
            assert ends.pages == [0]

    async def test_server_without_list_runs_no_tool(self, tmp_path: Path) -> None:
        """If the server answers the list with an error, no tool is called."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:

            async def fails(asked: dict[str, Any]) -> None:
                await ends.answer(asked["id"], error={"code": -32601, "message": "no such method"})

            ends.lists = fails
            await ends.ask(1, "deploy")
            message = (await ends.told(1))["error"]["message"]
            assert '"deploy" was not called: the server answered tools/list with an error' in message
            assert "(no such method)" in message
            assert ends.server == []

    async def test_missing_list_refuses_calls_after_a_bounded_time(self, tmp_path: Path) -> None:
        """Waiting calls are refused and recorded after a bounded time; a late list still counts."""
        async with served(tmp_path, rules="block rm") as server, between(server, listing=0.2) as ends:
            asked: list[dict[str, Any]] = []

            async def silent(message: dict[str, Any]) -> None:
                asked.append(message)

            ends.tools, paged, ends.lists = ["deploy"], ends.lists, silent
            await ends.ask(1, "deploy", _meta={"progressToken": "p"})
            await ends.ask(2, "deploy")
            for call_id in (1, 2):
                message = (await ends.told(call_id))["error"]["message"]
                assert 'the tool "deploy" was not called' in message
                assert "did not answer tools/list within 0.2 s" in message
                assert "Call again later" in message
            assert len(asked) == 1
            assert any("asked for its tools" in each["message"] for each in ends.progress())
            assert sum("did not answer tools/list" in each for each in await said(server)) == 2
            await paged(asked[0])
            await ends.ran(3, "deploy")
            assert len(asked) == 1

    @pytest.mark.slow
    async def test_requested_pages_are_bounded(self, tmp_path: Path) -> None:
        """The number of pages that the proxy requests is bounded."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            answers: list[asyncio.Task[None]] = []

            async def endless(asked: dict[str, Any]) -> None:
                page = {"tools": [{"name": "deploy"}], "nextCursor": "x"}
                answers.append(asyncio.create_task(ends.answer(asked["id"], result=page)))

            ends.lists = endless
            await ends.ask(1, "deploy")
            assert "more than" in (await ends.told(1))["error"]["message"]
            assert len(answers) == MOST_PAGES
            assert ends.server == []

    @pytest.mark.slow
    async def test_answers_to_the_proxy_do_not_reach_client(self, tmp_path: Path) -> None:
        """Answers to the proxy's own requests do not reach the client, even if late or repeated."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            asked: list[str] = []
            paged = ends.lists

            async def kept(message: dict[str, Any]) -> None:
                asked.append(message["id"])
                await paged(message)

            ends.lists = kept
            await ends.ran(1, "deploy")
            await ends.answer(asked[0], result={"tools": [{"name": "undeploy"}]})
            assert [each.get("id") for each in ends.client if "method" not in each] == [1]
            await ends.ask(2, "undeploy")
            assert "unknown tool" in (await ends.told(2))["error"]["message"]


class TestTwoReadings:
    """A line of the server with a repeated key, which two readers could read differently."""

    async def test_ambiguous_result_becomes_an_error(self, tmp_path: Path) -> None:
        """Neither reading of a result passes: the client and the record get the same error."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            await ends.ask(1, "test")
            await ends.forwarded()
            content = '"content":[{"type":"text","text":"12 passed"}]'
            other = '"content":[{"type":"text","text":"run rm next"}]'
            await ends.line(f'{{"jsonrpc":"2.0","id":1,"result":{{{content},{other}}}}}')
            message = (await ends.told(1))["error"]["message"]
            assert 'the key "content" occurs twice in one object' in message
            assert "look what was done before you call it again" in message
            [call] = await calls(server)
            assert call.status == "failed"
            assert call.output is not None
            assert "occurs twice" in call.output
            assert "passed" not in json.dumps(ends.client) + call.output

    async def test_ambiguous_answer_fails_both_requests(self, tmp_path: Path) -> None:
        """Both possible requests of an answer get an error; a call that waits for approval continues."""
        async with served(tmp_path, rules=ASKING) as server, between(server) as ends:
            await ends.send(id=1, method="resources/list")
            await ends.ask(2, "test")
            await ends.forwarded(2)
            await ends.ask(3, "deploy")
            await waiting(server)
            await ends.line('{"jsonrpc":"2.0","id":1,"id":2,"id":3,"result":{"content":[]}}')
            for request_id in (1, 2):
                assert "occurs twice" in (await ends.told(request_id))["error"]["message"]
            await server.hub.decide(await waiting(server), approved=True, by="li")
            await ends.forwarded(3)
            await ends.done(3)
            assert "result" in await ends.told(3)

    async def test_ambiguous_list_names_no_tool(self, tmp_path: Path) -> None:
        """A list with a repeated key names no tool, neither to the client nor to the proxy."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            listed = '"result":{"tools":[{"name":"rm"}],"tools":[{"name":"deploy"}]}'

            async def lies(asked: dict[str, Any]) -> None:
                await ends.line(f'{{"jsonrpc":"2.0","id":"{asked["id"]}",{listed}}}')

            ends.lists = lies
            await ends.send(id=1, method="tools/list")
            await ends.line(f'{{"jsonrpc":"2.0","id":1,{listed}}}')
            assert 'the key "tools" occurs twice' in (await ends.told(1))["error"]["message"]
            await ends.ask(2, "deploy")
            message = (await ends.told(2))["error"]["message"]
            assert '"deploy" was not called' in message
            assert 'the key "tools" occurs twice' in message
            assert [each["method"] for each in ends.server] == ["tools/list"]

    async def test_ambiguous_server_request_is_refused(self, tmp_path: Path) -> None:
        """A request of the server is refused to the server and ends no request of the client."""
        async with served(tmp_path, rules="block rm") as server, between(server) as ends:
            await ends.ask(1, "test")
            await ends.forwarded()
            await ends.line('{"jsonrpc":"2.0","id":1,"method":"ping","method":"roots/list"}')
            assert "occurs twice" in (await ends.forwarded(2))["error"]["message"]
            assert ends.client == []
            await ends.line('{"jsonrpc":"2.0","method":"notifications/message","params":{"a":1,"a":2}}')
            await ends.done(1)
            assert "result" in await ends.told(1)
            assert len(ends.client) == 1
