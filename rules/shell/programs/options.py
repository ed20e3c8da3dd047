"""Options of programs that run other programs, read so that what they run can be found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..words import Word, plain

_NAMED = re.compile(r"--[a-z][a-z-]*=")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a program: letters alone and letters with a value, and the same of long names.

    `optional` are letters whose value, if any, touches them. `numbers` allows `-10`. `operands` is the
    number of words between the options and the command, `assignments` whether `NAME=value` may come
    before it. Of a `loose` program not all options are known, so that its command is looked for at
    several words.
    """

    flags: str = ""
    values: str = ""
    long_flags: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()
    optional: str = ""
    numbers: bool = False
    operands: int = 0
    assignments: bool = False
    loose: bool = False


def _given() -> dict[str, Word]:
    return {}


def _values() -> list[tuple[str, Word]]:
    return []


@dataclass(slots=True)
class Split:
    """A command line after its options: those given, by name without hyphens, and the words left.

    `values` are the values of options in their order, where `given` has the last of each.
    `assigned` are the words `NAME=value` before those.
    """

    given: dict[str, Word] = field(default_factory=_given)
    values: list[tuple[str, Word]] = field(default_factory=_values)
    rest: Sequence[Word] = ()
    assigned: Sequence[Word] = ()


class UnclearError(Exception):
    """A program's words do not show what it runs; the message says why."""


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def options(flags: str = "", values: str = "", long: str = "", **more: str | int | bool) -> Options:
    """Options from one line: the words of `long` that end with `=` take a value."""
    names = long.split()
    return Options(
        flags,
        values,
        frozenset(name for name in names if not name.endswith("=")),
        frozenset(name[:-1] for name in names if name.endswith("=")),
        optional=str(more.get("optional", "")),
        numbers=bool(more.get("numbers", False)),
        operands=int(more.get("operands", 0)),
        assignments=bool(more.get("assignments", False)),
        loose=bool(more.get("loose", False)),
    )


def split(words: Sequence[Word], known: Options) -> Split:
    """Take the options off `words`, the first of which is the program. Raises `UnclearError`.

    An option that is not known might take the next word or not, and what then is the command is
    not known.
    """
    program, found, at = words[0].text, Split(), 1
    while at < len(words):
        word = words[at]
        text = word.text
        if may_be_option(word):
            raise UnclearError(f"an option of '{program}' is known only when it runs")
        if not text.startswith("-") or text == "-":
            break
        at += 1
        if text == "--":
            break
        if text.startswith("--"):
            at = _long(words, at, known, found)
        elif not (known.numbers and text[1:].isdecimal()):
            at = _short(words, at, known, found)
    at = min(at + known.operands, len(words))
    if any(not word.single for word in words[:at]):
        raise UnclearError(f"the words of '{program}' are known only when it runs")
    start = at
    while known.assignments and at < len(words) and "=" in words[at].text:
        at += 1
    found.assigned = words[start:at]
    found.rest = words[at:]
    return found


def may_be_option(word: Word) -> bool:
    """Tell whether a word that is not known might turn out to be an option, or to be no word at all."""
    if word.known or (word.single and _NAMED.match(word.text)):
        return False
    return not word.single or word.text[:1] in {"", "$", "`", "-"}


def _long(words: Sequence[Word], at: int, known: Options, found: Split) -> int:
    name, equals, value = words[at - 1].text[2:].partition("=")
    if name in known.long_values and not equals:
        if at < len(words):
            found.given[name] = words[at]
            found.values.append((name, words[at]))
        return at + 1
    if name not in known.long_flags | known.long_values:
        raise UnclearError(f"'--{name}' is no option known of '{words[0].text}'")
    found.given[name] = plain(value)
    return at


def _short(words: Sequence[Word], at: int, known: Options, found: Split) -> int:
    text = words[at - 1].text
    for position, letter in enumerate(text[1:], 2):
        if letter in known.values:
            if position < len(text):
                value = Word(text[position:], text[position:], words[at - 1].known)
                found.given[letter] = value
                found.values.append((letter, value))
                return at
            if at < len(words):
                found.given[letter] = words[at]
                found.values.append((letter, words[at]))
            return at + 1
        if letter in known.optional:
            found.given[letter] = plain(text[position:])
            return at
        if letter not in known.flags:
            raise UnclearError(f"'-{letter}' is no option known of '{words[0].text}'")
        found.given[letter] = plain("")
    return at
