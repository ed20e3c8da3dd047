"""Title of the approval dialog: tool, agent, waiting time and time left."""

from __future__ import annotations

from datetime import datetime

from textual.content import Content

from ....engine.history.model.state import ApprovalState
from ...format.text import age, clip, name_shown, seconds_between, width_of
from .queue_lines import client_absence

SOON = 60.0
"""Seconds before expiry in which the time left is highlighted."""
LEAST = 12


def request_title(
    request: ApprovalState, now: datetime, width: int, others: int = 0, *, over: bool = False
) -> Content:
    """Return the title, no wider than `width`. Names are cut off, times never."""
    times = " · settled" if over else f" · waiting {age(seconds_between(request.since, now))}"
    left = "" if request.expires is None or over else age(seconds_between(now, request.expires))
    more = f" · {others} more waiting" if others else ""
    expiry = f" · expires in {left}" if left else ""
    absence = ", ".join(client_absence(request, now))
    lost = f" · {absence}" if absence and not over else ""
    fixed = width_of(times) + width_of(lost) + width_of(expiry)
    if width - fixed - width_of(more) < 2 * LEAST:
        more = ""
    room = max(LEAST, width - fixed - width_of(more))
    name, who = name_shown(request.title), name_shown(request.agent or request.session)
    if width_of(name) + 3 + width_of(who) > room:
        name = clip(name, max(LEAST, room - 3 - min(width_of(who), room // 3)))
        who = clip(who, room - 3 - width_of(name))
    soon = bool(left) and seconds_between(now, request.expires or now) <= SOON
    return Content.assemble(
        name,
        f" — {who}" if who else "",
        times,
        (lost, "bold $text-error"),
        (expiry, "bold $text-error" if soon else ""),
        more,
    )
