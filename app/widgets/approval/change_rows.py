"""Lines of an edit's changes, field by field: old and new value, long texts as a diff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff

from pydantic import JsonValue
from textual.content import Content

from ...format.highlighting import code_spans, highlighted, language_of
from ...format.text import MUTED, shown, shown_lines, styled_rows, wrap_all
from ...viewmodels.input_draft import Change, safe_json
from ..base.blocks import StyledRows

DIFF = {"+": "$text-success", "-": "$text-error", "@": MUTED}
"""Styles of diff lines by their signs."""
MOST = 1_000
"""Maximum lines to compare. For longer texts the old text is shown, then the new text."""
AROUND = 2


def change_rows(changes: Sequence[Change], width: int) -> list[Content]:
    """Return the lines of all changes, no wider than `width`."""
    rows: list[Content] = []
    for change in changes:
        name = shown(change.name) or "the input"
        rows += styled_rows([name], width, "bold $text-accent")
        rows += _rows(change, width)
    return rows


def diff_lines(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return a unified diff without file headers, each line with its sign first.

    For texts that are too long, all old lines come before all new lines. A one-line text has no hunk
    header.
    """
    if len(before) == len(after) == 1:
        return [f"-{before[0]}", f"+{after[0]}"]
    if max(len(before), len(after)) > MOST or min(len(before), len(after)) == 0:
        return [*(f"-{row}" for row in before), *(f"+{row}" for row in after)]
    return list(unified_diff(before, after, n=AROUND, lineterm=""))[2:]


def _rows(change: Change, width: int) -> StyledRows:
    language = language_of(change.name, {})
    before, after = change.before, change.after
    texts = isinstance(before, str) and isinstance(after, str) and "\n" in before + after
    if texts:
        lines = diff_lines(str(before).split("\n"), str(after).split("\n"))
        return diff_rows(lines, width, language)
    return diff_rows(diff_lines(_lines(before), _lines(after)), width)


def counts_text(counts: tuple[int, int]) -> Content:
    """Return added and removed lines as text such as `+3 −1`."""
    return Content.assemble((f"+{counts[0]}", "$text-success"), " ", (f"−{counts[1]}", "$text-error"))


@dataclass(frozen=True, slots=True)
class DiffRow:
    """Look of a diff row: its `sign`, its style, and the code line that it shows from offset `at` on.

    `code` is empty for a row that is not code.
    """

    sign: str
    style: str
    code: str = ""
    at: int = 0

    def shown(self, row: str, language: str | None) -> Content:
        """Return the row in its style, with syntax highlighting."""
        if language is None or not self.code:
            return Content.styled(row, self.style)
        spans = code_spans(self.code, language, in_diff=bool(self.style))
        return highlighted(row, self.at, spans, self.style)


def diff_rows(lines: Sequence[str], width: int, language: str | None = None) -> StyledRows:
    """Return wrapped diff lines: sign, bar, and the text in the sign's colour.

    If `language` is known, the text is highlighted as well.
    """
    texts: list[str] = []
    looks: list[DiffRow] = []
    for line in lines:
        sign, text = line[0], line[1:]
        style = DIFF.get(sign, "")
        shown_text = line if sign == "@" else next(iter(shown_lines(text)), "")
        rows = wrap_all([shown_text], width - 6)
        texts += rows
        code, at = "" if sign == "@" else shown_text, 0
        for index, row in enumerate(rows):
            looks.append(DiffRow(sign if sign in "-+" and not index else " ", style, code, at))
            at += len(row)

    def styled(index: int, row: str) -> Content:
        look = looks[index]
        mark = (f"  {look.sign} ", f"bold {look.style}")
        return Content.assemble(mark, ("│ ", MUTED), look.shown(row, language))

    return StyledRows(texts, styled)


def _lines(value: JsonValue) -> list[str]:
    """Return a multi-line text as lines, anything else as JSON."""
    if isinstance(value, str) and "\n" in value:
        return value.split("\n")
    return safe_json(value, 2 if isinstance(value, dict | list) else None).split("\n")
