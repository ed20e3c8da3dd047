"""How a recorded session goes on: where its nets stand, and how calls end that it left open.

Pure: from a fold and a registry to the events that come next. What does not fit is an error, so that
nobody goes on under fewer rules than the record says.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile
from typing import Literal, TypeAlias

from .agents import Message, ProposedCall
from .agents.messages import open_calls
from .agents.run import UNKNOWN_OUTCOME
from .gate.reasons import rejected
from .history.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
)
from .history.fold import FoldError, fold
from .history.parts import CallEnd, NetRecord, StepRecord
from .history.state import CallState, SessionState
from .history.stopped import DIED
from .net import SkillNet
from .records import net_record
from .text import visible

NOT_DECIDED = "Tool call not executed: the session was interrupted before it was decided"
REFUSED = "Tool call not executed: it was refused, and the session ended before the reason was recorded"
HOST_GONE = "the process that asked has ended"

Nets: TypeAlias = Literal["recorded", "changed"]
"""Whether a session goes on only under the nets it was recorded under, or under others too."""


class ResumeError(ValueError):
    """A recorded session cannot go on as asked; the message says what does not fit and what to do.

    `missing` are nets of the record that were not given, `changed` those given with another structure,
    `forgetful` those whose own notes the record does not hold.
    """

    def __init__(
        self,
        text: str,
        *,
        missing: Sequence[str] = (),
        changed: Sequence[str] = (),
        forgetful: Sequence[str] = (),
    ) -> None:
        super().__init__(text)
        self.missing = tuple(missing)
        self.changed = tuple(changed)
        self.forgetful = tuple(forgetful)


class BranchError(ResumeError):
    """A session cannot be branched there; `nearest` are the event numbers around it where it can."""

    def __init__(self, text: str, *, nearest: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.nearest = tuple(nearest)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the nets of a registry stand when a record goes on.

    `markings` are of the nets that go on from where they were, `fresh` start anew, `dropped` are no more,
    `forgot` go on without their own notes. `active` is in order of activation. `since` is when tokens
    that age came to the nets that go on.
    """

    markings: dict[str, dict[str, int]]
    fresh: tuple[NetRecord, ...]
    dropped: tuple[str, ...]
    forgot: tuple[str, ...]
    active: tuple[str, ...]
    since: dict[str, dict[str, tuple[float, ...]]] = field(
        default_factory=dict[str, dict[str, tuple[float, ...]]]
    )


def folded(events: Sequence[JournalEvent]) -> SessionState:
    """The state after `events`. Raises `ResumeError` when they make no sense."""
    try:
        return fold(events)
    except FoldError as error:
        raise ResumeError(
            f"The session cannot go on, its record makes no sense: {error}. "
            "Restore a backup of the journal."
        ) from error


def standing(
    state: SessionState, registry: Mapping[str, SkillNet], *, active: Sequence[str] | None, nets: Nets
) -> Standing:
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
    forgetful = [key for key in kept if registry[key].on_deferred_result is not None]
    if nets == "recorded" and (missing or changed or forgetful):
        text = _misfit(state.id, missing, changed, forgetful)
        raise ResumeError(text, missing=missing, changed=tuple(changed), forgetful=forgetful)
    if active is None:
        added = [key for key in records if key not in state.nets]
        active = [*(key for key in state.active if key in records), *added]
    return Standing(
        markings={key: dict(state.nets[key].marking) for key in kept},
        fresh=tuple(record for key, record in records.items() if key not in kept),
        dropped=tuple(missing),
        forgot=tuple(forgetful),
        active=tuple(active),
        since={key: state.nets[key].since for key in kept},
    )


