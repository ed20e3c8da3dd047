"""Private keys in PEM: their position in a text, and whether a text is exactly one.

A key ends with its closing mark, or with the last line that is Base64. Other text after an opening mark
is not part of the key: it may be code that runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..spans import Span

_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BREAK = re.compile(r"(?:\s|\\{1,15}[nrt]|[\"',\\]|(?:\A|(?<=\n))[ \t]{0,16}\d{1,7}(?:[\t:|]|→)){0,200}")
"""Text between the lines of a key: whitespace, escaped line breaks, quotes, line numbers."""
_LINE = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_LAST = re.compile(r"[A-Za-z0-9+/]{1,}={0,2}")
_SUM = re.compile(r"=[A-Za-z0-9+/]{4}(?![A-Za-z0-9+/=])")
_HEADER = re.compile(
    r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID): ?[A-Za-z0-9 ,.:@/+_-]{0,100}"
    r"(?=[\r\n\\\"']|\Z)"
)
_FARTHEST = 65_536
"""Maximum distance of a key's end from its beginning, in characters."""
_WITHIN = re.compile(r"[A-Za-z0-9+/=]{16,}")


_BARE = re.compile(
    r"(?<![A-Za-z0-9+/])(?:MI[IG][A-Za-z0-9+/]{2}[AQgw]IBA[A-Za-z0-9+/]|MHcCAQEEI|MIG[A-Za-z0-9+/]AgEAM|MC4CAQAwBQYDK2V"
    r"|MII[A-Za-z0-9+/]{3}BOBgkqhkiG9w0BBQ)[A-Za-z0-9+/]{24,}+(?:(?:\s{1,8}|\\n)[A-Za-z0-9+/]{40,76}+)*"
    r"(?:(?:\s|\\n)[A-Za-z0-9+/]{1,76}=)?={0,2}"
)
"""The Base64 of a key without its marks, by the first bytes of key structures."""


def bare_keys(text: str) -> Iterator[Span]:
    """Yield the spans of private keys in `text` that lack their marks."""
    for match in _BARE.finditer(text):
        yield match.span()


_PUTTY = re.compile(
    r"^Private-Lines: \d{1,4}\s{1,4}((?:[A-Za-z0-9+/]{1,64}={0,2}[ \t]*(?:\r?\n|\Z)){1,200})",
    re.MULTILINE,
)


def putty_keys(text: str) -> Iterator[Span]:
    """Yield the spans of private keys in `text` in PuTTY's format."""
    for match in _PUTTY.finditer(text):
        start, end = match.span(1)
        yield start, start + len(text[start:end].rstrip())


def private_keys(text: str) -> Iterator[Span]:
    """Yield the spans of private keys in `text`.

    If there is other text between the lines of a key, its lines are hidden one by one.
    """
    done, closing = 0, _END.search(text)
    for begin in _BEGIN.finditer(text):
        if begin.start() < done:
            continue
        done, is_closed = _body(text, begin.end())
        if done > begin.end():
            yield begin.start(), done
        while closing is not None and closing.start() < done:
            closing = _END.search(text, closing.end())
        end = closing
        if not is_closed and end is not None and end.start() < done + _FARTHEST:
            for line in _WITHIN.finditer(text, done, end.start()):
                if _looks_random(line[0]):
                    yield line.span()
            done = end.end()


def is_private_key(text: str) -> bool:
    """Return whether `text` is one private key in PEM, from first mark to last, and nothing else."""
    begin = _BEGIN.match(text)
    if begin is None or _body(text, begin.end()) != (len(text), True):
        return False
    lines = [line[0] for line in _LINE.finditer(text, begin.end())]
    return all(map(_looks_random, lines))


def _body(text: str, at: int) -> tuple[int, bool]:
    """Return the end of the key whose mark ends at `at`, and whether that is at its closing mark."""
    whole = at
    while True:
        line_start = _after_break(text, at)
        if (end := _END.match(text, line_start)) is not None:
            return end.end(), True
        match = _LINE.match(text, line_start) or _HEADER.match(text, line_start)
        if match is None:
            break
        at = whole = match.end()
    last = _LAST.match(text, line_start)
    if last is not None:
        position = _after_break(text, last.end())
        if (check := _SUM.match(text, position)) is not None:
            position = _after_break(text, check.end())
        if (end := _END.match(text, position)) is not None:
            return end.end(), True
        if last.end() == len(text) and _looks_random(last[0]):
            return last.end(), False
    if (check := _SUM.match(text, line_start)) is not None:
        end = _END.match(text, _after_break(text, check.end()))
        if end is not None:
            return end.end(), True
    return whole, False


def _after_break(text: str, at: int) -> int:
    match = _BREAK.match(text, at)
    return at if match is None else match.end()


def _looks_random(line: str) -> bool:
    """Return whether a line is Base64, not a word or a path: in Base64 one character in 64 is a slash."""
    mixed = not line.islower() and not line.isdigit()
    return mixed and line.count("/") <= 1 + len(line) // 16
