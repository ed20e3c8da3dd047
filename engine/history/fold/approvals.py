"""Requests and grants in a session's state; see `fold`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TypeAlias

from ..errors import impossible
from ..model.events import (
    ApprovalClaimed,
    ApprovalCommented,
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    ApprovalTakenBack,
    ApprovalUnclaimed,
    ApprovalWithdrawn,
    CallLate,
    CallRepeated,
    EventBody,
    GrantGiven,
    GrantRevoked,
    JournalEvent,
)
from ..model.fast_models import construct_model, copy_with
from ..model.records import ClaimRecord, CommentRecord, ExtensionRecord, FuseRecord, shared_rule
from ..model.state import ApprovalState, GrantState, NetState, SessionState
from .markings import initial_arrivals, initial_marking
from .transcript import UNDECIDED, find_call, propose, replace_call, say

_COPIED = ApprovalRequested.model_fields.keys() & ApprovalState.model_fields.keys()
"""Fields that a request's state copies from its event."""
_BLANK: dict[str, object] = {name: of.default for name, of in ApprovalState.model_fields.items()}
"""All fields in order, with their defaults, which are immutable."""

_GIVEN = ("given", "given_at", "tokens", "given_groups", "given_keys")
"""Fields of a request's state about those who have approved it so far."""


def requested(state: SessionState, event: JournalEvent, body: ApprovalRequested) -> None:
    if body.approval_id in state.approvals:
        raise impossible(event, f"approval '{body.approval_id}' is open already")
    call = find_call(state, body.call_id, UNDECIDED)
    original = (body.input if call is None else call.input) if body.edited else None
    # The event's values were validated with it.
    fields = {
        **_BLANK,
        **{name: getattr(body, name) for name in _COPIED},
        "id": body.approval_id,
        "session": state.id,
        "agent": state.agent,
        "rule": body.rule and shared_rule(body.rule.file, body.rule.line, body.rule.text),
        "since": event.at,
        "original": original,
        "opener": state.opened_by if state.kind == "outside" else None,
        "late": None if call is None else call.late,
    }
    state.approvals[body.approval_id] = construct_model(ApprovalState, fields)
    if call is None:
        call = propose(state, event.at, body.call_id, body.called, body.input, body.shell_fields)
    replace_call(
        state,
        call,
        copy_with(call, {"status": "waiting", "names": body.names, "via": body.via, "waits_for": ()}),
    )


def answered(
    state: SessionState, event: JournalEvent, body: ApprovalDecided | ApprovalExpired | ApprovalWithdrawn
) -> None:
    if body.approval_id not in state.approvals:
        raise impossible(event, f"approval '{body.approval_id}' is not open")
    del state.approvals[body.approval_id]
    if any(a.call_id == body.call_id for a in state.approvals.values()):
        return
    call = find_call(state, body.call_id, {"waiting"})
    if call is not None:
        is_continued = isinstance(body, ApprovalWithdrawn) and body.again
        late = call.late if is_continued else None
        replace_call(state, call, copy_with(call, {"status": "proposed", "late": late}))


def left_open(state: SessionState, event: JournalEvent, body: CallLate) -> None:
    """Note that the client of a call has gone; the request about it stays open (G-102)."""
    if not any(request.call_id == body.call_id for request in state.approvals.values()):
        raise impossible(event, f"no request about call '{body.call_id}' is open")
    _set_late(state, body.call_id, body.until)


def repeated(state: SessionState, event: JournalEvent, body: CallRepeated) -> None:
    """Note that an agent has made a late call again (G-102)."""
    call = state.calls.get(body.call_id)
    if call is None:
        raise impossible(event, f"there is no call '{body.call_id}'")
    _set_late(state, body.call_id, None)
    suffix = "" if body.made_as == body.call_id else f" as {body.made_as}"
    say(state, "note", event.at, f"{call.tool} ({body.call_id}) made again{suffix}")


def end_late(state: SessionState) -> None:
    """Clear `late` of all calls: their host is gone, and their requests are asked anew."""
    for call in [call for call in state.calls.values() if call.late is not None]:
        _set_late(state, call.call_id, None)


def _set_late(state: SessionState, call_id: str, until: datetime | None) -> None:
    for key, request in state.approvals.items():
        if request.call_id == call_id:
            state.approvals[key] = copy_with(request, {"late": until})
    call = find_call(state, call_id, UNDECIDED)
    if call is not None:
        replace_call(state, call, copy_with(call, {"late": until}))


_Changed: TypeAlias = (
    ApprovalGiven
    | ApprovalExtended
    | ApprovalRevealed
    | ApprovalEscalated
    | ApprovalFused
    | ApprovalTakenBack
)
"""The events that change a request which stays open."""


