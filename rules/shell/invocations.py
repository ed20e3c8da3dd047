"""Types of what a command runs besides itself, and of its standard input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .words import Word


@dataclass(frozen=True, slots=True)
class CommandWords:
    """A command made of these words."""

    words: Sequence[Word]


@dataclass(frozen=True, slots=True)
class Script:
    """A text that a shell runs."""

    word: Word


@dataclass(frozen=True, slots=True)
class SameCommand:
    """The same command in other words: `sh deploy` is `./deploy`, `git -C x push` is `git push`."""

    words: Sequence[Word]


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """A file that the command runs, with its words: the same command as the file itself."""

    words: Sequence[Word]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a program on the command line writes."""

    target: Word


@dataclass(frozen=True, slots=True)
class AssumedVariables:
    """Variables that are assumed to hold a `number`, a `text` on one line, or one plain `word`."""

    variables: Sequence[str]
    kind: Literal["number", "text", "word"]


@dataclass(frozen=True, slots=True)
class FromFile:
    """Standard input from a file that the command names."""

    name: Word


Input: TypeAlias = Word | FromFile | None
"""Standard input given by the command itself: a text, a file, or `None`, which may be a pipe."""

Run: TypeAlias = CommandWords | Script | SameCommand | ScriptFile | WrittenFile | AssumedVariables

Tool: TypeAlias = Callable[[Sequence[Word], Input], Iterator[Run]]
"""Finds what a program runs besides itself; raises `UnclearError` if its words do not show it."""


def as_path(file: Word) -> Word:
    """A file that is run by its bare name, as the path of a program in this directory."""
    return file if "/" in file.text else Word(f"./{file.text}", f"./{file.bare}", file.known, file.single)
