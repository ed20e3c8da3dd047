"""Errors about a faulty rules file: message, place, caret and remedy."""

from __future__ import annotations

import pickle
import unicodedata

import pytest

from interlock.rules import Problem, RuleError, compile_rules

from ..support import faulty_files, faulty_maps, faulty_rules
from ..support.messages import (
    BLOCK,
    LIMIT,
    MAP,
    expected,
    itself,
    no_field,
    no_flag,
    no_regex,
    re2,
    too_many,
    unknown,
)

FAULTS = [*faulty_rules.FAULTS, *faulty_maps.FAULTS, *faulty_files.FAULTS]


def map_of(body: str) -> str:
    return f"map a.b /{body}/ as x"


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(RuleError) as caught:
        compile_rules(text)
    return caught.value.problems


def marked(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """Return the rules without the marks, and the line, column and length of each marked part."""
    plain, *rest = text.split("«")
    places: list[tuple[int, int, int]] = []
    for piece in rest:
        culprit, _, after = piece.partition("»")
        start = plain.rpartition("\n")[2]
        places.append((plain.count("\n") + 1, len(start) + 1, max(1, len(culprit))))
        plain += culprit + after
    return plain, places


def screen_width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class TestPlaceAndMessage:
    @pytest.mark.parametrize(("faulty", "messages"), [(text, said) for text, *said in FAULTS])
    def test_is_exact(self, faulty: str, messages: list[str]) -> None:
        """G-40, G-41, G-42, G-52, G-55: message and place are exact."""
        text, places = marked(faulty)
        problems = problems_of(text)
        assert [(p.line, p.column, p.length) for p in problems] == places
        assert [p.message for p in problems] == messages
        assert [p.text for p in problems] == [text.split("\n")[p.line - 1].rstrip("\r") for p in problems]

    def test_tables_cover_many_faults(self) -> None:
        """G-40: the tables contain more than three hundred different faults."""
        assert len({text for text, *_ in FAULTS}) == len(FAULTS) > 300

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("faulty", "column", "length", "message"),
        [
            ("x" * 100_000, 1, 100_000, unknown("x" * 120 + "…")),
            (f"block {'x' * 100_000} y", 100_008, 1, BLOCK(3)),
            (f"require {'a' * 50_000} after b", 50_010, 5, expected("before", 3, "after")),
            (f"limit a to {'9' * 100_000} per b", 12, 100_000, too_many("9" * 120 + "…")),
            (f"limit {'a' * 50_000} to 3 per {'a' * 50_000}", 50_017, 50_000, itself("a" * 120 + "…")),
            (f"limit a to 3 per b {'c ' * 50_000}", 20, 99_999, LIMIT(50_006)),
            (f"map {'x' * 50_000} rm as y", 5, 50_000, no_field("x" * 120 + "…")),
            (f"map a.b c as d {'e ' * 50_000}", 16, 99_999, MAP(50_005)),
            (map_of("(" * 50_000), 10, 50_000, re2("missing ): " + "(" * 109 + "…")),
            (map_of(r"\pL" * 9000), 10, 27_000, re2("pattern too large - compile failed")),
            (map_of(r"\**" * 9000 + "**"), 27_009, 2, re2("bad repetition operator: **")),
            (f"map a.b /{'x' * 50_000} as y", 9, 50_001, no_regex("/" + "x" * 119 + "…")),
            (f"map a.b /{'x' * 50_000}/g as y", 50_011, 1, no_flag("g")),
            (f"map a.b /x/{'k' * 50_000} as y", 12, 50_000, no_flag("k" * 120 + "…")),
        ],
        ids=range(14),
    )
    def test_very_long_words_are_quoted_in_part(
        self, faulty: str, column: int, length: int, message: str
    ) -> None:
        """G-40: words of many thousand characters have exact places and are quoted in part."""
        (problem,) = problems_of(faulty)
        assert (problem.column, problem.length, problem.message) == (column, length, message)
        assert len(str(problem)) < 600

    @pytest.mark.parametrize(
        ("faulty", "remedy"),
        [
            ("requre a before b", "did you mean 'require'?"),
            ("BLOCK x", "did you mean 'block'?"),
            ("limits a to 3 per b", "did you mean 'limit'?"),
            ("deny x", "did you mean 'block'?"),
            ("allow x", "what no rule restricts is allowed: leave the line out"),
            ("confirm x", "did you mean 'require human-approval before <tool>'?"),
            ("require a befor b", "did you mean 'before'?"),
            ("require a then b", "write: require <tool> before <tool>"),
            ("block", "write: block <tool>"),
            ("never x", "did you mean 'block'?"),
            ("free ls", "what no rule restricts is allowed: leave the line out"),
            ("shell a.b c as d", "did you mean 'map shell'?"),
            ("use x.rules", "scenarios belong in a file of their own"),
            ("map Shell a.b c as d", "write: map shell <tool>.<field> <pattern> as <name>"),
            ("require human approval before x", "write: require human-approval before <tool>"),
            ("require a before b c", "write: require <tool> before <tool>"),
            ("map a.b /(a/ as x", r"patterns are RE2; a \ before a character takes it literally"),
            (r"map a.b /(a)\1/ as x", "patterns are RE2: no look-around, no back-references"),
            (map_of(r"\pL" * 1000), "write a shorter pattern, or several maps"),
            ("map bash.command /a b/ as x", r"a pattern must not contain blanks: write \s for one"),
            ("map bash.command /a#b/ as x", r"'#' starts a comment everywhere: write \x23 for it"),
            ("map bash rm as x", "name the tool's field to look in: bash.<field>"),
            ("map bash.command build/ as x", "write /build/ to search for it"),
            ("map bash.command /usr/bin as x", "write /usr/bin/ to search for all of it"),
            ("map bash.command /rm/g as x", "write /rm/ or /rm/i"),
            ("map bash.command /a(?=b)/ as x", "patterns are RE2: no look-around"),
            ("limit a to 0 per session", "write a whole number from 1 to 1,000,000"),
            ("limit a to 2 per a", "name another tool after 'per', or write 'per session'"),
        ],
    )
    def test_comes_with_a_remedy(self, faulty: str, remedy: str) -> None:
        """G-40: the error contains a remedy."""
        assert problems_of(faulty)[0].remedy.startswith(remedy)


