"""Resumption of a recorded session: the markings of its nets, and the ends of calls it left open.

Pure: from a fold and a registry to the events that come next. What does not fit is an error, so that
no session goes on under fewer rules than its record says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import dropwhile, takewhile
from math import inf
from typing import Literal, TypeAlias

from pydantic import JsonValue

from ..agents import Message, ProposedCall
from ..agents.messages import UNKNOWN_OUTCOME, open_calls
from ..core.approvers import KEYED, are_as_strict
from ..core.rule import ApprovalRule, RuleSource, approvers_of, people_to_loosen, restricted
from ..core.sanitize import visible
from ..core.value_key import split_key
from ..gate.name_changes import takes_from
from ..gate.reasons import rejected
from ..gate.types import ChosenEdit, Mode, OpenQuestion
from ..history.fold.event_text import dollars
from ..history.fold.flow_steps import DIED, HANDED_OVER
from ..history.fold.fold import FoldError, fold
from ..history.fold.markings import skill_net
from ..history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
)
from ..history.model.records import NetRecord
from ..history.model.state import CallState, PendingState, SessionState
from ..net.net import CallNames, KnowsMaps, NameMaps, SkillNet, Transition, define_skill_net
from .records import net_record

NOT_DECIDED = "Tool call not executed: the session was interrupted before it was decided"
REFUSED = "Tool call not executed: it was refused, and the session ended before the reason was recorded"
HOST_GONE = "the process that asked has ended"

Nets: TypeAlias = Literal["recorded", "changed"]
"""Nets that a session may go on under: only those it was recorded under, or others too."""


class ResumeError(ValueError):
    """A recorded session cannot go on as asked; the message says what does not fit and what to do.

    `missing` are nets of the record that are not there, `changed` those with another structure,
    `forgetful` those whose own notes the record does not hold. `unexplained` is one that needs a reason.
    """

    def __init__(
        self,
        text: str,
        *,
        missing: Sequence[str] = (),
        changed: Sequence[str] = (),
        forgetful: Sequence[str] = (),
        unexplained: bool = False,
    ) -> None:
        super().__init__(text)
        self.unexplained = unexplained
        self.missing = tuple(missing)
        self.changed = tuple(changed)
        self.forgetful = tuple(forgetful)


class BranchError(ResumeError):
    """A session cannot be branched there; `nearest` are the event numbers around it where it can."""

    def __init__(self, text: str, *, nearest: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.nearest = tuple(nearest)


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Markings and activation of a registry's nets when a record goes on.

    `markings` are of the nets that keep their recorded ones, `fresh` start from their initial ones,
    `dropped` are no more, `forgot` go on without their own notes. `active` is in order of activation.
    `since` is when tokens that age came to the nets that go on. `values` are the markings of the nets of
    single values, where those of all values go on.
    """

    markings: dict[str, dict[str, int]]
    fresh: tuple[NetRecord, ...]
    dropped: tuple[str, ...]
    forgot: tuple[str, ...]
    active: tuple[str, ...]
    since: dict[str, dict[str, tuple[float, ...]]] = field(
        default_factory=dict[str, dict[str, tuple[float, ...]]]
    )
    values: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    @property
    def every_marking(self) -> dict[str, dict[str, int]]:
        """The markings of all that goes on, nets of single values among it."""
        return {**self.markings, **self.values}

    def keeps(self, pending: PendingState) -> bool:
        """Tell whether the net in which something waits for a result goes on."""
        return split_key(pending.step.net)[0] in self.markings


def folded(events: Sequence[JournalEvent]) -> SessionState:
    """The state after `events`. Raises `ResumeError` when they make no sense."""
    try:
        return fold(events)
    except FoldError as error:
        raise ResumeError(
            f"The session cannot go on, its record makes no sense: {error}. "
            "Restore a backup of the journal."
        ) from error


def latest_time(events: Sequence[JournalEvent]) -> float:
    """The latest time in a record, in seconds since 1970: a clock that was set back does not undo it."""
    times = (event.at.timestamp() for event in events)
    clocks = (event.body.clock for event in events if isinstance(event.body, CallDecided | CallResult))
    return max((*times, *(clock for clock in clocks if clock is not None)), default=-inf)


