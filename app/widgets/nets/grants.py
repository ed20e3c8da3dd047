"""Lines of grants among the nets: what passes without approval, how often, how long, and by whom."""

from __future__ import annotations

from datetime import datetime

from textual.content import Content

from ....engine.core.durations import format_duration
from ....engine.history.fold.event_text import grant_words
from ....engine.history.model.state import GrantState, SessionState
from ...format.text import MUTED, clip, pad, shown, width_of
from ...format.times import in_force, seconds_left, uses_left
from ..base.blocks import Block

DOTS = 5
"""Maximum uses shown as tokens; more are shown as a number."""
TITLE = 32
"""Maximum width of a plan's title in cells."""


def grant_blocks(state: SessionState, name_width: int, now: datetime | None) -> list[Block]:
    """Return a block per grant in force, with names aligned with those of the nets."""
    return [
        _block(key, grant, name_width, now) for key, grant in state.grants.items() if in_force(grant, now)
    ]


def passes(grant: GrantState) -> str:
    """Return the effect of a grant in words."""
    record = grant.record
    if record.plan is not None:
        title = (grant.input or {}).get("title")
        of = f"“{clip(shown(title), TITLE)}”" if isinstance(title, str) else record.plan
        return f"{shown(record.tool)} of {of} passes without asking"
    which = " with one exact input" if record.exact else ""
    return f"{shown(record.asked)}{which} passes without asking"


def uses(grant: GrantState, now: datetime | None) -> tuple[str, str]:
    """Return tokens and words: `●●○` and `2 left`, or nothing and `7 of 20 left`, for example."""
    most = grant.record.uses
    left = uses_left(grant, now)
    if most is None:
        return ("●", "any number of times") if left else ("○", "none left")
    if most > DOTS:
        return "", f"{left} of {most} left"
    return f"{'●' * left}{'○' * (most - left)}", f"{left} left"


def bounds(grant: GrantState, now: datetime) -> list[str]:
    """Return uses and time left of a grant, then who gave it."""
    seconds = seconds_left(grant, now)
    time = (
        [] if seconds is None else [format_duration(max(1.0, seconds)) if seconds > 0 else "time is up"]
    )
    return [uses(grant, now)[1], *time, f"by {shown(grant.by)}"]


def grant_facts(grant: GrantState, now: datetime) -> list[tuple[str, str]]:
    """Return labelled facts about a grant except its input, as operators and agents wrote them."""
    record = grant.record
    reason = [("reason", grant.reason)] if grant.reason else []
    revoked = [("revoked by", grant.revoked_by)] if grant.revoked_by else []
    return [
        ("lets pass", grant_words(record)),
        ("left", ", ".join(bounds(grant, now)[:-1])),
        ("given by", f"{grant.by} at {grant.at:%H:%M:%S}"),
        *reason,
        *revoked,
        ("in place of", record.asks),
        ("names", ", ".join(record.names)),
    ]


def _block(key: str, grant: GrantState, name_width: int, now: datetime | None) -> Block:
    left, dots = bounds(grant, now or grant.at), uses(grant, now)[0]
    text = passes(grant)

    def lines(width: int) -> list[Content]:
        head = (" ▸  ", "$text-success")
        tail = Content.assemble(
            (f"{dots} " if dots else "", "bold $text-accent"), (" · ".join(left), MUTED)
        )
        least = width_of(shown(key))
        for column in (max(min(name_width, width * 2 // 5) + 2, least), least):
            line = Content.assemble(head, (pad(shown(key), column), "bold"), "  ", (text, ""), "  ", tail)
            if line.cell_length <= width:
                return [line]
        return [
            Content.assemble(head, (clip(shown(key), width - 4), "bold")),
            Content.styled(f"    {text}", "").truncate(width, ellipsis=True),
            Content.assemble("    ", tail).truncate(width, ellipsis=True),
        ]

    return Block(key, (tuple(left), dots, text, name_width), lines)
