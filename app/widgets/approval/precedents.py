"""Lines on precedents of a request.

Their number is the same before and after the precedents are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from textual.content import Content

from ....engine.history.decisions.precedents import PastCall, Precedents
from ....engine.history.model.state import ApprovalState
from ...format.text import MUTED, ago, clip, name_shown, seconds_between, shown, styled_rows, wrap
from ...viewmodels.input_draft import changes
from ...viewmodels.precedents import RESULTS, precedent_words
from .change_rows import change_rows

Unfound: TypeAlias = Literal["coming", "unknown"]
"""State without precedents: the search is running, or the hub cannot provide them."""
SENTENCES = 3
ONE_LINE = 56
"""Columns from which a sentence has one line; below that it has two."""
VERDICTS = {"approved": "approved", "denied": "denied", "expired": "nobody decided in time"}


def precedent_lines(
    request: ApprovalState, found: Precedents | Unfound, now: datetime, width: int
) -> list[Content]:
    """Return a fixed number of lines; they are empty while nothing is known."""
    rows = 1 if width >= ONE_LINE else 2
    if not isinstance(found, Precedents):
        text = "…" if found == "coming" else "not known here"
        return [Content.styled(text, MUTED), *[Content("")] * (SENTENCES * rows - 1)]
    words = precedent_words(request, found, now)
    decided = "bold $text-warning" if found.denied else "" if found.approved else MUTED
    lines = [
        *_rows(words.decisions, rows, width, decided),
        *_rows(words.difference, rows, width, MUTED if found.last is None else ""),
        *_rows(words.new, rows, width, "bold $text-warning"),
    ]
    return [*lines, *[Content("")] * (SENTENCES * rows - len(lines))]


def _rows(text: str, most: int, width: int, style: str) -> list[Content]:
    """Return a sentence on at most `most` lines; the end of a longer one is cut off."""
    rows = wrap(text, width) if text else []
    kept = rows if len(rows) <= most else [*rows[: most - 1], clip("".join(rows[most - 1 :]), width)]
    return [Content.styled(row, style) for row in kept]


def past_call_lines(
    request: ApprovalState, call: PastCall, now: datetime, width: int
) -> Sequence[Content]:
    """Return an earlier call: its decision and reason, its result, and how its input differs."""
    by = f" by {name_shown(call.by)}" if call.by else ""
    when = ago(seconds_between(call.at, now))
    lines = styled_rows([f"{VERDICTS[call.verdict]}{by}, asked {when}"], width, "bold")
    if call.reason:
        lines += styled_rows([f"“{shown(call.reason)}”"], width, "$text-warning")
    if call.verdict == "approved":
        result = RESULTS.get(call.result or "", "it has no result yet")
        lines += styled_rows([result], width, "$text-error" if call.result == "failed" else "")
    lines += styled_rows(
        [f"session {name_shown(call.session)}, call {shown(call.call_id)}"], width, MUTED
    )
    found = changes(call.input, request.input)
    lines.append(Content(""))
    if not found:
        return [*lines, *styled_rows(["Its input was the same."], width)]
    lines += styled_rows(["Removed is what it had, added what this request has:"], width, MUTED)
    return [*lines, *change_rows(found, width)]