def _differences(recorded: NetRecord, given: NetRecord) -> list[str]:
    """What differs in structure. Where the rule was written may change, what it does may not."""
    parts = ("name", "places", "transitions", "initial_marking", "free_tools", "when", "governs")
    return [part.replace("_", " ") for part in parts if getattr(recorded, part) != getattr(given, part)]


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
    itself, nor where a person had interrupted the step: it would start again what somebody had stopped.
    Calls are decided in their order, so one before another that was decided had been refused without the
    gate.
    """
    left = [call.call_id for call in open_calls(messages)]
    if not host_died(state) or interrupted(step, left):
        return ()
    refused = _rejections(step)
    known = [n for n, i in enumerate(left) if i in refused or status_of(state, i) not in NOT_YET]
    return tuple(left[known[-1] + 1 :] if known else left)


def host_died(state: SessionState) -> bool:
    """Whether a recorded session neither ended nor failed by itself."""
    return state.phase in ("running", "idle") or state.error == DIED


def interrupted(step: Iterable[EventBody], calls: Container[str]) -> bool:
    """Whether somebody took back a question about one of `calls` in this step."""
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
    step: Sequence[EventBody] = (),
    *,
    asked_again: Collection[str] = (),
    going_on: Collection[str] = (),
) -> list[EventBody]:
    """What ends everything that a session left open when its host went away.

    Questions are withdrawn. A call that was allowed and has no result gets one that says its outcome is
    unknown; what waited for it is dropped, as for an error. One that a person had rejected is blocked.
    Then the model is told how every call ended: by its result if there is one, why it was blocked, or
    that it was never decided. Calls to be `asked_again` and those `going_on` stay open; what follows the
    first of these is told when they have ended (see `told_later`).
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
    told: list[EventBody] = []
    for call in takewhile(lambda call: call.call_id not in going_on, here):
        if (rejection := no.pop(call.call_id, None)) is not None:
            told += [rejection, _told(call.call_id, call.name, rejection.reason or "")]
        else:
            text = REFUSED if asked_again or going_on else NOT_DECIDED
            told.append(_answer(call.call_id, call.name, state.calls.get(call.call_id), text))
    return [
        *withdrawals(state),
        *(
            unknown_result(call_id, tool, [p.step for p in state.pending if p.call_id == call_id])
            for call_id, tool in unknown.items()
        ),
        *no.values(),
        *told,
    ]


def told_later(
    state: SessionState, messages: Sequence[Message], going_on: Container[str]
) -> list[ProposedCall | MessageAdded]:
    """The open calls from the first on that goes on: those that do, and what of the others is told."""
    calls = dropwhile(lambda call: call.call_id not in going_on, open_calls(messages))
    return [
        call
        if call.call_id in going_on
        else _answer(call.call_id, call.name, state.calls.get(call.call_id), REFUSED)
        for call in calls
    ]


def last_step(events: Sequence[JournalEvent]) -> list[EventBody]:
    """What happened since the model last spoke."""
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


def _rejection(asked: ApprovalRequested, reason: str | None) -> CallDecided:
    return CallDecided(
        call_id=asked.call_id,
        tool=asked.called,
        input=asked.input,
        names=asked.names,
        outcome="block",
        mode="enforce",
        reason=rejected(asked.tool, reason),
        net=asked.net,
        rule=asked.rule,
        via=asked.via,
    )


def withdrawals(state: SessionState, reason: str = HOST_GONE) -> list[EventBody]:
    """Every open question as nobody's any more."""
    return [
        ApprovalWithdrawn(approval_id=asked.id, call_id=asked.call_id, reason=reason)
        for asked in state.approvals.values()
    ]


UNRESOLVED = ("running", "unknown")
"""How a call stands that was allowed and has no result."""
NOT_YET = ("proposed", "waiting", "skipped")
"""How one stands that was not decided."""
ENDS: Mapping[str, CallEnd] = {
    "done": "done",
    "failed": "failed",
    "blocked": "blocked",
    "skipped": "skipped",
    "unknown": "unknown",
}


def status_of(state: SessionState, call_id: str) -> str:
    """How a call stands; one that the state does not know was proposed at most."""
    call = state.calls.get(call_id)
    return "proposed" if call is None else call.status


def unknown_result(call_id: str, tool: str, dropped: Iterable[StepRecord]) -> CallResult:
    """The result of a call that nobody knows the outcome of."""
    return CallResult(
        call_id=call_id,
        tool=tool,
        output=UNKNOWN_OUTCOME,
        is_error=True,
        dropped=tuple(dropped),
        unknown=True,
    )


def _told(call_id: str, tool: str, text: str) -> MessageAdded:
    return MessageAdded(role="tool", text=text, call_id=call_id, tool=tool, is_error=True)


def _answer(call_id: str, tool: str, call: CallState | None, otherwise: str) -> MessageAdded:
    """The tool message of a call as its end was recorded, `otherwise` if it was never decided."""
    is_error, text = True, None
    match call:
        case CallState(status="done"):
            is_error = False
        case CallState(status="failed" | "running" | "unknown"):
            pass
        case CallState(status="blocked", reason=reason):
            text = reason or f"{tool} is blocked."
        case _:
            text = otherwise
    return MessageAdded(role="tool", text=text, call_id=call_id, tool=tool, is_error=is_error)
