"""Any text yields either nets or a `RuleError`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.net.net import ToolCall
from interlock.rules import RuleError, compile_rules

from ...support.laws import examples

WORDS = [
    *("map", "require", "limit", "block", "before", "human-approval", "to", "per", "session", "as"),
    *("a", "b", "a.b", ".x", "x.", "bash.command", "1", "0", "3x", "99999999999999999999"),
    *("/x/", "/x/i", "/(", "/(/", "//", "/", "x/", "/a(?=b)/", "/\\/", "\\"),
    *("--force", "$HOME", "#", "#x", "é", "工具", "'", '"'),
    *("when", "input.a", "=", "in", "matches", "under", "not", "and", "(", ")", '"x # y"', "true"),
    *("after", "or", "a,", "is present", "is missing", "is", "until", "because", '"q"'),
    *("every", "any", "let", "lines", "[", "]", ",", "let x =", "x", "null", "let x = [1]\n"),
    *("by", "2", "within", "15m", "risk", "high", "no", "grants", "human-approvals", "1h"),
]
LINE = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
SHAPED = st.builds(
    lambda keyword, rest: " ".join([keyword, *rest]),
    st.sampled_from(["map", "require", "limit", "block", "after", "let"]),
    st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=6)), max_size=6),
)
BLANKS = st.sampled_from(["\n", "\r\n", "\r", "\t", " ", "\u3000", "\u2028", "\x00", "\x85", "\n\n"])


def failure(text: str) -> RuleError | None:
    """Return the rule error about `text`, if any; other exceptions are not caught."""
    try:
        compile_rules(text)
    except RuleError as error:
        return error
    return None


def compile_or_explain(text: str) -> None:
    error = failure(text)
    if error is None:
        rules = compile_rules(text)
        assert len(rules.registry) == len(rules.nets) == len(rules.verification)
        assert rules.resolve(ToolCall("c", "bash", {"command": text}))[-1] == "bash"
        assert all("^" in str(warning) for warning in rules.warnings)
        return
    lines = text.split("\n")
    assert error.problems
    for problem in error.problems:
        assert 1 <= problem.line <= len(lines)
        assert problem.text == lines[problem.line - 1].rstrip("\r")
        assert 1 <= problem.column <= len(problem.text) + 1
        assert problem.length >= 1
        assert problem.message
        assert "^" in str(problem)


class TestAnyText:
    @given(st.text())
    def test_arbitrary_text_compiles_or_gets_errors(self, text: str) -> None:
        """Any text compiles or gets an error."""
        compile_or_explain(text)

    @pytest.mark.slow
    @settings(max_examples=examples(300))
    @given(st.lists(st.one_of(LINE, SHAPED, BLANKS), max_size=6).map("\n".join))
    def test_rule_like_lines_compile_or_get_errors(self, text: str) -> None:
        """Lines that resemble rules compile or get errors with their places."""
        compile_or_explain(text)

    @given(st.lists(st.one_of(LINE, SHAPED), min_size=1, max_size=4))
    def test_errors_do_not_depend_on_their_neighbours(self, lines: list[str]) -> None:
        """G-40: a line has the same errors alone and in a file, except for names of values."""

        def found(text: str) -> list[tuple[int, str]]:
            error = failure(text)
            return [(p.column, p.message) for p in error.problems] if error else []

        each = [line for block in lines for line in block.split("\n")]
        separate = [line for line in each if not line.strip().startswith("let")]
        assert found("\n".join(separate)) == [problem for line in separate for problem in found(line)]
