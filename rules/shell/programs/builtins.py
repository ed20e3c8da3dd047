"""Builtins of shells that assign variables, define commands or run texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ..environment import assigned, matters
from ..invocations import CommandWords, Input, Run, Script, Tool, as_path
from ..words import Word
from .options import UnclearError, by_name, names, refused, unclear_words
from .shells import after_dashes


def _trap(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    arguments = after_dashes(words)
    if len(arguments) > 1 and arguments[0].text not in {"", "-", "-p", "-l"}:
        yield Script(arguments[0])


def _alias(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for word in words[1:]:
        if re.match(r"-[a-zA-Z]*[gs]", word.text):
            raise UnclearError("an alias in it may stand for a part of any command")
        value = word.text.partition("=")[2]
        if value:
            # Words after the alias, where it is used, become words of its command.
            yield Script(Word(f'{value} "$@"', "", word.known))


_DECLARED = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=(.*)", re.DOTALL)


def _declare(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """Assignments by a builtin."""
    for word in words[1:]:
        if found := _DECLARED.fullmatch(word.text):
            yield from assigned(found[1], Word(found[2], "", word.known))
            if matters(found[2]):
                raise UnclearError(f"'{found[1]}' may stand for '{found[2]}'")
        elif not word.known:
            raise UnclearError(f"what '{words[0].text}' assigns is known only when it runs")


def _read(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`read`, `printf -v`, `getopts` and `mapfile` assign variables as well."""
    yield from ()
    name = words[0].text
    if name == "printf" and not any(word.text.startswith("-v") for word in words[1:3]):
        return
    for word in words[1:]:
        if matters(word.text.removeprefix("-v")) or (name == "printf" and word.text == "PATH"):
            raise UnclearError(f"'{name}' gives '{word.text}' a value")


def _mapfile(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    for option, value in pairwise(words):
        if option.text == "-C":
            yield Script(value)
        elif re.fullmatch(r"-C.+", option.text):
            yield Script(Word(option.text[2:], "", option.known))
    yield from _read(words, stdin)


def _compgen(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from _mapfile(words, stdin)
    if any("$(" in word.text or "`" in word.text for word in words[1:]):
        raise UnclearError(f"'{words[0].text}' expands the words that it is given")


def _jobs(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`jobs -x PROGRAM WORDS`."""
    if len(words) > 2 and words[1].text == "-x":
        yield CommandWords(words[2:])


def _hash(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        if word.text == "-p" and at + 1 < len(words):
            yield Script(Word(f'{as_path(words[at + 1]).text} "$@"', "", words[at + 1].known))
        elif "=" in word.text:
            yield Script(Word(f'{word.text.partition("=")[2]} "$@"', "", word.known))


_EVALUATING = names(
    "let test [ [[ unset declare typeset export readonly local = read mapfile readarray wait getopts"
)
_QUOTED_SUBSTITUTION = re.compile(r"'[^']*(?:\$\(|`)|\\\$\(|\\`")


def hides_substitution(name: str, source: str) -> bool:
    """Return whether a builtin that evaluates arithmetic gets a quoted substitution: `let 'a[$(rm x)]'`.

    The shell runs a substitution in a subscript even if it was quoted.
    """
    if name == "printf" and " -v" in source:
        return _QUOTED_SUBSTITUTION.search(source) is not None
    return name in _EVALUATING and _QUOTED_SUBSTITUTION.search(source) is not None


BUILTINS: Mapping[str, Tool] = by_name(
    {
        "trap": _trap,
        "alias": _alias,
        "export declare typeset readonly local private integer": _declare,
        "read getopts vared printf": _read,
        "mapfile readarray": _mapfile,
        "complete compgen": _compgen,
        "bind bindkey": unclear_words(r"^-[a-z]*[xf]", "{} binds keys to commands"),
        "jobs": _jobs,
        "hash": _hash,
        "enable": unclear_words(r"^-[a-z]*f", "'enable -f' loads a program"),
        "print": unclear_words(r"^-[a-zA-Z]*[PzsS]", "{} may run what it is given"),
        "emulate setopt unsetopt zmodload autoload zle sched fc zargs zmv zstyle zparseopts "
        "zcompile compdef zselect zpty zsystem ztcp foreach": refused(
            "is a builtin of zsh that may run what it is given"
        ),
    }
)
