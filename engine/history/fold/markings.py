"""Token moves of recorded nets: the recorded transitions fire again (G-63)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...net.net import (
    Marking,
    NetError,
    Since,
    SkillNet,
    Transition,
    auto_advance,
    define_skill_net,
    fire,
    initial_state,
    unfired,
)
from ...net.timed import arrivals, arrivals_before, arrivals_by, next_due
from ..model.records import NetRecord, StepRecord

_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class _Net:
    """A record's net, ready to fire; it keeps the record alive so that the record's id stays unique."""

    record: NetRecord
    net: SkillNet
    transitions: Mapping[str, Transition]


_nets: dict[int, _Net] = {}


def _net(record: NetRecord) -> _Net:
    entry = _nets.get(id(record))
    if entry is not None and entry.record is record:
        return entry
    net = skill_net(record)
    if len(_nets) >= _LIMIT:
        _nets.clear()
    entry = _Net(record, net, {t.name: t for t in net.transitions})
    _nets[id(record)] = entry
    return entry


def skill_net(record: NetRecord) -> SkillNet:
    """Build the net that a record describes, without the original's callbacks. Raises `NetError`."""
    return define_skill_net(
        record.name,
        places=record.places,
        transitions=(
            Transition(
                name=t.name,
                inputs=t.inputs,
                outputs=t.outputs,
                tools=t.tools,
                type="manual" if t.manual else "auto",
                deferred=t.deferred,
                transfers=t.transfers,
                after=t.after,
                partial=t.partial,
                voids=t.voids,
                amount=t.amount,
                approvers=t.approvers,
            )
            for t in record.transitions
        ),
        initial_marking=record.initial_marking,
        free_tools=record.free_tools,
        leads=record.leads,
        per_value=record.per_value,
        shared=record.shared,
    )


def initial_marking(record: NetRecord) -> Marking:
    """Return the initial marking after structural transitions fired. Raises `NetError`."""
    return initial_state(_net(record).net).marking


def marking_after(record: NetRecord, marking: Mapping[str, int], step: StepRecord) -> Marking:
    """Return the marking after a recorded step. Raises `NetError` if it is unknown or not enabled."""
    entry = _net(record)
    return auto_advance(entry.net, fire(marking, transition_of(entry.record, step)))


def marking_before(record: NetRecord, marking: Mapping[str, int], step: StepRecord) -> Marking:
    """Return the marking before a recorded step. Raises `NetError` if it cannot have fired."""
    before = unfired(_net(record).net, marking, transition_of(record, step))
    if before is None or step.deferred:
        raise NetError(f"'{step.transition}' of net '{record.key}' cannot be taken back at {marking}")
    return before


def reverted_arrivals(
    record: NetRecord,
    since: Since,
    before: Mapping[str, int],
    after: Mapping[str, int],
    times: Mapping[str, tuple[float, ...]],
) -> Since:
    """Return the arrival times of ageing tokens after steps from `before` to `after` are taken back.

    Raises `NetError` if `times`, of the tokens removed or returned, do not match them.
    """
    earlier_arrivals = arrivals_before(_net(record).net, since, before, after, times)
    if earlier_arrivals is None:
        raise NetError(f"tokens of net '{record.key}' that came at {dict(times)} cannot be taken back")
    return earlier_arrivals


def ages(record: NetRecord) -> bool:
    """Return whether tokens of this net age, because it has timed transitions."""
    return bool(_net(record).net.timed)


def arrivals_after(
    record: NetRecord,
    since: Since,
    before: Mapping[str, int],
    after: Mapping[str, int],
    step: StepRecord,
    at: float,
) -> Since:
    """Return the arrival times of ageing tokens after `step` fired at `at`, or at its own due time."""
    net = _net(record).net
    transition = transition_of(record, step)
    if transition.after is None:
        return arrivals_by(net, since, before, transition, after, at)
    next_firing = next_due(net, before, since, at)
    return arrivals(net, since, before, after, at if next_firing is None else next_firing[0])


def initial_arrivals(record: NetRecord, at: float) -> Since:
    """Return the arrival times of the initial marking's tokens, if they arrived at `at`."""
    net = _net(record).net
    return arrivals(net, {}, {}, initial_state(net).marking, at)


def transition_of(record: NetRecord, step: StepRecord) -> Transition:
    """Return the transition that a step names. Raises `NetError` if the net has none of that name."""
    transition = _net(record).transitions.get(step.transition)
    if transition is None:
        raise NetError(f"net '{record.key}' has no transition '{step.transition}'")
    return transition if step.units is None else transition.of_units(step.units)
