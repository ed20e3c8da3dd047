"""Proofs about conditions, checked against calls."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.core.condition import And, Compare, Condition, Not, Or, Surroundings, holds
from interlock.engine.core.sources import SourceTexts
from interlock.rules.analysis.condition_logic import FAILS, HOLDS, NOT_FAILS, NOT_HOLDS, covers, ruled_out
from interlock.rules.parse.conditions import read_condition
from interlock.rules.parse.patterns import compile_regex

from ...support.laws import examples


def condition_of(text: str) -> Condition:
    condition, wrong = read_condition(text)
    assert wrong == []
    assert condition is not None
    return condition


NEVER = [
    "input.a = 1 and input.a = 2",
    "input.a = 1 and input.a != 1",
    'input.a = 1 and input.a = "1"',
    "input.a = 1 and input.a = true",
    "input.n < 1 and input.n > 5",
    "input.n <= 1 and input.n >= 1 and input.n != 1",
    "input.n < 1 and input.n >= 1.0",
    'input.n < 1 and input.n < "a"',
    "input.n in []",
    "input.n in [1, 2] and input.n not in [2, 1, 3]",
    "input.n in [1, 2] and input.n > 2",
    'input.s < ""',
    r'input.s > "a" and input.s < "a\u0000"',
    "input.s matches /x/ and not input.s matches /x/",
    'input.s = "prod" and input.s matches /dev/',
    'input.s in ["ab", "ba"] and input.s not contains "a"',
    "input.s matches /x/ and input.s > 3",
    'input.s under "src" and input.s = null',
    'input.s under "src" and input.s not under "src"',
    "input.a = 1 and (input.b = 2 or input.a = 3) and input.b != 2",
    "not (input.a = 1 or input.a != 1)",
    "input.n > 9007199254740993 and input.n < 9007199254740994",
]
MAYBE = [
    "input.a = 1",
    "input.a = 1 and input.b = 2",
    "input.n > 1 and input.n < 2",
    "input.n > 0.1 and input.n < 0.2",
    'input.s > "a" and input.s < "b"',
    'input.s > "a" and input.s <= "a b"',
    'input.s matches /x/ and input.s not matches /xy/ and input.s > "a"',
    'input.s contains "a" and input.s contains "b"',
    'input.s under "a" and input.s not under "b"',
    "input.a != 1 and input.a != 2 and input.a != true and input.a != null",
    "input.n not in [1, 2, 3] and input.n > 0 and input.n < 4",
    "input.n > 9007199254740993 and input.n < 9007199254740995",
    "input.n > 1e308",
]
ALWAYS = [
    "input.a = 1 or input.a != 1",
    "input.a not in []",
    "input.s matches /x/ or input.s not matches /x/",
    "input.n < 1 or input.n >= 1",
    "input.n < 5 or input.n > 3",
    "not (input.a = 1 and input.a = 2)",
]


class TestProofs:
    @pytest.mark.parametrize("text", NEVER)
    def test_condition_never_holds(self, text: str) -> None:
        """Contradictory values, empty ranges and contradictory patterns are proved impossible."""
        assert ruled_out((condition_of(text), HOLDS))

    @pytest.mark.parametrize("text", MAYBE)
    def test_possible_condition_is_not_judged(self, text: str) -> None:
        """No claim is made about a condition that may hold and may fail."""
        assert not ruled_out((condition_of(text), HOLDS))
        assert not ruled_out((condition_of(text), FAILS))

    @pytest.mark.parametrize("text", ALWAYS)
    def test_condition_never_fails(self, text: str) -> None:
        """A rule with a condition that never fails applies to every call."""
        assert ruled_out((condition_of(text), FAILS))
        assert covers(condition_of(text), None)

    @pytest.mark.parametrize(
        ("wide", "narrow"),
        [
            ("input.a = 1", "input.a = 1"),
            ("input.a in [1, 2]", "input.a = 1"),
            ("input.n < 5", "input.n < 3"),
            ("input.n < 5 or input.a = 1", "input.n < 5"),
            ("input.a = 1", "input.a = 1 and input.b = 2 and input.a = 1"),
            ("not input.a = 1", "input.a != 1"),
            ("input.s matches /x/", "input.s matches /x/"),
            ("input.b = 2 and input.a = 1", "input.a = 1 and input.b = 2"),
            ("input.a not from user", "input.a not from user, read"),
            ("input.a not from user, read", "input.a not from read, user"),
            ("input.a from user, to of read", "input.a from to of read"),
            ("any input.a not from user", "any input.a not from user, read"),
        ],
    )
    def test_one_condition_covers_another(self, wide: str, narrow: str) -> None:
        """A rule covers another one if it applies to all its calls, including unclear ones."""
        assert covers(condition_of(wide), condition_of(narrow))
        assert covers(None, condition_of(narrow))

    @pytest.mark.parametrize(
        ("wide", "narrow"),
        [
            ("input.a = 1", "input.a in [1, 2]"),
            ("input.a = 1", "input.b = 1"),
            ("input.n < 3", "input.n < 5"),
            ("input.s matches /x/", "input.s matches /xy/"),
            ('input.s under "a"', 'input.s under "a/b"'),
            ("input.a not from user, read", "input.a not from user"),
            ("input.a not from user", "input.b not from user, read"),
            ("any input.a not from user", "input.a not from user, read"),
            # The second one is unclear for a text, so its rule applies; the first one is false.
            ("input.n = 1", "input.n < 2 and input.n > 0 and input.n = 1 or input.n < 0 and input.n > 0"),
        ],
    )
    def test_uncertain_coverage_is_not_claimed(self, wide: str, narrow: str) -> None:
        """Only certain coverage is claimed, also for linked folders and fields of other kinds."""
        assert not covers(condition_of(wide), condition_of(narrow))

    @pytest.mark.slow
    def test_give_up_on_too_many_combinations(self) -> None:
        """A condition with too many combinations is not judged, which costs little."""
        many = And(
            tuple(Or((Compare((f"a{i}",), "=", 1), Compare((f"b{i}",), "=", 1))) for i in range(30))
        )
        never = And((many, Compare(("x",), "in", ())))
        assert not ruled_out((never, HOLDS))
        wide = And(tuple(Compare(("x",), "=", i) for i in range(50_000)))
        assert not ruled_out((wide, HOLDS))


VALUES = [
    None,
    True,
    False,
    0,
    1,
    1.5,
    2,
    "",
    "a",
    "a\0",
    "ab",
    "b",
    [],
    [1],
    ["a"],
    {},
    "1",
    float("nan"),
    10**400,
]
FIELD = st.sampled_from(["x", "y"]).map(lambda name: (name,))
SCALAR = st.sampled_from([None, True, 0, 1, 2, "a", "b", "", 1.5])
COMPARISON = st.one_of(
    st.builds(Compare, FIELD, st.sampled_from(["=", "!="]), SCALAR),
    st.builds(
        Compare, FIELD, st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from([0, 1, 2, 1.5, "a", "b"])
    ),
    st.builds(Compare, FIELD, st.just("in"), st.lists(SCALAR, max_size=3).map(tuple)),
    st.builds(Compare, FIELD, st.just("contains"), st.sampled_from(["a", 1])),
    st.builds(Compare, FIELD, st.just("matches"), st.sampled_from(["/a/", "/b$/"]).map(compile_regex)),
    st.builds(Compare, FIELD, st.just("under"), st.sampled_from(["a", "b"])),
    st.builds(
        Compare, FIELD, st.just("from"), st.lists(st.sampled_from(["p", "q", "r"]), min_size=1).map(tuple)
    ),
)
ORDERED = COMPARISON.filter(lambda c: c.operator not in {"under", "contains", "matches", "from"})
EACH = [*VALUES, -1, 0.5, 1.2, 1.7, 3, "0", "aa", "c"]
CONDITION = st.recursive(
    COMPARISON,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
ABSENT = object()
CALLS = [
    {name: value for name, value in (("x", x), ("y", y)) if value is not ABSENT}
    for x, y in product([ABSENT, *VALUES], [ABSENT, *VALUES])
]


def source_texts() -> SourceTexts:
    """Return texts of the sources `p` and `q`, but none of `r`."""
    texts = SourceTexts(["p", "q"])
    texts.add("p", "a 1")
    texts.add("q", "b 1.5")
    return texts


AROUND = [
    Surroundings(),
    Surroundings(workdir="/w", real=lambda path: path.replace("/a", "/b"), said=source_texts()),
]


class TestLaw:
    @pytest.mark.slow
    @settings(max_examples=examples(150), deadline=None)
    @given(CONDITION, CONDITION)
    def test_no_call_contradicts_a_proof(self, one: Condition, other: Condition) -> None:
        """No call contradicts a proof, in any surroundings."""
        demands = [HOLDS, FAILS, NOT_HOLDS, NOT_FAILS]
        ruled = [d for d in demands if ruled_out((one, d))]
        both = ruled_out((one, FAILS), (other, NOT_FAILS))
        for call, around in product(CALLS, AROUND):
            answer = holds(one, call, around)
            assert not any(answer in demand for demand in ruled), (call, answer)
            if both and holds(other, call, around) is not False:
                assert answer is not False, call

    @pytest.mark.slow
    @settings(max_examples=examples(200), deadline=None)
    @given(st.lists(ORDERED, min_size=1, max_size=4))
    def test_impossible_conditions_are_all_found(self, parts: list[Compare]) -> None:
        """For equality and order the proof is complete: it finds every condition without a value."""
        condition = And(tuple(parts))
        possible = any(holds(condition, {"x": x, "y": y}) for x in EACH for y in EACH)
        assert ruled_out((condition, HOLDS)) != possible