def standing(
    state: SessionState, registry: Mapping[str, SkillNet], *, active: Sequence[str] | None, nets: Nets
) -> ResumePoint:
    """Fit `registry` to what was recorded (G-63).

    A net of the same key and structure takes its recorded marking. With `nets="changed"` others start
    fresh and missing ones are dropped; else both raise `ResumeError`, and so does a net whose results
    hook keeps notes, which no record holds. Nets that the record does not know are added, active unless
    `active` says otherwise. What maps calls to names is not in the record, so it is not compared.
    """
    records = {key: net_record(key, net) for key, net in registry.items()}
    missing = [key for key in state.nets if key not in records]
    changed = {
        key: different
        for key, net in state.nets.items()
        if key in records and (different := _differences(net.net, records[key]))
    }
    kept = [key for key in state.nets if key in records and key not in changed]
    values = {key: value for key, value in state.values.items() if value.net in kept}
    forgetful = [key for key in kept if registry[key].on_deferred_result is not None]
    if nets == "recorded" and (missing or changed or forgetful):
        text = _misfit(state.id, missing, changed, forgetful)
        raise ResumeError(text, missing=missing, changed=tuple(changed), forgetful=forgetful)
    if active is None:
        added = [key for key in records if key not in state.nets]
        active = [*(key for key in state.active if key in records), *added]
    return ResumePoint(
        markings={key: dict(state.nets[key].marking) for key in kept},
        values={key: dict(value.marking) for key, value in values.items()},
        fresh=tuple(record for key, record in records.items() if key not in kept),
        dropped=tuple(missing),
        forgot=tuple(forgetful),
        active=tuple(active),
        since={
            **{key: state.nets[key].since for key in kept},
            **{key: value.since for key, value in values.items()},
        },
    )


def guarded(record: NetRecord) -> int:
    """Number of other people it takes to turn a recorded net off (G-67).

    Records from before this was written down have it in the words of the rule.
    """
    if record.people or record.rule is None:
        return record.people
    found = _GUARDED.search(record.rule.text)
    return 0 if found is None else int(found["people"] or 1)


_GUARDED = re.compile(
    r"\brequire\s+(?P<people>[2-9]|[1-9]\d+)\s+human-approvals|\bno\s+grants\b|\brisk\s+high\b"
    r"|\bwith\s+passkey\b"
)


def guarded_nets(state: SessionState) -> dict[str, int]:
    """The recorded nets that no single person takes away, and how many others each takes.

    Those that are off for a time are among them: they come back.
    """
    timed = _timed(state)
    nets = {key: net.net for key, net in state.nets.items() if net.active or key in timed}
    return {key: people for key, record in nets.items() if (people := guarded(record))}


def check_no_looser(
    state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet], mode: Mode
) -> None:
    """Raise `ResumeError` where the session would go on without a rule that takes several people (G-67).

    Under the record's own nets and mode it always goes on. Enforce mode takes nothing, nor do more nets,
    unless they take calls from those that are guarded (G-66).
    """
    held = guarded_nets(state)
    found = [text for key in held if (text := _loosened(key, state, fit, registry)) is not None]
    found += _competition(state, fit, registry, held)
    if mode == "shadow" and _enforced(state) and held:
        found.append("shadow mode instead of enforce mode")
    if not found:
        return
    keyed = [key for key in held if (who := state.nets[key].net.approvers) is not None and who.passkey]
    if keyed:
        raise ResumeError(
            f"Session '{visible(state.id)}' cannot go on under less than its record says: "
            f"{'; '.join(found)}. {visible(', '.join(keyed))}: {KEYED}."
        )
    most = max(held.values())
    others = "1 other person has" if most == 1 else f"{most} other people have"
    raise ResumeError(
        f"Session '{visible(state.id)}' cannot go on under less than its record says, as one person "
        f"alone: {'; '.join(found)}. Resume it under the rules and the mode it was recorded under and "
        "turn them off there (keys `n` and `m`, with a reason): it is done once "
        f"{others} confirmed it, each in a console under their own name "
        "(`interlock token new NAME`). Afterwards it can go on so. A new session can have other rules."
    )