class TestEveryError:
    def test_of_a_file_is_reported(self) -> None:
        """G-40: one compile finds the errors of all lines in order."""
        found = problems_of("allow x\nblock ok\nrequire a after b\n\nlimit a to 0 per session\nblock")
        assert [(p.line, p.column) for p in found] == [(1, 1), (3, 11), (5, 12), (6, 6)]

    def test_of_a_line_is_reported(self) -> None:
        """G-40: one compile finds all errors of a line."""
        found = problems_of("limit a too 0 per a")
        assert [p.column for p in found] == [9, 13, 19]

    def test_is_in_the_text_of_the_exception(self) -> None:
        """G-40: the text of the exception contains every problem."""
        with pytest.raises(RuleError) as caught:
            compile_rules("allow x\nblock", file="safety.rules")
        shown = str(caught.value)
        assert "safety.rules:1:1: unknown keyword 'allow'" in shown
        assert "safety.rules:2:6: 'block <tool>' expects 2 tokens, got 1" in shown

    def test_survives_pickling(self) -> None:
        """A pickled rule error keeps its problems."""
        error = RuleError(problems_of("allow x\nblock"))
        assert pickle.loads(pickle.dumps(error)).problems == error.problems


class TestCaret:
    def test_is_under_the_fault(self) -> None:
        """G-40: the error shows its header, the faulty line and a caret."""
        (problem,) = problems_of("require lint after test")
        assert str(problem) == (
            "<rules>:1:14: expected 'before' at position 3, got 'after'\n"
            "    require lint after test\n"
            "                 ^^^^^\n"
            "    write: require <tool> before <tool>"
        )

    @pytest.mark.parametrize(
        "faulty",
        [
            "\trequire\ta\t«after»\tb",
            "require 工具 «after» b",
            "require ｆｕｌｌ «after» b",
            "require naïve «after» b",
            "require nai\u0308ve «after» b",
            "require a\u200bb «after» c",
            "require \x1b[31mred «after» b",
            "require \u202eevil «after» b",
            "require\u3000a\u00a0«工具»\u2003b",
            f"require {'a' * 500} «after» {'b' * 500}",
            f"require {'工' * 500} «after» b",
        ],
    )
    def test_unusual_characters_do_not_displace_it(self, faulty: str) -> None:
        """G-40: tabs, wide, combining and invisible characters do not displace the caret."""
        text, [(_, column, length)] = marked(faulty)
        (problem,) = problems_of(text)
        line, caret = problem.caret.split("\n")
        culprit = text[column - 1 : column - 1 + length]
        at = line.index(culprit)
        assert screen_width(line[:at]) - line[:at].count("\u0308") == len(caret) - len(caret.lstrip())
        assert caret.strip() == "^" * screen_width(culprit)
        assert screen_width(line) < 200

    def test_overlong_fault_is_cut(self) -> None:
        """A word of a million characters is quoted and underlined in part."""
        (problem,) = problems_of("x" * 1_000_000)
        assert len(str(problem)) < 600

    def test_output_has_no_control_characters(self) -> None:
        """An error contains no control or formatting characters."""
        shown = str(problems_of("\x1b[2J\x07 \u202e \x9b31m\r x")[0])
        assert not [c for c in shown if c != "\n" and unicodedata.category(c) in {"Cc", "Cf"}]
