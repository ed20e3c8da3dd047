"""Texts of a session in which rules look for values: what a user said, and what tools returned.

A value must occur as a whole: `x.org` does not occur in `ada@x.org`. Names, addresses and numbers are
looked up among the words of a text, whatever its length; a value of several words is searched for (G-86,
G-87). A member of results, `email of get_contacts`, is the value as a whole (G-112).
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
"""The source that is not a tool: what a user said in the session."""

ITEMS = ("*",)
"""Path of the texts and numbers directly in a result's list: `* of get_channels`."""

_OF = " of "
_NO_SOURCES: frozenset[str] = frozenset()
"""Shared by all sessions whose rules look for no values."""

MOST_WORDS = 200_000
MOST_CHARACTERS = 8_000_000
"""Limits for one source in one session: different words, and characters in total."""

_BREAK = re.compile("[\\s\"'`;()\\[\\]{}<>|«»‘’“”„‚‹›…\\x00-\\x1f]|,(?!\\d)|(?<!\\d),")
_MARKS = ".,:;!?*_~#$€£"
"""Punctuation and currency signs around a value that are not part of it."""
_BLANKS = re.compile(r"\s+")
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")


def member_source(path: Iterable[str], tool: str) -> str:
    """The source `email of get_contacts`: values of one member of a tool's results."""
    return f"{json.dumps([*path], ensure_ascii=False)}{_OF}{tool}"


def source_parts(source: str) -> tuple[tuple[str, ...], str]:
    """Path of a member of results, and the tool; for another source an empty path and the source."""
    path, of, tool = source.rpartition(_OF)
    return (tuple(cast("list[str]", json.loads(path))), tool) if of else ((), source)


@dataclass(slots=True)
class _Source:
    """Texts of one source, with their words and numbers; `full` if some are missing.

    With `whole` each text is one value, and parts of it are not values.
    """

    whole: bool = False
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
        if self.whole:
            text = text.strip()
            self.words.add(text)
            if (number := _number(text)) is not None:
                self.numbers.add(number)
            return
        self.texts.append(text)
        for word in _words(text):
            bare = word.strip(_MARKS)
            self.words.update((word, bare))
            number = _number(bare)
            if number is not None:
                self.numbers.add(number)

    def has_text(self, value: str) -> bool:
        if self.whole:
            return value.strip() in self.words
        words = list(_words(value))
        if words == [value]:
            return value in self.words
        # All but the outermost of its words occur in the text exactly as in the value.
        if any(word not in self.words for word in words[1:-1]):
            return False
        return any(_stands_in(value, text) for text in self.texts)


class SourceTexts:
    """Texts of one session, kept for the sources that its rules name: `user`, names of tools, members.

    For each source nothing more is kept beyond `MOST_WORDS` different words or `MOST_CHARACTERS`. From
    then on a value that is not found is unknown.
    """

    def __init__(self, sources: Iterable[str] = ()) -> None:
        self._texts_by_source: dict[str, _Source] = {}
        self._members: dict[str, dict[tuple[str, ...], _Source]] = {}
        self._keep({source: _new(source) for source in sources})

    def _keep(self, texts_by_source: dict[str, _Source]) -> None:
        self._texts_by_source = texts_by_source
        self._members = {}
        for source, texts in texts_by_source.items():
            path, tool = source_parts(source)
            if path:
                self._members.setdefault(tool, {})[path] = texts
        self.sources = frozenset(texts_by_source) if texts_by_source else _NO_SOURCES
        """Sources whose texts are kept."""
        self.speakers = (
            frozenset(source_parts(source)[1] for source in texts_by_source)
            if texts_by_source
            else _NO_SOURCES
        )
        """`user` and the tools whose texts are kept, possibly only some members of their results."""

    def listen(self, sources: Iterable[str]) -> None:
        """Keep the texts of these sources too, from now on; their earlier texts are unknown."""
        self._keep({**{source: _new(source, full=True) for source in sources}, **self._texts_by_source})

    def clear(self) -> None:
        """Forget every text, as if nothing had been said."""
        self._keep({source: _new(source) for source in self._texts_by_source})

    def add(self, source: str, text: str) -> None:
        """Add a text; of JSON, the texts and numbers in it.

        Members exist only in JSON: after any other result they are unknown.
        """
        source_texts = self._texts_by_source.get(source)
        if source_texts is not None:
            for part in _parts(text):
                source_texts.add(_normal(part))
        members = self._members.get(source)
        if members is None:
            return
        document = _json(text)
        for path, texts in members.items():
            if document is None:
                texts.full = True
            for part in _at_path(document, path):
                texts.add(_normal(part))

    def find(self, value: str | float, sources: Iterable[str]) -> bool | None:
        """True if `value` occurs in a text of one of `sources`; `None` if unknown.

        It is unknown if more was said than is kept, or if a source's earlier texts were not kept.
        """
        sure = True
        normal_value = _normal(value) if isinstance(value, str) else value
        for source in sources:
            source_texts = self._texts_by_source.get(source)
            if source_texts is None:
                sure = False
            elif _holds(source_texts, normal_value):
                return True
            elif source_texts.full:
                sure = False
        return False if sure else None


def _new(source: str, *, full: bool = False) -> _Source:
    return _Source(whole=bool(source_parts(source)[0]), full=full)


def _holds(source: _Source, value: str | float) -> bool:
    if isinstance(value, str):
        return any(sign.isalnum() for sign in value) and source.has_text(value)
    number = _number(repr(value))
    return number is not None and number in source.numbers


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
    """Text in one spelling: composed letters, and single blanks."""
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", text))


def _stands_in(value: str, text: str) -> bool:
    at = text.find(value)
    while at >= 0:
        if _is_free(text, at - 1, -1) and _is_free(text, at + len(value), 1):
            return True
        at = text.find(value, at + 1)
    return False


def _is_free(text: str, at: int, step: int) -> bool:
    """True if only punctuation is between `at` and a word break, or the end, in direction `step`."""
    while 0 <= at < len(text) and text[at] in _MARKS:
        at += step
    return not 0 <= at < len(text) or _BREAK.match(text, at) is not None


def _parts(text: str) -> Iterator[str]:
    """The texts, names and numbers in a JSON text; for any other text the text itself."""
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


def _json(text: str) -> object:
    """Value of a JSON text, numbers as texts; `None` for another text or one with a duplicate key."""
    try:
        return json.loads(
            text,
            parse_float=str,
            parse_int=str,
            parse_constant=str,
            object_pairs_hook=_members_once,
        )
    except (ValueError, RecursionError):
        return None


def _members_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name occurs twice in an object")
    return members


def _at_path(value: object, path: tuple[str, ...]) -> Iterator[str]:
    """Texts and numbers at a path of members, in every element of the lists on the way.

    Those directly in a list are at `ITEMS`.
    """
    if path == ITEMS and isinstance(value, list):
        path = ()
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _at_path(item, path)
    elif isinstance(value, dict) and path:
        inner = cast("dict[str, object]", value).get(path[0])
        yield from _at_path(inner, path[1:])
    elif isinstance(value, str) and not path:
        yield value
