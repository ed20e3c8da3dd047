"""The description of a gate's rules for the model."""

from __future__ import annotations

from interlock.engine import Transition, create_gate_manager

from .support.helpers import call, gate, manager, net, registry, succeed, tool

RULES = """\
require test before deploy
require human-approval before deploy by 2 when input.env = "prod"
block rm
block push when input.branch = "main"
limit search to 3 per session
limit push to 2 per build
limit fetch to 5 per 10m
require human-approval before unclear
"""


class TestConstraints:
    """G-73: the needs of each tool, the remaining uses, and what is never allowed."""

    async def test_one_sentence_per_rule_from_present_state(self) -> None:
        """G-73: one sentence per rule, from the present state of the nets."""
        guard = manager(RULES)
        assert guard.constraints() == (
            "deploy needs a successful test first.",
            'deploy needs human approval by 2 people when input.env = "prod".',
            "rm is always blocked.",
            'push is blocked when input.branch = "main".',
            "search: 3 of 3 calls left in this session.",
            "push: 2 of 2 calls left until build succeeds.",
            "fetch: 5 of 5 calls left, at most 5 in 10m.",
            "A call that cannot be read to its end needs human approval.",
        )
        before = set(guard.constraints())
        await succeed(guard, "test", "1")
        await succeed(guard, "search", "2")
        await succeed(guard, "fetch", "3")
        assert set(guard.constraints()) - before == {
            "deploy may be called: test was successful.",
            "search: 2 of 3 calls left in this session.",
            "fetch: 4 of 5 calls left, at most 5 in 10m.",
        }

    def test_the_authors_reason(self) -> None:
        """A rule's `because` follows its sentence and ends with one full stop."""
        guard = manager('block rm because "the disk is shared"\nblock dd because "It is slow!"')
        assert guard.constraints() == (
            "rm is always blocked. Why: the disk is shared.",
            "dd is always blocked. Why: It is slow!",
        )

    async def test_hand_built_nets(self) -> None:
        """G-73: a net without a rule lists what it blocks now and what needs approval."""
        once = net("once", Transition("t", ["p"], [], ["x"]), free_tools=["y"])
        guard = create_gate_manager([once, net("asks", tool("z", type="manual"))])
        assert guard.constraints() == ("z needs human approval.",)
        await guard.handle_tool_call(call("x"))
        assert guard.constraints() == ("x is not available now (once).", "z needs human approval.")

    def test_prompt_has_nets_and_rules(self) -> None:
        """G-24, G-73: a session's prompt has nets and rules; a gate without rules adds none."""
        prompt = gate("block rm").wrap_tools({"ls": len}).system_prompt()
        assert prompt.startswith("## Active Petri Nets (composed)\n### block-rm\n")
        assert prompt.endswith("\n\n## Rules for tool calls\n- rm is always blocked.")
        assert gate("").wrap_tools({"ls": len}).system_prompt() == "## Active Petri Nets (composed)\n"

    def test_inactive_nets(self) -> None:
        """G-73: equal rules are described once, and inactive ones not at all."""
        guard = registry("block rm\nblock rm\nblock dd")
        assert guard.constraints() == ("rm is always blocked.", "dd is always blocked.")
        guard.remove_net("block-dd")
        assert guard.constraints() == ("rm is always blocked.",)
