"""One fault in a line, and the words that all messages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .problems import quote

if TYPE_CHECKING:
    from lark import Token

    from ..parse.patterns import PatternError


@dataclass(frozen=True, slots=True)
class Fault:
    """Error in a line, its position, and the remedy; `start` counts characters from 0."""

    start: int
    length: int
    message: str
    remedy: str

    @classmethod
    def at(cls, word: Token, message: str, remedy: str) -> Fault:
        """A fault of all of `word`."""
        return cls(start(word), len(word), message, remedy)

    @classmethod
    def at_part(cls, word: Token, error: PatternError) -> Fault:
        """A fault of the part of `word` that `error` names."""
        return cls(start(word) + error.offset, error.length, error.message, error.remedy)


def either(words: Sequence[str]) -> str:
    """`'a', 'b', or 'c'`."""
    return one_of([*map(quote, words)])


def one_of(kinds: Sequence[str]) -> str:
    """`a word, a number, or the end of the line`."""
    *others, last = kinds
    if len(others) > 1:
        return f"{', '.join(others)}, or {last}"
    return f"{others[0]} or {last}" if others else last


def closest(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The candidate of which `word` is a misspelling; `cutoff`, up to 1, is the required similarity."""
    text = word[:40].lower()
    # `get_close_matches` tests the same first, but only after it has prepared the word for comparison.
    near = [candidate for candidate in candidates if _most_likeness(text, candidate) >= cutoff]
    if not near:
        return None
    from difflib import get_close_matches

    return next(iter(get_close_matches(text, near, 1, cutoff)), None)


def _most_likeness(word: str, other: str) -> float:
    """Upper bound of the similarity of two words of these lengths, up to 1."""
    both = len(word) + len(other)
    return 2.0 * min(len(word), len(other)) / both if both else 1.0


def start(word: Token) -> int:
    """Number of characters before `word` in its line."""
    return word.start_pos or 0
