"""Calls with several names."""

from __future__ import annotations

import pytest

from interlock.engine import ToolCall, Transition, create_gate_manager, define_skill_net
from interlock.engine.net.net import CallNames

from .support.helpers import Operator, call, manager, markings, net, reason, succeed, tool


def named(*names: str) -> CallNames:
    """A function that gives these names to every call."""
    return lambda _call: names


class TestManyNames:
    """G-50: a call has a set of names."""

    async def test_mapped_name_does_not_hide_own_name(self) -> None:
        """G-50: a mapped name does not hide the tool's own name."""
        gate = manager("map bash.command rm as delete\nblock bash")
        assert await reason(gate, "bash", command="rm x") == "bash is blocked and cannot be called."

    async def test_any_name_blocks(self) -> None:
        """G-50: if two maps match, both names count."""
        gate = manager("map bash.command cp as backup\nmap bash.command rm as delete\nblock delete")
        expected = "delete is blocked and cannot be called."
        assert await reason(gate, "bash", command="cp a b && rm b") == expected

    async def test_block_reason_has_most_specific_name(self) -> None:
        """G-50: if one net blocks several names of a call, its reason has the most specific one."""
        shut = Transition("never", ["q"], [], ["rm", "bash"])
        made = net("n", shut, marking={"q": 0}, call_names=named("rm", "bash"))
        expected = "Tool 'rm' is not available in the current state."
        assert await reason(create_gate_manager([made]), "bash") == expected

    async def test_pending_entry_per_net_and_name(self) -> None:
        """G-50: pending entries are made once per net and name."""
        gate = manager(
            "map bash.command lint as lint\nrequire lint before test\nrequire bash before lint"
        )
        await succeed(gate, "bash", "c1", command="ls")
        decision = await gate.handle_tool_call(call("bash", "c2", command="lint"))
        assert decision.names == ("lint", "bash")
        assert [(s.net, s.transition.name, s.tool) for s in decision.steps] == [
            ("require-lint-before-test", "do-lint", "lint"),
            ("require-bash-before-lint", "do-lint", "lint"),
            ("require-bash-before-lint", "do-bash", "bash"),
        ]

    async def test_one_request_per_gated_name(self) -> None:
        """G-50: a hand-built net that gates two names of a call asks for each."""
        operator = Operator()
        gate = create_gate_manager(
            [
                net(
                    "n",
                    tool("rm", type="manual"),
                    tool("bash", type="manual"),
                    call_names=named("rm", "bash"),
                )
            ]
        )
        decision = await gate.handle_tool_call(call("bash"), operator.context)
        assert [request.tool for request in operator.asked] == ["rm", "bash"]
        assert operator.asked[0].names == ("rm", "bash")
        assert [step.tool for step in decision.steps] == ["rm", "bash"]

    async def test_two_names_share_a_budget(self) -> None:
        """G-50: two names of one call cannot spend the same token."""
        spend = Transition("spend", ["budget"], [], ["rm", "cp"])
        gate = create_gate_manager(
            [net("n", spend, marking={"budget": 1}, call_names=named("rm", "cp", "bash"))]
        )
        decision = await gate.handle_tool_call(call("bash"))
        assert decision.reason == "Tool 'cp' is not available in the current state."
        assert markings(gate) == {"n": {"budget": 1}}

    async def test_two_names_fire_two_tokens(self) -> None:
        """G-50: if there are tokens for both names, both fire."""
        spend = Transition("spend", ["budget"], [], ["rm", "cp"])
        gate = create_gate_manager(
            [net("n", spend, marking={"budget": 2}, call_names=named("rm", "cp", "bash"))]
        )
        assert await reason(gate, "bash") is None
        assert markings(gate) == {"n": {"budget": 0}}

    @pytest.mark.parametrize(
        ("names", "kind", "deciding"),
        [
            (("other", "bash"), "abstain", "other"),
            (("ls", "other"), "free", "ls"),
            (("ls", "x"), "gated", "x"),
            (("x", "shut", "ls"), "blocked", "shut"),
        ],
    )
    def test_joint_verdict(self, names: tuple[str, ...], kind: str, deciding: str) -> None:
        """G-50: precedence is blocked, gated, free, abstain; the deciding name is reported."""
        made = net(
            "n",
            tool("x"),
            Transition("never", ["q"], [], ["shut"]),
            marking={"p": 1, "q": 0},
            free_tools=["ls"],
            call_names=named(*names),
        )
        (verdict,) = create_gate_manager([made]).classify(call("bash"))
        assert (verdict.kind, verdict.tool) == (kind, deciding)

    async def test_mapper_gives_the_only_name(self) -> None:
        """G-50: with a hand-written mapper, only its name counts for that net."""
        mapped = net("m", tool("bash", type="manual"), tool_mapper=lambda _: "git-commit")
        plain = net("p", Transition("t", ["p"], [], ["bash"]))
        gate = create_gate_manager([mapped, plain])
        decision = await gate.handle_tool_call(call("bash"))
        assert decision.outcome == "allow"
        assert [step.net for step in decision.steps] == ["p"]
        assert decision.names == ("git-commit", "bash")

    async def test_names_are_computed_once(self) -> None:
        """Nets that share a names function call it once."""
        asked: list[str] = []

        def call_names(seen: ToolCall) -> list[str]:
            asked.append(seen.tool_call_id)
            return [seen.tool_name]

        gate = create_gate_manager([net(f"n{i}", tool("x"), call_names=call_names) for i in range(5)])
        await reason(gate, "x")
        assert asked == ["1"]

    async def test_active_order_across_functions(self) -> None:
        """G-11: nets with different names functions are judged in active order."""
        shut = Transition("never", ["q"], [], ["x"])
        nets = [
            define_skill_net(
                name, places=["q"], transitions=[shut], initial_marking={}, **{how: function}
            )
            for name, how, function in [
                ("mapped", "tool_mapper", lambda _: "x"),
                ("first", "call_names", named("x")),
                ("second", "call_names", named("x", "y")),
            ]
        ]
        for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
            gate = create_gate_manager([nets[i] for i in order])
            decision = await gate.handle_tool_call(call("tool"))
            assert decision.net == nets[order[0]].name
