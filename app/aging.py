"""Nets as they stand now: a session's marking is that of its last event, and tokens age since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from ..engine.history.markings import skill_net
from ..engine.history.parts import NetRecord
from ..engine.history.state import GrantState, NetState
from ..engine.net import Marking, NetError, Since, SkillNet
from ..engine.timed import aged, next_due

_T = TypeVar("_T")


def ages(net: NetRecord) -> bool:
    """Whether tokens of a net move by themselves after a time."""
    return any(t.after is not None for t in net.transitions)


def _timed(
    ask: Callable[[SkillNet, Marking, Since, float], _T], net: NetState, now: datetime | None
) -> _T | None:
    """What `ask` says; `None` without a `now`, without time, and of a net that never comes to rest."""
    if now is None or not ages(net.net):
        return None
    try:
        return ask(skill_net(net.net), net.marking, net.since, now.timestamp())
    except NetError:
        return None


def aged_net(net: NetState, now: datetime | None) -> NetState:
    """Where time has brought a net; without a `now`, or when it never comes to rest, as it is."""
    moved = _timed(aged, net, now)
    if moved is None:
        return net
    return net.model_copy(update={"marking": dict(moved.marking), "since": dict(moved.since)})


def next_back(net: NetState, place: str, now: datetime | None) -> float | None:
    """Seconds until a token comes back to `place` by itself, of a net as it stands `now`."""
    due = _timed(next_due, net, now)
    if due is None or now is None or place not in due[1].outputs:
        return None
    return max(1.0, due[0] - now.timestamp())


def seconds_left(grant: GrantState, now: datetime) -> float | None:
    """How long a grant still holds; `None` when it holds as long as its session."""
    seconds = grant.record.seconds
    return None if seconds is None else grant.record.since + seconds - now.timestamp()


def uses_left(grant: GrantState, now: datetime | None) -> int:
    """How many tokens a grant has; one stands for any number of uses."""
    net = aged_net(grant.net, now)
    spent = {p for t in net.net.transitions if t.tools for p in t.inputs}
    return sum(net.marking.get(place, 0) for place in spent)


def in_force(grant: GrantState, now: datetime | None = None) -> bool:
    """Whether a grant may let another call pass."""
    return grant.net.active and uses_left(grant, now) > 0
