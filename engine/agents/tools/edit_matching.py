"""Finding the text that an edit replaces, exactly or except for whitespace, and replacing it.

All steps take time proportional to the text, because an agent chooses both sides.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias

from ..errors import ToolError

MatchMethod: TypeAlias = Literal["exact", "trimmed", "indentation"]

MAX_LISTED = 10
MAX_COMPARED = 2_000_000


@dataclass(frozen=True, slots=True)
class EditResult:
    """A text after an edit, the number of changed places and how they were found."""

    text: str
    replacements: int
    method: MatchMethod


@dataclass(frozen=True, slots=True)
class _Match:
    """Characters from `start` to `end` are replaced by `replacement`."""

    start: int
    end: int
    replacement: str


def edit(text: str, old: str, new: str, *, replace_all: bool, path: str) -> EditResult:
    """Return `text` with `new` in place of `old`.

    All line endings match each other; the replacement gets the text's own. If `old` is not in the text
    exactly, whole lines are compared: first without trailing whitespace, then without common indentation,
    then without surrounding whitespace. Their replacement is indented like the replaced lines. Raises
    `ToolError` with the remedy if there is no match, or more than one without `replace_all`.
    """
    windows = text.count("\r\n") * 2 > text.count("\n")
    plain, old, new = text.replace("\r\n", "\n"), old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        raise ToolError("old_string is empty: give the text to replace, or make a file with write.")
    if old == new:
        raise ToolError("old_string and new_string are the same: nothing would change.")
    method, matches = _find(plain, old, new)
    if not matches:
        raise ToolError(_absence_message(plain, old, path))
    if len(matches) > 1 and not replace_all:
        raise ToolError(_ambiguity_message(plain, matches, path))
    # Positions in `plain` of newlines that were CRLF.
    carriage_returns = [ending.start() - n for n, ending in enumerate(re.finditer("\r\n", text))]

    def place(position: int) -> int:
        return position + bisect.bisect_left(carriage_returns, position)

    parts: list[str] = []
    done = 0
    for match in matches:
        parts.append(text[done : place(match.start)])
        parts.append(match.replacement.replace("\n", "\r\n") if windows else match.replacement)
        done = place(match.end)
    parts.append(text[done:])
    return EditResult("".join(parts), len(matches), method)


def _find(text: str, old: str, new: str) -> tuple[MatchMethod, list[_Match]]:
    exact = [_Match(at, at + len(old), new) for at in _occurrences(text, old, len(old))]
    if exact:
        return "exact", exact
    old_lines = old.removesuffix("\n").split("\n")
    if not any(line.strip() for line in old_lines):
        return "exact", []
    block = _Block(text, old_lines, old.endswith("\n"), new)
    method: MatchMethod = "trimmed"
    first_lines = block.first_lines(str.rstrip)
    if not first_lines:
        method, first_lines = "indentation", block.dedented_first_lines()
    if not first_lines:
        method, first_lines = "trimmed", block.first_lines(str.strip)
    return method, [block.match(first) for first in first_lines]


def _occurrences(text: str, part: str, step: int) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + step)


class _Block:
    """The lines of `old` as a block to find among the lines of a text."""

    def __init__(self, text: str, old_lines: Sequence[str], whole: bool, new: str) -> None:
        self._lines = text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._length = len(text)
        self._old_lines = old_lines
        self._whole = whole
        self._new = new

    def first_lines(self, form: Callable[[str], str]) -> list[int]:
        """First lines of places whose lines equal the old ones in this form."""
        return list(self._first_lines_of(form, overlapping=False))

    def dedented_first_lines(self) -> list[int]:
        """First lines of places that differ from the old lines only in their common indentation.

        Returns none if too many overlapping places would have to be compared.
        """
        old_lines = _dedent(self._old_lines)
        size = sum(map(len, self._old_lines)) + len(self._old_lines)
        first_lines: list[int] = []
        for number, first in enumerate(self._first_lines_of(str.strip, overlapping=True)):
            if number * size > MAX_COMPARED:
                return []
            free = not first_lines or first >= first_lines[-1] + len(self._old_lines)
            if free and _dedent(self._lines[first : first + len(self._old_lines)]) == old_lines:
                first_lines.append(first)
        return first_lines

    def _first_lines_of(self, form: Callable[[str], str], *, overlapping: bool) -> Iterator[int]:
        forms = [form(line) for line in self._lines]
        starts = [0, *accumulate(len(line) + 1 for line in forms)]
        part = "\n".join(["", *map(form, self._old_lines), ""])
        haystack = "\n".join(["", *forms, ""])
        for at in _occurrences(haystack, part, 1 if overlapping else len(part) - 1):
            yield bisect.bisect_left(starts, at)

    def match(self, first: int) -> _Match:
        """Return the place that starts with line `first`, and its replacement."""
        last = first + len(self._old_lines)
        end = min(self._starts[last], self._length) if self._whole else self._starts[last] - 1
        replacement = _indented(self._new, self._old_lines, self._lines[first:last])
        at_end = self._whole and last >= len(self._lines)
        return _Match(self._starts[first], end, replacement.removesuffix("\n") if at_end else replacement)


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _dedent(lines: Sequence[str]) -> list[str]:
    """Lines without their common indentation and without trailing whitespace."""
    indentations = [_indentation(line) for line in lines if line.strip()]
    low, high = min(indentations), max(indentations)
    # A prefix that the first and last in sort order share is shared by all between them.
    pairs = enumerate(zip(low, high, strict=False))
    common = next(
        (at for at, (low_sign, high_sign) in pairs if low_sign != high_sign), min(len(low), len(high))
    )
    return [line[common:].rstrip() if line.strip() else "" for line in lines]


def _indented(new: str, old_lines: Sequence[str], file_lines: Sequence[str]) -> str:
    """Replace the indentation of `old_lines` in `new` by that of `file_lines`."""
    indentations: dict[str, str] = {}
    for line, file_line in zip(old_lines, file_lines, strict=True):
        if line.strip():
            indentations.setdefault(_indentation(line), _indentation(file_line))
    lengths = sorted({len(key) for key in indentations}, reverse=True)
    outer = min(indentations, key=len)

    def placed(line: str) -> str:
        indentation = _indentation(line)
        if not line.strip():
            return line
        for length in lengths:
            if length <= len(indentation) and indentation[:length] in indentations:
                return indentations[indentation[:length]] + line[length:]
        # Indented less than any of `old_lines`: gets the same additional prefix as the outermost of
        # these.
        return (
            indentations[outer].removesuffix(outer) + line
            if indentations[outer].endswith(outer)
            else line
        )

    return "\n".join(placed(line) for line in new.split("\n"))


def _line_list(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - MAX_LISTED} more" if len(numbers) > MAX_LISTED else ""
    word = "line" if len(numbers) == 1 else "lines"
    return f"{word} {', '.join(map(str, numbers[:MAX_LISTED]))}{more}"


def _ambiguity_message(text: str, matches: Sequence[_Match], path: str) -> str:
    starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
    numbers = [bisect.bisect_right(starts, match.start) for match in matches]
    return (
        f"old_string was found {len(matches)} times in {path} ({_line_list(numbers)}). "
        "Give more of the lines around it so that it fits one place, or set replace_all."
    )


def _absence_message(text: str, old: str, path: str) -> str:
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    numbers = [n for n, line in enumerate(text.split("\n"), 1) if first and line.strip() == first]
    hint = (
        f" Its first line is {_line_list(numbers)} of the file, but what follows differs."
        if numbers
        else ""
    )
    return (
        f"old_string was not found in {path}, not even with whitespace left out.{hint} "
        "Read the file again and copy the text as it stands there."
    )
