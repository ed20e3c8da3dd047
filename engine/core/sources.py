"""Texts of a session in which rules look for values: what a person said, and what tools returned.

A value stands in a text as a whole: `x.org` does not stand in `ada@x.org`. Names, addresses and numbers
are looked up among the words of a text, whatever its length; a value of several words is searched for
(G-86, G-87).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import cast

USER = "user"
"""The source that is no tool: what a person said in the session."""

MOST_WORDS = 200_000
MOST_CHARACTERS = 8_000_000
"""What is remembered of one source in one session: different words, and characters in all."""

_BREAK = re.compile("[\\s\"'`;()\\[\\]{}<>|«»‘’“”„‚‹›…\\x00-\\x1f]|,(?!\\d)|(?<!\\d),")
_MARKS = ".,:;!?*_~#$€£"
"""Signs of a sentence, or of a sum, that stand around a value without being part of it."""
_BLANKS = re.compile(r"\s+")
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")


@dataclass(slots=True)
class _Source:
    """One source's texts, with their words and numbers; `full` when some are not among them."""

    texts: list[str] = field(default_factory=list[str])
    words: set[str] = field(default_factory=set[str])
    numbers: set[Decimal] = field(default_factory=set[Decimal])
    characters: int = 0
    full: bool = False

    def add(self, text: str) -> None:
        if self.characters + len(text) > MOST_CHARACTERS or len(self.words) > MOST_WORDS:
            self.full = True
            return
        self.characters += len(text)
        self.texts.append(text)
        for word in _words(text):
            bare = word.strip(_MARKS)
            self.words.update((word, bare))
            number = _number(bare)
            if number is not None:
                self.numbers.add(number)

    def has_text(self, value: str) -> bool:
        words = list(_words(value))
        if words == [value]:
            return value in self.words
        # All but the outermost of its words stand in the text as they do in the value.
        if any(word not in self.words for word in words[1:-1]):
            return False
        return any(_stands_in(value, text) for text in self.texts)


class SourceTexts:
    """Texts of one session, kept for the sources that its rules name: `user`, and names of tools.

    Of each no more is kept once there are `MOST_WORDS` different words or `MOST_CHARACTERS`. A value that
    is not found after more was said is neither there nor missing.
    """

    def __init__(self, sources: Iterable[str] = ()) -> None:
        self._kept = {source: _Source() for source in sources}
        self.sources = frozenset(self._kept)
        """Those that are listened to."""

    def listen(self, sources: Iterable[str]) -> None:
        """Keep the texts of these sources too, from now on: what they said before is not known."""
        for source in sources:
            self._kept.setdefault(source, _Source(full=True))
        self.sources = frozenset(self._kept)

    def clear(self) -> None:
        """Forget every text: nothing has been said yet."""
        self._kept = {source: _Source() for source in self._kept}

    def add(self, source: str, text: str) -> None:
        """Take in a text; one that is JSON is taken for the texts and numbers in it."""
        kept = self._kept.get(source)
        if kept is None:
            return
        for part in _parts(text):
            kept.add(_normal(part))

    def find(self, value: str | float, sources: Iterable[str]) -> bool | None:
        """True if `value` stands in a text of one of `sources`; `None` where that is not known.

        It is not where more was said than is kept, or a source was not listened to.
        """
        sure = True
        wanted = _normal(value) if isinstance(value, str) else value
        for source in sources:
            kept = self._kept.get(source)
            if kept is None:
                sure = False
            elif _holds(kept, wanted):
                return True
            elif kept.full:
                sure = False
        return False if sure else None


def _holds(kept: _Source, value: str | float) -> bool:
    if isinstance(value, str):
        return any(sign.isalnum() for sign in value) and kept.has_text(value)
    number = _number(repr(value))
    return number is not None and number in kept.numbers


def _words(text: str) -> Iterator[str]:
    return filter(None, _BREAK.split(text))


def _number(word: str) -> Decimal | None:
    if not _NUMBER.fullmatch(word):
        return None
    try:
        return Decimal(word.replace(",", "")).normalize()
    except InvalidOperation:
        return None


def _normal(text: str) -> str:
    """Text in one spelling: composed letters, and one blank for any number of them."""
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", text))


def _stands_in(value: str, text: str) -> bool:
    at = text.find(value)
    while at >= 0:
        if _is_free(text, at - 1, -1) and _is_free(text, at + len(value), 1):
            return True
        at = text.find(value, at + 1)
    return False


def _is_free(text: str, at: int, step: int) -> bool:
    """True if from `at` on there are only marks up to where words break, or the text ends."""
    while 0 <= at < len(text) and text[at] in _MARKS:
        at += step
    return not 0 <= at < len(text) or _BREAK.match(text, at) is not None


def _parts(text: str) -> Iterator[str]:
    """The texts, names and numbers in a JSON text; of any other the text itself."""
    if not text.lstrip().startswith(("{", "[", '"')):
        yield text
        return
    try:
        values: list[object] = [json.loads(text, parse_float=str, parse_int=str, parse_constant=str)]
    except (ValueError, RecursionError):
        yield text
        return
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            values.extend(cast("list[object]", value))
        elif isinstance(value, dict):
            for name, inner in cast("dict[str, object]", value).items():
                yield name
                values.append(inner)