def changed(state: SessionState, event: JournalEvent, body: _Changed) -> None:
    """Update an open request: an approval, a new deadline, an escalation, or a look at masked text."""
    approval = state.approvals.get(body.approval_id)
    if approval is None:
        raise impossible(event, f"approval '{body.approval_id}' is not open")
    match body:
        case ApprovalExtended(proposed=ExtensionRecord() as proposed):
            update: dict[str, object] = {"extension": proposed}
        case ApprovalExtended(until=until):
            update = {"expires": until, "extension": None}
        case ApprovalRevealed(by=by):
            update = {"revealed": (*approval.revealed, by)}
        case ApprovalEscalated():
            if approval.escalated is not None:
                raise impossible(event, f"'{body.approval_id}' is escalated already")
            update = {"escalated": event.at}
        case ApprovalFused(by=by, until=until, input=edited):
            if approval.fuse is not None:
                raise impossible(event, f"{approval.fuse.by} has approved '{body.approval_id}' already")
            fuse = FuseRecord(by=by, at=event.at, until=until, edited=edited is not None)
            update = {"fuse": fuse, "taken_back": None}
        case ApprovalTakenBack(by=by):
            if approval.fuse is None:
                raise impossible(event, f"no approval of '{body.approval_id}' can be taken back")
            no_answers: dict[str, object] = dict.fromkeys(_GIVEN, ())
            update = {"fuse": None, "taken_back": by, **no_answers}
        case ApprovalGiven(by=by):
            if approval.fuse is not None:
                raise impossible(event, f"nobody is missing to approve '{body.approval_id}' then")
            if by in approval.given:
                raise impossible(event, f"{by} has approved '{body.approval_id}' already")
            if len(approval.given) + 1 >= approval.people:
                raise impossible(event, f"nobody is missing to approve '{body.approval_id}' then")
            update = {
                "given": (*approval.given, by),
                "given_at": (*approval.given_at, event.at),
                "tokens": (*approval.tokens, body.token),
                "given_groups": (*approval.given_groups, body.groups),
                "given_keys": (
                    *approval.given_keys,
                    None if body.proof is None else body.proof.credential,
                ),
            }
    state.approvals[body.approval_id] = copy_with(approval, update)


def handed_over(
    state: SessionState,
    event: JournalEvent,
    body: ApprovalClaimed | ApprovalUnclaimed | ApprovalCommented,
) -> None:
    """Update who claimed an open request, or note a comment on it; neither changes the request."""
    approval = state.approvals.get(body.approval_id)
    if approval is None:
        raise impossible(event, f"approval '{body.approval_id}' is not open")
    match body:
        case ApprovalClaimed(by=by, until=until):
            if approval.claim is not None:
                raise impossible(event, f"{approval.claim.by} has '{body.approval_id}'")
            update: dict[str, object] = {"claim": ClaimRecord(by=by, at=event.at, until=until)}
        case ApprovalUnclaimed(by=by):
            if approval.claim is None or approval.claim.by != by:
                raise impossible(event, f"{by} does not have '{body.approval_id}'")
            update = {"claim": None}
        case ApprovalCommented(by=by, text=text, to=to):
            comment = CommentRecord(by=by, at=event.at, text=text, to=to)
            update = {"comments": (*approval.comments, comment)}
            address = "" if to is None else f"@{to} "
            say(state, "note", event.at, f"{by} on {approval.tool}: {address}{text}", by)
    state.approvals[body.approval_id] = copy_with(approval, update)


def granted(state: SessionState, event: JournalEvent, body: GrantGiven) -> None:
    """Add a grant to the session's, with all its tokens."""
    record = body.grant
    if record.key in state.nets or record.key in state.grants:
        raise impossible(event, f"there is a net '{record.key}' already")
    if record.exact and body.input is None:
        raise impossible(event, f"'{record.key}' is for one input, and the record has none")
    for asks in record.nets:
        if asks not in state.nets:
            raise impossible(event, f"the session has no net '{asks}' to answer for")
    marking = initial_marking(record.net)
    net = NetState(
        net=record.net, active=True, marking=marking, since=initial_arrivals(record.net, record.since)
    )
    state.grants[record.key] = GrantState(
        record=record,
        input=body.input,
        net=net,
        by=body.by,
        at=event.at,
        reason=body.reason,
        shell_fields=body.shell_fields,
    )
    why = "" if body.reason is None else f": {body.reason}"
    what = record.tool if record.plan is None else f"{record.uses} {record.tool} of {record.plan}"
    say(state, "note", event.at, f"{record.key}: {what} granted by {body.by}{why}", body.by)


def revoked(state: SessionState, event: JournalEvent, body: GrantRevoked) -> None:
    """Mark a grant as revoked; it stays visible."""
    grant = state.grants.get(body.key)
    if grant is None or not grant.net.active:
        raise impossible(event, f"there is no grant '{body.key}' in force")
    net = copy_with(grant.net, {"active": False})
    state.grants[body.key] = copy_with(grant, {"net": net, "revoked_by": body.by})
    say(state, "note", event.at, f"{body.key} revoked by {body.by}", body.by)


def forget_grants(state: SessionState, nets: Collection[str], keys: Collection[str] = ()) -> None:
    """End the grants with `keys`, and those that answer for one of `nets`, which have changed.

    A plan ends with any of its grants.
    """
    active = {key: grant.record for key, grant in state.grants.items() if grant.net.active}
    ended_keys = {key for key, each in active.items() if key in keys or not {*each.nets}.isdisjoint(nets)}
    plans = {active[key].plan for key in ended_keys} - {None}
    for key, record in active.items():
        if key in ended_keys or record.plan in plans:
            grant = state.grants[key]
            state.grants[key] = copy_with(grant, {"net": copy_with(grant.net, {"active": False})})


# The end of a request as text, for those who answer too late or have it on screen.


def end_of(body: EventBody) -> tuple[str, str] | None:
    """Return the request's id and a sentence, `Already denied by maria: not today`, or `None`."""
    match body:
        case ApprovalDecided(approved=approved, by=by, reason=reason):
            why = f": {reason}" if reason else ""
            return body.approval_id, f"Already {'approved' if approved else 'denied'} by {by}{why}"
        case ApprovalExpired(reason=reason):
            return body.approval_id, f"Too late: {reason}"
        case ApprovalWithdrawn(reason=reason):
            return body.approval_id, f"Withdrawn: {reason}"
        case _:
            return None


def own_end(body: ApprovalDecided) -> str:
    """Return the sentence for the operator who decided it: `You have approved this: it is recorded`."""
    return f"You have {'approved' if body.approved else 'denied'} this: it is recorded"
