"""Masking in fields that hold a shell command: only words are hidden, never what makes a command.

What a shell hands to a program as it is written may be hidden. An operator, the end of a line, a
substitution, an expansion and the name of a program are always shown: the operator who approves the
command approves them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from pydantic import JsonValue

from ....core.sanitize import folded_name
from ..formats.private_keys import is_private_key
from ..random_words import looks_random
from ..spans import MASKED, Span

SHELL_FIELDS = frozenset({"command", "cmd", "script"})
"""Fields that hold a shell command, whatever the tool."""

Paths: TypeAlias = tuple[str, ...]
"""Fields that hold one besides, as maps declare them: `line`, or `run.line` within an object."""


def is_shell_field(name: str, paths: Paths = ()) -> bool:
    """Tell whether a field of an object holds a shell command; `paths` begin in that object.

    A name counts in whichever case it is written, as some decoders have it.
    """
    last = name.rpartition(".")[2]
    return last in SHELL_FIELDS or name in paths or folded_name(last) in SHELL_FIELDS


def paths_below(name: str, paths: Paths) -> Paths:
    """The paths that go on in the field `name`."""
    return tuple(path[len(name) + 1 :] for path in paths if path.startswith(f"{name}."))


def holds_commands(name: str, paths: Paths) -> bool:
    """Tell whether a field of an object is one with a shell command, or has one within."""
    return is_shell_field(name, paths) or bool(paths_below(name, paths))


def shell_texts(values: Mapping[str, JsonValue], paths: Paths = ()) -> Iterator[str]:
    """The texts of an object that hold shell commands, in their order."""
    for name, value in values.items():
        shell = is_shell_field(name, paths)
        below = paths_below(name, paths)
        yield from _texts(value, below, shell=shell)


def _texts(value: JsonValue, paths: Paths, *, shell: bool) -> Iterator[str]:
    match value:
        case str():
            if shell:
                yield value
        case dict():
            yield from shell_texts(value, paths)
        case list():
            for item in value:
                if isinstance(item, dict):
                    yield from shell_texts(item, paths)
        case _:
            pass


LONGEST = 262_144
"""Characters of a command in which masked text is looked at word by word; nothing is hidden beyond."""
DEEPEST = 16
"""Levels of substitutions that are looked into."""

_RUN = re.compile(r"[^\s;&|<>()$`\\\"'{}]+")
_HARMLESS = re.compile(r"[\"'\\{}]|\$\{?\w*\}?(?!\()")
"""Text that a word may have between its plain parts: quotes, and the names of variables."""
_NAME = re.compile(r"\$\{?\w+\}?")
_ENVIRONMENT = re.compile(
    r"\b(?:docker|podman|nerdctl)\s[^\n;|&]{0,400}?\s(?:-e|--env)\s{1,8}\w{1,64}\s{1,8}\Z"
)
"""Before what stands where an image should: with capitals it is none, and nothing that runs."""
_CONTINUED = re.compile(r"[^'\"#`<(]*\Z")
_CONTINUATION = "\\\n"
_QUOTES = ("'", '"')


class QuotedWord(NamedTuple):
    """A word of a command, from `start` to `end`; a shell takes its `parts` as they are written."""

    start: int
    end: int
    parts: tuple[Span, ...]


class ShellReader(Protocol):
    """Reads shell commands, for an engine that does not know how: see `interlock.rules.shell`."""

    def commands(self, text: str) -> tuple[str, ...]:
        """The simple commands in a shell command (G-51), each as it is written, in their order."""
        ...

    def words(self, text: str) -> tuple[QuotedWord, ...] | None:
        """The words of a shell command in which something is literal; `None` where that is not known."""
        ...

    def programs(self, text: str) -> frozenset[str]:
        """The names of the programs that a shell command runs."""
        ...


def shell_spans(
    text: str, spans: Callable[[str], Iterable[Span]], reader: ShellReader | None, depth: int = 0
) -> Iterator[Span]:
    """The parts of a shell command that may be hidden of those in which `spans` finds a secret."""
    found = list(spans(text))
    if not found or len(text) > LONGEST:
        return
    words = None if reader is None else reader.words(text)
    programs = frozenset[str]() if reader is None else reader.programs(text)
    for start, end in found:
        at = start
        for part in _hidden(text, (start, end), words, programs):
            if at < part[0] and depth < DEEPEST:
                yield from _nested_spans(text, (at, part[0]), spans, reader, depth)
            yield part
            at = part[1]
        if start < at < end or (at == start and depth < DEEPEST):
            yield from _nested_spans(text, (at, end), spans, reader, depth)


def _nested_spans(
    text: str,
    part: Span,
    spans: Callable[[str], Iterable[Span]],
    reader: ShellReader | None,
    depth: int,
) -> Iterator[Span]:
    """The spans to hide within a part of a command that is shown."""
    start, end = part
    if (start, end) != (0, len(text)) and depth < DEEPEST:
        for first, last in shell_spans(text[start:end], spans, reader, depth + 1):
            yield start + first, start + last


def _hidden(
    text: str, span: Span, words: tuple[QuotedWord, ...] | None, programs: frozenset[str]
) -> Iterator[Span]:
    """The parts of a secret that may be hidden, in their order."""
    parts = _plain_parts(text, span) if words is None else _literal_parts(text, span, words)
    for start, end in parts:
        if looks_random(text[start:end]) and _ENVIRONMENT.search(text, 0, start) is not None:
            yield start, end
        elif not programs.isdisjoint(re.split(r"[\s\"';|&(){}`]+", text[start:end])):
            first = _RUN.match(text, start, end)
            if first is not None and first[0] not in programs:
                yield first.span()
            return
        else:
            yield start, end


def _literal_parts(text: str, span: Span, words: tuple[QuotedWord, ...]) -> Iterator[Span]:
    """The literal parts of the word in which the span begins, as far as they are in it, line by line."""
    around = [word for word in words if word.start <= span[0] < word.end]
    if not around:
        return
    word = min(around, key=lambda each: each.end - each.start)
    for first, last in word.parts:
        start, end = max(first, span[0]), min(last, span[1])
        if start >= end:
            continue
        if is_private_key(text[start:end]):
            yield start, end
            continue
        yield from _without_substitutions(text, start, end)


_SUBSTITUTION = re.compile(r"\$\(|`|[<>]\(|[\r\n]+")


def _without_substitutions(text: str, start: int, end: int) -> Iterator[Span]:
    """Of a literal text what no other shell that gets it would take for a command of its own.

    Nothing that follows a substitution in it is hidden: where that one ends is another shell's matter.
    """
    at = start
    for found in _SUBSTITUTION.finditer(text, start, end):
        if at < found.start():
            yield at, found.start()
        at = found.end()
        if found[0][0] not in "\r\n":
            return
    if at < end:
        yield at, end


def _plain_parts(text: str, span: Span) -> Iterator[Span]:
    """Of a command that was not read the plain characters of one word, or of one pair of quotes."""
    start, end = span
    quote = text[start - 1 : start]
    if quote in _QUOTES and text[end : end + 1] == quote:
        if is_private_key(text[start:end]):
            yield span
            return
        if re.search(r"[\r\n$`\\;&|<>()\"']", text[start:end]) is None:
            yield span
            return
    at = start
    while at < end:
        mask = MASKED.match(text, at, end)
        found = mask or _RUN.match(text, at, end)
        if found is not None:
            if mask is None:
                yield found.span()
            at = found.end()
            continue
        if text.startswith(_CONTINUATION, at) and _CONTINUED.match(text, 0, at) is not None:
            at += len(_CONTINUATION)
            continue
        harmless = _NAME.match(text, at, end) or _HARMLESS.match(text, at, end)
        if harmless is None or harmless.end() == at:
            return
        at = harmless.end()
