"""Hooks that time out: the message to the model, and the next hook that gets the decision."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.history.model.events import ApprovalRequested, CallLate
from interlock.engine.hub.hub import ApprovalPolicy
from tests.engine.gateway.served import Served, served, until

from .running import Hook, Ran, recorded
from .test_answers import RULES, SESSION, answered, decide, decided, result

LATE = ApprovalPolicy(late=900.0)


def deploy(number: str, env: str = "prod", **more: object) -> dict[str, object]:
    return recorded("pre_bash", tool_name="deploy", tool_input={"env": env}, tool_use_id=number, **more)


def reason(ran: Ran) -> str:
    assert ran.decision["permissionDecision"] == "deny"
    return str(ran.decision["permissionDecisionReason"])


async def requests(server: Served) -> int:
    found = await server.hub.recorded(SESSION)
    return sum(isinstance(event.body, ApprovalRequested) for event in found)


class TestHook:
    @pytest.mark.slow
    async def test_next_call_gets_the_late_approval(self, tmp_path: Path) -> None:
        """G-102, G-103: the denial says to call again; after a late approval the next such call runs."""
        async with served(tmp_path, rules=RULES, policy=LATE) as server:
            hook = Hook.at(tmp_path / "home", server)
            first = reason(await hook.run(deploy("t1"), "--timeout", "3"))
            assert "call the same tool again with exactly the same input" in first
            [late] = await server.hub.approvals()
            assert late.late is not None
            await decide(server)
            other = await hook.start(deploy("t2", "lab"), "--timeout", "20")

            async def two() -> bool:
                return len(await server.hub.approvals()) == 2

            await until(two)
            other.terminate()
            await other.wait()
            assert answered(await hook.run(deploy("t3"), "--timeout", "20")) == "allow"
            found = await decided(server, "t1")
            assert found is not None
            assert found.approved_by == ("ada",)
            ran = recorded("post_bash", tool_name="deploy", tool_use_id="t3")
            assert await hook.run(ran) == Ran(0, "", "")
            assert await result(server, "t1") is not None
            assert "nobody decided" in reason(await hook.run(deploy("t4"), "--timeout", "3"))

    @pytest.mark.slow
    async def test_repeated_call_waits_for_the_same_request(self, tmp_path: Path) -> None:
        """A call made again before the decision waits for the same request and gets its answer."""
        async with served(tmp_path, rules=RULES, policy=LATE) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(deploy("t1"), "--timeout", "3")
            again = await hook.start(deploy("t2"), "--timeout", "20")

            async def waits() -> bool:
                [asked] = await server.hub.approvals()
                return asked.late is None

            await until(waits)
            await decide(server, approved=False, reason="not on a Friday")
            out, _ = await again.communicate()
            assert "not on a Friday" in out.decode()
            assert await requests(server) == 1

    @pytest.mark.slow
    async def test_late_approval_does_not_apply_to_subagent(self, tmp_path: Path) -> None:
        """A late approval for the agent does not apply to its subagent's call."""
        async with served(tmp_path, rules=RULES, policy=LATE) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(deploy("t1"), "--timeout", "3")
            await decide(server)
            of_subagent = deploy("t2", agent_id="a7", agent_type="explore")
            assert "nobody decided" in reason(await hook.run(of_subagent, "--timeout", "3"))
            assert await requests(server) == 2
            found = [e.body for e in await server.hub.recorded(SESSION) if isinstance(e.body, CallLate)]
            assert [each.subagent for each in found] == ["", "a7"]
            assert answered(await hook.run(deploy("t3"), "--timeout", "20")) == "allow"

    @pytest.mark.slow
    async def test_on_wait_ask_withdraws_the_request(self, tmp_path: Path) -> None:
        """With `on_wait = "ask"` the request is withdrawn, so that only the agent's user decides."""
        async with served(tmp_path, rules=RULES, policy=LATE) as server:
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text('[hook]\non_wait = "ask"\nwait = "1s"\n')
            assert answered(await hook.run(deploy("t1"))) == "ask"
            assert await server.hub.approvals() == []


class TestRemoteAgent:
    async def test_client_that_gives_up_gets_the_deadline(self, tmp_path: Path) -> None:
        """A client that gives up gets the time limit of its late request, and a later call is allowed."""
        async with (
            served(tmp_path, rules=RULES, policy=LATE) as server,
            server.agent_client() as client,
            client.session("robin") as gate,
        ):
            assert (await gate.call("deploy", {}, call_id="c1", wait=0.05)).outcome == "waiting"
            assert await gate.give_up("c1", "out of patience") is not None
            await decide(server)
            answer = await gate.call("deploy", {}, call_id="c2")
            assert (answer.outcome, answer.approved_by) == ("allow", ("ada",))
            await gate.result("c2", "deployed")

    async def test_reconnected_client_gets_the_answer(self, tmp_path: Path) -> None:
        """The request of an absent client stays open; after reconnecting the client gets the answer."""
        limits = Limits(absent=0.05)
        async with served(tmp_path, rules=RULES, policy=LATE, limits=limits) as server:
            async with AgentClient(server.url, server.agent) as client:
                gate = await client.open("robin", session="robin-1")
                waits = asyncio.ensure_future(gate.call("deploy", {}, call_id="c1"))
                await until(server.hub.approvals)
            with pytest.raises(Exception, match=r"."):
                await waits

            async def late() -> bool:
                [asked] = await server.hub.approvals()
                return asked.late is not None

            await until(late)
            await decide(server)
            async with server.agent_client() as client:
                gate = await client.open("robin", session="robin-1")
                assert (await gate.call("deploy", {}, call_id="c2")).outcome == "allow"

    async def test_late_approval_does_not_apply_to_another_token(self, tmp_path: Path) -> None:
        """A late approval does not apply to another agent's session."""
        async with (
            served(tmp_path, rules=RULES, policy=LATE) as server,
            server.agent_client() as client,
            server.agent_client(server.other) as stranger,
            client.session("robin") as gate,
            stranger.session("robin") as theirs,
        ):
            await gate.call("deploy", {}, call_id="c1", wait=0.05)
            await gate.give_up("c1")
            await decide(server)
            answer = await theirs.call("deploy", {}, call_id="c1", wait=0.05)
            assert answer.outcome == "waiting"
            assert (await gate.call("deploy", {}, call_id="c2")).outcome == "allow"

    async def test_session_end_withdraws_late_request(self, tmp_path: Path) -> None:
        """The session's end withdraws a late request, approved or not."""
        async with served(tmp_path, rules=RULES, policy=LATE) as server, server.agent_client() as client:
            async with client.session("robin") as gate:
                await gate.call("deploy", {}, call_id="c1", wait=0.05)
                await gate.give_up("c1")
                await decide(server)
            assert await server.hub.approvals() == []
