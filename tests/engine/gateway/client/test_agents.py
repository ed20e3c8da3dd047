"""Remote agents at a server: judged, requested and blocked calls, and lost connections."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.core.plan import PlanStep
from interlock.engine.gateway import Address, Blocked, RequestFailedError
from interlock.engine.gateway.protocol.framing import Code
from interlock.engine.history.model.events import CallDecided

from ..served import Served, served, until


async def waiting(served: Served) -> str:
    """Return the id of the waiting request as soon as there is one."""
    return (await until(served.hub.approvals))[0].id


async def approve(served: Served, *, approved: bool = True, **how: object) -> None:
    outcome = await served.hub.decide(await waiting(served), approved=approved, by="ada", **how)  # type: ignore[arg-type]
    assert outcome.ok, outcome.message


def passing() -> str:
    return "12 passed"


class TestGating:
    async def test_gated_function_runs_after_approval(self, tmp_path: Path) -> None:
        """A function runs once the rules and an operator allow it; a block raises the reason."""
        ran: list[str] = []

        async def deploy(env: str) -> str:
            ran.append(env)
            return f"deployed to {env}"

        async with (
            served(tmp_path) as server,
            server.agent_client() as interlock,
            interlock.session("release-bot") as gate,
        ):
            with pytest.raises(Blocked, match="requires a successful call to test first"):
                await gate(deploy)("prod")
            assert ran == []
            assert await gate.gate(passing, name="test")() == "12 passed"
            going = asyncio.create_task(gate(deploy)(env="prod"))
            await approve(server)
            assert await going == "deployed to prod"
            assert ran == ["prod"]

    async def test_denied(self, tmp_path: Path) -> None:
        """The operator's reason for a denial reaches the caller."""
        async with (
            served(tmp_path, rules="require human-approval before deploy") as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            going = asyncio.create_task(gate.call("deploy", {}))
            await approve(server, approved=False, reason="not on a Friday")
            answer = await going
            assert (answer.outcome, answer.input) == ("block", {})
            assert "not on a Friday" in (answer.reason or "")

    @pytest.mark.slow
    async def test_edited_input_runs(self, tmp_path: Path) -> None:
        """The function gets the input as the operator edited it."""
        got: list[object] = []

        async def deploy(env: str, dry: bool = False) -> None:
            got.append((env, dry))

        async with (
            served(tmp_path, rules="require human-approval before deploy") as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            going = asyncio.create_task(gate(deploy)("prod"))
            await approve(server, input={"env": "staging", "dry": True})
            await going
        assert got == [("staging", True)]

    async def test_exception_counts_as_failure(self, tmp_path: Path) -> None:
        """A function that raises does not fulfil the rule that requires its success."""

        def test() -> None:
            raise RuntimeError("3 failed")

        async with (
            served(tmp_path) as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            with pytest.raises(RuntimeError, match="3 failed"):
                await gate(test)()
            assert (await gate.call("deploy", {})).outcome == "block"

    async def test_openai_tool_calls_are_gated(self, tmp_path: Path) -> None:
        """Entries of an OpenAI answer run or are refused, and the model reads the outcome of each."""

        def call(number: int, name: str, arguments: str) -> dict[str, object]:
            return {"id": f"c{number}", "function": {"name": name, "arguments": arguments}}

        async with (
            served(tmp_path) as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            tools = {"test": passing, "rm": passing}
            said = [
                await gate.run(each, tools)
                for each in [
                    call(1, "test", "{}"),
                    call(2, "rm", "{}"),
                    call(3, "test", "{"),
                    call(4, "other", "{}"),
                ]
            ]
        assert [each["tool_call_id"] for each in said] == ["c1", "c2", "c3", "c4"]
        first, second, third, fourth = (str(each["content"]) for each in said)
        assert first == "12 passed"
        assert "rm" in second
        assert "not JSON" in third
        assert "no tool 'other'" in fourth

    async def test_non_json_argument_raises_without_a_call(self, tmp_path: Path) -> None:
        """An argument that is not JSON raises an error, and no call is made."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            with pytest.raises(TypeError, match="cannot be shown"):
                await gate(lambda what: what, name="do")(what=object())
            assert (await server.hub.session(gate.id)).calls == {}


class TestPlan:
    RULES = "require human-approval before plan\nrequire human-approval before deploy"

    async def test_approved(self, tmp_path: Path) -> None:
        """The answer and the record contain the calls that the plan allows, and these calls run."""
        async with (
            served(tmp_path, rules=self.RULES) as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            steps = [PlanStep("deploy"), {"tool": "deploy", "count": 1}]
            going = asyncio.create_task(gate.plan(steps, title="Release 1.4"))
            request = (await until(server.hub.approvals))[0]
            assert request.input["steps"] == [{"tool": "deploy", "count": 1}] * 2
            await approve(server)
            answer = await going
            assert (answer.outcome, answer.approved_by) == ("allow", ("ada",))
            assert "2 deploy" in str(answer.reason)
            for _ in range(2):
                assert (await gate.call("deploy", {})).outcome == "allow"
            assert (await gate.call("deploy", {}, wait=0.01)).outcome == "waiting"
            calls = (await server.hub.session(gate.id)).calls.values()
            [planned] = [each for each in calls if each.tool == "plan"]
            assert (planned.status, planned.output) == ("done", answer.reason)

    async def test_denied(self, tmp_path: Path) -> None:
        """A denied plan allows no call."""
        async with (
            served(tmp_path, rules=self.RULES) as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            going = asyncio.create_task(gate.plan([{"tool": "deploy"}], title="Release 1.4"))
            await approve(server, approved=False, reason="not today")
            answer = await going
            assert answer.outcome == "block"
            assert "not today" in str(answer.reason)
            assert (await gate.call("deploy", {}, wait=0.01)).outcome == "waiting"


class TestIdempotence:
    async def test_same_answer(self, tmp_path: Path) -> None:
        """A repeated call id gets the recorded answer; with another input it is refused."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            first = await gate.call("push", {"to": "main"}, call_id="c1")
            again = await gate.call("push", {"to": "main"}, call_id="c1")
            assert (first.outcome, first.repeated) == ("allow", False)
            assert (again.outcome, again.repeated) == ("allow", True)
            with pytest.raises(RequestFailedError) as refused:
                await gate.call("push", {"to": "prod"}, call_id="c1")
            assert refused.value.code == Code.CALL_ID_USED
            assert (await gate.call("push", {})).outcome == "allow"
            assert (await gate.call("push", {})).outcome == "block"

    async def test_reconnected_agent_waits_for_same_request(self, tmp_path: Path) -> None:
        """An agent that reconnects waits for the same request, and the call is decided once."""
        async with (
            served(tmp_path, rules="require human-approval before deploy") as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            going = asyncio.create_task(gate.call("deploy", {}))
            first = await waiting(server)
            socket = interlock.link._socket  # type: ignore[reportPrivateUsage]
            assert socket is not None
            socket.transport.abort()
            await asyncio.sleep(0.05)
            assert await waiting(server) == first
            await approve(server)
            assert (await going).outcome == "allow"
            events = await server.hub.recorded(gate.id)
            assert sum(isinstance(event.body, CallDecided) for event in events) == 1

    async def test_restart_keeps_budget_and_request(self, tmp_path: Path) -> None:
        """The session continues after a restart: its budget stays spent and its request is open again."""
        rules = "require human-approval before deploy\nlimit push to 2 per session"
        async with served(tmp_path, rules=rules) as server:
            address = server.address
            interlock = server.agent_client()
            await interlock.link.open()
            gate = await interlock.open("bot")
            assert (await gate.call("push", {}, call_id="p1")).outcome == "allow"
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            await waiting(server)
        async with served(tmp_path, rules=rules, address=address) as server:
            await approve(server)
            assert (await going).outcome == "allow"
            assert (await gate.call("push", {}, call_id="p1")).repeated
            assert (await gate.call("push", {})).outcome == "allow"
            assert (await gate.call("push", {})).outcome == "block"
            await gate.close()
            await interlock.close()

    async def test_restart_without_a_rule_ends_waiting_call(self, tmp_path: Path) -> None:
        """A waiting call gets the reason if the restarted server lacks a rule of its session."""
        rules = "require 2 human-approvals before deploy"
        async with served(tmp_path, rules=rules) as server:
            address = server.address
            interlock = server.agent_client()
            await interlock.link.open()
            gate = await interlock.open("bot")
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            await waiting(server)
        async with served(tmp_path, rules="block rm", address=address):
            with pytest.raises(
                RequestFailedError, match=r"has ended: .*'approve-before-deploy' is missing"
            ):
                await going
            with pytest.raises(RequestFailedError, match="'approve-before-deploy' is missing"):
                await gate.call("deploy", {})
            await interlock.close()


class TestSessions:
    async def test_session_ended_by_operator_refuses_calls(self, tmp_path: Path) -> None:
        """The agent is notified of the end, and further calls are refused."""
        async with served(tmp_path) as server, server.agent_client() as interlock:
            gate = await interlock.open("bot")
            await server.hub.close_session(gate.id, "ada")
            assert "ada" in await until(lambda: asyncio.sleep(0, gate.ended))
            with pytest.raises(RequestFailedError, match="has ended"):
                await gate.call("ls", {})

    async def test_session_of_another_token_is_unknown(self, tmp_path: Path) -> None:
        """A session of another token is reported as unknown."""
        async with served(tmp_path) as server, server.agent_client() as mine:
            gate = await mine.open("bot", session="s-1")
            async with server.agent_client(server.other) as theirs:
                for ask in (theirs.resume(gate.id), theirs.open("bot", session="s-1")):
                    with pytest.raises(RequestFailedError) as refused:
                        await ask
                    assert refused.value.code == Code.UNKNOWN
            await gate.close()
            async with server.agent_client(server.other) as theirs:
                with pytest.raises(RequestFailedError) as refused:
                    await theirs.resume(gate.id)
                assert refused.value.code == Code.UNKNOWN

    async def test_agent_cannot_choose_shadow_mode(self, tmp_path: Path) -> None:
        """An agent cannot choose shadow mode itself."""
        async with served(tmp_path) as server, server.agent_client() as interlock:
            with pytest.raises(RequestFailedError) as refused:
                await interlock.open("bot", mode="shadow")
            assert refused.value.code == Code.NOT_ALLOWED

    @pytest.mark.slow
    async def test_shadow_answer_has_enforced_outcome(self, tmp_path: Path) -> None:
        """In shadow mode a call is allowed, and the answer contains the enforced outcome."""
        async with (
            served(tmp_path, mode="shadow") as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            answer = await gate.call("rm", {})
            assert (answer.outcome, answer.would, answer.mode) == ("allow", "block", "shadow")
            async with interlock.session("bot", mode="enforce") as stricter:
                assert (await stricter.call("rm", {})).outcome == "block"

    @pytest.mark.slow
    async def test_cancelled_call_leaves_the_queue(self, tmp_path: Path) -> None:
        """A cancelled call leaves the queue."""
        async with (
            served(tmp_path, rules="require human-approval before deploy") as server,
            server.agent_client() as interlock,
            interlock.session("bot") as gate,
        ):
            going = asyncio.create_task(gate.call("deploy", {}))
            await waiting(server)
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            assert await server.hub.approvals() == []

    async def test_unix_socket_is_accessible_to_owner_only(self, tmp_path: Path) -> None:
        """A server at a Unix socket works, and only the owner can access the socket."""
        path = tmp_path / "gate.sock"
        async with served(tmp_path, address=Address(path=path)) as server:
            assert path.stat().st_mode & 0o777 == 0o600
            async with server.agent_client() as interlock, interlock.session("bot") as gate:
                assert (await gate.call("ls", {})).outcome == "allow"
                assert "block-rm" in await gate.prompt()
                explained = await gate.explain("rm", {})
                assert explained.outcome == "block"
        assert not path.exists()
