"""Calls withdrawn while the gate waits for approval, and real nets before the tools."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolCallEvent, tool
from interlock.engine.gate import create_gate, create_gate_manager
from interlock.engine.gate.types import ApprovalRequest, GateDecision
from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules

from .gates import Log, allow
from .script import SKIPPED, Watched, noted, watched


class Person(Log):
    """A gate that waits for an approver who never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.withdrawn = 0

    async def decide(self, call: ToolCall) -> GateDecision:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # Recording a withdrawal takes a moment, in which more messages may arrive.
            await asyncio.sleep(0.01)
            self.withdrawn += 1
            raise
        raise AssertionError


class TestInterrupted:
    async def test_message_withdraws_the_request_once(self) -> None:
        """A-78: a message withdraws the request once, however many follow; nothing is settled."""
        gate = Person()
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted([])], gate=gate)
        w.session.send("go")
        await gate.asked.wait()
        w.session.send("one")
        await asyncio.sleep(0)
        w.session.send("two")
        await w.session.wait_for_idle()
        assert gate.withdrawn == 1
        assert gate.settled == []
        assert w.prompt(2)[2:] == [
            f'result c1 err "{SKIPPED}"',
            f'result c2 err "{SKIPPED}"',
            'user "one"',
            'user "two"',
        ]

    async def test_abort_withdraws_the_request(self) -> None:
        """A-96: an abort withdraws the request."""
        gate = Person()
        w = await watched(C(c1=("note", {})), T("never"), tools=[noted([])], gate=gate)
        w.session.send("go")
        await gate.asked.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        assert gate.withdrawn == 1
        assert w.seen[-2:] == ['result c1 err "Aborted"', 'turn_end("")']

    async def test_unstarted_allowed_call_is_settled_as_failed(self) -> None:
        """A-96: an allowed call that an abort kept from starting is settled as failed."""
        ran: list[str] = []
        gate = Log()
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("never"), tools=[noted(ran)], gate=gate)
        w.session.on("tool_call", lambda e: w.session.abort() if e.call_id == "c2" else None)
        await w.say("go")
        assert ran == []
        assert sorted(s[:3] for s in gate.settled) == [("c1", True, "Aborted"), ("c2", True, "Aborted")]

    async def test_call_withdrawn_during_listener_is_settled_as_failed(self) -> None:
        """A-78: an allowed call that is withdrawn during its listener is settled as failed."""
        gate = Log()
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted([])], gate=gate)
        thinking = asyncio.Event()

        async def person(event: ToolCallEvent) -> None:
            thinking.set()
            await asyncio.Event().wait()

        w.session.on("tool_call", person)
        w.session.send("go")
        await thinking.wait()
        w.session.send("STEER")
        await w.session.wait_for_idle()
        assert gate.settled == [("c1", True, SKIPPED, {})]

    async def test_decision_completed_despite_message_is_valid(self) -> None:
        """A-78: a decision that completes despite the message is valid."""
        ran: list[str] = []

        class Late(Log):
            async def decide(self, call: ToolCall) -> GateDecision:
                asked.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    return allow(call)
                raise AssertionError

        asked = asyncio.Event()
        gate = Late()
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted(ran)], gate=gate)
        w.session.send("go")
        await asked.wait()
        w.session.send("STEER")
        await w.session.wait_for_idle()
        assert ran == [""]
        assert w.prompt(2)[2:4] == ['result c1 ok "noted "', f'result c2 err "{SKIPPED}"']
        assert [s[:2] for s in gate.settled] == [("c1", False)]