def with_required(
    fit: ResumePoint, state: SessionState, registry: Mapping[str, SkillNet], required: Collection[str]
) -> ResumePoint:
    """`fit` with those nets active, too, that the host requires, but for what people switched off.

    A net that was never active was not switched off, nor one that is another or takes more people now.
    """
    off = {key for key in state.off if key in fit.markings and _agreed(key, state, registry)}
    added = (key for key in required if key not in off and key not in fit.active)
    return replace(fit, active=(*fit.active, *added))


def _agreed(key: str, state: SessionState, registry: Mapping[str, SkillNet]) -> bool:
    """Tell whether a record has a net that took as many people to loosen as the one of a host's."""
    was, rule = state.nets.get(key), registry[key].rule
    return (
        was is not None
        and guarded(was.net) >= people_to_loosen(rule)
        and are_as_strict(was.net.approvers, approvers_of(rule))
    )


def check_required(
    state: SessionState, registry: Mapping[str, SkillNet], mode: Mode, required: Collection[str]
) -> None:
    """Raise `ResumeError` where no one agreed that nets of the host's own block nothing (G-67)."""
    if mode == "shadow" and (new := unagreed_in_shadow(state, registry, required)):
        raise ResumeError(
            f"Session '{visible(state.id)}' cannot go on here: it is in shadow mode, in which nothing is "
            f"blocked, and {visible(', '.join(new))} of this host takes several people. Start a new "
            "session; others can confirm shadow mode there."
        )


def unagreed_in_shadow(
    state: SessionState, registry: Mapping[str, SkillNet], required: Collection[str]
) -> list[str]:
    """The nets of the host's own that take several people and would block nothing in shadow mode.

    Where people switched the session to shadow mode they did so for the nets that it had.
    """
    return [
        key
        for key in required
        if people_to_loosen(registry[key].rule)
        and (state.shadowed is None or not _agreed(key, state, registry))
    ]


def check_reason(
    state: SessionState,
    fit: ResumePoint,
    registry: Mapping[str, SkillNet],
    mode: Mode,
    max_cost: float | None,
    reason: str | None,
) -> None:
    """Raise `ResumeError` where a session would go on under less than its record says, without a reason.

    Less is an active net that is missing, differs, is off or counts calls by other maps, another that
    takes calls from one (G-66), shadow mode, and a higher limit of cost, or none. What is off for a time
    counts as active. The message names the calls that wait for people (G-67).
    """
    if reason is not None and reason.strip():
        return
    timed = _timed(state)
    held = [*state.active, *timed]
    found = [
        f"'{visible(key)}' {less}"
        for key in held
        if (less := _weakening(key, state, fit, registry, timed))
    ]
    found += _competition(state, fit, registry, held)
    if mode == "shadow" and _enforced(state):
        found.append("shadow mode instead of enforce mode")
    if state.max_cost is not None and (max_cost is None or max_cost > state.max_cost):
        found.append(f"a cost limit of {'none' if max_cost is None else dollars(max_cost)}")
    if not found:
        return
    waiting = [f"{asked.tool} ({asked.call_id})" for asked in state.approvals.values()]
    waits = f" For an answer wait: {visible(', '.join(waiting))}." if waiting else ""
    raise ResumeError(
        f"Session '{visible(state.id)}' would go on under less than its record says: "
        f"{'; '.join(found)}.{waits} Say why (reason=…): it is recorded with your name.",
        unexplained=True,
    )


def _weakening(
    key: str,
    state: SessionState,
    fit: ResumePoint,
    registry: Mapping[str, SkillNet],
    timed: Container[str],
) -> str | None:
    """The way in which a net of a record would not go on; `None` where it does."""
    was = state.nets[key].net
    if key in fit.dropped:
        return "is missing"
    if key not in fit.markings:
        return "differs"
    # A net without a rule, such as that of what tools wish for, goes by no maps.
    if was.rule is not None and was.name_maps is not None and _counts_less(was, registry[key]):
        return "counts calls by other maps"
    return None if key in fit.active or key in timed else "is off"


