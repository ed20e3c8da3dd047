"""What an edit changes, field by field: before and after, long texts as a diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff

from pydantic import JsonValue
from textual.content import Content

from ..input_draft import Change, safe_json
from ..text import shown, shown_lines, wrap_all

MUTED = "$foreground 60%"
MOST = 3_000
"""Lines of which a diff is made; of longer texts the old is shown, then the new."""
AROUND = 2


def change_rows(changes: Sequence[Change], width: int) -> list[Content]:
    """The lines, no wider than `width`."""
    rows: list[Content] = []
    for change in changes:
        name = shown(change.name) or "the input"
        rows += [Content.styled(row, "bold $text-accent") for row in wrap_all([name], width)]
        rows += _rows(change, width)
    return rows


def _rows(change: Change, width: int) -> Iterator[Content]:
    before, after = _lines(change.before), _lines(change.after)
    if len(before) == len(after) == 1:
        marked = [f"-{before[0]}", f"+{after[0]}"]
    elif max(len(before), len(after)) > MOST:
        marked = [*(f"-{row}" for row in before), *(f"+{row}" for row in after)]
    else:
        marked = list(unified_diff(before, after, n=AROUND, lineterm=""))[2:]
    for line in marked:
        sign, text = line[0], line[1:]
        style = {"-": "$text-error", "+": "$text-success", "@": MUTED}.get(sign, "")
        shown_text = "".join(shown_lines(text)[:1]) if sign != "@" else text
        for index, row in enumerate(wrap_all([shown_text], width - 6)):
            mark = sign if sign in "-+" else " "
            yield Content.assemble(
                (f"  {' ' if index else mark} ", f"bold {style}"), ("│ ", MUTED), (row, style)
            )


def _lines(value: JsonValue) -> list[str]:
    """A text of several lines as these, anything else as JSON."""
    if isinstance(value, str) and "\n" in value:
        return value.split("\n")
    return safe_json(value, 2 if isinstance(value, dict | list) else None).split("\n")
