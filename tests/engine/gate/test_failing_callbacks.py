"""Callbacks that raise or return invalid values."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from interlock.engine import GateContext, Rejection, ToolCall, Transition, create_gate_manager

from .support.helpers import call, counting, everything, manager, net, reason, result, tool


class TestFailingCallbacks:
    """G-59: a callback that raises blocks and never allows."""

    async def test_mapper(self) -> None:
        """G-59: a mapper that raises blocks in its net's name."""
        gate = create_gate_manager([net("n", tool("x"), tool_mapper=lambda c: str(c.input["nope"]))])
        assert await reason(gate, "x") == "n: tool_mapper failed: 'nope'"

    async def test_mapper_gives_no_name(self) -> None:
        """G-59: a mapper that returns no string blocks."""
        gate = create_gate_manager([net("n", tool("x"), tool_mapper=lambda _: None)])
        assert await reason(gate, "x") == "n: tool_mapper failed: returned None, expected a tool name"

    @pytest.mark.parametrize("names", ["x", [], [3], None])
    async def test_names(self, names: object) -> None:
        """G-59: names that are not a list of strings block."""
        gate = create_gate_manager([net("n", tool("x"), call_names=lambda _: names)])
        assert str(await reason(gate, "x")).startswith("n: call_names failed: returned ")

    async def test_validator(self) -> None:
        """G-59: a validator that raises blocks, and all `meta` is restored."""

        def explode(_call: ToolCall, _tool: str, _t: Transition, state: object) -> None:
            state.meta["half"] = True
            raise OSError("disk gone")

        gate = create_gate_manager(
            [
                net("a", tool("x"), validate_tool_call=counting("n")),
                net("b", tool("x"), validate_tool_call=explode),
            ]
        )
        assert await reason(gate, "x") == "b: validate_tool_call failed: disk gone"
        assert [state.meta for state in gate.states.values()] == [{}, {}]

    async def test_validator_returns_nonsense(self) -> None:
        """G-59: a validator that returns neither None nor a Rejection blocks."""
        gate = create_gate_manager([net("n", tool("x"), validate_tool_call=lambda *_: False)])
        assert "validate_tool_call failed: returned False" in str(await reason(gate, "x"))

    async def test_confirm(self) -> None:
        """G-59: a confirm that raises blocks."""

        def confirm(_request: object) -> bool:
            raise OSError("no terminal")

        gate = create_gate_manager([net("n", tool("x", type="manual"))])
        decision = await gate.handle_tool_call(call("x"), GateContext(confirm))
        assert decision.reason == "n: confirm failed: no terminal"

    @pytest.mark.parametrize("answer", ["yes", 1, None, [True]])
    async def test_confirm_gives_no_answer(self, answer: object) -> None:
        """G-59: only True, False and an ApprovalAnswer are valid answers."""
        gate = create_gate_manager([net("n", tool("x", type="manual"))])
        decision = await gate.handle_tool_call(call("x"), GateContext(lambda _: answer))
        assert decision.block
        assert str(decision.reason).startswith("n: confirm failed: returned ")

    async def test_hook_does_not_stop_others(self) -> None:
        """G-59: if a deferred hook raises, its meta is undone and other nets still get the result."""

        def explode(_call: ToolCall, _tool: str, _t: Transition, state: object) -> None:
            state.meta["half"] = True
            raise OSError("disk gone")

        seen: list[str] = []
        deferred = Transition("t", ["p"], ["q"], ["x"], deferred=True)
        rest = Transition("s", ["q"], ["r"])
        places = {"p": 1, "q": 0, "r": 0}
        gate = create_gate_manager(
            [
                net("a", deferred, rest, marking=places, on_deferred_result=explode),
                net(
                    "b",
                    deferred,
                    marking=places,
                    on_deferred_result=lambda c, *_: seen.append(c.tool_name),
                ),
            ]
        )
        await reason(gate, "x")
        record = gate.handle_tool_result(result("x"))
        assert [step.net for step in record.fired] == ["a", "b"]
        assert gate.states["a"].marking == {"p": 0, "q": 0, "r": 1}
        assert gate.states["a"].meta == {}
        assert seen == ["x"]

    async def test_on_decision(self) -> None:
        """G-59: an on_decision that raises does not change the decision."""

        def explode(*_: object) -> None:
            raise OSError("log full")

        gate = manager("block x", on_decision=explode)
        assert await reason(gate, "x") == "x is blocked and cannot be called."
        assert await reason(gate, "y") is None

    async def test_failures_are_logged_with_their_cause(self, caplog: pytest.LogCaptureFixture) -> None:
        """G-59: a deferred hook and an on_decision that raise are logged with their cause."""

        def explode(*_: object) -> None:
            raise OSError("disk gone")

        gate = create_gate_manager(
            [net("n", tool("x", deferred=True), on_deferred_result=explode)], on_decision=explode
        )
        with caplog.at_level(logging.ERROR):
            await reason(gate, "x", "c7")
            gate.handle_tool_result(result("x", "c7"))
        assert [record.getMessage() for record in caplog.records] == [
            "on_decision failed for call 'c7'",
            "n: on_deferred_result failed",
        ]
        assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [OSError] * 2

    async def test_failing_mapper_blocks_what_other_nets_allow(self) -> None:
        """G-59: a mapper that raises blocks a call that other nets allow, and moves none."""

        def explode(_: ToolCall) -> str:
            raise OSError("no table")

        gate = create_gate_manager(
            [
                net("a", Transition("t", ["p"], [], ["x"])),
                net("b", tool("y"), tool_mapper=explode),
                net("c", tool("x"), free_tools=["x"]),
            ]
        )
        before = everything(gate)
        assert await reason(gate, "x") == "b: tool_mapper failed: no table"
        assert everything(gate) == before

    async def test_rejection_at_commit_undoes_meta(self) -> None:
        """G-59: the `meta` written by validators is undone if the commit refuses the call."""

        def steal(_call: ToolCall, _tool: str, _t: Transition, state: Any) -> Rejection | None:
            state.meta["stolen"] = True
            state.marking = {"p": 0}
            return None

        gate = create_gate_manager(
            [
                net("a", tool("x"), validate_tool_call=counting("n")),
                net("b", tool("x"), validate_tool_call=steal),
            ]
        )
        assert await reason(gate, "x") == "Tool 'x' is no longer available (state changed)."
        assert [state.meta for state in gate.states.values()] == [{}, {}]
