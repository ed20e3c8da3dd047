"""Masking in fields with a shell command: only words are hidden, never the structure of the command.

Text that a shell passes to a program unchanged may be hidden. An operator, the end of a line, a
substitution, an expansion and the name of a program are always shown, because the approval of the command
covers them.
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
"""Names of fields with a shell command, whatever the tool."""

Paths: TypeAlias = tuple[str, ...]
"""Further fields with shell commands, as declared by maps: `line`, or `run.line` within an object."""


def is_shell_field(name: str, paths: Paths = ()) -> bool:
    """Return whether a field of an object has a shell command; `paths` begin in that object.

    Case is ignored, as some decoders do.
    """
    last = name.rpartition(".")[2]
    return last in SHELL_FIELDS or name in paths or folded_name(last) in SHELL_FIELDS


def paths_below(name: str, paths: Paths) -> Paths:
    """Return the paths that continue in the field `name`."""
    return tuple(path[len(name) + 1 :] for path in paths if path.startswith(f"{name}."))


def holds_commands(name: str, paths: Paths) -> bool:
    """Return whether a field of an object has a shell command, or contains a field that has one."""
    return is_shell_field(name, paths) or bool(paths_below(name, paths))


def shell_texts(values: Mapping[str, JsonValue], paths: Paths = ()) -> Iterator[str]:
    """Yield the texts of an object that are shell commands, in order."""
    for name, value in values.items():
        shell = is_shell_field(name, paths)
        inner_paths = paths_below(name, paths)
        yield from _texts(value, inner_paths, shell=shell)


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
"""Maximum length of a command that is masked word by word; nothing is hidden in a longer one."""
DEEPEST = 16
"""Maximum depth of substitutions that are masked."""

_RUN = re.compile(r"[^\s;&|<>()$`\\\"'{}]+")
_HARMLESS = re.compile(r"[\"'\\{}]|\$\{?\w*\}?(?!\()")
"""Text that a word may have between its plain parts: quotes, and names of variables."""
_NAME = re.compile(r"\$\{?\w+\}?")
_ENVIRONMENT = re.compile(
    r"\b(?:docker|podman|nerdctl)\s[^\n;|&]{0,400}?\s(?:-e|--env)\s{1,8}\w{1,64}\s{1,8}\Z"
)
"""Text before an image's position: a word with capitals is not an image, and does not run."""
_CONTINUED = re.compile(r"[^'\"#`<(]*\Z")
_CONTINUATION = "\\\n"
_QUOTES = ("'", '"')


class QuotedWord(NamedTuple):
    """A word of a command, from `start` to `end`; a shell takes its `parts` literally."""

    start: int
    end: int
    parts: tuple[Span, ...]


class ShellReader(Protocol):
    """Parser of shell commands, which the engine does not have itself: see `interlock.rules.shell`."""

    def commands(self, text: str) -> tuple[str, ...]:
        """Return the simple commands in a shell command (G-51), each as written, in order."""
        ...

    def words(self, text: str) -> tuple[QuotedWord, ...] | None:
        """Return the words of a shell command with literal parts; `None` if they are not known."""
        ...

    def programs(self, text: str) -> frozenset[str]:
        """Return the names of the programs that a shell command runs."""
        ...


def shell_spans(
    text: str, spans: Callable[[str], Iterable[Span]], reader: ShellReader | None, depth: int = 0
) -> Iterator[Span]:
    """Yield the parts of a shell command that may be hidden, out of the secrets that `spans` finds."""
    secrets = list(spans(text))
    if not secrets or len(text) > LONGEST:
        return
    words = None if reader is None else reader.words(text)
    programs = frozenset[str]() if reader is None else reader.programs(text)
    for start, end in secrets:
        at = start
        for part in _hidden_parts(text, (start, end), words, programs):
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
    """Yield the spans to hide within a part of a command that is shown."""
    start, end = part
    if (start, end) != (0, len(text)) and depth < DEEPEST:
        for first, last in shell_spans(text[start:end], spans, reader, depth + 1):
            yield start + first, start + last


def _hidden_parts(
    text: str, span: Span, words: tuple[QuotedWord, ...] | None, programs: frozenset[str]
) -> Iterator[Span]:
    """Yield the parts of a secret that may be hidden, in order."""
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
    """Yield the literal parts of the word in which the span begins, inside the span, line by line."""
    enclosing_words = [word for word in words if word.start <= span[0] < word.end]
    if not enclosing_words:
        return
    word = min(enclosing_words, key=lambda each: each.end - each.start)
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
    """Yield the parts of a literal text that another shell would not take for a command.

    Nothing after a substitution is hidden, because its end depends on that other shell.
    """
    at = start
    for substitution in _SUBSTITUTION.finditer(text, start, end):
        if at < substitution.start():
            yield at, substitution.start()
        at = substitution.end()
        if substitution[0][0] not in "\r\n":
            return
    if at < end:
        yield at, end


def _plain_parts(text: str, span: Span) -> Iterator[Span]:
    """In a command that was not parsed, yield the plain characters of one word or one quoted string."""
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
        match = mask or _RUN.match(text, at, end)
        if match is not None:
            if mask is None:
                yield match.span()
            at = match.end()
            continue
        if text.startswith(_CONTINUATION, at) and _CONTINUED.match(text, 0, at) is not None:
            at += len(_CONTINUATION)
            continue
        harmless = _NAME.match(text, at, end) or _HARMLESS.match(text, at, end)
        if harmless is None or harmless.end() == at:
            return
        at = harmless.end()