def _timed(state: SessionState) -> tuple[str, ...]:
    """The nets that are off for a time: they come back."""
    return tuple(key for key, off in state.off.items() if off.until is not None)


def _enforced(state: SessionState) -> bool:
    """Tell whether a record is in enforce mode, or will be after a time."""
    return state.mode == "enforce" or (state.shadowed is not None and state.shadowed.until is not None)


def switched_on(
    fit: ResumePoint, registry: Mapping[str, SkillNet], *states: SessionState
) -> tuple[ResumePoint, Mode]:
    """Resume point of a branch, and its mode; the first of `states` is where it begins.

    An agreement to switch something off was made for the other session, and not for a branch: its rules
    that take several people are on, and so is what was off for a time only.
    """
    begins = states[0]
    held = {key for state in states for key in guarded_nets(state)}
    for state in states:
        held |= {*(key for key in state.off if guarded(state.nets[key].net)), *_timed(state)}
    added = (key for key in registry if key in held and key not in fit.active)
    shadowed = [state.shadowed for state in states if state.shadowed is not None]
    timed = any(switch.until is not None for switch in shadowed)
    enforced = any(state.mode == "enforce" for state in states)
    strict = held and (shadowed or enforced)
    mode = "enforce" if strict or timed else begins.mode
    return replace(fit, active=(*fit.active, *added)), mode


def _loosened(
    key: str, state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet]
) -> str | None:
    """The way in which the net `key` of a record would be loosened; `None` where it is what it was."""
    was, active = state.nets[key].net, state.nets[key].active
    where = visible(key) if was.rule is None else f"{visible(key)} ({visible(was.rule.text)})"
    if key in fit.dropped or key not in registry:
        return f"'{where}' is missing"
    current = net_record(key, registry[key])
    if key not in fit.markings or _text(current) != _text(was) or current.people < guarded(was):
        return f"'{where}' says something else: {_text(current) or 'a net of its own'}"
    if was.maps is not None and current.maps != was.maps and _counts_less(was, registry[key]):
        return f"the maps by which '{where}' counts calls are others"
    if active and key not in fit.active:
        return f"'{where}' is not active"
    return None


def loosened_nets(
    state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet]
) -> dict[str, int]:
    """The active nets of a record that would hold for fewer calls, or not as they are now.

    With the number of other people each takes (G-67). What is off for a time counts as active.
    """
    held = [*state.active, *_timed(state)]
    loosened = {key for key in held if _loosened(key, state, fit, registry) is not None}
    loosened |= {other for _, other in _competing_nets(state, fit, registry, held)}
    return {key: guarded(state.nets[key].net) for key in held if key in loosened}


def _competition(
    state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet], held: Iterable[str]
) -> Iterator[str]:
    """The nets that would be on as well and take calls from guarded ones, in words."""
    for key, other in _competing_nets(state, fit, registry, held):
        yield f"'{visible(key)}' takes calls from '{visible(other)}'"


def _competing_nets(
    state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet], held: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """The nets that would be on as well, each with a guarded one that it takes calls from (G-66)."""
    same = {key for key in (*state.active, *_timed(state)) if key in fit.markings and key in registry}
    others = [skill_net(state.nets[key].net) for key in state.active if key not in same]
    nets = [*(registry[key] for key in same), *others]
    for key in fit.active:
        if key in same or key not in registry:
            continue
        for other in held:
            if key != other and other in registry and takes_from(registry[key], registry[other], nets):
                yield key, other


def _counts_less(was: NetRecord, net: SkillNet) -> bool:
    """Tell whether a guarded net may judge fewer calls by the maps there are now than by its record's."""
    if net.rule is None:
        return True
    leading = (was.lead_maps, *was.other_lead_maps, *(None for _ in was.leads))
    names = [(restricted(net.rule), was.name_maps), *zip(was.leads, leading, strict=False)]
    return any(_is_given_less(name, maps, net.call_names) for name, maps in names)


