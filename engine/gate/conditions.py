"""Verdict of a net on a call under its condition and at a given time.

A net does not judge the names of a call for which its condition does not hold. It does judge them if the
condition cannot be evaluated.
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
from ..core.shared_limit import SharedLimit
from ..core.sources import SourceTexts
from ..core.value_key import MOST_VALUES
from ..net.net import Marking, NetError, Since, SkillNet, ToolCall
from ..net.timed import Aged, aged, arrivals, moved_times, timed_places
from . import reasons
from .member import Member
from .shared_uses import SessionUses, SharedUses
from .types import NetVerdict

# The evaluation context of verdicts: the time, and where calls run.


class Timekeeper:
    """Monotonic clock of a gate, in seconds since 1970: what has expired stays expired."""

    def __init__(
        self,
        clock: Callable[[], float],
        surroundings: Surroundings = NOWHERE,
        uses: SessionUses | None = None,
    ) -> None:
        self._clock = clock
        self.uses = uses or SharedUses().of_session("")
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
        """Start keeping the texts of the sources that conditions of these nets name."""
        sources = [source for net in nets for source in sources_of(net.condition)]
        if not self.said.sources.issuperset(sources):
            self.said.listen(sources)

    def context(self) -> EvaluationContext:
        return EvaluationContext(self, self.surroundings)

    def read(self) -> float:
        """Current time. Raises what the clock raises, and `ValueError` if it returns no finite number."""
        time = cast("object", self._clock())
        if not isinstance(time, int | float) or not isfinite(time):
            raise ValueError(f"it says {time!r}, expected seconds since 1970")
        self._latest = max(self._latest, float(time))
        return self._latest

    def begin_at(self, latest: float) -> None:
        """Continue from `latest`, the last time in another record, even if it is earlier."""
        self._latest = latest


class EvaluationContext:
    """One point in time, read when something first depends on it; `clock` is `None` until then."""

    __slots__ = ("_aged", "_timekeeper", "clock", "counters", "moved", "surroundings")

    def __init__(self, timekeeper: Timekeeper, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.clock: float | None = None
        self.moved: dict[str, Since] | None = None
        """By net: arrival times of the tokens that a commit removed or added; see `timed.moved_times`."""
        self.counters: set[str] = set()
        """Counters of limits over sessions that were read."""
        self._timekeeper = timekeeper
        self._aged: dict[str, Aged] | None = None

    def now(self) -> float:
        """The time of this context. Raises as `Timekeeper.read` does."""
        if self.clock is None:
            self.clock = self._timekeeper.read()
        return self.clock

    def since(self, net: SkillNet, marking: Marking, recorded: Since) -> Since:
        """Arrival times of a net's tokens: those in `recorded`, and the current time for tokens missing
        there.

        Raises as `Timekeeper.read` does.
        """
        if any(marking.get(p, 0) > len(recorded.get(p, ())) for p in timed_places(net)):
            return arrivals(net, recorded, marking, marking, self.now())
        return recorded

    def note_moved(self, member: Member, before: Since, after: Since) -> None:
        """Record the arrival times of tokens that a commit moved in a timed net."""
        times = moved_times(member.net, before, after)
        if times is not None:
            self.moved = {**(self.moved or {}), member.key: times}

    def aged(self, member: Member) -> Aged:
        """State of a net after the timed transitions due by now, computed once for each
        `EvaluationContext`.

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

    def own_marking(self, member: Member) -> Marking:
        """Current marking of the net, counting only this session's calls. Raises as `aged` does."""
        return self.aged(member).marking if member.net.timed else member.state.marking

    def marking(self, member: Member) -> Marking:
        """Current marking of the net, less the uses of other sessions. Raises as `aged` does."""
        marking = self.own_marking(member)
        return marking if member.net.shared is None else self._left(member, member.net.shared, marking)

    def counter(self, member: Member, shared: SharedLimit) -> str:
        """Counter of a net whose uses count over sessions."""
        return shared.counter(self.surroundings.session, member.digest)

    def free(self, member: Member, shared: SharedLimit) -> int:
        """Uses left of a limit over sessions, regardless of the tokens in this session's own net."""
        capacity, counter = member.net.initial_marking[shared.place], self.counter(member, shared)
        return self._timekeeper.uses.left(counter, shared, capacity, capacity, self.now())

    def _left(self, member: Member, shared: SharedLimit, marking: Marking) -> Marking:
        capacity, own = member.net.initial_marking[shared.place], marking.get(shared.place, 0)
        counter = self.counter(member, shared)
        self.counters.add(counter)
        remaining = self._timekeeper.uses.left(counter, shared, capacity, own, self.now())
        return marking if remaining == own else {**marking, shared.place: remaining}


def under_condition(
    net: SkillNet, names: Sequence[str], call: ToolCall, surroundings: Surroundings
) -> tuple[tuple[str, ...], str | None]:
    """The names of a call that the net judges, and a note on its condition.

    The note is `None` if the condition holds or does not apply to these names. Raises what a matcher
    raises.
    """
    condition = net.condition
    if condition is None or not any(name in net.governs for name in names):
        return tuple(names), None
    around = surroundings.about(call.tool_name)
    answer = holds(condition, call.input, around)
    if answer is None:
        return tuple(names), unknown_reason(condition, call.input, around)
    if answer:
        return tuple(names), None
    return (
        tuple(name for name in names if name not in net.governs),
        f"{condition_text(condition)} does not hold",
    )


