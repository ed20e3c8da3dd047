"""Parsing of the options of programs that run other programs, to find what they run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..invocations import Input, Run, Script, Tool
from ..words import Word, plain

T = TypeVar("T")

_NAMED = re.compile(r"--[a-z][a-z-]*=")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a program: letters alone and letters with a value, and the same for long names.

    `optional` are letters whose value, if any, is adjacent. `numbers` allows `-10`. `operands` is the
    number of words between the options and the command; `assignments` says whether `NAME=value` may
    precede the command. For a `loose` program not all options are known, so its command is searched for
    at several words.
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


@dataclass(slots=True)
class Split:
    """A command line after its options: the options given, by name without hyphens, and the remaining
    words.

    `values` are the values of options in order, while `given` has the last of each. `assigned` are the
    words `NAME=value` before those.
    """

    given: dict[str, Word] = field(default_factory=dict[str, Word])
    values: list[tuple[str, Word]] = field(default_factory=list[tuple[str, Word]])
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


def split(words: Sequence[Word], options: Options) -> Split:
    """Separate the options from `words`, the first of which is the program. Raises `UnclearError`.

    An unknown option might take the next word or not, so it would be unknown which word is the command.
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
            at = _long(words, at, options, found)
        elif not (options.numbers and text[1:].isdecimal()):
            at = _short(words, at, options, found)
    at = min(at + options.operands, len(words))
    if any(not word.single for word in words[:at]):
        raise UnclearError(f"the words of '{program}' are known only when it runs")
    start = at
    while options.assignments and at < len(words) and "=" in words[at].text:
        at += 1
    found.assigned = words[start:at]
    found.rest = words[at:]
    return found


def may_be_option(word: Word) -> bool:
    """Return whether an unknown word might turn out to be an option, or no word at all."""
    if word.known or (word.single and _NAMED.match(word.text)):
        return False
    return not word.single or word.text[:1] in {"", "$", "`", "-"}


def _long(words: Sequence[Word], at: int, options: Options, found: Split) -> int:
    name, equals, value = words[at - 1].text[2:].partition("=")
    if name in options.long_values and not equals:
        if at < len(words):
            found.given[name] = words[at]
            found.values.append((name, words[at]))
        return at + 1
    if name not in options.long_flags | options.long_values:
        raise UnclearError(f"'--{name}' is no option known of '{words[0].text}'")
    found.given[name] = plain(value)
    return at


def _short(words: Sequence[Word], at: int, options: Options, found: Split) -> int:
    text = words[at - 1].text
    for position, letter in enumerate(text[1:], 2):
        if letter in options.values:
            if position < len(text):
                value = Word(text[position:], text[position:], words[at - 1].known)
                found.given[letter] = value
                found.values.append((letter, value))
                return at
            if at < len(words):
                found.given[letter] = words[at]
                found.values.append((letter, words[at]))
            return at + 1
        if letter in options.optional:
            found.given[letter] = plain(text[position:])
            return at
        if letter not in options.flags:
            raise UnclearError(f"'-{letter}' is no option known of '{words[0].text}'")
        found.given[letter] = plain("")
    return at


def next_word(words: Sequence[Word], at: int) -> Word:
    """The word after the one at `at`; an empty one after the last."""
    return words[at + 1] if at + 1 < len(words) else plain("")


def option_value(words: Sequence[Word], at: int) -> Word:
    """Value of the option at `at`: the text after its `=`, else the next word."""
    _, equals, value = words[at].text.partition("=")
    return Word(value, "", words[at].known) if equals else next_word(words, at)


# Programs described by their options.


def by_name(table: Mapping[str, T]) -> dict[str, T]:
    """A table by the name of each program; a key of `table` lists one or more names."""
    return {name: value for names, value in table.items() for name in names.split()}


_HARMLESS_PROGRAM = re.compile(r"(?:cat|less|more|gzip|bzip2|xz|zstd|bat|true)(?: -[\w-]+)*")


def names_program(program: str, letters: str, *longs: str) -> Tool:
    """A program of which these options name programs: unclear if one of them is given."""
    known = frozenset(longs)

    def tool(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
        for at, word in enumerate(words[1:], 1):
            text = word.text
            name, equals, value = text.partition("=")
            if text == "--":
                return
            following = next_word(words, at)
            if name in known or (
                text.startswith("--") and len(name) > 4 and any(n.startswith(name) for n in known)
            ):
                given = Word(value, "", word.known) if equals else following
            elif text[:1] == "-" and text[:2] != "--" and any(letter in text[1:] for letter in letters):
                letter = next(letter for letter in text[1:] if letter in letters)
                rest = text[text.index(letter, 1) + 1 :]
                name, given = f"-{letter}", Word(rest, "", word.known) if rest else following
            else:
                continue
            if given.known and _HARMLESS_PROGRAM.fullmatch(given.text):
                continue
            yield Script(given)
            raise UnclearError(f"'{name}' of '{program}' names a program")

    return tool


def settings(pattern: str, option: str = "") -> Tool:
    """A program of which words matching `pattern` name programs; `option` is one that takes a text."""
    naming = re.compile(pattern, re.DOTALL)

    def tool(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
        for at, word in enumerate(words[1:], 1):
            if found := naming.match(word.text):
                following = next_word(words, at)
                value = word.text[found.end() :]
                yield Script(Word(value, "", word.known) if value else following)
                if not option:
                    raise UnclearError(f"'{found[0]}' of '{words[0].text}' names a program")

    return tool


def refused(reason: str) -> Tool:
    def tool(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
        yield from ()
        raise UnclearError(f"'{words[0].text}' {reason}")

    return tool


def unclear_words(pattern: str, reason: str) -> Tool:
    """A program that is unclear if a word contains `pattern`; `{}` in `reason` stands for its name."""
    unclear = re.compile(pattern)

    def tool(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
        yield from ()
        if any(unclear.search(word.text) for word in words[1:]):
            raise UnclearError(reason.format(f"'{words[0].text}'"))

    return tool
