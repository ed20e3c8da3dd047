"""Values that span lines: those below a name, as in YAML, and the lines of a shell's heredoc."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..spans import MASK, Span

_OPENS = re.compile(
    r"(?:[&!]\S{0,60}+[ \t]{0,8}+){0,3}+(?:(?P<scalar>[|>])[0-9+-]{0,2})?[ \t]*+(?:#[^\n]{0,200})?\r?\n"
)
_LINE = re.compile(r"([ \t]*)([^\n]*)\n?")
_BEFORE = re.compile(r"([ \t]*(?:-[ \t]+)*)[\"']?")
_ASSIGNED = re.compile(r"[ \t]*(?:export[ \t]+)?")
_BLANKS = re.compile(r"[ \t]*")
_WINDOW = 150
"""Maximum distance of a line's start before a name."""

_HEREDOC = re.compile(r"<<[-~]?[ \t]{0,8}\\?([\"']?)([A-Za-z_][A-Za-z0-9_]{0,40})\1[^\n]{0,400}\n")

SECRET_KIND = "Secret"
"""Kind of a Kubernetes manifest in which every value is a secret, whatever its name."""
_MANIFEST_KIND = re.compile(r"^[ \t]*(?:-[ \t]+)?kind:[ \t]*[\"']?Secret[\"']?[ \t\r]*$", re.MULTILINE)
_MANIFEST_START = re.compile(r"^---", re.MULTILINE)
_MANIFEST_DATA = re.compile(r"^([ \t]*)(?:data|stringData):[ \t\r]*\n", re.MULTILINE)
_MANIFEST_ENTRY = re.compile(
    r"([ \t]*)[\"']?[\w.-]{1,253}[\"']?:[ \t]+[\"']?(?![|>])([^\s\"'][^\r\n\"']*)[^\n]*\n?"
)


def block_below(text: str, name: int, at: int) -> Span | None:
    """Return the lines below the name at `name` if they are its value, whose position is `at`.

    They are if they are indented more than the name, and the name is alone on its line or marks them as a
    block (`|`, `>`). A list may begin right below its name.
    """
    opening = _OPENS.match(text, at)
    if opening is None:
        return None
    line = _line(text, name)
    prefix = None if line is None else _BEFORE.fullmatch(text, line, name)
    if opening["scalar"] is None and prefix is None:
        return None
    indent = _indent(text, line, name) if prefix is None else len(prefix[1])
    first, end = opening.end(), opening.end()
    position = first
    while position < len(text):
        line = _LINE.match(text, position)
        assert line is not None, "the expression takes anything"
        if line[2] and not line[2].isspace():
            deep = len(line[1])
            if deep < indent or (deep == indent and not line[2].startswith("- ")):
                break
            if end == first:
                first = first if opening["scalar"] else line.end(1)
            end = line.end()
        position = line.end()
    if end == opening.end():
        return None
    if opening["scalar"]:
        return at, end
    while text[end - 1] in "\r\n":
        end -= 1
    return (at if opening[0].strip() else first), end


def _line(text: str, at: int) -> int | None:
    """Return the start of the line with the position `at`; `None` if it is too far away."""
    limit = max(0, at - _WINDOW)
    newline = text.rfind("\n", limit, at)
    return newline + 1 if newline >= 0 or limit == 0 else None


def _indent(text: str, line: int | None, end: int) -> int:
    blanks = None if line is None else _BLANKS.match(text, line, end)
    return 0 if blanks is None else len(blanks[0])


class Heredocs:
    """The heredocs of `text`. Call for lines in text order, so that the text is read only once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = _HEREDOC.search(text) if "<<" in text else None
        self._end = 0

    @property
    def any(self) -> bool:
        return self._next is not None or self._end > 0

    def line(self, name: int, at: int) -> Span | None:
        """Return the rest of a line from `at` if a heredoc's line begins with the name at `name`.

        In settings files a value with spaces needs no quotes.
        """
        text = self._text
        while self._next is not None and self._next.end() <= name:
            terminator = re.compile(rf"^[ \t]*{self._next[2]}[ \t\r]*$", re.MULTILINE)
            last = terminator.search(text, self._next.end())
            self._end = len(text) if last is None else last.start()
            self._next = _HEREDOC.search(text, self._end)
        line = _line(text, name) if name < self._end else None
        if line is None or _ASSIGNED.fullmatch(text, line, name) is None:
            return None
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        return at, max(at, at + len(text[at:end].rstrip()))


def manifest_values(text: str) -> Iterator[Span]:
    """Yield the spans of the values in manifests of `SECRET_KIND`."""
    start = 0
    ends = (
        [match.start() for match in _MANIFEST_START.finditer(text)] if _MANIFEST_KIND.search(text) else []
    )
    for end in (*ends, len(text)):
        if _MANIFEST_KIND.search(text, start, end) is not None:
            for data in _MANIFEST_DATA.finditer(text, start, end):
                yield from _manifest_entries(text, data.end(), end, len(data[1]))
        start = end


def _manifest_entries(text: str, at: int, end: int, indent: int) -> Iterator[Span]:
    """Yield the values of the lines that are indented more than `data:` is."""
    while (
        at < end
        and (entry := _MANIFEST_ENTRY.match(text, at, end)) is not None
        and len(entry[1]) > indent
    ):
        if not text.startswith(MASK, entry.start(2)):
            yield entry.span(2)
        at = entry.end()
