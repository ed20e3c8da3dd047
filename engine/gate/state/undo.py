"""Takes back the moves of a call that never ran, so that it costs nothing (A-40).

Moves are taken back only if the net is then as if the call had never been made. One token too many would
open a gate, whereas one too few only leaves a use charged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from ...core.value_key import split_key
from ...net.net import Marking, Since, Transition, unfired
from ...net.timed import arrivals_before
from ..member import Member
from ..types import GateDecision, ResultRecord, Step, ToolResult

KEPT = 1024
"""Moves that are remembered; a call that never runs is nearly always among the last few."""

Times: TypeAlias = Mapping[str, Since]
"""Arrival times of tokens that a call took or added, by net and place, where tokens are timed.

A timed net is left out if its times are unknown.
"""

Move: TypeAlias = tuple[str | None, tuple[Step, ...], Times, frozenset[str]]
"""Steps of a decision with the id of its call, or steps that a result fired, without an id.

Last are the keys of nets that a call in shadow mode ran past: it took nothing from them.
"""

Fired: TypeAlias = tuple[tuple[Transition, str], ...]
"""Transitions that fired in one net, each with the name that matched it."""

NO_TIMES: Times = {}
NO_NETS: frozenset[str] = frozenset()


class Moves:
    """Last moves of a gate's nets, the latest at the end; `note` adds one."""

    def __init__(self) -> None:
        self._last: deque[Move] = deque(maxlen=KEPT)
        self.note = self._last.append
        self.forget = self._last.clear

    def noted(self, decision: GateDecision, times: Times, members: Iterable[Member]) -> GateDecision:
        """Record what `decision` moved in the active nets and which nets its call ran past; return it."""
        past = NO_NETS if decision.mode == "enforce" else _nets_run_past(decision, members)
        if decision.steps or past:
            self.note((decision.call.tool_call_id, decision.steps, times, past))
        return decision

    def undone(
        self, result: ToolResult, record: ResultRecord, members: Callable[[str], Member | None]
    ) -> ResultRecord:
        """`record` with those `undo` steps of `result` that were undone; none unless the call failed."""
        if not result.is_error or record.anomaly is not None:
            return record
        undone, arrived = self._take_back(result.tool_call_id, result.undo, members)
        return replace(record, undone=undone, arrived=arrived) if undone else record

    def _take_back(
        self, call_id: str, steps: tuple[Step, ...], members: Callable[[str], Member | None]
    ) -> tuple[tuple[Step, ...], Times]:
        """Take back those of a call's `steps` that fired when it was allowed, all of a net or none.

        Returns the steps, last first, and the arrival times of tokens that were removed or returned with
        them. A net stays unchanged if anything but time or calls of the same kind has moved it since: its
        marking does not show whether that would have happened without this call. It also stays unchanged
        if a call has run past it since, because that call might have been charged what this one gives
        back.
        """
        at = next((n for n in range(len(self._last) - 1, -1, -1) if self._last[n][0] == call_id), None)
        if at is None:
            return (), NO_TIMES
        undone: tuple[Step, ...] = ()
        arrived: dict[str, Since] = {}
        _, own_steps, times, past = self._last[at]
        for key in dict.fromkeys(step.net for step in reversed(steps)):
            own = _fired(self._last[at], key)
            if not own or own != _fired((call_id, steps, times, past), key):
                continue
            later = list(islice(self._last, at + 1, None))
            since = [move for move in later if _moves_net(move, key)]
            if any(split_key(key)[0] in move[3] for move in later):
                continue
            if any(_fired(move, key) not in ((), own) for move in since):
                continue
            member = members(key)
            if member is None or not _put_back(member, own, times.get(key), since):
                continue
            undone += tuple(step for step in reversed(steps) if step.net == key and _fires_at_call(step))
            own_steps = tuple(step for step in own_steps if step.net != key)
            if times.get(key):
                arrived[key] = times[key]
        if undone:
            self._last[at] = (call_id, own_steps, times, past)
        return undone, arrived


def _nets_run_past(decision: GateDecision, members: Iterable[Member]) -> frozenset[str]:
    """Nets that know a call which shadow mode let run against a verdict, and that did not move.

    Some of them may not have judged the call; that only costs a token too few. If the refusal is in no
    net's name, no net was asked.
    """
    if decision.outcome == "allow":
        return NO_NETS
    moved = {split_key(step.net)[0] for step in decision.steps}
    was_judged = decision.net is not None
    return frozenset(
        m.key
        for m in members
        if m.key not in moved and not (was_judged and _is_unknown_to(m, decision.names))
    )


def _is_unknown_to(member: Member, names: Iterable[str]) -> bool:
    return member.net.tool_mapper is None and not any(name in member.knows for name in names)


def _moves_net(move: Move, key: str) -> bool:
    return any(step.net == key for step in move[1])


def _fired(move: Move, key: str) -> Fired:
    """Transitions that a move fired in the net `key`, without timed ones; without deferred ones if it is
    the move of a decision.
    """
    call_id, steps, *_ = move
    return tuple(
        (step.transition, step.tool)
        for step in steps
        if step.net == key and step.transition.after is None and (call_id is None or _fires_at_call(step))
    )


def _fires_at_call(step: Step) -> bool:
    return not step.transition.deferred and step.transition.after is None


def _put_back(member: Member, own: Fired, times: Since | None, since: Sequence[Move]) -> bool:
    """Reset the net to its state without its `own` transitions; false if that state is unknown."""
    net, state = member.net, member.state
    before: Marking | None = state.marking
    for transition, _ in reversed(own):
        before = None if before is None else unfired(net, before, transition)
    if before is None:
        return False
    if net.timed:
        if times is None or not _is_independent(member, own, before, times, since):
            return False
        back = arrivals_before(net, state.since, before, state.marking, times)
        if back is None:
            return False
        state.since = back
    state.marking = before
    return True


def _is_independent(
    member: Member, own: Fired, before: Marking, times: Since, since: Sequence[Move]
) -> bool:
    """Return whether, in a timed net, everything `since` would have happened without `own` as well.

    Calls of the same kind would have: only one transition matches their names, and the call at most
    removed what this transition needs. Timed firings would have, since each takes one token: tokens that
    a call added leave when they are due, independently of others. Tokens that a call took would still be
    there; which ones these are, and that they were not due before, is certain only if they are as old as
    any taken since.
    """
    net, marking = member.net, member.state.marking
    if net.validate_tool_call is not None:
        return False
    later = [move for move in since if _fired(move, member.key)]
    for transition, tool in own if later else ():
        covering = [t for t in net.transitions if tool in t.tools]
        grew = any(marking.get(place, 0) > before[place] for place in transition.inputs)
        if covering != [transition] or grew:
            return False
    for place, moved in times.items():
        if marking.get(place, 0) > before[place]:
            continue
        leaving = [t for t in net.timed if t.inputs[0] == place]
        arrivals = {*moved}.union(*(move[2].get(member.key, {}).get(place, ()) for move in later))
        if later and len(arrivals) > 1:
            return False
        if any(step.net == member.key and step.transition in leaving for m in since for step in m[1]):
            return False
    return True
