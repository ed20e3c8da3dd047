"""Markdown of an agent's messages as styled rows: headings, emphasis, code, lists, quotes, links.

The text is made safe first and marked up afterwards, so nothing in it is more than text. A link is shown
as its text with the address after it and cannot be clicked; an image is named and never fetched.
Underscores are not markup, since many names contain them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from textual.content import Content

from .text import MUTED, shown_lines, wrap

LONGEST = 4_000
"""Maximum characters of a line that is searched for markup."""
CODE = "$text-accent"
INDENT = "  "

_MARKS = re.compile(r"[`*#>|\[\]~-]|^\s*\d+[.)] ", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^`]*$")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
_ITEM = re.compile(r"^(\s*(?:[-*+]|\d{1,9}[.)]) +)(?=\S)")
_QUOTE = re.compile(r"^ {0,3}((?:> ?)+)")
_INLINE = re.compile(
    r"(?<!`)(?P<tick>`{1,2})(?!`)(?P<code>[^`]+)(?P=tick)(?!`)"
    r"|(?<!\*)\*\*(?=[^\s*])(?P<bold>[^*]+)(?<=\S)\*\*(?!\*)"
    r"|(?<![\w*])\*(?=[^\s*])(?P<italic>[^*]+)(?<=\S)\*(?![\w*])"
    r"|(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<address>[^()\s]+)\)"
)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line's text with styles; its rows after the first are indented by `indent` blanks."""

    parts: tuple[tuple[str, str], ...]
    indent: int = 0


def markdown_rows(text: str, width: int) -> list[Content]:
    """Return the rows of a message, none wider than `width`."""
    return [row for line in _lines(text) for row in _rows(line, width)]


def markdown_height(text: str, width: int) -> int:
    """Return the number of rows, without styling them."""
    return sum(len(_wrapped(line, width)) for line in _lines(text))


def _lines(text: str) -> Iterator[_Line]:
    lines = shown_lines(text)
    if _MARKS.search(text) is None:
        yield from (_Line(((line, ""),)) for line in lines)
        return
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence and mark is not None and mark[1].startswith(fence) and line.strip() == mark[1]:
            fence = ""
        elif fence:
            yield _Line(((INDENT + line, CODE),), len(INDENT))
        elif mark is not None:
            fence = mark[1]
        else:
            yield _line(line)


def _line(line: str) -> _Line:
    if len(line) > LONGEST:
        return _Line(((line, ""),))
    if heading := _HEADING.match(line):
        return _Line(tuple(_inline(heading[1], "bold")))
    if item := _ITEM.match(line):
        head = item[1]
        return _Line(((head, MUTED), *_inline(line[len(head) :], "")), len(head))
    if quote := _QUOTE.match(line):
        head = quote[0]
        return _Line(((head, MUTED), *_inline(line[len(head) :], "italic")), len(head))
    return _Line(tuple(_inline(line, "")))


def _inline(text: str, style: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text, each with its style in addition to `style`."""
    end = 0
    for found in _INLINE.finditer(text):
        yield text[end : found.start()], style
        end = found.end()
        if (code := found["code"]) is not None:
            yield code, f"{style} {CODE}"
        elif (bold := found["bold"]) is not None:
            yield from _inline(bold, f"{style} bold")
        elif (italic := found["italic"]) is not None:
            yield from _inline(italic, f"{style} italic")
        else:
            yield f"image: {found['text']}" if found["image"] else found["text"], style
            yield f" ({found['address']})", f"{style} {MUTED}"
    yield text[end:], style


def _wrapped(line: _Line, width: int) -> list[str]:
    """Return the texts of a line's rows, without the indentation of continuation rows."""
    plain = "".join(text for text, _ in line.parts)
    indent = _indent(line, width)
    first, *rest = wrap(plain, width)
    if not rest or not indent:
        return [first, *rest]
    return [first, *wrap(plain[len(first) :], width - indent)]


def _indent(line: _Line, width: int) -> int:
    return line.indent if line.indent <= width // 3 else 0


def _rows(line: _Line, width: int) -> Sequence[Content]:
    texts = _wrapped(line, width)
    text = Content.assemble(*line.parts)
    indent = " " * _indent(line, width)
    pieces = text.divide(list(accumulate(map(len, texts[:-1]))))
    return [Content.assemble(indent if at else "", piece) for at, piece in enumerate(pieces)]
