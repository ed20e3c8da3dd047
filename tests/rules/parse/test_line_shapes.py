"""Lines that differ only in names share a tree; the result equals that of lark."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.rules.library import LIBRARY
from interlock.rules.parse.grammar import Grammar, LineReading, grammar

from ...support.laws import examples

DATA = Path(__file__).parents[2] / "data"
GRAMMARS = {name: grammar(name) for name in ("grammar.lark", "scenario.lark")}
WORDS = [
    *("map", "require", "limit", "block", "allow", "before", "human-approval", "human-approvals", "to"),
    *("per", "session", "as", "unclear", "shell", "by", "within", "risk", "high", "no", "grants", "when"),
    *("because", "call", "use", "expect", "ask", "switch", "on", "off", "mode", "wait", "fails"),
    *(
        "a",
        "b1",
        "_",
        "__",
        "-x",
        "x-",
        "beforehand",
        "Session",
        "0",
        "00",
        "3",
        "03",
        "2x",
        "15m",
        "1h2",
    ),
    *("", "a.b", "#", "é", '"t"', "9_", "m", "s"),
]
LINES = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
RULES = st.builds(
    lambda statement, names, clauses: " ".join([statement.format(*names), *clauses]),
    st.sampled_from(
        [
            "require {} before {}",
            "require human-approval before {}",
            "require 2 human-approvals before {}",
            "limit {} to 3 per {}",
            "limit {} to 3 per session",
            "block {}",
            "call {}",
            "expect block",
        ]
    ),
    st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS)),
    st.lists(
        st.sampled_from(["by 2", "within 15m", "risk low", "no grants", "when x", "fails"]), max_size=3
    ),
)


def detail(reading: LineReading) -> object:
    """Return a reading with the positions of its words."""
    words = [
        (w.type, str(w), w.start_pos, w.line, w.column, w.end_line, w.end_column, w.end_pos)
        for w in reading.words
    ]
    return reading, words


def same_as_lark(rules: Grammar, line: str) -> None:
    """Check that a line is read as by lark, also when its shape is known."""
    expected = detail(rules.read_by_lark(line))
    assert detail(rules.read(line)) == expected
    assert detail(rules.read(line)) == expected


def recorded_lines() -> Iterator[str]:
    """Yield the lines of the recorded cases and of the library."""
    for name in ("rules", "compile"):
        with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as cases:
            for case in cases:
                text: str | list[str] = json.loads(case)["rules"]
                yield from (text if isinstance(text, str) else "\n".join(text)).split("\n")
    for path in sorted(LIBRARY.glob("*.rules")):
        yield from path.read_text("utf-8").split("\n")


class TestLinesOfOneShape:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", GRAMMARS)
    def test_recorded_lines_are_read_as_by_lark(self, name: str) -> None:
        """Every line of the recorded cases and of the library is read as by lark, also a faulty one."""
        lines = sorted(set(recorded_lines()))
        assert len(lines) > 1_000
        for line in lines:
            same_as_lark(GRAMMARS[name], line)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", GRAMMARS)
    @given(line=st.one_of(LINES, RULES))
    @example(line="block _")
    @example(line="block a when x")
    @example(line="limit to to 3 per sessions")
    @settings(max_examples=examples(2_000))
    def test_arbitrary_lines_are_read_as_by_lark(self, name: str, line: str) -> None:
        """Any order of keywords, names, numbers and odd words is read as by lark."""
        same_as_lark(GRAMMARS[name], line)

    def test_readings_do_not_share_words(self) -> None:
        """Changing the words of one reading does not affect the next one."""
        rules = GRAMMARS["grammar.lark"]
        first, second = rules.read("block a"), rules.read("block b")
        assert first.statement is not None
        assert second.statement is not None
        first.words[1].type = "CHANGED"
        assert [str(word) for word in second.statement.children] == ["b"]
        assert [word.type for word in rules.read("block a").words] == ["BLOCK", "WORD"]
