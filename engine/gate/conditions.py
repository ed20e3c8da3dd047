"""Verdict of a net on a call under its condition and at a given time.

A net does not judge the names of a call for which its condition does not hold; where that cannot be
evaluated, it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf, isfinite
from typing import cast

from ..core.condition import (
    NOWHERE,
    Surroundings,
    condition_text,
    holds,
    sources_of,
    unknown_reason,
)
from ..core.sources import SourceTexts
from ..net.net import Marking, NetError, Since, SkillNet, ToolCall
from ..net.timed import Aged, aged, arrivals, moved_times, timed_places
from . import reasons
from .member import Member
from .types import NetVerdict

# The evaluation context of verdicts: the time, and where the calls run.


class Timekeeper:
    """A gate's clock, in seconds since 1970, which never goes back: what was over stays over."""

    def __init__(self, clock: Callable[[], float], surroundings: Surroundings = NOWHERE) -> None:
        self._clock = clock
        self.said = SourceTexts()
        self.surroundings = surroundings
        self._latest = -inf

    @property
    def surroundings(self) -> Surroundings:
        return self._surroundings

    @surroundings.setter
    def surroundings(self, surroundings: Surroundings) -> None:
        self._surroundings = replace(surroundings, said=self.said)

    def listen(self, nets: Iterable[SkillNet]) -> None:
        """Keep what is said by the sources that conditions of these nets name, from now on."""
        sources = [source for net in nets for source in sources_of(net.condition)]
        if not self.said.sources.issuperset(sources):
            self.said.listen(sources)

    def context(self) -> EvaluationContext:
        return EvaluationContext(self, self.surroundings)

    def read(self) -> float:
        """The time. Raises what the clock raises, and `ValueError` when it does not say a time."""
        time = cast("object", self._clock())
        if not isinstance(time, int | float) or not isfinite(time):
            raise ValueError(f"it says {time!r}, expected seconds since 1970")
        self._latest = max(self._latest, float(time))
        return self._latest

    def begin_at(self, latest: float) -> None:
        """Go on from `latest`, the time that another record had come to, even if it is earlier."""
        self._latest = latest


class EvaluationContext:
    """One point in time, taken when something first depends on it; `clock` is `None` until then."""

    __slots__ = ("_aged", "_timekeeper", "clock", "moved", "surroundings")

    def __init__(self, timekeeper: Timekeeper, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.clock: float | None = None
        self.moved: dict[str, Since] | None = None
        """By net: when the tokens came that a commit took away or brought; see `timed.moved_times`."""
        self._timekeeper = timekeeper
        self._aged: dict[str, Aged] | None = None

    def now(self) -> float:
        """Raises as `Timekeeper.read` does."""
        if self.clock is None:
            self.clock = self._timekeeper.read()
        return self.clock

    def since(self, net: SkillNet, marking: Marking, recorded: Since) -> Since:
        """Arrival times of a net's tokens: those in `recorded`, and now for tokens that it leaves out.

        Raises as `Timekeeper.read` does.
        """
        if any(marking.get(p, 0) > len(recorded.get(p, ())) for p in timed_places(net)):
            return arrivals(net, recorded, marking, marking, self.now())
        return recorded

    def note_moved(self, member: Member, before: Since, after: Since) -> None:
        """Remember what a commit did to the tokens of a net that time moves."""
        times = moved_times(member.net, before, after)
        if times is not None:
            self.moved = {**(self.moved or {}), member.key: times}

    def aged(self, member: Member) -> Aged:
        """State to which time has brought a net by now, computed once for each `EvaluationContext`.

        Raises what the clock raises, and `NetError` for a net that does not come to rest.
        """
        if self._aged is None:
            self._aged = {}
        found = self._aged.get(member.key)
        if found is None:
            state = member.state
            found = aged(member.net, state.marking, state.since, self.now())
            self._aged[member.key] = found
        return found

    def marking(self, member: Member) -> Marking:
        """Marking of the net by now. Raises as `aged` does."""
        return self.aged(member).marking if member.net.timed else member.state.marking


def under_condition(
    net: SkillNet, names: Sequence[str], call: ToolCall, surroundings: Surroundings
) -> tuple[tuple[str, ...], str | None]:
    """Those of a call's names that the net judges, and a note on its condition.

    The note is `None` where the condition holds or is not asked. Raises what a matcher raises.
    """
    condition = net.condition
    if condition is None or not any(name in net.governs for name in names):
        return tuple(names), None
    answer = holds(condition, call.input, surroundings)
    if answer is None:
        return tuple(names), unknown_reason(condition, call.input, surroundings)
    if answer:
        return tuple(names), None
    return (
        tuple(name for name in names if name not in net.governs),
        f"{condition_text(condition)} does not hold",
    )


def apply_condition(
    member: Member, names: Sequence[str], call: ToolCall, context: EvaluationContext
) -> NetVerdict:
    """The net's verdict; it blocks what it cannot judge (G-59)."""
    if member.plain:
        return member.verdict(names)
    try:
        left, note = under_condition(member.net, names, call, context.surroundings)
    except Exception as problem:
        return member.blocked(names[0], reasons.callback_failed(member.key, "condition", problem))
    if not any(name in member.knows for name in left):
        return replace(member.abstain(names[0]), note=note)
    try:
        marking = context.marking(member)
    except NetError as problem:
        return member.blocked(names[0], reasons.cannot_fire(member.key, problem))
    except Exception as problem:
        return member.blocked(names[0], reasons.callback_failed(member.key, "clock", problem))
    verdict = member.verdict(left, marking)
    if note is None or len(left) < len(names):
        return verdict
    reason = verdict.reason
    if reason is not None and verdict.tool in member.net.governs:
        reason = reasons.applying(reason, note)
    return replace(verdict, reason=reason, note=note)