def _is_given_less(name: str, was: NameMaps | None, namer: CallNames | None) -> bool:
    if was is None:
        return True
    if not was.fields and namer is None:
        return False
    return not isinstance(namer, KnowsMaps) or namer.gives_less(name, was)


def _text(record: NetRecord) -> str | None:
    """A rule as it is written; of an implied one without the maps that imply it, which may be more."""
    return None if record.rule is None else _IMPLIED_BY.sub("", visible(record.rule.text))


_IMPLIED_BY = re.compile(r" \(implied by the maps? of [^()]*\)$")


def _differences(recorded: NetRecord, current: NetRecord) -> list[str]:
    """Parts of the structure that differ. The rule's location may change, its effect may not."""
    parts = ("name", "places", "transitions", "initial_marking", "free_tools", "leads", "when", "governs")
    parts = (*parts, "per_value", "shared")
    return [part.replace("_", " ") for part in parts if getattr(recorded, part) != getattr(current, part)]


def _misfit(
    session: str, missing: list[str], changed: Mapping[str, list[str]], forgetful: list[str]
) -> str:
    found = [
        *(f"'{visible(key)}' is missing" for key in missing),
        *(f"'{visible(key)}' differs ({', '.join(parts)})" for key, parts in changed.items()),
        *(f"'{visible(key)}' keeps notes that no record holds" for key in forgetful),
    ]
    return (
        f"The nets given do not fit what session '{visible(session)}' was recorded under: "
        f"{'; '.join(found)}. Give the rules it was recorded under, or allow the change "
        '(nets="changed"): nets that differ then start fresh, missing ones are dropped, notes are '
        "forgotten, and the record says so."
    )


# Calls that were open when the host went away


def undecided(
    state: SessionState, messages: Sequence[Message], step: Sequence[EventBody]
) -> tuple[str, ...]:
    """The open calls that were never decided because the host died; the gate may still decide them.

    `step` is what happened since the model last spoke. None of a session that was closed or failed by
    itself, nor where a person had interrupted the step: it would start again what they had stopped.
    Calls are decided in their order, so one before another that was decided had been refused without the
    gate.
    """
    calls = [call.call_id for call in open_calls(messages)]
    if not host_died(state) or interrupted(step, calls):
        return ()
    refused = _rejections(step)
    decided = [n for n, i in enumerate(calls) if i in refused or status_of(state, i) not in NOT_YET]
    return tuple(calls[decided[-1] + 1 :] if decided else calls)


def host_died(state: SessionState) -> bool:
    """True if a recorded session neither ended nor failed by itself."""
    return state.phase in ("running", "idle") or state.error in (DIED, HANDED_OVER)


def interrupted(step: Iterable[EventBody], calls: Container[str]) -> bool:
    """True if a request about one of `calls` was taken back in this step while the host was there."""
    return any(
        isinstance(body, ApprovalWithdrawn)
        and body.call_id in calls
        and body.reason != HOST_GONE
        and not body.again
        for body in step
    )


def closings(
    state: SessionState,
    messages: Sequence[Message],
    step: Sequence[EventBody],
    *,
    asked_again: Collection[str] = (),
    going_on: Collection[str] = (),
) -> list[EventBody]:
    """Events that end everything a session left open when its host went away.

    Questions are withdrawn. A call that was allowed and has no result gets one that says its outcome is
    unknown; what waited for it is dropped, as for an error. One that a person had rejected is blocked.
    Then the model is told how every call ended: by its result if there is one, why it was blocked, or
    that it was never decided. Calls to be `asked_again` and those `going_on` stay open; what follows the
    first of these is told when they have ended (see `continued_calls`).
    """
    here = [call for call in open_calls(messages) if call.call_id not in asked_again]
    no = {i: no for i, no in _rejections(step).items() if status_of(state, i) in NOT_YET}
    unknown = {
        call.call_id: call.name
        for call in here
        if call.call_id not in going_on and status_of(state, call.call_id) in UNRESOLVED
    }
    for pending in state.pending:
        if pending.call_id not in going_on:
            unknown.setdefault(pending.call_id, state.calls[pending.call_id].tool)
    answers: list[EventBody] = []
    for call in takewhile(lambda call: call.call_id not in going_on, here):
        if (rejection := no.pop(call.call_id, None)) is not None:
            answers += [rejection, _tool_message(call.call_id, call.name, rejection.reason or "")]
        else:
            text = REFUSED if asked_again or going_on else NOT_DECIDED
            answers.append(_answer(call.call_id, call.name, state.calls.get(call.call_id), text))
    results = (unknown_result(call_id, tool, state.pending) for call_id, tool in unknown.items())
    return [*withdrawals(state), *results, *no.values(), *answers]


