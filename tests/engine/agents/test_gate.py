"""The gate before the tools: it decides first, gets every result, and fails closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, cast

import pytest
from pydantic import JsonValue

from interlock.engine.agents import (
    Agent,
    AssistantMessage,
    C,
    Deny,
    Override,
    ScriptedModel,
    T,
    ToolCallEvent,
    ToolContext,
    ToolResultEvent,
    tool,
)
from interlock.engine.gate.types import GateDecision, ResultRecord, ToolResult
from interlock.engine.net.net import ToolCall

from .gates import Log, allow, block
from .script import Slow, Watched, noted, watched


class TestAllowed:
    async def test_order(self) -> None:
        """The gate decides before any listener, and gets the result before any listener does."""
        gate = Log()

        @tool
        async def work() -> str:
            """Work."""
            gate.happened.append("run")
            return "done"

        w = await watched(C(c1=("work", {})), T("ok"), tools=[work], gate=gate)
        w.session.on("tool_call", lambda e: gate.happened.append("listener"))
        w.session.on("tool_result", lambda e: gate.happened.append("result"))
        assert 'result c1 ok "done"' in await w.say("go")
        assert gate.happened == ["decide c1", "listener", "run", "settle c1", "result"]
        assert gate.settled == [("c1", False, "done", {})]

    async def test_edited_arguments_run(self) -> None:
        """The edited arguments run, are settled, and are passed to listeners."""
        ran: list[str] = []
        shown: list[object] = []
        gate = Log(lambda call: allow(replace(call, input={"text": "edited"})))
        w = await watched(C(c1=("note", {"text": "x"})), T("ok"), tools=[noted(ran)], gate=gate)
        w.session.on("tool_call", lambda e: shown.append(e.args))
        await w.say("go")
        assert (ran, shown) == (["edited"], [{"text": "edited"}])
        assert gate.settled == [("c1", False, "noted edited", {"text": "edited"})]

    async def test_every_outcome_is_settled_once(self) -> None:
        """Success, exception and reported failure are each settled once."""
        gate = Log()

        @tool
        async def broken() -> str:
            """Break."""
            raise RuntimeError("kaboom")

        w = await watched(
            C(c1=("broken", {}), c2=("note", {"text": "x"})),
            T("ok"),
            tools=[broken, noted([])],
            gate=gate,
        )
        await w.say("go")
        assert sorted(s[:3] for s in gate.settled) == [("c1", True, "kaboom"), ("c2", False, "noted x")]

    async def test_gate_cannot_change_what_runs_afterwards(self) -> None:
        """Arguments are copied, so later changes by the gate have no effect."""
        ran: list[str] = []
        gate = Log()
        w = await watched(C(c1=("note", {"text": "x"})), T("ok"), tools=[noted(ran)], gate=gate)
        w.session.on("tool_call", lambda e: gate.inputs[0].update(text="changed"))
        await w.say("go")
        assert ran == ["x"]


class TestBlocked:
    async def test_reason_reaches_the_model(self) -> None:
        """A blocked call does not run, no listener is called, and nothing is settled."""
        ran: list[str] = []
        gate = Log(block)
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted(ran)], gate=gate)
        w.session.on("tool_call", lambda e: gate.happened.append("listener"))
        await w.say("go")
        assert w.prompt(2)[-1] == 'result c1 err "not now"'
        assert (ran, gate.happened) == ([], ["decide c1"])

    async def test_shadow_mode_blocks_nothing(self) -> None:
        """G-57: in shadow mode the call runs, whatever enforce mode would have done."""
        ran: list[str] = []
        gate = Log(lambda call: GateDecision(call, "block", mode="shadow", reason="would"))
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted(ran)], gate=gate)
        await w.say("go")
        assert ran == [""]

    async def test_gate_gets_only_valid_calls(self) -> None:
        """The gate gets only calls of known tools with valid arguments."""
        gate = Log()
        calls = C(c1=("nope", {}), c2=("note", {"wrong": 1}), c3=("note", "{"))
        w = await watched(calls, T("ok"), tools=[noted([])], gate=gate)
        await w.say("go")
        assert gate.happened == []
        assert len([e for e in w.events if isinstance(e, ToolResultEvent) and e.is_error]) == 3


class TestFailsClosed:
    async def call(self, answer: Callable[[ToolCall], object]) -> tuple[Watched, Log, list[str]]:
        """Return one call under a gate that answers with `answer`."""
        ran: list[str] = []
        gate = Log(answer)
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted(ran)], gate=gate)
        await w.say("go")
        return w, gate, ran

    async def test_gate_that_raises(self) -> None:
        """A gate that raises blocks the call with its error; the run continues."""

        def broken(call: ToolCall) -> GateDecision:
            raise RuntimeError("nets on fire")

        w, gate, ran = await self.call(broken)
        assert w.prompt(2)[-1] == 'result c1 err "The gate failed: nets on fire"'
        assert (ran, gate.settled) == ([], [])

    async def test_gate_that_is_cancelled(self) -> None:
        """A cancellation in the gate blocks the call."""

        def broken(call: ToolCall) -> GateDecision:
            raise asyncio.CancelledError

        w, _, ran = await self.call(broken)
        assert w.prompt(2)[-1] == 'result c1 err "The decision was cancelled"'
        assert ran == []

    @pytest.mark.parametrize("answer", [None, True, "allow"])
    async def test_answer_that_is_no_decision(self, answer: object) -> None:
        """Only a decision allows a call."""
        w, _, ran = await self.call(lambda call: answer)
        assert w.prompt(2)[-1].startswith('result c1 err "The gate failed: it answered with')
        assert ran == []

    async def test_decision_about_another_call(self) -> None:
        """A decision that names another call or tool does not allow this one."""
        for other in (ToolCall("c2", "note"), ToolCall("c1", "other")):
            w, _, ran = await self.call(lambda call, other=other: allow(other))
            assert w.prompt(2)[-1] == 'result c1 err "The gate failed: it answered for another call"'
            assert ran == []

    @pytest.mark.parametrize("edited", [{"wrong": 1}, {"text": 3}, {"text": object()}])
    async def test_edit_that_does_not_fit(self, edited: dict[str, object]) -> None:
        """An edited call is validated again; an invalid one does not run and is settled as failed."""
        w, gate, ran = await self.call(lambda call: allow(replace(call, input=edited)))
        assert w.prompt(2)[-1].startswith('result c1 err "')
        assert ran == []
        assert [s[:2] for s in gate.settled] == [("c1", True)]

    async def test_settle_that_raises(self) -> None:
        """A result that cannot be recorded fails the run after all tools of the step have ended."""
        ran: list[str] = []

        class Broken(Log):
            async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
                if result.tool_call_id == "c1":
                    raise OSError("disk full")
                return await super().settle(result, output, seconds)

        slow = Slow()
        gate = Broken()
        w = await watched(
            C(c1=("note", {"text": "1"}), c2=("slow", {})),
            T("never"),
            tools=[noted(ran), slow.tool],
            gate=gate,
        )
        w.session.send("go")
        await slow.started.wait()
        slow.go_on.set()
        with pytest.raises(OSError, match="disk full"):
            await w.session.wait_for_idle()
        assert gate.settled == [("c2", False, "done", {})]
        assert [s for s in w.seen if s.startswith(("result", "error"))] == [
            'result c1 err "The call ended, but its result could not be recorded: disk full"',
            'result c2 ok "done"',
            "error(disk full)",
        ]
        assert len(w.model.requests) == 1

    async def test_object_that_is_no_gate_is_refused(self) -> None:
        """A session refuses an object that is not a gate."""
        agent = Agent(ScriptedModel([]))
        with pytest.raises(TypeError, match="object is not a gate"):
            await agent.create_session(gate=object())


class Rewriting:
    """A hand-written tool whose validation and hint change the given arguments."""

    name = "work"
    description = "Work."
    parameters: ClassVar[dict[str, JsonValue]] = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.ran: list[object] = []

    def validate(self, args: dict[str, JsonValue]) -> None:
        cast("list[JsonValue]", args["files"]).append("checked")

    def needs_approval(self, args: dict[str, JsonValue]) -> bool:
        cast("list[JsonValue]", args["files"]).append("hinted")
        return False

    async def execute(self, args: dict[str, JsonValue], ctx: ToolContext) -> str:
        self.ran.append(args)
        return "ok"


class TestToolsThatChangeArguments:
    async def turn_with_one_call(self, gate: Log) -> tuple[Watched, Rewriting]:
        rewriting = Rewriting()
        w = await watched(C(c1=("work", {"files": ["a"]})), T("ok"), tools=[rewriting], gate=gate)
        return w, rewriting

    async def test_original_call_runs_whatever_validation_changes(self) -> None:
        """The model's original call is recorded, decided and run, whatever its validation changes."""
        gate = Log()
        w, rewriting = await self.turn_with_one_call(gate)
        await w.say("go")
        [_, message, *_] = w.session.messages
        assert isinstance(message, AssistantMessage)
        assert message.tool_calls[0].args == {"files": ["a"]}
        assert gate.inputs == rewriting.ran == [{"files": ["a"]}]

    async def test_edited_input_is_validated_and_runs(self) -> None:
        """An edited input is validated and runs as edited."""
        gate = Log(lambda call: allow(replace(call, input={"files": ["b"]})))
        w, rewriting = await self.turn_with_one_call(gate)
        await w.say("go")
        assert rewriting.ran == [{"files": ["b"]}]
        assert gate.settled == [("c1", False, "ok", {"files": ["b"]})]

    async def test_overriding_arguments_are_decided_and_run(self) -> None:
        """The gate decides about a listener's overriding arguments, and these run."""
        gate = Log()
        w, rewriting = await self.turn_with_one_call(gate)
        w.session.on("tool_call", lambda e: Override(args={"files": ["c"]}))
        await w.say("go")
        assert gate.inputs == [{"files": ["a"]}, {"files": ["c"]}]
        assert rewriting.ran == [{"files": ["c"]}]


