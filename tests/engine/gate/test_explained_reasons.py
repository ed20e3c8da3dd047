"""Reasons that also name the calls that lead to the blocked call, if enabled."""

from __future__ import annotations

import pytest

from interlock.engine import (
    GateContext,
    GateManager,
    Rejection,
    ToolCallBlockedError,
    ToolResult,
    create_gate,
    create_gate_manager,
)
from interlock.rules import compile_rules

from .support.helpers import Operator, call, net, tool

RULES = (
    "require lint before test\nrequire test before deploy\nrequire human-approval before deploy\n"
    "limit push to 1 per session\nblock rm"
)


def explaining_manager(rules: str = RULES) -> GateManager:
    return create_gate_manager(registry=compile_rules(rules).registry, explain_blocks=True)


class TestReason:
    async def test_names_the_calls_that_unlock(self) -> None:
        """G-18: the exact reason is followed by the calls that lead there, with approvals marked."""
        decision = await explaining_manager().handle_tool_call(call("deploy"))
        assert decision.reason == (
            "deploy requires a successful call to test first. "
            "To get there: lint → test → deploy (approval)."
        )

    async def test_permanently_spent_limit_is_named(self) -> None:
        """A limit that is permanently used up is named as what forbids the call."""
        gate = explaining_manager()
        assert not (await gate.handle_tool_call(call("push"))).block
        decision = await gate.handle_tool_call(call("push", "2"))
        assert decision.reason == (
            "push has reached its limit of 1 calls per session. "
            "No sequence of calls leads there (limit-push-1)."
        )

    async def test_block_rule_reason_is_unchanged(self) -> None:
        """G-18: the reason of a block rule already says that no call helps."""
        decision = await explaining_manager().handle_tool_call(call("rm"))
        assert decision.reason == "rm is blocked and cannot be called."

    async def test_denial_reason_is_unchanged(self) -> None:
        """G-13: if no net blocks, only the operator's denial or the missing approval is given."""
        gate = explaining_manager("require human-approval before deploy")
        refused = await gate.handle_tool_call(call("deploy"), Operator(False).context)
        assert refused.reason == "deploy was rejected by human review."
        unasked = await gate.handle_tool_call(call("deploy", "2"))
        assert unasked.reason == "deploy requires human approval."

    async def test_validator_reason_is_unchanged(self) -> None:
        """G-14: a validator's reason stays as it is."""
        gate = create_gate_manager(
            [net("n", tool("x"), validate_tool_call=lambda *_: Rejection("not today"))],
            explain_blocks=True,
        )
        assert (await gate.handle_tool_call(call("x"))).reason == "not today"

    async def test_block_after_an_answer_is_explained(self) -> None:
        """G-58: a net that blocks only after the approver's answer is explained as well."""
        gate = explaining_manager("require human-approval before deploy\nrequire test before deploy")
        gate.remove_net("require-test-before-deploy")

        def confirm(_: object) -> bool:
            gate.add_net("require-test-before-deploy")
            return True

        decision = await gate.handle_tool_call(call("deploy"), GateContext(confirm=confirm))
        assert decision.reason is not None
        assert decision.reason.endswith("To get there: test → deploy (approval).")

    async def test_failing_explanation_keeps_the_block(self) -> None:
        """G-59: if the explanation fails, the net still blocks with its own reason."""
        calls = 0

        def mapper(_: object) -> str:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise RuntimeError("only once")
            return "x"

        gate = create_gate_manager(
            [net("n", tool("x"), marking={"p": 0}, tool_mapper=mapper)], explain_blocks=True
        )
        decision = await gate.handle_tool_call(call("x"))
        assert decision.block
        assert decision.reason == "Tool 'x' is not available in the current state."

    async def test_recorded_reason_is_the_models(self) -> None:
        """G-60: the record has the same reason as the model."""
        recorded: list[str | None] = []

        async def record(_: object, decision: object) -> None:
            recorded.append(getattr(decision, "reason", None))

        gate = create_gate_manager(
            registry=compile_rules(RULES).registry, explain_blocks=True, record=record
        )
        decision = await gate.handle_tool_call(call("test"))
        assert recorded == [decision.reason]
        assert str(decision.reason).endswith("To get there: lint → test.")

    async def test_explaining_moves_no_net(self) -> None:
        """Explaining moves no net, and the named way works afterwards."""
        gate = explaining_manager()
        await gate.handle_tool_call(call("deploy"))
        for name in ("lint", "test"):
            assert not (await gate.handle_tool_call(call(name, name))).block
            gate.handle_tool_result(ToolResult(name, name))
        assert not (await gate.handle_tool_call(call("deploy"), Operator(True).context)).block


class TestWrapped:
    def test_error_of_blocked_tool_names_the_calls(self) -> None:
        """G-30: the error of a blocked tool names the calls that lead to it."""
        gate = create_gate(compile_rules(RULES).nets, explain_blocks=True)
        session = gate.wrap_tools({"test": lambda: "ok"})
        with pytest.raises(ToolCallBlockedError) as caught:
            session.tools["test"]()
        assert caught.value.reason == (
            "test requires a successful call to lint first. To get there: lint → test."
        )