def apply_condition(
    member: Member, names: Sequence[str], call: ToolCall, context: EvaluationContext
) -> tuple[Member, NetVerdict]:
    """Verdict of a net under its condition, with the net; for a net per value, that of the call's value.

    The net blocks what it cannot judge (G-59).
    """
    if member.plain:
        return member, member.verdict(names)
    try:
        left, note = under_condition(member.net, names, call, context.surroundings)
    except Exception as problem:
        failed = reasons.callback_failed(member.key, "condition", problem)
        return member, member.blocked(names[0], failed)
    if not any(name in member.knows for name in left):
        return member, replace(member.abstain(names[0]), note=note)
    if member.net.per_value is not None:
        found = net_of_value(member, call, context)
        if isinstance(found, str):
            return member, _without_net(member, names, left, found)
        member = found
    if member.net.measured:
        return _measured(member, names, left, note, call, context)
    return member, _verdict_at(member, names, left, note, context)


def _measured(
    member: Member,
    names: Sequence[str],
    left: Sequence[str],
    note: str | None,
    call: ToolCall,
    context: EvaluationContext,
) -> tuple[Member, NetVerdict]:
    """Verdict of a net that takes as many tokens as a number in the call; the reason says how much is
    left.

    A call without the required number is blocked.
    """
    amounts = {name: t.amount for t in member.net.transitions if t.amount for name in t.tools}
    name = next((name for name in left if name in amounts), None)
    if name is None:
        return member, _verdict_at(member, names, left, note, context)
    amount, rule = amounts[name], member.net.rule
    measured = member.of_call(call.input)
    if measured is None:
        reason = reasons.no_value(name, f"the call has no number from 0 in {amount.field.name}")
        return member, member.blocked(name, reasons.because(reason, rule))
    verdict = _verdict_at(measured, names, left, note, context)
    if verdict.kind == "blocked" and verdict.reason == measured.knows[name].blocked.reason:
        rest = amount.field.text(context.marking(measured).get(amount.source, 0))
        verdict = replace(verdict, reason=reasons.with_rest(verdict.reason, rest))
    return measured, verdict


def net_of_value(member: Member, call: ToolCall, context: EvaluationContext) -> Member | str:
    """The net of the value that a call has in the field of `per_value`.

    Returns a reason instead if the call has no such value, or if too many values are remembered.
    """
    assert member.net.per_value is not None
    digest = member.net.per_value.digest(call.input)
    if digest is None:
        field = member.net.per_value.field
        return f"the call has no single value in {field}, for each of which the rule holds by itself"
    values = member.state.values
    if digest not in values and len(values) >= MOST_VALUES:
        _forget_values(member, context)
        if len(values) >= MOST_VALUES:
            field = member.net.per_value.field
            return f"{MOST_VALUES:,} other values of {field} are remembered, which is as many as can be"
    return member.of_value(digest)


def _forget_values(template: Member, context: EvaluationContext) -> None:
    """Forget the nets that are in their initial marking with no pending call."""
    values, net, start = template.state.values, template.net, template.state.marking
    ages = [(t.inputs[0], t.after) for t in net.timed if t.after is not None]
    now = context.now() if ages else 0.0
    for digest, state in list(values.items()):
        marking, since = state.marking, state.since
        # Cheaper than `aged` for each net: a call with one value too many checks all of them.
        if any((times := since.get(place)) and times[0] + after <= now for place, after in ages):
            marking = aged(net, marking, since, now).marking
        if marking == start and not state.pending:
            del values[digest]


def _without_net(member: Member, names: Sequence[str], left: Sequence[str], reason: str) -> NetVerdict:
    """Verdict on a call without a value: blocked if the rule restricts it.

    A call that brings the rule into effect is blocked too, since the value that it affects is unknown.
    Other calls unlock nothing.
    """
    rule, key = member.net.rule, member.net.per_value
    needed = member.knows if key is None or key.needed_by is None else key.needed_by
    for name in left:
        if name in needed:
            return member.blocked(name, reasons.because(reasons.no_value(name, reason), rule))
    return replace(member.abstain(names[0]), note=reason)


def _verdict_at(
    member: Member,
    names: Sequence[str],
    left: Sequence[str],
    note: str | None,
    context: EvaluationContext,
) -> NetVerdict:
    """Verdict at the current marking, on the names that are `left` under the condition."""
    try:
        marking = context.marking(member)
    except NetError as problem:
        return member.blocked(names[0], reasons.cannot_fire(member.registered, problem))
    except Exception as problem:
        return member.blocked(names[0], reasons.callback_failed(member.registered, "clock", problem))
    verdict = member.verdict(left, marking)
    if note is None or len(left) < len(names):
        return verdict
    reason = verdict.reason
    if reason is not None and verdict.tool in member.net.governs:
        reason = reasons.applying(reason, note)
    return replace(verdict, reason=reason, note=note)
