"""Changes of an edit, field by field: before and after, long texts as a diff."""

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
"""The colours of a diff's lines by their signs."""
MOST = 1_000
"""Lines of which a diff is made; of longer texts the old is shown, then the new."""
AROUND = 2


def change_rows(changes: Sequence[Change], width: int) -> list[Content]:
    """The lines, no wider than `width`."""
    rows: list[Content] = []
    for change in changes:
        name = shown(change.name) or "the input"
        rows += styled_rows([name], width, "bold $text-accent")
        rows += _rows(change, width)
    return rows


def diff_lines(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """A unified diff without the headers of files, each line with its sign first.

    Of too many lines all old ones come before all new ones; a single one has no header.
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
    """`+3 −1`: the lines that are added and removed."""
    return Content.assemble((f"+{counts[0]}", "$text-success"), " ", (f"−{counts[1]}", "$text-error"))


@dataclass(frozen=True, slots=True)
class DiffRow:
    """The look of a row of a diff: its `sign`, its colour, and the code that it shows from `at` on.

    Of what is no code the text is empty.
    """

    sign: str
    style: str
    code: str = ""
    at: int = 0

    def shown(self, row: str, language: str | None) -> Content:
        """The row in its colour, with the parts of its code."""
        if language is None or not self.code:
            return Content.styled(row, self.style)
        spans = code_spans(self.code, language, in_diff=bool(self.style))
        return highlighted(row, self.at, spans, self.style)


def diff_rows(lines: Sequence[str], width: int, language: str | None = None) -> StyledRows:
    """Lines of a diff as they are shown, wrapped: sign, bar, and the text in the sign's colour.

    Where the `language` of the text is known it is highlighted as well.
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
    """A text of several lines as these, anything else as JSON."""
    if isinstance(value, str) and "\n" in value:
        return value.split("\n")
    return safe_json(value, 2 if isinstance(value, dict | list) else None).split("\n")
