"""Moving the tokens of recorded nets: the transitions that were recorded fire again (G-63)."""

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
    """A record's net, ready to fire; it keeps the record so that its identity stays its own."""

    record: NetRecord
    net: SkillNet
    transitions: Mapping[str, Transition]


_made: dict[int, _Net] = {}


def _net(record: NetRecord) -> _Net:
    made = _made.get(id(record))
    if made is not None and made.record is record:
        return made
    net = skill_net(record)
    if len(_made) >= _LIMIT:
        _made.clear()
    made = _Net(record, net, {t.name: t for t in net.transitions})
    _made[id(record)] = made
    return made


def skill_net(record: NetRecord) -> SkillNet:
    """The net a record describes; it fires as the original, without its callbacks. Raises `NetError`."""
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
    """The marking at the start: the initial one after structural transitions. Raises `NetError`."""
    return initial_state(_net(record).net).marking


def marking_after(record: NetRecord, marking: Mapping[str, int], step: StepRecord) -> Marking:
    """The marking after a recorded step. Raises `NetError` when it names no transition or cannot fire."""
    made = _net(record)
    return auto_advance(made.net, fire(marking, transition_of(made.record, step)))


def marking_before(record: NetRecord, marking: Mapping[str, int], step: StepRecord) -> Marking:
    """The marking before a recorded step. Raises `NetError` when it names no transition that fired."""
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
    """Arrival times of the ageing tokens, once steps from `before` to `after` are taken back.

    Raises `NetError` where `times`, of those that go or return, cannot be theirs.
    """
    back = arrivals_before(_net(record).net, since, before, after, times)
    if back is None:
        raise NetError(f"tokens of net '{record.key}' that came at {dict(times)} cannot be taken back")
    return back


def ages(record: NetRecord) -> bool:
    """Tell whether tokens of this net age: it has transitions that fire after a time."""
    return bool(_net(record).net.timed)


def arrivals_after(
    record: NetRecord,
    since: Since,
    before: Mapping[str, int],
    after: Mapping[str, int],
    step: StepRecord,
    at: float,
) -> Since:
    """Arrival times of the ageing tokens, once `step` fired at `at`, or by itself when it was due."""
    net = _net(record).net
    transition = transition_of(record, step)
    if transition.after is None:
        return arrivals_by(net, since, before, transition, after, at)
    due = next_due(net, before, since, at)
    return arrivals(net, since, before, after, at if due is None else due[0])


def initial_arrivals(record: NetRecord, at: float) -> Since:
    """Arrival times of the initial marking's tokens, if they came at `at`."""
    net = _net(record).net
    return arrivals(net, {}, {}, initial_state(net).marking, at)


def transition_of(record: NetRecord, step: StepRecord) -> Transition:
    """The transition a step names. Raises `NetError` when the net has none of that name."""
    transition = _net(record).transitions.get(step.transition)
    if transition is None:
        raise NetError(f"net '{record.key}' has no transition '{step.transition}'")
    return transition if step.units is None else transition.of_units(step.units)
