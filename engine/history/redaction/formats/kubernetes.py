"""Manifests of Kubernetes in a text: every value of a `Secret` is a secret, whatever its name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..spans import MASK, Span

KIND = "Secret"
_KIND = re.compile(r"^[ \t]*(?:-[ \t]+)?kind:[ \t]*[\"']?Secret[\"']?[ \t\r]*$", re.MULTILINE)
_DOCUMENT = re.compile(r"^---", re.MULTILINE)
_DATA = re.compile(r"^([ \t]*)(?:data|stringData):[ \t\r]*\n", re.MULTILINE)
_ENTRY = re.compile(
    r"([ \t]*)[\"']?[\w.-]{1,253}[\"']?:[ \t]+[\"']?(?![|>])([^\s\"'][^\r\n\"']*)[^\n]*\n?"
)


def secret_values(text: str) -> Iterator[Span]:
    """The spans of the values of such manifests in `text`."""
    start = 0
    ends = [found.start() for found in _DOCUMENT.finditer(text)] if _KIND.search(text) else []
    for end in (*ends, len(text)):
        if _KIND.search(text, start, end) is not None:
            for data in _DATA.finditer(text, start, end):
                yield from _entries(text, data.end(), end, len(data[1]))
        start = end


def _entries(text: str, at: int, end: int, indent: int) -> Iterator[Span]:
    """The values of the lines that are indented more than `data:` is."""
    while at < end and (entry := _ENTRY.match(text, at, end)) is not None and len(entry[1]) > indent:
        if not text.startswith(MASK, entry.start(2)):
            yield entry.span(2)
        at = entry.end()
