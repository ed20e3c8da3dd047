"""The sentences the gate blocks with."""

from __future__ import annotations

import pytest

from interlock.engine import create_gate_manager

from .support.helpers import manager, net, reason, succeed, tool


class TestReasons:
    """G-18: the exact sentences."""

    @pytest.mark.parametrize(
        ("rules", "calls", "blocked", "expected"),
        [
            ("require A before B", [], "B", "B requires a successful call to A first."),
            ("limit A to 1 per session", ["A"], "A", "A has reached its limit of 1 calls per session."),
            ("limit A to 2 per go", ["A", "A"], "A", "A has reached its limit of 2 calls per go."),
            ("block A", [], "A", "A is blocked and cannot be called."),
            ("require human-approval before A", [], "A", "A requires human approval."),
        ],
    )
    async def test_rules(self, rules: str, calls: list[str], blocked: str, expected: str) -> None:
        """G-18: each kind of rule has its sentence."""
        gate = manager(rules)
        for number, name in enumerate(calls):
            await succeed(gate, name, f"c{number}")
        assert await reason(gate, blocked) == expected

    @pytest.mark.parametrize(
        ("rules", "calls", "expected"),
        [
            ("require a before rm", [], "rm requires a successful call to a first."),
            ("limit rm to 1 per session", ["rm"], "rm has reached its limit of 1 calls per session."),
            ("limit rm to 1 per a", ["rm"], "rm has reached its limit of 1 calls per a."),
            ("block rm", [], "rm is blocked and cannot be called."),
            ("require human-approval before rm", [], "rm requires human approval."),
            ("block git.push\nblock rm", [], "rm is blocked and cannot be called."),
        ],
    )
    async def test_mapped(self, rules: str, calls: list[str], expected: str) -> None:
        """G-18: a mapped call is blocked in the words of the rule, not of the tool it was made with."""
        gate = manager(f"map bash.note rm as rm\n{rules}")
        for number, name in enumerate(calls):
            await succeed(gate, name, f"c{number}")
        assert await reason(gate, "bash", note="rm x") == expected

    async def test_numbers_are_plain(self) -> None:
        """G-18: the limit stands in the sentence as it was meant, without separators or zeros."""
        gate = manager("limit A to 0001000 per session")
        gate.states["limit-A-1000"].marking["budget"] = 0
        assert await reason(gate, "A") == "A has reached its limit of 1000 calls per session."

    async def test_hand_built(self) -> None:
        """G-18: a net without a rule says that the tool is not available."""
        gate = create_gate_manager([net("n", tool("x"), marking={"p": 0})])
        assert await reason(gate, "x") == "Tool 'x' is not available in the current state."

    async def test_hand_built_and_mapped(self) -> None:
        """G-18: it names the tool as the net knows it."""
        made = net("n", tool("rm"), marking={"p": 0}, tool_mapper=lambda _: "rm")
        expected = "Tool 'rm' is not available in the current state."
        assert await reason(create_gate_manager([made]), "bash") == expected
