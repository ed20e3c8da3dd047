"""Values of XML and HTML in a text: the content of elements with a sensitive name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ..secret_names import TellingNames
from ..shell.words import QUOTE, quoted
from ..spans import MASK, Span

_TAG = re.compile(r"<((?:[A-Za-z0-9_.-]{1,64}:)?([A-Za-z0-9_.-]{1,64}))\Z")
_NAMED = re.compile(
    r"<((?:[A-Za-z0-9_.-]{1,64}:)?[A-Za-z0-9_.-]{1,64})(?:\s[^<>]{0,200})?"
    r"\s(?:name|key)\s{0,8}=\s{0,8}\\{0,15}[\"']([A-Za-z0-9_.-]{1,64})\Z"
)
_WINDOW = 400
_ATTRIBUTES = re.compile(r"(?:[^<>\"']++|\"[^\"<]{0,2000}+\"|'[^'<]{0,2000}+'|[\"']){0,200}+>")
_VALUE = re.compile(r"\s(?:value|content)\s{0,8}=\s{0,8}(?=\\{0,15}[\"'])")
_DOCUMENT = re.compile(r"\s{0,64}<")
_ON_ITS_OWN = re.compile(r"(?:\A|[>\n])[ \t]{0,100}\Z")
_RUN = re.compile(r"[^\s<]+")
_PROPERTY = re.compile(r"<key>([^<]{1,64})</key>\s{0,64}<string>([^<]{1,2000})(?=</string>)")
_PLAIN = re.compile(r"\s*(?:null|true|false)?\s*\Z")
_DEEPEST = 8
"""Maximum number of tags of one name that are read to find the end of an element with nested ones."""


def elements(text: str, names: TellingNames, ends: Iterable[int]) -> Iterator[Span]:
    """Yield the spans of the content of elements in `text` with sensitive names, which end at `ends`.

    The value of such an element is everything inside it, and its attribute `value`. The name may also be
    in the element's attribute `name` or `key`. An element that is never closed is cut off if the text is
    a document. Otherwise it only looks like one, as in `-p<password>`, and its value ends at the next
    space.
    """
    done = 0
    closing = _Closing(text)
    for end in ends:
        if end < done or text[end : end + 1] in ":=":
            continue
        window_start = max(done, end - _WINDOW)
        if text.rfind("<", window_start, end) < 0:
            continue
        tag = (_TAG if text[end] in ">/ \t\r\n" else _NAMED).search(text, window_start, end)
        opening = None
        if tag is not None and names.telling(tag[2]):
            opening = _ATTRIBUTES.match(text, end)
        if tag is None or opening is None:
            continue
        value = _VALUE.search(text, tag.start(), opening.end())
        if value is not None and (quote := QUOTE.match(text, value.end())) is not None:
            span = quoted(text, quote, opening.end())[0]
            if _PLAIN.match(text, *span) is None:
                yield span
                done = span[1]
        if text.startswith("/", opening.end() - 2):
            continue
        start = opening.end()
        last = closing.of(tag[1], start)
        if last is None:
            last = start if text.startswith(MASK, start) else _cut_off(text, tag.start(), start)
        if _PLAIN.match(text, start, last) is None:
            yield start, last
            done = last


def _cut_off(text: str, tag: int, start: int) -> int:
    """Return the end of the value of an element that is never closed."""
    is_alone = _ON_ITS_OWN.search(text, max(0, tag - _WINDOW), tag) is not None
    if is_alone and _DOCUMENT.match(text) is not None:
        return len(text)
    match = _RUN.match(text, start)
    return start if match is None else match.end()


def properties(text: str, names: TellingNames) -> Iterator[Span]:
    """Yield the spans of strings after `<key>` with a sensitive name, as in property lists."""
    for match in _PROPERTY.finditer(text):
        if names.telling(match[1]):
            yield match.span(2)


class _Closing:
    """Finds the closing tags of elements of `text`, in the order of the elements."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._never: set[str] = set()

    def of(self, name: str, start: int) -> int | None:
        """Return the start of the closing tag of an element `name` whose content begins at `start`."""
        if name in self._never:
            return None
        depth, last = 1, None
        for count, tag in enumerate(_tags(name).finditer(self._text, start)):
            depth += -1 if tag[1] else 1
            last = tag.start() if tag[1] else last
            if depth == 0 or count == _DEEPEST:
                return last
        if last is None:
            self._never.add(name)
        return last


@lru_cache(maxsize=64)
def _tags(name: str) -> re.Pattern[str]:
    """Return a pattern for the tags of this name; the first group matches in closing tags."""
    return re.compile(rf"<(\\{{0,15}}/)?{re.escape(name)}(?=[\s/>])", re.IGNORECASE)