class TestManager:
    """Real nets before real tools."""

    RULES = "require test before deploy\nblock rm"

    def tools(self, ran: list[str]) -> list[object]:
        return [noted(ran, name) for name in ("test", "deploy", "rm")]

    async def test_manager_blocks_calls_by_its_nets(self) -> None:
        """A gate manager can be passed directly, and calls that its nets block do not run."""
        ran: list[str] = []
        manager = create_gate_manager(registry=compile_rules(self.RULES).registry)
        w = await watched(
            C(c1=("deploy", {"text": "early"})),
            C(c2=("test", {"text": "test"})),
            C(c3=("deploy", {"text": "deploy"}), c4=("rm", {})),
            T("ok"),
            tools=self.tools(ran),
            gate=manager,
        )
        seen = await w.say("go")
        assert 'result c1 err "deploy requires a successful call to test first."' in seen
        assert 'result c4 err "rm is blocked and cannot be called."' in seen
        assert ran == ["test", "deploy"]

    async def test_created_gate(self) -> None:
        """A gate of `create_gate` asks its `confirm` function and starts fresh for each session."""
        ran: list[str] = []
        asked: list[str] = []

        def confirm(request: ApprovalRequest) -> bool:
            asked.append(request.message)
            return len(asked) == 1

        gate = create_gate(compile_rules("require human-approval before deploy").nets, confirm=confirm)
        agent = Agent(
            ScriptedModel([C(c1=("deploy", {})), T("ok"), C(c2=("deploy", {})), T("ok")]),
            tools=self.tools(ran),
            gate=gate,
        )
        first = Watched(agent, await agent.create_session())
        second = Watched(agent, await agent.create_session())
        assert 'result c1 ok "noted "' in await first.say("go")
        assert 'result c2 err "deploy was rejected by human review."' in await second.say("go")
        assert asked[0] == ("Allow 'deploy' via transition 'approve' in net 'approve-before-deploy'?")
        assert ran == [""]

    async def test_created_gate_rewords_its_reasons(self) -> None:
        """G-30: a created gate rewords its block reasons for the model."""
        gate = create_gate(
            compile_rules("block rm").nets,
            transform_block_reason=lambda tool, reason: f"{tool}? {reason.upper()}",
        )
        ran: list[str] = []
        w = await watched(C(c1=("rm", {})), T("ok"), tools=self.tools(ran), gate=gate)
        assert 'result c1 err "rm? RM IS BLOCKED AND CANNOT BE CALLED."' in await w.say("go")
        assert ran == []

    async def test_failing_rewording_still_blocks(self) -> None:
        """G-30: a call stays blocked if its reason cannot be reworded."""
        gate = create_gate(
            compile_rules("block rm").nets, transform_block_reason=lambda tool, reason: reason[1000]
        )
        w = await watched(C(c1=("rm", {})), T("ok"), tools=self.tools([]), gate=gate)
        assert 'result c1 err "rm is blocked and cannot be called."' in await w.say("go")

    @pytest.mark.parametrize("failed", [True, False])
    async def test_results_of_a_created_gate(self, failed: bool) -> None:
        """G-30: a result that the gate counts as failure unlocks nothing; the model reads it as is."""
        judged: list[tuple[str, object]] = []

        def is_error(tool: str, value: object) -> bool:
            judged.append((tool, value))
            return failed and tool == "test"

        gate = create_gate(
            compile_rules("require test before deploy").nets, is_tool_result_error=is_error
        )
        ran: list[str] = []
        w = await watched(
            C(c1=("test", {"text": "t"})),
            C(c2=("deploy", {"text": "d"})),
            T("ok"),
            tools=self.tools(ran),
            gate=gate,
        )
        seen = await w.say("go")
        assert 'result c1 ok "noted t"' in seen
        assert ran == (["t"] if failed else ["t", "d"])
        assert judged[0] == ("test", "noted t")

    async def test_failures_are_not_judged_again(self) -> None:
        """G-30: an error result is a failure, whatever `is_error` returns for its text."""

        @tool(name="test")
        async def broken() -> str:
            """Fail."""
            raise RuntimeError("no")

        gate = create_gate(
            compile_rules("require test before deploy").nets,
            is_tool_result_error=lambda tool, value: False,
        )
        ran: list[str] = []
        w = await watched(
            C(c1=("test", {})),
            C(c2=("deploy", {})),
            T("ok"),
            tools=[broken, noted(ran, "deploy")],
            gate=gate,
        )
        await w.say("go")
        assert ran == []

    async def test_returned_value_is_judged_before_json(self) -> None:
        """G-30: a returned value is judged as that value, although the model reads its JSON."""

        @tool(name="test")
        async def check() -> object:
            """Give a value."""
            return {"success": False}

        gate = create_gate(
            compile_rules("require test before deploy").nets,
            is_tool_result_error=lambda tool, value: value["success"] is False,
        )
        ran: list[str] = []
        w = await watched(
            C(c1=("test", {})),
            C(c2=("deploy", {})),
            T("ok"),
            tools=[check, noted(ran, "deploy")],
            gate=gate,
        )
        await w.say("go")
        assert ran == []

    async def test_function_makes_a_gate_for_each_session(self) -> None:
        """A function makes a separate gate for each session."""
        ran: list[str] = []
        nets = compile_rules(self.RULES).registry
        replies = [C(test={"text": "test"}), T("ok"), C(c9=("deploy", {})), T("ok")]
        agent = Agent(
            ScriptedModel(replies), tools=self.tools(ran), gate=lambda: create_gate_manager(registry=nets)
        )
        await (await agent.create_session()).prompt("test")
        second = Watched(agent, await agent.create_session())
        assert 'result c9 err "deploy requires a successful call to test first."' in await second.say(
            "go"
        )
        assert ran == ["test"]