def continued_calls(
    state: SessionState, messages: Sequence[Message], going_on: Container[str]
) -> list[ProposedCall | MessageAdded]:
    """The open calls from the first that goes on: those that do, and the messages of the others."""
    calls = dropwhile(lambda call: call.call_id not in going_on, open_calls(messages))
    return [
        call
        if call.call_id in going_on
        else _answer(call.call_id, call.name, state.calls.get(call.call_id), REFUSED)
        for call in calls
    ]


def last_step(events: Sequence[JournalEvent]) -> list[EventBody]:
    """Events since the model last spoke."""
    step: list[EventBody] = []
    for event in reversed(events):
        if isinstance(event.body, MessageAdded) and event.body.role == "assistant":
            break
        step.append(event.body)
    return step[::-1]


def _rejections(step: Iterable[EventBody]) -> dict[str, CallDecided]:
    """The decisions on calls that a person, or the time, had rejected when the host died before it could
    say so.
    """
    asked: dict[str, ApprovalRequested] = {}
    found: dict[str, CallDecided] = {}
    for body in step:
        match body:
            case ApprovalRequested():
                asked[body.approval_id] = body
                found.pop(body.call_id, None)
            case ApprovalDecided(approved=False, reason=reason) | ApprovalExpired(reason=reason) if (
                body.approval_id in asked
            ):
                found[body.call_id] = _rejection(asked[body.approval_id], reason)
            case CallDecided():
                found.pop(body.call_id, None)
            case _:
                pass
    return found


def _rejection(request: ApprovalRequested, reason: str | None) -> CallDecided:
    return CallDecided(
        call_id=request.call_id,
        tool=request.called,
        input=request.input,
        names=request.names,
        outcome="block",
        mode="enforce",
        reason=rejected(request.tool, reason),
        net=request.net,
        rule=request.rule,
        via=request.via,
    )


def open_questions(
    events: Iterable[JournalEvent], nets: Mapping[str, SkillNet]
) -> dict[str, tuple[OpenQuestion, ...]]:
    """Questions that people were asked about calls that were never decided, by call (G-67).

    `nets` are those that are what they were when they asked; in place of any other a net asks in the
    recorded words, and as many people. Questions of a flow itself are not among these: it asks again.
    """
    asked: dict[str, dict[tuple[str, str], ApprovalRequested]] = {}
    for event in events:
        match event.body:
            case ApprovalRequested(wants=None) as body:
                asked.setdefault(body.call_id, {})[body.net, body.tool] = body
            case CallDecided(call_id=call_id):
                asked.pop(call_id, None)
            case _:
                pass
    return {
        call_id: tuple(
            OpenQuestion(body.net, nets.get(body.net) or _asking_net(body), body.tool, body.called)
            for body in requests.values()
        )
        for call_id, requests in asked.items()
    }


@dataclass(frozen=True, slots=True)
class Deadline:
    """Deadline of a request that is asked again (G-67).

    `since` is when people were first asked, `expires` when the request is denied by itself, `due` what
    one of several people cannot go beyond; without a time it waits for ever.
    """

    since: datetime
    expires: datetime | None
    due: datetime | None