class TestWithListeners:
    async def test_call_denied_by_listener_is_settled_as_failed(self) -> None:
        """A call that the gate allowed and a listener denied does not run and is settled as failed."""
        ran: list[str] = []
        gate = Log()
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted(ran)], gate=gate)
        w.session.on("tool_call", lambda e: Deny(reason="no"))
        assert 'result c1 err "no"' in await w.say("go")
        assert ran == []
        assert gate.settled == [("c1", True, "no", {})]

    async def test_overriding_arguments_pass_the_gate_again(self) -> None:
        """Overriding arguments pass the gate again, after the first decision was settled."""
        ran: list[str] = []
        gate = Log()
        w = await watched(C(c1=("note", {"text": "x"})), T("ok"), tools=[noted(ran)], gate=gate)
        w.session.on("tool_call", lambda e: Override(args={"text": "other"}))
        await w.say("go")
        assert ran == ["other"]
        assert gate.happened == ["decide c1", "settle c1", "decide c1", "settle c1"]
        assert [s[1] for s in gate.settled] == [True, False]

    async def test_override_that_the_gate_blocks(self) -> None:
        """A listener cannot bypass the gate by overriding."""
        ran: list[str] = []
        gate = Log(lambda call: block(call) if call.input["text"] == "rm" else allow(call))
        w = await watched(C(c1=("note", {"text": "x"})), T("ok"), tools=[noted(ran)], gate=gate)
        w.session.on("tool_call", lambda e: Override(args={"text": "rm"}))
        assert 'result c1 err "not now"' in await w.say("go")
        assert ran == []

    async def test_override_that_does_not_fit(self) -> None:
        """A-46: invalid overriding arguments do not reach the gate again."""
        gate = Log()
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted([])], gate=gate)
        w.session.on("tool_call", lambda e: Override(args={"wrong": 1}))
        await w.say("go")
        assert gate.happened == ["decide c1", "settle c1"]

    async def test_listener_that_raises(self) -> None:
        """A-32: a call that the gate allowed is settled as failed if its listener raises."""
        gate = Log()
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted([])], gate=gate)

        def broken(event: ToolCallEvent) -> None:
            raise RuntimeError("listener broke")

        w.session.on("tool_call", broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="listener broke"):
            await w.session.wait_for_idle()
        assert gate.settled == [("c1", True, "Tool call not executed: listener broke", {})]
