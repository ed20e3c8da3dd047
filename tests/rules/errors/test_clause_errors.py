"""Errors about faulty options and conditions: message, place and remedy."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.rules import Problem, RuleError, compile_rules

from ..support import faulty_conditions, faulty_options

ASKS = "require human-approval before b "
BLOCK = "block a when "
OPTIONS = [(text, ASKS, said) for text, *said in faulty_options.TABLE]
CONDITIONS = [(BLOCK + text, BLOCK, said) for text, *said in faulty_conditions.TABLE]
FAULTS = [*OPTIONS, *CONDITIONS]


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(RuleError) as caught:
        compile_rules(text)
    return caught.value.problems


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a line without its marks, and the column and length of each marked part."""
    plain, places, opened = "", [], []
    for character in text:
        if character == "«":
            opened.append((len(plain), len(places)))
            places.append((0, 0))
        elif character == "»":
            start, number = opened.pop()
            places[number] = (start + 1, max(1, len(plain) - start))
        else:
            plain += character
    return plain, places


class TestClauses:
    @pytest.mark.parametrize(("faulty", "begins", "said"), FAULTS, ids=[f[0] for f in FAULTS])
    def test_faults_have_message_place_and_remedy(
        self, faulty: str, begins: str, said: list[str]
    ) -> None:
        """G-40: each fault of an option or a condition has its message, its exact place and a remedy."""
        line, places = marked(faulty)
        problems = problems_of(line)
        assert [(p.column, p.length) for p in problems] == places
        remedies = [text.replace("→ ", f"write: {begins}", 1) for text in said[1::2]]
        assert [(p.message, p.remedy) for p in problems] == list(zip(said[::2], remedies, strict=True))

    def test_tables_cover_many_faults(self) -> None:
        """G-40: the tables contain more than two hundred different faults."""
        assert len({text for text, *_ in FAULTS}) == len(FAULTS) > 200

    @pytest.mark.parametrize("faulty", [f[0] for f in FAULTS if f[0].count("«") == 1])
    def test_proposed_line_compiles(self, faulty: str) -> None:
        """G-40: the line that an error proposes compiles."""
        (problem,) = problems_of(marked(faulty)[0])
        proposed = problem.remedy.partition("write: ")[2]
        if proposed and "<tool>" not in proposed:
            assert len(compile_rules(proposed)) == 1

    def test_one_compile_finds_all_faults(self) -> None:
        """G-40: one compile finds the faults in counts, times and conditions of all lines."""
        text = (
            "limit a to x per 0h when input.a == 1\nblock b when\n"
            "require human-approval before c risk huge by 0 when input.a in 5 and input.b matches /(/"
        )
        found = [(p.line, p.column) for p in problems_of(text)]
        assert found == [(1, 12), (1, 18), (1, 34), (2, 13), (3, 38), (3, 46), (3, 64), (3, 87)]

    @pytest.mark.parametrize("words", ["within 15m", "risk low", "no grants", "by 2"])
    def test_repeated_option_is_an_error(self, words: str) -> None:
        """A repeated option is an error in any order, and the proposal omits the second one."""
        other = {"within 15m": "risk high", "risk low": "by 3"}.get(words, "within 1h")
        (problem,) = problems_of(f"{ASKS}{words} {other} {words} when input.a = 1")
        assert problem.message.endswith("is given twice")
        assert problem.remedy == f"write: {ASKS}{words} {other} when input.a = 1"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "body",
        [
            "(" * 50_000,
            "not " * 50_000,
            '"' * 100_000,
            r"\"" * 50_000,
            "/" * 100_000,
            "/ " * 50_000,
            "input.a = 1 and " * 20_000,
            "input." * 20_000,
            "input.a in [" + "1," * 50_000,
            "=" * 100_000,
            'input.a = "' + "\\" * 99_999,
            "input.n = " + "9" * 100_000,
        ],
        ids=range(12),
    )
    def test_error_about_a_long_condition_is_short(self, body: str) -> None:
        """G-40: the error about a condition of a hundred thousand characters is short."""
        problems = problems_of(BLOCK + body)
        assert len(problems) == 1
        assert len(str(problems[0])) < 900


WORDS = [
    *("when", "by", "within", "risk", "no", "grants", "high", "15m", "2", "1h", "not", "and", "or"),
    *("input.a", "input", "=", "!=", "<", ">=", "in", "contains", "matches", "under", "(", ")", "["),
    *("]", ",", '"x # y"', '"', '"\\"', "/x y/", "/(", "/", "1", "-1.5e3", "true", "null", "prod", "#"),
    *("'", "==", "&&", "!", "工具", "\u2028", "/a/i", "human-approvals", "before"),
]
HEADS = [
    "block a",
    "require human-approval before b",
    "limit a to 2 per 1h",
    "require 2",
    "require a before b",
]


class TestAnyLine:
    @given(
        st.sampled_from(HEADS), st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["", " "])
    )
    def test_compiles_or_gets_errors(self, head: str, words: list[str], gap: str) -> None:
        """G-40: a line that resembles a condition either compiles or gets errors with their places."""
        line = f"{head} {gap.join(words) if gap else ' '.join(words)}"
        try:
            rules = compile_rules(line)
        except RuleError as error:
            for problem in error.problems:
                assert 1 <= problem.column <= len(line) + 1
                assert problem.length >= 1
                assert problem.message
                assert "^" in str(problem)
        else:
            assert all("^" in str(warning) for warning in rules.warnings)

    @given(st.text(st.characters(exclude_characters="\n")))
    def test_arbitrary_condition_compiles_or_raises_rule_error(self, text: str) -> None:
        """G-40: any text after `when` either compiles or raises a `RuleError`."""
        with contextlib.suppress(RuleError):
            assert len(compile_rules(f"{BLOCK}{text}")) == 1
