"""Lines of open requests in the queue, with waiting time and time left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from textual.content import Content

from ....engine.core.approvers import PASSKEY
from ....engine.core.durations import format_duration
from ....engine.history.model.state import ApprovalState
from ....engine.history.redaction.shell.masking import is_shell_field
from ...format.highlighting import NO_SPANS, code_spans, highlighted, json_spans
from ...format.plan import shown_plan
from ...format.text import MUTED, age, count, glance_parts, name_shown, seconds_between, shown, spread
from ...terminal.symbols import RISK
from ..base.blocks import Block
from ..nets.list import approver_names, dots_of
from .change_rows import counts_text
from .progress import claim_words, fuse_words
from .proposed_edits import edit_counts

LAST_MINUTE = 60
"""Seconds before expiry from which the time left is highlighted."""


def time_left(approval: ApprovalState, now: datetime) -> tuple[str, str]:
    """Return text such as `14:18 left` and its style; empty for a request without a deadline."""
    if approval.expires is None:
        return "", ""
    seconds = (approval.expires - now).total_seconds()
    if seconds <= 0:
        return "time is up", "bold $text-error"
    # Rounded up, so that a request never appears to have expired before it has.
    left = f"{age(seconds + 0.999)} left"
    return (f"! {left}", "bold $text-warning") if seconds < LAST_MINUTE else (left, MUTED)


def client_absence(approval: ApprovalState, now: datetime) -> tuple[str, ...]:
    """Return `late: client gone`, `open 14:18`, or `disconnected 40 s`; empty while the client waits."""
    if approval.late is not None:
        left = age(max(0.0, seconds_between(now, approval.late)))
        return "late: client gone", f"open {left}"
    if approval.disconnected is None:
        return ()
    return (f"disconnected {format_duration(seconds_between(approval.disconnected, now))}",)


def risk_and_time(approval: ApprovalState, now: datetime) -> list[Content]:
    """Return facts shown before a request is opened: lost connection, risk, time, people, doubts."""
    pieces: list[Content] = []
    pieces += (Content.styled(each, "bold $text-error") for each in client_absence(approval, now))
    if approval.risk is not None:
        look = RISK[approval.risk]
        strong = "bold " if approval.risk == "high" else ""
        pieces.append(Content.styled(f"{look.symbol} {approval.risk}", strong + look.style))
    left, style = time_left(approval, now)
    if left:
        pieces.append(Content.styled(left, style))
    if approval.people > 1:
        so_far = f"{len(approval.given)} of {approval.people}"
        pieces.append(Content.assemble((f"{so_far} ", "$text-warning"), dots_of(approval)))
    pieces += approver_pieces(approval)
    if approval.uninspectable is not None:
        pieces.append(Content.styled("uninspectable", "bold $text-error"))
    return pieces


def approver_pieces(approval: ApprovalState) -> list[Content]:
    """Return pieces on the people who must approve, and on the escalation."""
    terms = approval.approvers
    if terms is None:
        return []
    pieces: list[Content] = []
    if terms.group is not None:
        pieces.append(Content.styled(f"needs {approval.needs}", "$text-warning"))
    if terms.passkey:
        pieces.append(Content.styled(PASSKEY, "$text-warning"))
    if not terms.author:
        pieces.append(Content.styled("not by author", MUTED))
    if terms.escalation is not None and approval.escalated is not None:
        pieces.append(Content.styled(f"escalated to {terms.escalation.group}", "bold $text-error"))
    return pieces


def waiting_block(approval: ApprovalState, name: str, now: datetime, marked: Collection[str]) -> Block:
    """Return the block of a request: tool and age, agent, risk and time left, and the head of its input.

    For a request that wants an answer, the question takes the place of the input.
    """
    waited = age(seconds_between(approval.since, now))
    who = f"{name_shown(approval.via)} of {name}" if approval.via else name
    mark = approval.id in marked
    asks = _call_text(approval)
    if approval.wants is not None:
        asks = Content.styled(f"answer: {_question(approval)}", MUTED)
    changed = edit_counts(approval)
    pieces = [
        *(Content.styled(each, "bold $text-warning") for each in fuse_words(approval, now)),
        *handover_pieces(approval),
        *risk_and_time(approval, now),
        *([] if changed is None else [counts_text(changed)]),
        *_edited(approval),
        *(Content.styled(each, MUTED) for each in approver_names(approval, now)),
    ]

    def lines(width: int) -> list[Content]:
        sign = ("[x] ", "bold $text-accent") if mark else ("◐ ", "$text-warning")
        head = Content.assemble(sign, (name_shown(approval.tool), "bold"))
        return [
            spread(head, Content.styled(waited, "$text-warning"), width),
            Content.styled(f"  {who}", MUTED).truncate(width, ellipsis=True),
            *(row.truncate(width, ellipsis=True) for row in _rows(pieces, width)),
            Content.assemble("  ", asks).truncate(width, ellipsis=True),
        ]

    return Block(approval.id, (waited, who, mark, tuple(p.plain for p in pieces)), lines)


def handover_pieces(approval: ApprovalState) -> list[Content]:
    """Return pieces on the claim, on who was asked to look, and on the number of comments."""
    return [Content.styled(each, "bold $text-accent") for each in handover_notes(approval)]


def handover_notes(approval: ApprovalState) -> list[str]:
    """Return the person with the claim, the person asked to look, and the number of comments."""
    words = [] if approval.claim is None else [claim_words(approval.claim.by)]
    asked = next((each.to for each in reversed(approval.comments) if each.to is not None), None)
    words += [] if asked is None else [f"@{name_shown(asked)}"]
    words += [count(len(approval.comments), "comment")] if approval.comments else []
    return words


def _edited(approval: ApprovalState) -> list[Content]:
    """Return the operator who replaced the agent's input with the one shown (G-75)."""
    if approval.original is None:
        return []
    by = name_shown(approval.edited_by or "an operator")
    return [Content.styled(f"edited by {by}", "bold $text-warning")]


def _call_text(approval: ApprovalState) -> Content:
    """Return the head of a call's input on one line, with commands highlighted."""
    if (plan := shown_plan(approval)) is not None:
        return Content.styled(plan.line, MUTED)
    parts: list[Content | tuple[str, str]] = []
    for name, label, text in glance_parts(approval.input, 120, approval.shell_fields):
        spans = NO_SPANS
        if is_shell_field(name, approval.shell_fields):
            spans = (json_spans if label else code_spans)(text, "bash")
        parts += [(" " if parts else "", ""), (label, MUTED), highlighted(text, 0, spans, MUTED)]
    return Content.assemble(*parts)


def _question(approval: ApprovalState) -> str:
    return shown(" ".join(approval.message[:120].split()))


def _rows(pieces: Sequence[Content], width: int) -> list[Content]:
    """Return pieces in rows, wrapped to as many lines as needed."""
    rows: list[Content] = []
    for piece in pieces:
        if rows and rows[-1].cell_length + 3 + piece.cell_length <= width:
            rows[-1] = Content.assemble(rows[-1], (" · ", MUTED), piece)
        else:
            rows.append(Content.assemble("  ", piece))
    return rows
