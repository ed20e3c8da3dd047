"""G-96: a comparison of two rule sets finds the differences between their gates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.gate import ApprovalAnswer, GateContext, ToolResult, create_gate_manager
from interlock.engine.gate.types import ApprovalRequest
from interlock.engine.net.net import ToolCall
from interlock.rules import RuleSet, compile_rules
from interlock.rules.analysis.comparison import BESIDE, Comparison, compare
from tests.support.laws import examples


def comparison_of(old: str, new: str) -> Comparison:
    return compare(compile_rules(old), compile_rules(new))


def found(old: str, new: str) -> list[tuple[str, str]]:
    """Return the kind of each difference, with its sequence of calls."""
    return [(d.kind, " ".join(map(str, d.way))) for d in comparison_of(old, new).differences]


class TestDifferences:
    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            ("require test before deploy", "block rm", [("possible", "deploy"), ("impossible", "rm")]),
            (
                "require test before deploy\nrequire human-approval before deploy",
                "require test before deploy",
                [("fewer", "test deploy")],
            ),
            (
                "require 2 human-approvals before deploy",
                "require human-approval before deploy",
                [("fewer", "deploy (approval)")],
            ),
            (
                "require human-approval before deploy",
                "require human-approval before deploy by 3",
                [("more", "deploy (approval)")],
            ),
            (
                "require human-approval before deploy risk high",
                "require human-approval before deploy",
                [("weaker", "deploy (approval)")],
            ),
            (
                "require human-approval before deploy",
                "require human-approval before deploy no grants",
                [("stricter", "deploy (approval)")],
            ),
            (
                'require human-approval before a risk high when input.e = "prod"\n'
                'require human-approval before a when input.e = "dev"',
                'require human-approval before a when input.e = "prod"\n'
                'require human-approval before a risk high when input.e = "dev"',
                [("stricter", "a (approval)"), ("weaker", "a (approval)")],
            ),
            (
                "after a require human-approval before b no grants",
                "after a require human-approval before b",
                [("weaker", "a b (approval)")],
            ),
            (
                "require human-approval before a within 15m",
                "require human-approval before a within 1h",
                [("weaker", "a (approval)")],
            ),
            (
                "limit push to 2 per session",
                "limit push to 3 per session",
                [("possible", "push push push")],
            ),
            (
                "limit push to 2 per session",
                "limit push to 2 per tag",
                [("possible", "push push tag push")],
            ),
            ("require a before b", "require a or c before b", [("possible", "c b")]),
            ("require a since c before b", "require a before b", [("possible", "a c b")]),
            ("block b after a", "after a require human-approval before b", [("possible", "a b")]),
            ("block b after a or c", "block b after a", [("possible", "c b")]),
            (
                "after a require human-approval before b",
                "after a or c require human-approval before b",
                [("more", "c b")],
            ),
            ("block b when input.x not from user", "", [("possible", "b")]),
            (
                "block b when input.x not from user, d",
                "block b when input.x not from user",
                [("impossible", "b")],
            ),
        ],
    )  # fmt: skip
    def test_end_the_shortest_sequence(self, old: str, new: str, expected: list[tuple[str, str]]) -> None:
        assert found(old, new) == expected
        assert comparison_of(old, new).looser == any(
            kind in ("possible", "fewer", "weaker") for kind, _ in expected
        )
        assert not comparison_of(old, new).same

    def test_name_the_rule_that_causes_them(self) -> None:
        [difference] = comparison_of("block a\nlimit b to 1 per session", "block a").differences
        assert difference.rule is not None
        assert (difference.rule.where, difference.before, difference.now) == ("<rules>:2", None, 0)

    def test_include_the_condition(self) -> None:
        [difference] = comparison_of(
            'block deploy when input.env = "prod"', 'block deploy when input.env in ["prod", "stage"]'
        ).differences
        assert difference.way[-1].when == 'not (input.env = "prod") and input.env in ["prod", "stage"]'

    @pytest.mark.slow
    def test_rules_on_other_calls_are_not_explored(self) -> None:
        """A thousand rules about other calls cost almost nothing."""
        others = "\n".join(f"limit l{n} to 9 per r{n}\nrequire a{n} before b{n}" for n in range(500))
        assert found(f"{others}\nblock x", others) == [("possible", "x")]

    def test_calls_that_both_sets_block_are_no_difference(self) -> None:
        """A call that both sets block is no difference."""
        assert comparison_of("block b\nrequire a before b", "block b").same


class TestSame:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("require a before b", "require a before b # because"),
            ("require a before b\nblock c", "block c\nrequire a before b"),
            ("require a before b\nrequire c before b", "require a and c before b"),
            ("limit a to 3 per 1h", "limit a to 3 per 60m"),
            ('block a when input.x in ["p"]', 'block a when input.x = "p"'),
            ("block a\nblock a when input.x = 1", "block a"),
            ("limit a to 2 per session\nlimit a to 3 per session", "limit a to 2 per session"),
            ('block a because "old"', 'block a because "new"'),
        ],
    )
    def test_if_no_sequence_distinguishes_them(self, old: str, new: str) -> None:
        assert comparison_of(old, new) == Comparison()


class TestBesideEachOther:
    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("block b", "require a since c before b", True),
            ("block b after a", "block b after a until human-approval", True),
            ("block b\nblock c", "block b\nblock c\nrequire a since c before b", True),
            ("", "require a since c before b", False),
            ("require a since c before b", "require a since c before b\nrequire d before b", False),
            ("block b", "require a before b", False),
        ],
    )
    def test_note_appears_where_overlap_may_matter(self, old: str, new: str, said: bool) -> None:
        """Overlapping calls may distinguish such rules, but they are not compared.

        A rule that only one set has is at most stricter; the note then appears if nothing else differs.
        """
        assert (BESIDE in comparison_of(old, new).unknown) is said
        assert (BESIDE in comparison_of(new, old).unknown) is said


class TestMaps:
    def test_removed_map_lets_its_calls_pass(self) -> None:
        maps = "map bash.command rm as delete\n"
        differences = comparison_of(f"{maps}block delete", "block delete").differences
        assert ("possible", "delete") in [(d.kind, d.tool) for d in differences]

    def test_equal_maps_are_no_difference(self) -> None:
        maps = "map bash.command rm as delete\nmap bash.command mv as move\n"
        assert comparison_of(f"{maps}block delete", f"{maps}block delete").same
        assert found(f"{maps}block delete", f"{maps}block delete\nblock move") == [("impossible", "move")]

    def test_changed_pattern_may_lose_and_gain_calls(self) -> None:
        old, new = (f"map bash.command {p} as delete\nblock delete" for p in ("rm", "/rmdir/"))
        comparison = comparison_of(old, new)
        assert {d.kind for d in comparison.differences} == {"possible", "impossible"}
        assert comparison.unknown


class TestUnknown:
    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("limit a to 3 per 1h", "limit a to 3 per 2h", "times differ"),
            ("limit a to 3 per session for each input.x", "limit a to 4 per session", "one value"),
            ("block b after a", "block b after a for same input.x", "one value"),
            ("limit a to 3 of input.x per session", "limit a to 4 of input.x per session", "of 0"),
            ("limit a to 3 per 1h across agent", "limit a to 3 per 1h", "over sessions"),
        ],
    )
    def test_is_reported_with_its_reason(self, old: str, new: str, said: str) -> None:
        comparison = comparison_of(old, new)
        assert not comparison.same
        assert any(said in text for text in comparison.unknown)

    def test_calls_with_several_names_of_a_limited_tool(self) -> None:
        """One command may count as both a and c, so that two calls are enough for b."""
        maps = "".join(f"map bash.command {name} as {name}\n" for name in "abc")
        rules = f"{maps}require a and c before b\n"
        counted = comparison_of(
            f"{rules}limit bash to 2 per session\nblock b", f"{rules}limit bash to 2 per session"
        )
        assert any("several mapped names" in text for text in counted.unknown)
        assert not comparison_of(f"{rules}block b", rules).unknown

    def test_too_many_states(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("interlock.rules.analysis.comparison.COMPARING_EFFORT", 300)
        comparison = comparison_of("limit a to 999 per session", "limit a to 998 per session")
        assert comparison.unknown == ("there are too many states to compare all of them",)


LINES = [
    "require a before b",
    "require a or c before b",
    "require a since c before b",
    "block b after c",
    "limit b to 1 per session",
    "limit b to 1 per a",
    "limit a to 2 per session",
    "block c",
    "require human-approval before b",
    "require human-approval before b by 2",
    "require human-approval before b when input.x = 1",
    "block a when input.x = 1",
    "block a when input.x != 1",
    "block b after a until human-approval",
    "block b after a or c",
    "after a require human-approval before b",
    "after a or c require 2 human-approvals before b",
]
CALLS = list(product("abc", (1, 2)))
sets = st.lists(st.sampled_from(LINES), max_size=3, unique=True).map("\n".join)


class TestLaws:
    @pytest.mark.slow
    @given(sets, sets)
    @settings(max_examples=examples(500, usual=15), deadline=None)
    async def test_comparison_agrees_with_the_gates(self, old: str, new: str) -> None:
        """Law: the comparison finds the shortest sequences that two gates treat differently.

        It is checked for all sequences of up to three calls of which both gates allow all but the last.
        """
        sides = compile_rules(old), compile_rules(new)
        comparison = compare(*sides)
        assert comparison.unknown in ((), (BESIDE,))
        shortest: dict[tuple[str, str], int] = {}
        prefixes: list[tuple[tuple[str, int], ...]] = [()]
        for length in range(1, 4):
            longer: list[tuple[tuple[str, int], ...]] = []
            for prefix, call in product(prefixes, CALLS):
                before, now = [await approvals_of_last_call(side, (*prefix, call)) for side in sides]
                kind = difference(before, now)
                if kind is not None:
                    shortest.setdefault((call[0], kind), length)
                if before is not None and now is not None:
                    longer.append((*prefix, call))
            prefixes = longer
        told = {(d.tool, d.kind): len(d.way) for d in comparison.differences}
        told = {k: n for k, n in told.items() if n < 4 and k[1] not in ("weaker", "stricter")}
        assert told == shortest


def difference(before: int | None, now: int | None) -> str | None:
    if before is None or now is None:
        return None if before == now else "possible" if before is None else "impossible"
    return None if before == now else "fewer" if now < before else "more"


async def approvals_of_last_call(rules: RuleSet, sequence: Sequence[tuple[str, int]]) -> int | None:
    """Return the number of approvals of the last call; `None` if a call is blocked."""
    gate, asked = create_gate_manager(registry=rules.registry), 0

    def confirm(request: ApprovalRequest) -> ApprovalAnswer:
        nonlocal asked
        asked = max(asked, request.people)
        others = tuple(f"p{n}" for n in range(1, request.people))
        return ApprovalAnswer(approved=True, by="p0", others=others)

    for number, (tool, value) in enumerate(sequence):
        asked, call = 0, ToolCall(f"c{number}", tool, {"x": value})
        if (await gate.handle_tool_call(call, GateContext(confirm=confirm))).block:
            return None
        gate.handle_tool_result(ToolResult(call.tool_call_id, tool, call.input))
    return asked
