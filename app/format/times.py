"""Times in words, for tables, headings and scrubbers.

`zone` is the operator's time zone; `None` means the machine's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import TypeVar

from ...engine.history.fold.markings import skill_net
from ...engine.history.model.records import NetRecord
from ...engine.history.model.state import ApprovalState, GrantState, NetState
from ...engine.net.net import Marking, NetError, Since, SkillNet
from ...engine.net.timed import aged, next_due
from .text import seconds_between


def clock(at: datetime, zone: tzinfo | None = None) -> str:
    """Format as `14:01:40`."""
    return f"{at.astimezone(zone):%H:%M:%S}"


def day(at: datetime, zone: tzinfo | None = None) -> str:
    """Format as `2026-11-20`."""
    return f"{at.astimezone(zone):%Y-%m-%d}"


def day_and_time(at: datetime, zone: tzinfo | None = None) -> str:
    """Format as `2026-11-20 14:01`."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M}"


def short_day_and_time(at: datetime, zone: tzinfo | None = None) -> str:
    """Format as `11-20 14:01`, if there is no space for the year."""
    return f"{at.astimezone(zone):%m-%d %H:%M}"


# Extension of a request's deadline, by 15 minutes, from any screen.


MORE_TIME = 15 * 60.0
"""Length of one extension in seconds, in addition to the time left."""


def with_more(request: ApprovalState, now: datetime) -> float | None:
    """Return the seconds from `now` to the extended deadline; `None` for a request without a deadline."""
    return None if request.expires is None else seconds_between(now, request.expires) + MORE_TIME


# Nets at the present time: a session's marking is that of its last event, and tokens age afterwards.


_T = TypeVar("_T")


def ages(net: NetRecord) -> bool:
    """Return whether a net has timed transitions."""
    return any(t.after is not None for t in net.transitions)


def _timed(
    ask: Callable[[SkillNet, Marking, Since, float], _T], net: NetState, now: datetime | None
) -> _T | None:
    """Return the result of `ask`; `None` without `now`, timed transitions, or a stable state."""
    if now is None or not ages(net.net):
        return None
    try:
        return ask(skill_net(net.net), net.marking, net.since, now.timestamp())
    except NetError:
        return None


def aged_net(net: NetState, now: datetime | None) -> NetState:
    """Return the net after its timed transitions; unchanged without `now` or a stable state."""
    moved = _timed(aged, net, now)
    if moved is None:
        return net
    return net.model_copy(update={"marking": dict(moved.marking), "since": dict(moved.since)})


def next_back(net: NetState, place: str, now: datetime | None) -> float | None:
    """Return the seconds until a token returns to `place` by itself, from the net's marking at `now`."""
    due = _timed(next_due, net, now)
    if due is None or now is None or place not in due[1].outputs:
        return None
    return max(1.0, due[0] - now.timestamp())


def seconds_left(grant: GrantState, now: datetime) -> float | None:
    """Return the seconds left of a grant, 0 or less once over; `None` if it has no time limit."""
    seconds = grant.record.seconds
    return None if seconds is None else grant.record.since + seconds - now.timestamp()


def uses_left(grant: GrantState, now: datetime | None) -> int:
    """Return the number of tokens that a grant has; one for unlimited uses."""
    net = aged_net(grant.net, now)
    spent = {p for t in net.net.transitions if t.tools for p in t.inputs}
    return sum(net.marking.get(place, 0) for place in spent)


def in_force(grant: GrantState, now: datetime | None = None) -> bool:
    """Return whether a grant may let another call pass."""
    return grant.net.active and uses_left(grant, now) > 0
