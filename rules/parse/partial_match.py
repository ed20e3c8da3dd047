"""Regular expressions that may match a text of which only the beginning is known (G-64)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Protocol, TypeAlias, cast

_Item: TypeAlias = tuple[object, object]


class _Parser(Protocol):
    """The part of Python's own parser of regular expressions that is used here."""

    def parse(self, text: str) -> Sequence[_Item]: ...


_BLANK = re.compile(r"\s")


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> Sequence[_Item] | None:
    """Tree of an expression, `None` for one that RE2 accepts and Python does not."""
    try:
        return cast(_Parser, import_module("re._parser")).parse(expression)
    except (re.error, ImportError, RecursionError, OverflowError):
        return None


@lru_cache(maxsize=4096)
def may_begin(expression: str, start: str) -> bool:
    """Return whether a match of `expression` may begin at a word of `start` and continue beyond it.

    The expression must spell out the word with which the match begins: `.*` begins with no program. An
    expression that cannot be parsed may begin with every program whose name it contains.
    """
    tree = _parsed(expression)
    if tree is None:
        return start.partition(" ")[0].rpartition("/")[2] in expression
    text = f"{start} "
    starts = [at for at in range(len(start)) if text[at] != " " and (at == 0 or not _wordy(text[at - 1]))]
    return any(_Walk(text, at, "(?i" in expression).alive(tree) for at in starts)


def _wordy(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_member(operator: str, argument: object, character: str) -> bool:
    """Return whether a character is in one part of a character class."""
    match operator:
        case "LITERAL":
            return ord(character) == argument
        case "RANGE":
            low, high = cast("tuple[int, int]", argument)
            return low <= ord(character) <= high
        case "CATEGORY":
            kind = str(argument)
            if kind.endswith("SPACE"):
                found = character.isspace()
            else:
                found = character.isdigit() if kind.endswith("DIGIT") else _wordy(character)
            return found != ("NOT" in kind)
        case _:
            return False


class _Walk:
    """One attempt to match, from one position in the known text."""

    def __init__(self, text: str, at: int, fold: bool) -> None:
        self._text = text.lower() if fold else text
        self._begin = at
        self._fold = fold
        first = _BLANK.search(text, at)
        self._spelt = first.start() if first else len(text)
        self._alive = False

    def alive(self, tree: Sequence[_Item]) -> bool:
        self._items(tree, {self._begin})
        return self._alive

    def _items(self, items: Sequence[_Item], places: set[int]) -> set[int]:
        for operator, argument in items:
            if not places:
                break
            places = self._item(str(operator), argument, places)
        return places

    def _item(self, operator: str, argument: object, places: set[int]) -> set[int]:
        match operator:
            case "LITERAL":
                character = chr(cast(int, argument))
                return self._one(places, (character.lower() if self._fold else character,))
            case "IN":
                return self._in(cast("Sequence[_Item]", argument), places)
            case "ANY":
                return self._one(places, None)
            case "NOT_LITERAL":
                return self._in([("NEGATE", None), ("LITERAL", argument)], places)
            case "BRANCH":
                branches = cast("tuple[object, Sequence[Sequence[_Item]]]", argument)[1]
                return set[int]().union(*(self._items(branch, places) for branch in branches))
            case "SUBPATTERN":
                return self._items(
                    cast("tuple[object, object, object, Sequence[_Item]]", argument)[-1], places
                )
            case "ATOMIC_GROUP":
                return self._items(cast("Sequence[_Item]", argument), places)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, highest, inner = cast("tuple[int, int, Sequence[_Item]]", argument)
                return self._repeated(int(least), int(highest), inner, places)
            case "AT":
                return {place for place in places if self._at(str(argument), place)}
            case _:
                self._alive = True
                return places

    def _one(self, places: set[int], characters: Sequence[str] | None) -> set[int]:
        """Match one character; `None` means any character, which does not spell out a name."""
        if characters is None:
            return self._by(places, lambda _character: True, spelt=False)
        return self._by(places, lambda character: character in characters, spelt=True)

    def _by(self, places: set[int], fits: Callable[[str], bool], *, spelt: bool) -> set[int]:
        found: set[int] = set()
        for place in places:
            if place >= len(self._text):
                self._alive = True
            elif (spelt or place >= self._spelt) and fits(self._text[place]):
                found.add(place + 1)
        return found

    def _in(self, items: Sequence[_Item], places: set[int]) -> set[int]:
        """Match one character of a class."""
        kinds = [str(operator) for operator, _ in items]
        negated = "NEGATE" in kinds
        spelt = not negated and all(kind == "LITERAL" for kind in kinds)

        def fits(character: str) -> bool:
            forms = {character, character.upper()} if self._fold else {character}
            is_inside = any(
                _is_member(str(operator), argument, form)
                for operator, argument in items
                for form in forms
            )
            return is_inside != negated

        return self._by(places, fits, spelt=spelt)

    def _repeated(self, least: int, highest: int, inner: Sequence[_Item], places: set[int]) -> set[int]:
        found = set(places) if least == 0 else set[int]()
        for count in range(1, min(highest, len(self._text) + least + 1) + 1):
            places = self._items(inner, places)
            if not places or places <= found:
                break
            if count >= least:
                found |= places
        return found

    def _at(self, kind: str, place: int) -> bool:
        if kind in {"AT_BEGINNING", "AT_BEGINNING_STRING", "AT_BEGINNING_LINE"}:
            return place == 0
        if kind == "AT_BOUNDARY":
            before = place > 0 and _wordy(self._text[place - 1])
            return place >= len(self._text) or before != _wordy(self._text[place])
        return True
