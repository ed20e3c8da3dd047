"""Problems of a rules file: what is wrong, where, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...engine.core.sanitize import cells, visible

# Display of a line of a rules file; a caret is positioned by terminal cells, not by characters.


TAB = "    "


def shown(text: str) -> str:
    """A piece of one line, safe for a terminal; every tab becomes four blanks."""
    return visible(text.replace("\t", TAB))


_SHOWN_BEFORE = 40
_SHOWN_AFTER = 32
_QUOTED = 120


@dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning (G-40).

    `line` and `column` count from 1, `column` in characters; line 0 means the file as a whole. `length`
    is the number of faulty characters, `text` the whole line as written. `message` says what is wrong,
    `remedy` what to write instead, if it adds anything.
    """

    file: str
    line: int
    column: int
    length: int
    text: str
    message: str
    remedy: str = ""

    @property
    def where(self) -> str:
        """`rules/deploy.rules:3:9`, or only the file."""
        return f"{shown(self.file)}:{self.line}:{self.column}" if self.line else shown(self.file)

    @property
    def caret(self) -> str:
        """Two lines: the text, and `^` under the faulty characters."""
        at = self.column - 1
        length = min(self.length, _SHOWN_AFTER)
        first, last = max(0, at - _SHOWN_BEFORE), at + length + _SHOWN_AFTER
        before, fault = self.text[first:at], self.text[at : at + length]
        head = "…" if first else ""
        tail = "…" if len(self.text) > last else ""
        line = f"{head}{shown(before)}{shown(self.text[at:last])}{tail}"
        return f"{line}\n{' ' * cells(shown(head + before))}{'^' * max(1, cells(shown(fault)))}"

    def __str__(self) -> str:
        lines = [f"{self.where}: {shown(self.message)}"]
        if self.line:
            lines += [f"    {line}" for line in self.caret.split("\n")]
        if self.remedy:
            lines.append(f"    {shown(self.remedy)}")
        return "\n".join(lines)


class RuleError(Exception):
    """Rules that do not compile: every problem of every file, in order (G-40)."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def quote(word: str) -> str:
    """`word` as a message shows it: in quotes, and shortened if it is long."""
    return f"'{cut(word)}'"


def cut(text: str) -> str:
    """`text`, or its beginning if it is long."""
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