def deadlines(events: Iterable[JournalEvent]) -> dict[tuple[str, str], Deadline]:
    """The deadlines of what people were asked about calls that were never decided, by call and net.

    The time in which no host ran counts.
    """
    found: dict[tuple[str, str], Deadline] = {}
    nets: dict[str, str] = {}
    for event in events:
        match event.body:
            case ApprovalRequested() as body:
                nets[body.approval_id] = body.net
                about = body.call_id, body.net
                first = found.get(about) or Deadline(event.at, None, body.expires)
                found[about] = replace(first, expires=body.expires)
            case ApprovalExtended(proposed=None) as body if body.approval_id in nets:
                about = body.call_id, nets[body.approval_id]
                if (known := found.get(about)) is not None:
                    due = body.until if body.others else known.due
                    found[about] = replace(known, expires=body.until, due=due)
            case CallDecided(call_id=call_id):
                found = {about: each for about, each in found.items() if about[0] != call_id}
            case _:
                pass
    return found


def chosen_edits(events: Iterable[JournalEvent]) -> dict[str, ChosenEdit]:
    """Inputs that people last chose for calls that were never decided, by call (G-75)."""
    made: dict[str, dict[str, JsonValue]] = {}
    flows: set[str] = set()
    edits: dict[str, ChosenEdit] = {}
    for event in events:
        match event.body:
            case ApprovalRequested(wants=None) as body:
                made.setdefault(body.call_id, body.input)
            case ApprovalRequested() as body:
                flows.add(body.approval_id)
            case (
                ApprovalDecided(approved=True, input=dict(chosen)) | ApprovalWithdrawn(input=dict(chosen))
            ) as body if body.approval_id not in flows and body.call_id in made:
                edits[body.call_id] = ChosenEdit(made[body.call_id], chosen, body.by)
            case CallDecided(call_id=call_id):
                made.pop(call_id, None)
                edits.pop(call_id, None)
            case _:
                pass
    return edits


def _asking_net(request: ApprovalRequested) -> SkillNet:
    """A net that asks what a recorded request asked."""
    place, tools = "ready", (request.tool,)
    who = request.approvers
    transition = Transition(request.transition, (place,), (place,), tools, "manual", approvers=who)
    net = define_skill_net(
        request.net,
        places=(place,),
        transitions=(transition,),
        initial_marking={place: 1},
        call_names=lambda _: tools,
    )
    source = None
    if request.rule is not None:
        source = RuleSource(request.rule.file, request.rule.line, 1, request.rule.text)
    grants = request.may_grant or request.people > 1
    rule = ApprovalRule(
        request.tool,
        source,
        people=request.people,
        risk=request.risk,
        grants=grants,
        approvers=who,
    )
    return replace(net, rule=rule)


def withdrawals(state: SessionState, reason: str = HOST_GONE) -> list[EventBody]:
    """Withdrawals of all open requests."""
    return [
        ApprovalWithdrawn(approval_id=each.id, call_id=each.call_id, reason=reason)
        for each in state.approvals.values()
    ]


UNRESOLVED = ("running", "unknown")
"""Statuses of a call that was allowed and has no result."""
NOT_YET = ("proposed", "waiting", "skipped")
"""Statuses of a call that was not decided."""


def status_of(state: SessionState, call_id: str) -> str:
    """Status of a call; one that the state does not know was proposed at most."""
    call = state.calls.get(call_id)
    return "proposed" if call is None else call.status


def unknown_result(call_id: str, tool: str, pending: Iterable[PendingState]) -> CallResult:
    """The result of a call whose outcome is unknown; it drops what is `pending` for it."""
    return CallResult(
        call_id=call_id,
        tool=tool,
        output=UNKNOWN_OUTCOME,
        is_error=True,
        dropped=tuple(each.step for each in pending if each.call_id == call_id),
        unknown=True,
    )


def _tool_message(call_id: str, tool: str, text: str | None, is_error: bool = True) -> MessageAdded:
    return MessageAdded(role="tool", text=text, call_id=call_id, tool=tool, is_error=is_error)


def _answer(call_id: str, tool: str, call: CallState | None, otherwise: str) -> MessageAdded:
    """The tool message of a call as its end was recorded, `otherwise` if it was never decided."""
    match call:
        case CallState(status="done" | "failed" | "running" | "unknown" as status):
            return _tool_message(call_id, tool, None, is_error=status != "done")
        case CallState(status="blocked", reason=reason):
            return _tool_message(call_id, tool, reason or f"{tool} is blocked.")
        case _:
            return _tool_message(call_id, tool, otherwise)
