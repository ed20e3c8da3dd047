"""Hooks: an author's decisions before and after calls, behind the gate, failing closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from interlock.engine.agents import (
    Allow,
    C,
    Deny,
    FinishedCall,
    Hooks,
    Override,
    T,
    ToolCallEvent,
    ToolContext,
    ToolOutput,
    ToolResultEvent,
    tool,
)

from .gates import Log, allow, block
from .hooked import CALL, failing, raises, result, turn
from .script import SKIPPED, noted, watched


class TestBeforeToolCall:
    @pytest.mark.parametrize(
        ("answer", "shown"),
        [
            (None, 'result c1 ok "noted x"'),
            (Allow(), 'result c1 ok "noted x"'),
            (Deny(reason="no"), 'result c1 err "no"'),
            ({"deny": "no"}, 'result c1 err "no"'),
            (Override(args={"text": "y"}), 'result c1 ok "noted y"'),
            ({"args": {"text": "y"}}, 'result c1 ok "noted y"'),
            (True, 'result c1 err "a before_tool_call hook must return None'),
            ("no", 'result c1 err "a before_tool_call hook must return None'),
            ({"args": {"wrong": 1}}, 'result c1 err "Invalid arguments for note'),
        ],
    )
    @pytest.mark.parametrize("gated", [False, True])
    async def test_answers(self, answer: object, shown: str, gated: bool) -> None:
        """Part 2, A-40, A-44, A-46: a hook answers like a listener; other values deny."""
        w = await turn(Hooks(before_tool_call=lambda e: answer), gate=Log() if gated else None)
        assert any(line.startswith(shown) for line in w.seen)

    async def test_order(self) -> None:
        """Part 2: the gate comes first, then the hooks in order, then the listeners."""
        gate = Log()
        hooks = [
            Hooks(before_tool_call=lambda e: gate.happened.append("first")),
            Hooks(before_tool_call=lambda e: gate.happened.append("second")),
        ]
        w = await watched(CALL, T("ok"), tools=[noted([])], gate=gate, hooks=hooks)
        w.session.on("tool_call", lambda e: gate.happened.append("listener"))
        await w.say("go")
        assert gate.happened == ["decide c1", "first", "second", "listener", "settle c1"]

    async def test_first_decision_wins(self) -> None:
        """Part 2, A-41: after the first decision no other hook or listener is called."""
        asked: list[str] = []
        hooks = [
            Hooks(before_tool_call=lambda e: asked.append("first")),
            Hooks(before_tool_call=lambda e: Deny(reason="second")),
            Hooks(before_tool_call=lambda e: asked.append("third")),
        ]
        w = await watched(CALL, T("ok"), tools=[noted([])], hooks=hooks)
        w.session.on("tool_call", lambda e: asked.append("listener"))
        assert 'result c1 err "second"' in await w.say("go")
        assert asked == ["first"]

    async def test_hook_cannot_allow_a_blocked_call(self) -> None:
        """Part 2: no hook is called for a call that the gate blocks, and none can allow it."""
        asked: list[object] = []
        ran: list[str] = []

        def hook(event: ToolCallEvent) -> object:
            asked.append(event)
            return Allow()

        w = await turn(Hooks(before_tool_call=hook), gate=Log(block), ran=ran)
        assert 'result c1 err "not now"' in w.seen
        assert (asked, ran) == ([], [])

    async def test_override_passes_the_gate_again(self) -> None:
        """Part 2: a hook's override passes the gate again, which may block it."""
        ran: list[str] = []
        gate = Log(lambda call: block(call) if call.input["text"] == "rm" else allow(call))
        w = await turn(
            Hooks(before_tool_call=lambda e: Override(args={"text": "rm"})), gate=gate, ran=ran
        )
        assert 'result c1 err "not now"' in w.seen
        assert ran == []
        assert gate.happened == ["decide c1", "settle c1", "decide c1"]

    async def test_denied_call_is_settled_as_failed(self) -> None:
        """Part 2: a call that the gate allowed and a hook denied is settled as failed."""
        gate = Log()
        await turn(Hooks(before_tool_call=lambda e: Deny(reason="no")), gate=gate)
        assert gate.settled == [("c1", True, "no", {"text": "x"})]

    async def test_changes_to_the_event_have_no_effect(self) -> None:
        """Part 2, A-47: changes that a hook makes to its event have no effect."""
        ran: list[str] = []
        await turn(Hooks(before_tool_call=lambda e: e.args.update(text="changed")), ran=ran)
        assert ran == ["x"]

    async def test_raising_hook_fails_the_run(self) -> None:
        """Part 2, A-32: a hook that raises fails the run, and the tool does not run."""
        gate = Log()
        w, ran = await failing(Hooks(before_tool_call=raises), "hook broke", gate=gate)
        assert ran == []
        assert w.seen[-2] == 'result c1 err "Tool call not executed: hook broke"'
        assert gate.settled == [("c1", True, "Tool call not executed: hook broke", {"text": "x"})]

    async def test_steering_message_does_not_wait_for_a_hook(self) -> None:
        """Part 2, A-78: a steering message does not wait for a hook."""
        asked = asyncio.Event()

        async def hook(event: ToolCallEvent) -> None:
            asked.set()
            await asyncio.Event().wait()

        hooks = Hooks(before_tool_call=hook)
        w = await watched(CALL, T("ok"), tools=[noted([])], hooks=hooks)
        w.session.send("go")
        await asked.wait()
        w.session.send("STEER")
        await w.session.wait_for_idle()
        assert f'result c1 err "{SKIPPED}"' in w.seen


