"""A single net without a manager."""

from __future__ import annotations

import pytest

from interlock.engine import (
    ApprovalAnswer,
    GateContext,
    GateState,
    NetError,
    SkillNet,
    Transition,
    composed_tool_call,
    handle_tool_call,
    handle_tool_result,
)
from interlock.engine.net.net import initial_state
from interlock.rules import compile_rules

from ..support.helpers import Operator, call, counting, net, result, tool

NOBODY = GateContext()


def rule(text: str) -> tuple[SkillNet, GateState]:
    (made,) = compile_rules(text).nets
    return made, initial_state(made)


class TestOneNet:
    """G-12: the low-level functions."""

    async def test_unknown_tools_are_blocked(self) -> None:
        """G-12: without a manager, unknown tools are blocked; free tools pass."""
        made = net("n", tool("x"), free_tools=["ls"])
        state = initial_state(made)
        assert not (await handle_tool_call(call("ls"), NOBODY, made, state)).block
        decision = await handle_tool_call(call("other"), NOBODY, made, state)
        assert decision.reason == "Tool 'other' is not available in the current state."

    async def test_sequence(self) -> None:
        """G-16: calls and results move the given state."""
        made, state = rule("require a before b")
        assert (await handle_tool_call(call("b"), NOBODY, made, state)).block
        await handle_tool_call(call("a"), NOBODY, made, state)
        assert (await handle_tool_call(call("a"), NOBODY, made, state)).reason == (
            "Tool call id '1' is already in use."
        )
        assert len(handle_tool_result(result("a"), made, state).fired) == 1
        assert not (await handle_tool_call(call("b"), NOBODY, made, state)).block
        assert state.marking["ready"] == 1

    async def test_request_does_not_name_the_net(self) -> None:
        """G-13: the message of the request does not name the net, because there is only one."""
        made, state = rule("require human-approval before x")
        operator = Operator(False, ApprovalAnswer(approved=False, reason="not now"), True)
        assert (await handle_tool_call(call("x"), NOBODY, made, state)).reason == (
            "x requires human approval."
        )
        reasons = [
            (await handle_tool_call(call("x"), operator.context, made, state)).reason for _ in range(3)
        ]
        assert reasons == [
            "x was rejected by human review.",
            "x was rejected by human review: not now",
            None,
        ]
        assert operator.asked[0].message == "Allow 'x' via transition 'approve'?"

    async def test_validator_before_asking(self) -> None:
        """G-12: a validator runs before the request, and again on an edited input."""
        operator = Operator(ApprovalAnswer(approved=True, input={"n": 2}))
        made = net("n", tool("x", type="manual"), validate_tool_call=counting("n", 1))
        state = initial_state(made)
        decision = await handle_tool_call(call("x"), operator.context, made, state)
        assert (decision.reason, len(operator.asked)) == ("x: n exceeded 1", 1)

    async def test_net_is_judged_again_after_answer(self) -> None:
        """G-58: the net is judged again after the answer, including deferred transitions."""
        made = net("n", Transition("t", ["p"], [], ["x"], type="manual", deferred=True))
        state = initial_state(made)
        operator = Operator()
        operator.before_answering = lambda: state.marking.update(p=0)
        decision = await handle_tool_call(call("x"), operator.context, made, state)
        assert decision.reason == "Tool 'x' is not available in the current state."

    @pytest.mark.parametrize("callback", ["tool_mapper", "validate_tool_call", "confirm"])
    async def test_failing_callbacks(self, callback: str) -> None:
        """G-59: a callback that raises blocks."""

        def explode(*_: object) -> bool:
            raise OSError("gone")

        parts = {} if callback == "confirm" else {callback: explode}
        made = net("n", tool("x", type="manual"), **parts)
        decision = await handle_tool_call(call("x"), GateContext(explode), made, initial_state(made))
        assert decision.reason == f"n: {callback} failed: gone"


class TestComposed:
    """G-72: the four phases on nets and states that the caller keeps."""

    async def test_call_and_result_move_callers_states(self) -> None:
        """G-72: a call moves the caller's states, and so does a result given to each net."""
        nets = compile_rules("require test before deploy\nlimit test to 1 per session").nets
        states = [initial_state(made) for made in nets]
        assert (await composed_tool_call(nets, states, call("deploy"))).reason == (
            "deploy requires a successful call to test first."
        )
        assert (await composed_tool_call(nets, states, call("test"))).outcome == "allow"
        assert states[1].marking["budget"] == 0
        again = await composed_tool_call(nets, states, call("test"))
        assert again.reason == "Tool call id '1' is already in use."
        for made, state in zip(nets, states, strict=True):
            handle_tool_result(result("test"), made, state)
        assert (await composed_tool_call(nets, states, call("deploy", "2"))).outcome == "allow"
        assert states[0].marking == {"idle": 0, "ready": 1, "gate": 0}

    async def test_too_few_states_are_refused(self) -> None:
        """G-72: too few states, or a value that is no net, are refused."""
        nets = compile_rules("block x").nets
        with pytest.raises(ValueError, match="argument"):
            await composed_tool_call(nets, [], call("x"))
        with pytest.raises(NetError, match="define_skill_net"):
            await composed_tool_call([object()], [], call("x"))
