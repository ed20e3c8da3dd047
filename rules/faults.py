"""The words for what is wrong in a line (G-40).

The grammar says what was expected and where; here is how a person is told, and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lark import Token

from .grammar import Grammar, Reading, Unexpected
from .patterns import PatternError, no_pattern
from .problems import quote
from .statements import MAX_LIMIT

WHOLE_NUMBER = f"write a whole number from 1 to {MAX_LIMIT:,}"

_MEANT = {
    "allow": "what no rule restricts is allowed: leave the line out",
    "permit": "what no rule restricts is allowed: leave the line out",
    "deny": "did you mean 'block'?",
    "forbid": "did you mean 'block'?",
    "disallow": "did you mean 'block'?",
    "ask": "did you mean '{approval}'?",
    "approve": "did you mean '{approval}'?",
    "confirm": "did you mean '{approval}'?",
}

_PLACES = {"FIELD": "<tool>.<field>", "COUNT": "<N>"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a line, where, and the remedy; `start` counts characters from 0."""

    start: int
    length: int
    message: str
    remedy: str

    @classmethod
    def at(cls, word: Token, message: str, remedy: str) -> Fault:
        """A fault of all of `word`."""
        return cls(_start(word), len(word), message, remedy)

    @classmethod
    def within(cls, word: Token, error: PatternError) -> Fault:
        """A fault of the part of `word` that `error` names."""
        return cls(_start(word) + error.offset, error.length, error.message, error.remedy)


def faults(reading: Reading, grammar: Grammar) -> list[Fault]:
    """What keeps a line from being the statement it set out to be.

    In a line of too many or too few words, which of them are the wrong ones is anybody's guess: then
    their number is all that is said.
    """
    if reading.statement is None:
        return [_unknown(u, grammar) for u in reading.unexpected]
    shape = _shape(reading.statement.data, grammar)
    if not reading.fits:
        return [_wrong_count(reading.words, shape)]
    return [_misplaced(u, shape, grammar) for u in reading.unexpected]


def _unknown(unexpected: Unexpected, grammar: Grammar) -> Fault:
    word = unexpected.word
    keywords = list(_fixed(unexpected, grammar))
    close = _closest(word, keywords)
    meant = _MEANT.get(word.lower(), "").format(approval=" ".join(_shape("approval", grammar)))
    message = f"unknown keyword {quote(word)}. Expected {_either(keywords)}"
    return Fault.at(word, message, f"did you mean '{close}'?" if close else meant)


def _wrong_count(words: list[Token], shape: list[str]) -> Fault:
    end = _start(words[-1]) + len(words[-1])
    start = _start(words[len(shape)]) if len(words) > len(shape) else end
    message = f"'{' '.join(shape)}' expects {len(shape)} tokens, got {len(words)}"
    return Fault(start, max(1, end - start), message, _count_remedy(words, shape))