class TestAfterToolCall:
    @pytest.mark.parametrize(
        ("answer", "shown", "metadata"),
        [
            (None, 'result c1 ok "noted x"', {}),
            ("other", 'result c1 ok "other"', {}),
            ("", 'result c1 ok ""', {}),
            (ToolOutput("bad", {"n": 1}, is_error=True), 'result c1 err "bad"', {"n": 1}),
        ],
    )
    async def test_hook_can_replace_the_result(
        self, answer: object, shown: str, metadata: object
    ) -> None:
        """Part 2: a hook can replace the result for the model; it is stored, reported and sent."""
        w = await turn(Hooks(after_tool_call=lambda call: answer))
        assert shown in w.seen
        assert w.prompt(2)[-1] == shown
        assert (await w.stored())[2] == shown
        assert result(w).metadata == metadata

    async def test_hook_gets_arguments_and_output(self) -> None:
        """Part 2: a hook gets the arguments that ran and the tool's own output."""
        seen: list[FinishedCall] = []
        hooks = Hooks(
            before_tool_call=lambda e: Override(args={"text": "y"}),
            after_tool_call=seen.append,
        )
        await turn(hooks)
        [call] = seen
        assert (call.call_id, call.name, call.args) == ("c1", "note", {"text": "y"})
        assert call.output == ToolOutput("noted y")
        assert call.seconds > 0

    async def test_gate_settles_the_tools_own_result(self) -> None:
        """Part 2: the gate settles the tool's own result before the hook is called."""
        gate = Log()

        def hook(call: FinishedCall) -> ToolOutput:
            gate.happened.append("hook")
            return ToolOutput("looks bad", is_error=True)

        w = await turn(Hooks(after_tool_call=hook), gate=gate)
        assert gate.happened == ["decide c1", "settle c1", "hook"]
        assert gate.settled == [("c1", False, "noted x", {"text": "x"})]
        assert 'result c1 err "looks bad"' in w.seen

    async def test_failure_cannot_be_hidden_from_the_gate(self) -> None:
        """Part 2: a hook that turns a failure into a success changes only what the model reads."""
        gate = Log()

        @tool(name="note")
        async def broken(text: str) -> str:
            """Fail."""
            raise RuntimeError("kaboom")

        hooks = Hooks(after_tool_call=lambda call: ToolOutput("fine"))
        w = await watched(CALL, T("ok"), tools=[broken], gate=gate, hooks=hooks)
        assert 'result c1 ok "fine"' in await w.say("go")
        assert gate.settled == [("c1", True, "kaboom", {"text": "x"})]

    async def test_hook_is_called_only_for_executed_calls(self) -> None:
        """Part 2: no hook is called for a call that was blocked, denied, unknown or malformed."""
        seen: list[str] = []

        def hook(call: FinishedCall) -> ToolOutput:
            seen.append(call.call_id)
            return ToolOutput("done!")

        gate = Log(lambda call: block(call) if call.tool_call_id == "c1" else allow(call))
        calls = C(c1=("note", {}), c2=("note", {}), c3=("nope", {}), c4=("note", "{"), c5=("note", {}))
        hooks = Hooks(after_tool_call=hook)
        w = await watched(calls, T("ok"), tools=[noted([])], gate=gate, hooks=hooks)
        w.session.on("tool_call", lambda e: Deny(reason="no") if e.call_id == "c2" else None)
        await w.say("go")
        results = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert [r.is_error for r in results] == [True, True, True, True, False]
        assert seen == ["c5"]
        assert [r.result == "done!" for r in results] == [False, False, False, False, True]

    async def test_each_hook_gets_the_previous_ones_result(self) -> None:
        """Part 2: each hook gets the result as changed by the previous one."""

        def adding(word: str) -> Hooks:
            return Hooks(after_tool_call=lambda call: f"{call.output.text} {word}")

        w = await turn([adding("one"), Hooks(), adding("two")])
        assert 'result c1 ok "noted x one two"' in w.seen

    async def test_changes_to_the_output_have_no_effect(self) -> None:
        """Part 2, A-47: changes that a hook makes to the given output have no effect."""

        @tool(name="note")
        async def described(text: str) -> ToolOutput:
            """Give metadata."""
            return ToolOutput("noted", metadata={"n": 1})

        hooks = Hooks(after_tool_call=lambda call: call.output.metadata.clear())
        w = await watched(CALL, T("ok"), tools=[described], hooks=hooks)
        await w.say("go")
        assert result(w).metadata == {"n": 1}

    @pytest.mark.parametrize("hook", [raises, lambda call: 7, lambda call: {"deny": "x"}])
    async def test_raising_or_invalid_hook_fails_the_run(self, hook: Callable[[object], object]) -> None:
        """Part 2, A-32: the run fails, and the unchecked result is passed to no one."""
        gate = Log()
        w, ran = await failing(Hooks(after_tool_call=hook), "hook", gate=gate)
        assert ran == ["x"]
        assert gate.settled == [("c1", False, "noted x", {"text": "x"})]
        assert result(w).is_error
        assert "looked over: " in result(w).result
        assert not any("noted" in line for line in [*w.seen, *await w.stored()])

    async def test_abort_does_not_wait_for_a_hook(self) -> None:
        """Part 2, A-94: an abort does not wait for a hook, and the unchecked result is discarded."""
        asked = asyncio.Event()

        async def hook(call: FinishedCall) -> None:
            asked.set()
            await asyncio.Event().wait()

        hooks = Hooks(after_tool_call=hook)
        w = await watched(CALL, T("never"), tools=[noted([])], hooks=hooks)
        w.session.send("go")
        await asked.wait()
        w.session.abort()
        await w.session.wait_for_idle()
        expected = 'result c1 err "The run was aborted before the call\'s result was looked over"'
        assert w.seen[-2:] == [expected, 'turn_end("")']

    async def test_stopped_tools_result_is_not_checked(self) -> None:
        """Part 2, A-94: a stopped tool's result says so, and no hook checks it."""

        @tool(name="note")
        async def stuck(ctx: ToolContext, text: str) -> str:
            """Wait for ever."""
            w.session.abort()
            await asyncio.Event().wait()
            return "never"

        hooks = Hooks(after_tool_call=lambda call: "never")
        w = await watched(CALL, T("never"), tools=[stuck], hooks=hooks)
        assert 'result c1 err "The operation was aborted"' in await w.say("go")
