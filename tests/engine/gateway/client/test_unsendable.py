"""Values that cannot be sent: the client's own error names their place, and nothing is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interlock.engine.gateway import AgentClient, GatewayError, RequestFailedError, SyncAgentClient
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.protocol.framing import Code
from interlock.engine.history.model.events import CallDecided, MessageAdded

from ..served import Served, served

HALF = "a\ud800b"
LONG = "x" * 201
Ask = Callable[[AgentClient, AgentSession], Awaitable[object]]

CASES: dict[str, tuple[Ask, str]] = {
    "input": (lambda _, s: s.call("read", {"a": {"b": [HALF]}}), "input.a.b.0 has a lone surrogate"),
    "field": (lambda _, s: s.call("read", {HALF: 1}), r"the name input.a\\ud800b has a lone surrogate"),
    "number": (lambda _, s: s.call("read", {"a": float("nan")}), "input.a.*: Input should be a finite"),
    "tool": (lambda _, s: s.call(LONG, {}), "tool: String should have at most 200 characters"),
    "name": (lambda _, s: s.call(HALF, {}), "tool: Input should be a valid string"),
    "id": (lambda _, s: s.call("read", {}, call_id=LONG), "call: String should have at most 200"),
    "plan": (lambda _, s: s.plan([{"tool": HALF}], title="t"), "input.steps.0.tool has a lone surrogate"),
    "message": (lambda _, s: s.report_message("user", HALF), "text has a lone surrogate"),
    "explanation": (lambda _, s: s.explain(LONG, {}), "tool: String should have at most 200"),
    "hints": (lambda _, s: s.note_hints(LONG, {}), "tool: String should have at most 200"),
    "withdrawal": (lambda _, s: s.withdraw("r1", "x" * 2001), "reason: String should have at most 2000"),
    "agent": (lambda c, _: c.open(LONG), "agent: String should have at most 200"),
    "labels": (lambda c, _: c.open("bot", labels={"rm": HALF}), "labels.rm has a lone surrogate"),
    "session": (lambda c, _: c.resume(LONG), "session: String should have at most 200"),
}


async def recorded(server: Served) -> list[object]:
    """Return the calls and messages that the server recorded."""
    kinds = CallDecided | MessageAdded
    every = [await server.hub.recorded(line.id) for line in await server.hub.history()]
    return [each.body for events in every for each in events if isinstance(each.body, kinds)]


class TestWhatCannotBeSent:
    async def test_error_names_the_faulty_place(self, tmp_path: Path) -> None:
        """Each kind of request raises an error that names the faulty place."""
        async with served(tmp_path) as server, server.agent_client() as client:
            session = await client.open("bot")
            for name, (ask, problem) in CASES.items():
                with pytest.raises(RequestFailedError, match=problem) as refused:
                    await ask(client, session)
                assert refused.value.code == Code.PARAMS, name
                assert "was not sent" in str(refused.value)
                assert "Correct it and try again" in str(refused.value)
            assert await recorded(server) == []
            assert len(await server.hub.history()) == 1
            assert (await session.call("read", {})).outcome == "allow"

    async def test_a_gated_function_does_not_run(self, tmp_path: Path) -> None:
        """The caller of a gated function gets the error; a model reads it and can make another call."""
        ran: list[str] = []

        def read(path: str) -> str:
            ran.append(path)
            return path

        async with served(tmp_path) as server, server.agent_client() as client:
            session = await client.open("bot")
            with pytest.raises(GatewayError, match=r"input\.path has a lone surrogate"):
                await session.gate(read)(path=HALF)
            call = {"id": "c1", "function": {"name": "read", "arguments": '{"path": "\\ud800"}'}}
            message = await session.run(call, {"read": read})
            assert str(message["content"]).startswith("Error: read was not run: tool.call was not sent")
            assert ran == []
            assert await recorded(server) == []

    @pytest.mark.slow
    async def test_synchronous_client_raises_same_error(self, tmp_path: Path) -> None:
        """The synchronous client raises the same error."""

        def ask(url: str, secret: str) -> None:
            with (
                SyncAgentClient(url, secret) as client,
                client.session("bot") as session,
                pytest.raises(RequestFailedError, match=r"input\.a has a lone surrogate"),
            ):
                session.call("read", {"a": HALF})

        async with served(tmp_path) as server:
            await asyncio.to_thread(ask, server.url, server.agent)
            assert await recorded(server) == []

    async def test_replacement_character_is_sent(self, tmp_path: Path) -> None:
        """A replacement character in the agent's own text is sent like any other character."""
        async with served(tmp_path) as server, server.agent_client() as client:
            session = await client.open("bot")
            given = {"\N{REPLACEMENT CHARACTER}": "\N{REPLACEMENT CHARACTER}"}
            assert (await session.call("read", given)).input == given
