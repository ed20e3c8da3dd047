"""From lines to statements: one rule a line, words between blanks, `#` to the end of the line.

The shapes below are the grammar. Every line is read to its end, so that a file's errors come together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..engine.net import ApprovalRule, BlockRule, LimitRule, Rule, RuleSource, SequenceRule
from .patterns import Pattern, PatternError, compile_pattern
from .problems import Problem, quote

MAX_LIMIT = 1_000_000
SESSION = "session"
HUMAN = "human-approval"

SHAPES = {
    "map": "map <tool>.<field> <pattern> as <name>",
    "require": "require <tool> before <tool>",
    "limit": "limit <tool> to <N> per <scope>",
    "block": "block <tool>",
}
APPROVAL_SHAPE = f"require {HUMAN} before <tool>"

_MEANT = {
    "allow": "what no rule restricts is allowed: leave the line out",
    "permit": "what no rule restricts is allowed: leave the line out",
    "deny": "did you mean 'block'?",
    "forbid": "did you mean 'block'?",
    "disallow": "did you mean 'block'?",
    "ask": f"did you mean '{APPROVAL_SHAPE}'?",
    "approve": f"did you mean '{APPROVAL_SHAPE}'?",
    "confirm": f"did you mean '{APPROVAL_SHAPE}'?",
}

# The blanks of the reference: JavaScript's, of which only \n ends a line.
_WORD = re.compile("[^\\t\\v\\f\\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")
_COUNT = re.compile("0*([0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Map:
    """`map tool.field pattern as name`: calls of `tool` with the pattern in `field` are also `name`."""

    tool: str
    field: str
    pattern: Pattern
    name: str
    source: RuleSource


Statement: TypeAlias = Rule | Map


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a line; `column` counts from 1."""

    text: str
    column: int


def _closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` is a misspelling of."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word[:40].lower(), list(candidates), n=1)), None)


def parse(text: str, file: str) -> tuple[list[Statement], list[Problem]]:
    """The statements of a file and what is wrong with its other lines."""
    statements: list[Statement] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        reader = _Line(file, number, line.rstrip("\r"))
        statement = reader.statement()
        problems += reader.problems
        if statement is not None and not reader.problems:
            statements.append(statement)
    return statements, problems


class _Line:
    """One line being read. What is wrong is collected, not raised: a line may hold several errors."""

    def __init__(self, file: str, number: int, text: str) -> None:
        self.file = file
        self.number = number
        self.text = text
        self.code = text.partition("#")[0]
        self.words = [Word(m.group(), m.start() + 1) for m in _WORD.finditer(self.code)]
        self.problems: list[Problem] = []

    def statement(self) -> Statement | None:
        """What the line says; `None` for an empty one or when `problems` says why not."""
        if not self.words:
            return None
        keyword = self.words[0].text
        shape = SHAPES.get(keyword)
        if shape is None:
            self._unknown(self.words[0])
            return None
        if keyword == "require" and len(self.words) > 1 and self.words[1].text == HUMAN:
            shape = APPROVAL_SHAPE
        if not self._fits(shape):
            return None
        source = RuleSource(self.file, self.number, self.words[0].column, self.text)
        match keyword:
            case "map":
                return self._map(source)
            case "limit":
                return self._limit(source)
            case "block":
                return BlockRule(self.words[1].text, source)
            case _:
                first, last = self.words[1].text, self.words[3].text
                if shape == APPROVAL_SHAPE:
                    return ApprovalRule(last, source)
                return SequenceRule(first, last, source)

    def _fits(self, shape: str) -> bool:
        """Whether the line has as many words as `shape`; fixed words are checked on the way."""
        expected = shape.split()
        if len(self.words) != len(expected):
            self._wrong_count(shape, len(expected))
            return False
        for position, (want, word) in enumerate(zip(expected, self.words, strict=True), 1):
            if not want.startswith("<") and word.text != want:
                remedy = f"did you mean '{want}'?" if _closest(word.text, [want]) else f"write: {shape}"
                message = f"expected '{want}' at position {position}, got {quote(word.text)}"
                self._fail(word, message, remedy)
        return True

    def _map(self, source: RuleSource) -> Map | None:
        target, pattern_word, name = self.words[1], self.words[2], self.words[4].text
        tool, dot, field = target.text.partition(".")
        if not dot:
            message = f"expected <tool>.<field> (e.g., bash.command), got {quote(target.text)}"
            self._fail(target, message, f"name the tool's field to look in: {target.text}.<field>")
        elif not (tool and field):
            message = f"tool and field must be non-empty in {quote(target.text)}"
            self._fail(target, message, f"write: {SHAPES['map']}")
        try:
            pattern = compile_pattern(pattern_word.text)
        except PatternError as error:
            self._fail_at(pattern_word.column + error.offset, error.length, error.message, error.remedy)
            return None
        return Map(tool, field, pattern, name, source)

    def _limit(self, source: RuleSource) -> LimitRule | None:
        tool, count, scope = self.words[1].text, self.words[3], self.words[5]
        digits = _COUNT.fullmatch(count.text)
        limit = 0
        if digits is None or digits[1] == "0":
            message = f"limit count must be a positive integer, got {quote(count.text)}"
            self._fail(count, message, f"write a whole number from 1 to {MAX_LIMIT:,} in digits only")
        elif len(digits[1]) > len(str(MAX_LIMIT)) or (limit := int(digits[1])) > MAX_LIMIT:
            message = f"limit count must be at most {MAX_LIMIT}, got {quote(count.text)}"
            self._fail(count, message, f"write a whole number from 1 to {MAX_LIMIT:,}")
        if scope.text == tool and tool != SESSION:
            message = f"{quote(tool)} cannot restore its own budget: it would never be limited"
            self._fail(scope, message, f"name another tool after 'per', or write 'per {SESSION}'")
        return LimitRule(tool, limit, scope.text, source)

    def _unknown(self, word: Word) -> None:
        close = _closest(word.text, SHAPES)
        remedy = f"did you mean '{close}'?" if close else _MEANT.get(word.text.lower(), "")
        message = f"unknown keyword {quote(word.text)}. Expected 'map', 'require', 'limit', or 'block'"
        self._fail(word, message, remedy)

    def _wrong_count(self, shape: str, expected: int) -> None:
        words = self.words
        end = words[-1].column + len(words[-1].text)
        start = words[expected].column if len(words) > expected else end
        message = f"'{shape}' expects {expected} tokens, got {len(words)}"
        self._fail_at(start, max(1, end - start), message, self._count_remedy(shape, words, expected))

    def _count_remedy(self, shape: str, words: Sequence[Word], expected: int) -> str:
        in_regex = len(words) > 2 and words[0].text == "map" and words[2].text.startswith("/")
        if in_regex and len(words) > expected:
            return r"a pattern holds no blanks: write \s for one"
        if in_regex and len(self.code) < len(self.text):
            return r"'#' starts a comment everywhere: write \x23 for it in a pattern"
        return f"write: {shape}"

    def _fail(self, word: Word, message: str, remedy: str) -> None:
        self._fail_at(word.column, len(word.text), message, remedy)

    def _fail_at(self, column: int, length: int, message: str, remedy: str) -> None:
        self.problems.append(Problem(self.file, self.number, column, length, self.text, message, remedy))
