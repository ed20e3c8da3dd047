"""Allowed calls that get no result: closed as unknown when the agent ends its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.client.connection import RequestFailedError
from interlock.engine.gateway.protocol.agent_methods import END_TURN, SessionParams
from interlock.engine.gateway.protocol.framing import Code
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import CallResult
from interlock.engine.sessions.call_answers import NO_RESULT

from ..served import Served, served, until

RULES = """\
require test before deploy
limit push to 1 per session
block rm
"""


async def end_turn(server: Served, gate: AgentSession) -> None:
    await gate._client.link.request(END_TURN, SessionParams(session=gate.id))


async def results(server: Served, session: str) -> list[CallResult]:
    return [e.body for e in await server.hub.recorded(session) if isinstance(e.body, CallResult)]


class TestRest:
    async def test_call_is_unknown_and_unlocks_no_rule(self, tmp_path: Path) -> None:
        """The pending transition is dropped, the call is recorded as unknown, and no rule is unlocked."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await gate.call("test", {}, call_id="t1")
            assert (await server.hub.session(gate.id)).pending
            await end_turn(server, gate)
            state = await server.hub.session(gate.id)
            assert (state.pending, state.calls["t1"].status) == ([], "unknown")
            [result] = await results(server, gate.id)
            assert (result.unknown, result.is_error, result.output) == (True, True, NO_RESULT)
            assert [step.net for step in result.dropped] == ["require-test-before-deploy"]
            assert (await gate.call("deploy", {}, call_id="d1")).outcome == "block"
            assert fold(await server.hub.recorded(gate.id)) == await server.hub.session(gate.id)
            assert not server.hub._live.hosted(gate.id).manager._pending.waiting

    async def test_used_budget_stays_used(self, tmp_path: Path) -> None:
        """A call with an unknown outcome still counts towards its limit."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await gate.call("push", {}, call_id="p1")
            await end_turn(server, gate)
            assert (await gate.call("push", {}, call_id="p2")).outcome == "block"

    async def test_other_calls_are_unchanged(self, tmp_path: Path) -> None:
        """Calls that ended, were blocked or wait for approval stay unchanged."""
        rules = RULES + "require human-approval before ask\n"
        async with served(tmp_path, rules=rules) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await gate.call("ls", {}, call_id="l1")
            await gate.result("l1", "a b")
            await gate.call("rm", {}, call_id="r1")
            assert (await gate.call("ask", {}, call_id="a1", wait=0.0)).outcome == "waiting"
            await until(server.hub.approvals)
            await end_turn(server, gate)
            calls = (await server.hub.session(gate.id)).calls
            assert {name: call.status for name, call in calls.items()} == {
                "l1": "done",
                "r1": "blocked",
                "a1": "waiting",
            }
            assert len(await results(server, gate.id)) == 1

    async def test_second_end_records_nothing(self, tmp_path: Path) -> None:
        """A second end of the turn records nothing."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await gate.call("ls", {}, call_id="l1")
            await end_turn(server, gate)
            await end_turn(server, gate)
            assert len(await results(server, gate.id)) == 1

    async def test_late_result_unlocks_no_rule(self, tmp_path: Path) -> None:
        """A later result is recorded, but unlocks no rule."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await gate.call("test", {}, call_id="t1")
            await end_turn(server, gate)
            await gate.result("t1", "42 passed")
            call = (await server.hub.session(gate.id)).calls["t1"]
            assert (call.status, call.output) == ("done", "42 passed")
            assert (await gate.call("deploy", {}, call_id="d1")).outcome == "block"
            assert fold(await server.hub.recorded(gate.id)) == await server.hub.session(gate.id)

    async def test_calls_of_earlier_server_are_closed(self, tmp_path: Path) -> None:
        """Calls that an earlier server allowed are closed after the session resumes."""
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.open("bot", session="s-1")
            await gate.call("test", {}, call_id="t1")
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.resume("s-1")
            assert (await server.hub.session("s-1")).pending
            await end_turn(server, gate)
            state = await server.hub.session("s-1")
            assert state.pending == []
            assert fold(await server.hub.recorded("s-1")) == state

    async def test_turn_of_another_token_cannot_be_ended(self, tmp_path: Path) -> None:
        """Another token cannot end the session's turn."""
        async with (
            served(tmp_path, rules=RULES) as server,
            server.agent_client() as client,
            server.agent_client(server.other) as other,
        ):
            gate = await client.open("bot")
            await gate.call("test", {}, call_id="t1")
            with pytest.raises(RequestFailedError) as refused:
                await other.link.request(END_TURN, SessionParams(session=gate.id))
            assert refused.value.code == Code.UNKNOWN
            assert (await server.hub.session(gate.id)).pending
