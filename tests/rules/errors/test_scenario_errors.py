"""Errors about a faulty file of scenarios; no other exception is raised."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.rules import Problem, RuleError
from interlock.rules.errors.scenario_errors import USAGE
from interlock.rules.scenarios.scenarios import parse_scenarios

from ...support.laws import examples
from ..support.faulty_scenarios import FILES, HEAD, LINES


def failure(text: str) -> RuleError | None:
    """Return the rule error about `text`, if any; other exceptions are not caught."""
    try:
        parse_scenarios(text)
    except RuleError as error:
        return error
    return None


def problems_of(text: str) -> tuple[Problem, ...]:
    error = failure(text)
    assert error is not None
    return error.problems


def marked(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """Return the text without the marks, and the line, column and length of each marked part."""
    plain, *rest = text.split("«")
    places: list[tuple[int, int, int]] = []
    for piece in rest:
        culprit, _, after = piece.partition("»")
        start = plain.rpartition("\n")[2]
        places.append((plain.count("\n") + 1, len(start) + 1, max(1, len(culprit))))
        plain += culprit + after
    return plain, places


class TestPlaceAndMessage:
    """G-40 for scenarios."""

    @pytest.mark.parametrize(
        ("faulty", "messages"),
        [*((HEAD + text, said) for text, *said in LINES), *((text, said) for text, *said in FILES)],
    )
    def test_is_exact(self, faulty: str, messages: list[str]) -> None:
        """G-40: every fault in a file of scenarios has its message, its place and a remedy."""
        text, places = marked(faulty)
        problems = problems_of(text)
        assert [(p.line, p.column, p.length) for p in problems] == (places or [(0, 0, 0)])
        assert [p.message for p in problems] == messages
        assert all(p.text == text.split("\n")[p.line - 1].rstrip("\r") for p in problems if p.line)
        assert all(p.remedy or p.message.startswith("unknown keyword") for p in problems)

    def test_tables_cover_many_faults(self) -> None:
        """G-40: the tables contain about a hundred different faults."""
        faulty = [*(HEAD + text for text, *_ in LINES), *(text for text, *_ in FILES)]
        assert len(set(faulty)) == len(faulty) > 90

    def test_faulty_name_is_reported_once(self) -> None:
        """G-40: two scenarios with faulty names do not also count as having the same name."""
        faulty = HEAD + 'scenario "\\y"\ncall a\nscenario "\\z"\ncall a'
        assert [(p.line, p.column) for p in problems_of(faulty)] == [(4, 11), (6, 11)]

    @pytest.mark.parametrize(
        ("line", "column", "length"),
        [
            ("x" * 100_000, 1, 100_000),
            (f"call {'x' * 100_000} a", 100_008, 1),
            (f"call x a 1 {'b' * 100_000} 2 {'b' * 100_000} 3", 100_015, 100_000),
            (f"call x{' a 1' * 1_000} b", 4_009, 1),
            (f"expect block {'x' * 100_000}", 14, 100_000),
            (f'deny "{"x" * 100_000}', 6, 100_001),
            (f'deny "{"x" * 100_000}\\q"', 100_007, 1),
            (f"switch {'x' * 100_000} of", 100_009, 2),
            (f"approve {'a ' * 50_000}", 9, 1),
        ],
        ids=range(9),
    )
    def test_very_long_words_are_shown_in_part(self, line: str, column: int, length: int) -> None:
        """G-40: words of many thousand characters have exact places and are shown in part."""
        problem = problems_of(HEAD + line)[-1]
        assert (problem.line, problem.column, problem.length) == (4, column, length)
        assert len(str(problem)) < 700


PIECES = [
    *USAGE,
    *("allow", "ask", "block", "on", "off", "enforce", "shadow", "fails", "a", "b.rules", "1", "-1.5e3"),
    *(
        "true",
        "NaN",
        "1e999",
        "[1]",
        '"x"',
        '"a b # c"',
        '""',
        '"',
        '"\\q"',
        '"\\ud800"',
        '"a"b',
        "#",
        "\\",
    ),
]
BLANKS = ["\n", "\r\n", "\r", "\t", " ", "\u3000", "\u2028", "\x00", "\x85", "\x0b", "\n\n", "\ufeff"]
PIECE = st.one_of(st.sampled_from(PIECES), st.text(max_size=5))
STATEMENT = st.builds(
    lambda keyword, rest: " ".join([keyword, *rest]),
    st.sampled_from([*USAGE]),
    st.lists(PIECE, max_size=6),
)
LINE = st.one_of(STATEMENT, st.lists(PIECE, max_size=5).map(" ".join), st.sampled_from(BLANKS))


def read_or_explain(text: str) -> None:
    error = failure(text)
    if error is None:
        file = parse_scenarios(text)
        assert file.uses
        assert file.scenarios
        for scenario in file.scenarios:
            for spot in (scenario.spot, *(step.spot for step in scenario.steps)):
                assert spot.text == text.split("\n")[spot.line - 1].rstrip("\r")
                assert 1 <= spot.column <= spot.column + spot.length - 1 <= len(spot.text)
        return
    lines = text.split("\n")
    assert error.problems
    assert list(error.problems) == sorted(error.problems, key=lambda p: (p.line, p.column))
    for problem in error.problems:
        assert problem.message
        assert str(problem)
        if problem.line == 0:
            assert (problem.message, len(error.problems)) == ("holds no scenario", 1)
            continue
        assert 1 <= problem.line <= len(lines)
        assert problem.text == lines[problem.line - 1].rstrip("\r")
        assert 1 <= problem.column <= len(problem.text) + 1
        assert problem.length >= 1
        assert "^" in str(problem)


class TestAnyText:
    """Any file is either read or refused with places inside it."""

    @given(st.text())
    @settings(deadline=None)
    def test_arbitrary_text_is_read_or_gets_errors(self, text: str) -> None:
        """G-40: any text is read or gets an error."""
        read_or_explain(text)

    @pytest.mark.slow
    @given(st.booleans(), st.lists(LINE, max_size=8))
    @settings(max_examples=examples(400), deadline=None)
    def test_scenario_like_lines_are_read_or_get_errors(self, headed: bool, lines: list[str]) -> None:
        """G-40: lines that resemble scenarios are read or get errors with their places."""
        read_or_explain((HEAD if headed else "") + "\n".join(lines))

    @pytest.mark.slow
    @given(st.lists(STATEMENT, min_size=1, max_size=4))
    @settings(max_examples=examples(150), deadline=None)
    def test_errors_do_not_depend_on_other_lines(self, lines: list[str]) -> None:
        """G-40: the errors about a line's words are the same alone and in a file."""
        whole = ("'use' stands", "another scenario", "a scenario without a call", "no rules to test")

        def found(text: str) -> list[tuple[int, str]]:
            error = failure(HEAD + text)
            told = error.problems if error else ()
            return [(p.column, p.message) for p in told if not p.message.startswith(whole)]

        separate = [line for block in lines for line in block.split("\n")]
        together = [told for told in found("\n".join(lines)) if told[1] != "nothing was called yet"]
        alone = [told for line in separate for told in found(line) if told[1] != "nothing was called yet"]
        assert together == alone
