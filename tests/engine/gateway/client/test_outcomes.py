"""Results of gated functions: failures, and the text that a model reads about its calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine import Blocked, BlockedCallError, ToolCallBlockedError, replay_entries
from interlock.engine.gate.wrapping.failures import returned_failure

from ..served import Served, served, until

ASKS = "require human-approval before deploy"


def call(name: str, arguments: str = "{}") -> dict[str, object]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


async def approve(server: Served, **options: object) -> None:
    request = (await until(server.hub.approvals))[0]
    outcome = await server.hub.decide(request.id, approved=True, by="ada", **options)  # type: ignore[arg-type]
    assert outcome.ok, outcome.message


class TestReturnedFailures:
    @pytest.mark.parametrize("value", ["Error: 3 failed", {"ok": False}, {"error": "3 failed"}])
    async def test_returned_failure_does_not_unlock(self, tmp_path: Path, value: object) -> None:
        """A test that returns its failure instead of raising it does not unlock the deploy (G-71)."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            assert await session.gate(lambda: value, name="test")() == value
            assert (await session.call("deploy", {})).outcome == "block"

    async def test_classifiers_of_session_and_function_take_precedence(self, tmp_path: Path) -> None:
        """A session's classifier replaces the common shapes, and a function's replaces the session's."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot", is_error=lambda _, value: value == 1) as session,
        ):
            await session.gate(lambda: 1, name="test")()
            assert (await session.call("deploy", {})).outcome == "block"
            await session.gate(lambda: 1, name="test", is_error=lambda *_: False)()
            assert (await session.call("deploy", {}, wait=0)).outcome == "waiting"

    @pytest.mark.slow
    async def test_raising_classifier_counts_as_failure(self, tmp_path: Path) -> None:
        """A classifier that raises makes the call a failure."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            await session.run(call("test"), {"test": lambda: 1}, is_error=lambda *_: 1 / 0 > 0)
            assert (await session.call("deploy", {})).outcome == "block"


class TestAnswers:
    @pytest.mark.slow
    async def test_unsuccessful_calls_are_recognized_by_replay(self, tmp_path: Path) -> None:
        """Failed, blocked, unknown and malformed calls share a form of text that replay recognizes."""

        def test() -> None:
            raise RuntimeError("3 failed")

        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            answers = [
                await session.run(each, {"test": test, "rm": test, "code": lambda: {"ok": False}})
                for each in (call("test"), call("rm"), call("other"), call("test", "{"), call("code"))
            ]
        texts = [str(each["content"]) for each in answers]
        assert texts[0] == "Error: test failed: RuntimeError: 3 failed"
        assert texts[1].startswith("Error: rm was not run: ")
        assert texts[2].startswith("Error: other was not run: There is no tool 'other'")
        assert texts[3].startswith("Error: test was not run: The arguments are not JSON")
        assert texts[4] == 'Error: code failed: {"ok": false}'
        for answer in answers:
            messages = [{"role": "assistant", "tool_calls": [call("test")]}, answer]
            assert [entry.is_error for entry in replay_entries(messages)] in ([], [True])

    async def test_edited_call_shows_the_input_that_ran(self, tmp_path: Path) -> None:
        """The model reads that an operator edited its call, and the input that ran."""
        async with (
            served(tmp_path, rules=ASKS) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            tools = {"deploy": lambda env: f"deployed to {env}"}
            running = asyncio.create_task(session.run(call("deploy", '{"env": "prod"}'), tools))
            await approve(server, input={"env": "staging"})
            text = str((await running)["content"])
        assert text.startswith("deployed to staging\n\nInterlock: a person changed this call's input.")
        assert '{"env": "staging"}' in text


class TestBlocked:
    async def test_one_error_covers_server_and_local_gate(self, tmp_path: Path) -> None:
        """`BlockedCallError` covers blocks by the server and by a local gate; its text is the reason."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            with pytest.raises(BlockedCallError, match="rm is blocked") as caught:
                await session.gate(lambda: None, name="rm")()
        assert isinstance(caught.value, Blocked)
        assert (caught.value.tool_name, str(caught.value)) == ("rm", caught.value.reason)
        here = ToolCallBlockedError("rm", "c1", "rm is blocked")
        assert isinstance(here, BlockedCallError)
        assert str(here) == "Tool 'rm' blocked: rm is blocked"


class TestIgnored:
    async def test_ignored_argument_is_passed_unshown(self, tmp_path: Path) -> None:
        """An ignored argument is not shown to operators and not changed by their edits."""
        context = object()
        got: list[object] = []

        async def deploy(ctx: object, env: str) -> None:
            got.append((ctx, env))

        async with (
            served(tmp_path, rules=ASKS) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            running = asyncio.create_task(session.gate(deploy, ignore=("ctx",))(context, "prod"))
            request = (await until(server.hub.approvals))[0]
            state = await server.hub.session(session.id)
            assert state.calls[request.call_id].input == {"env": "prod"}
            await approve(server, input={"env": "staging"})
            await running
        assert got == [(context, "staging")]

    async def test_cannot_be_set_by_an_edit(self, tmp_path: Path) -> None:
        """An edited input that sets the ignored argument makes the call fail."""
        ran: list[object] = []
        async with (
            served(tmp_path, rules=ASKS) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            gated = session.gate(lambda ctx: ran.append([ctx]), name="deploy", ignore=("ctx",))
            running = asyncio.create_task(gated(object()))
            await approve(server, input={"ctx": 1})
            with pytest.raises(TypeError, match="cannot set 'ctx'"):
                await running
        assert ran == []

    async def test_unknown_ignored_name_raises_at_once(self, tmp_path: Path) -> None:
        """An ignored name that the function does not take raises an error at once."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            with pytest.raises(ValueError, match="no argument 'context' to ignore; it takes: ctx"):
                session.gate(lambda ctx: ctx, name="deploy", ignore=("context",))


def test_own_answers_are_failures_of_the_common_shapes() -> None:
    """Both texts of `run` count as failures without a classifier."""
    assert returned_failure("x", "Error: deploy failed: boom")
    assert returned_failure("x", "Error: deploy was not run: it is blocked")
