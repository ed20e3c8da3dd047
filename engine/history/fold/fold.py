"""Fold of events into a session's state: pure, one event at a time.

Markings change by firing the recorded transitions, not by evaluating the nets again. So a budget that a
failed call spent stays spent, and a replay is exact (G-63). The live state and a replay both use this
fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import WeakValueDictionary

from ...core.people import Part, is_among
from ...core.value_key import split_key
from ...net.net import NetError
from ..errors import FoldError, impossible
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
    CallDecided,
    CallLate,
    CallRepeated,
    CallResult,
    CallWaits,
    ChangeAgreed,
    ChangeDropped,
    ChangeProposed,
    FreezeBegan,
    FreezeLifted,
    GrantGiven,
    GrantRevoked,
    JournalEvent,
    LimitRaised,
    LossAccepted,
    MessageAdded,
    MessageQueued,
    MessageWithdrawn,
    ModeChanged,
    NetToggled,
    NewerEvent,
    RequestMade,
    RequestStep,
    RulesReplaced,
    SessionOpened,
    SessionResumed,
    SessionStatus,
    StepEnded,
    ToolHints,
)
from ..model.fast_models import copy_with
from ..model.records import FlowStepped, NetRecord, StepRecord
from ..model.state import (
    CallState,
    FlowState,
    HintsState,
    NetState,
    PendingState,
    SessionState,
    ValueState,
    shown_status,
)
from . import switches
from .approvals import (
    answered,
    changed,
    end_late,
    forget_grants,
    granted,
    handed_over,
    left_open,
    repeated,
    requested,
    revoked,
)
from .event_text import differing_words, dollars, loss_words
from .flow_steps import HANDED_OVER, speaker, stepped
from .markings import (
    ages,
    arrivals_after,
    initial_marking,
    marking_after,
    marking_before,
    reverted_arrivals,
    transition_of,
)
from .transcript import (
    UNDECIDED,
    UNRESOLVED,
    end_session,
    end_turn,
    find_call,
    propose,
    queue,
    reopen,
    replace_call,
    replaced_words,
    resumed_words,
    say,
    take_queued,
)

__all__ = ["FoldError", "apply", "fold", "new_state", "snapshot"]

_DECIDED = CallDecided.model_fields.keys() & CallState.model_fields.keys()
"""Fields that a decided call's state copies from its event."""


def new_state(session_id: str) -> SessionState:
    """Return the state before a session's first event."""
    # Which fields are set is irrelevant here, and a separate set per state would be as large as the rest.
    return copy_with(SessionState(id=session_id), {})


def fold(events: Iterable[JournalEvent]) -> SessionState:
    """Return the state after all of a session's `events`. Raises `FoldError`, also without events."""
    state: SessionState | None = None
    for event in events:
        if state is None:
            state = new_state(event.session)
        apply(state, event)
    if state is None:
        raise FoldError("no events: a session begins with its opening")
    return state


def snapshot(state: SessionState) -> SessionState:
    """Return a copy that later events of `state` do not change; the containers' contents are shared."""
    return copy_with(
        state,
        {
            "nets": dict(state.nets),
            "values": dict(state.values),
            "active": list(state.active),
            "pending": list(state.pending),
            "grants": dict(state.grants),
            "off": dict(state.off),
            "changes": dict(state.changes),
            "approvals": dict(state.approvals),
            "calls": dict(state.calls),
            "transcript": list(state.transcript),
            "queued": list(state.queued),
        },
    )


def apply(state: SessionState, event: JournalEvent) -> None:
    """Apply one event to `state`.

    Raises `FoldError` for an event that cannot follow: of another session, with a number left out or
    repeated, a step that is not enabled, a result for nothing pending, an answer to no request, or a
    message that does not wait. The state is then unchanged. In a `newer` session, events that depend on
    unknown ones are ignored.
    """
    if event.session != state.id:
        raise impossible(event, f"it is not of session '{state.id}'")
    if event.seq != state.seq + 1:
        raise impossible(event, f"event {state.seq + 1} was expected")
    try:
        _apply(state, event)
    except (FoldError, NetError) as error:
        if not state.newer:
            raise (error if isinstance(error, FoldError) else impossible(event, str(error))) from error
    state.seq = event.seq
    state.updated = event.at
    state.status = shown_status(state.phase, len(state.approvals))


def _apply(state: SessionState, event: JournalEvent) -> None:
    body = event.body
    if isinstance(body, SessionOpened) != (state.seq == 0):
        raise impossible(event, "a session is opened once, by its first event")
    match body:
        case SessionOpened():
            _open(state, event, body)
        case SessionResumed():
            _resume(state, event, body)
        case SessionStatus():
            _status(state, event, body)
        case MessageAdded():
            _message(state, event, body)
        case MessageQueued():
            queue(state, event, body)
        case MessageWithdrawn():
            # Its text is kept, so that its author can send it again.
            message = take_queued(state, event, body.message_id)
            say(state, "note", event.at, f"not delivered ({body.reason}): {message.text}", message.by)
        case StepEnded():
            state.input_tokens += body.input_tokens
            state.output_tokens += body.output_tokens
            state.cost += body.cost
        case FlowStepped():
            stepped(state, event, body)
        case ToolHints():
            hints = HintsState(hints=body.hints, differ=body.differ)
            state.hints = {**state.hints, body.tool: hints}
            if body.differ:
                say(state, "note", event.at, differing_words(body))
        case CallWaits():
            call = find_call(state, body.call_id, UNDECIDED)
            if call is not None:
                replace_call(state, call, copy_with(call, {"waits_for": body.waits_for}))
        case CallLate():
            left_open(state, event, body)
        case CallRepeated():
            repeated(state, event, body)
        case RequestMade():
            if body.text:
                say(state, "assistant", event.at, body.text)
        case RequestStep():
            _request_step(state, event, body)
        case CallDecided():
            _decide(state, event, body)
        case CallResult():
            _result(state, event, body)
        case ApprovalRequested():
            requested(state, event, body)
        case ApprovalGiven() | ApprovalExtended() | ApprovalRevealed() | ApprovalEscalated():
            changed(state, event, body)
        case ApprovalFused() | ApprovalTakenBack():
            changed(state, event, body)
        case ApprovalClaimed() | ApprovalUnclaimed() | ApprovalCommented():
            handed_over(state, event, body)
        case ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn():
            answered(state, event, body)
        case GrantGiven():
            granted(state, event, body)
        case GrantRevoked():
            revoked(state, event, body)
        case NetToggled():
            switches.toggled(state, event, body)
        case ModeChanged():
            switches.mode_changed(state, event, body)
        case RulesReplaced():
            _replace_rules(state, event, body)
        case ChangeProposed():
            switches.proposed(state, event, body)
        case ChangeAgreed():
            switches.agreed(state, event, body)
        case ChangeDropped():
            switches.dropped(state, event, body)
        case FreezeBegan():
            switches.frozen(state, event, body)
        case FreezeLifted():
            switches.lifted(state, event, body)
        case LossAccepted():
            words = f"{loss_words(body)}; accepted by {body.by}: {body.reason}"
            say(state, "note", event.at, words, body.by)
        case NewerEvent():
            state.newer = True
            text = f"event {event.seq} is of a newer version and not shown: {body.name}"
            say(state, "note", event.at, text)
        case LimitRaised():
            state.max_cost = body.max_cost
            why = "" if body.reason is None else f": {body.reason}"
            words = f"cost limit: {dollars(body.max_cost)} (by {body.by}{why})"
            say(state, "note", event.at, words, body.by)


def _request_step(state: SessionState, event: JournalEvent, body: RequestStep) -> None:
    if body.step in ("cancelled", "expired"):
        call = state.calls.get(body.call_id)
        name = "a request" if call is None else f"the request for {call.tool}"
        say(state, "note", event.at, f"{name} is {body.step}")


def _open(state: SessionState, event: JournalEvent, body: SessionOpened) -> None:
    nets = _fresh_nets(event, body.nets)
    for key, marking in body.markings.items():
        registered, digest = split_key(key)
        net = nets.get(registered)
        if net is None or set(marking) != set(net.marking):
            raise impossible(event, f"the marking of net '{key}' does not fit it")
        since = body.since.get(key, {})
        if not since.keys() <= marking.keys():
            raise impossible(event, f"the times of net '{key}' do not fit it")
        if digest is None:
            nets[key] = copy_with(net, {"marking": marking, "since": since})
        else:
            state.values[key] = ValueState(net=registered, value="", marking=marking, since=since)
    state.nets = _activate(event, nets, body.active)
    state.active = list(body.active)
    state.agent, state.model, state.mode = body.agent, body.model, body.mode
    state.workdir, state.shell, state.tools = body.workdir, body.shell, body.tools
    state.labels, state.max_cost = body.labels, body.max_cost
    state.session_labels = body.session_labels
    state.kind, state.parent, state.parent_seq = body.kind, body.parent, body.parent_seq
    state.parent_call = body.parent_call
    state.source = body.source
    state.flow = None if body.flow is None else FlowState(flow=body.flow)
    state.opened, state.opened_by = event.at, body.opened_by
    state.started_by = body.opened_by
    _take_part(state, body.opened_by, "branched" if body.kind == "branch" else "opened")
    _take_part(state, body.owner, "owner")
    if body.parent is not None and body.parent_seq is not None:
        say(state, "note", event.at, f"{body.kind} of {body.parent} at event {body.parent_seq}")


def _resume(state: SessionState, event: JournalEvent, body: SessionResumed) -> None:
    _replace_nets(state, event, body)
    state.agent, state.model, state.mode = body.agent, body.model, body.mode
    switches.resumed(state, body.mode)
    state.workdir, state.shell, state.tools = body.workdir, body.shell, body.tools
    state.labels, state.max_cost = body.labels, body.max_cost
    state.session_labels = body.session_labels
    state.source = body.source if body.source is not None else state.source
    state.phase, state.error = "idle", None
    # A freeze that lasts is recorded again.
    state.frozen = None
    end_late(state)
    state.started_by = body.by
    _take_part(state, body.by, "resumed")
    _take_part(state, body.owner, "owner")
    # The turn in which its host died may be the one that continues.
    state.at_rest = False
    reopen(state, body.asked_again, body.going_on)
    say(state, "note", event.at, resumed_words(body), body.by)


def _replace_rules(state: SessionState, event: JournalEvent, body: RulesReplaced) -> None:
    for record in body.renewed:
        net = state.nets.get(record.key)
        if net is None or set(initial_marking(record)) != set(net.marking):
            raise impossible(event, f"the marking of net '{record.key}' does not fit it")
    _replace_nets(state, event, body)
    for record in body.renewed:
        state.nets[record.key] = copy_with(state.nets[record.key], {"net": record})
    stale_nets = {*body.dropped, *(net.key for net in body.nets)}
    state.pending = [p for p in state.pending if split_key(p.step.net)[0] not in stale_nets]
    switches.resumed(state, state.mode)
    state.source = body.source if body.source is not None else state.source
    say(state, "note", event.at, replaced_words(body), body.applied.by)


def _replace_nets(state: SessionState, event: JournalEvent, body: SessionResumed | RulesReplaced) -> None:
    """Drop nets, add fresh ones, and end the grants that depended on them."""
    nets = dict(state.nets)
    for key in body.dropped:
        if nets.pop(key, None) is None:
            raise impossible(event, f"the session has no net '{key}' to drop")
    nets.update(_fresh_nets(event, body.nets))
    nets = _activate(event, nets, body.active)
    stale_nets = {*body.dropped, *(net.key for net in body.nets)}
    forget_grants(state, stale_nets, body.ended_grants)
    state.values = {key: value for key, value in state.values.items() if value.net not in stale_nets}
    state.nets = nets
    state.active = list(body.active)


def _take_part(state: SessionState, name: str | None, part: Part) -> None:
    """Note a person's part in starting the session; only the first part of each person counts."""
    if name is not None and name.strip() and not is_among(name, state.starters):
        state.starters = {**state.starters, name: part}


def _note_author(state: SessionState, by: str | None) -> None:
    """Note who gives the running turn its task: by starting it, or by sending a message during it."""
    # Messages before the session first runs were copied from another session's turns.
    is_turn_start = state.at_rest or state.phase != "running"
    authors = () if by is None or not by.strip() else (by,)
    state.task_by = authors if is_turn_start else tuple(dict.fromkeys((*state.task_by, *authors)))
    state.at_rest = state.phase != "running"


_shared_records: WeakValueDictionary[tuple[str, str], NetRecord] = WeakValueDictionary()


def _shared_record(record: NetRecord) -> NetRecord:
    """Return the shared record of the same net: thousands of sessions have the same few nets."""
    key = record.key, record.name
    shared_record = _shared_records.get(key)
    if shared_record is not None and shared_record == record:
        return shared_record
    _shared_records[key] = record
    return record


def _fresh_nets(event: JournalEvent, records: Iterable[NetRecord]) -> dict[str, NetState]:
    """Return nets in their initial state."""
    nets: dict[str, NetState] = {}
    for record in records:
        if record.key in nets:
            raise impossible(event, f"net '{record.key}' is listed twice")
        nets[record.key] = _initial_state(_shared_record(record), active=False)
    return nets


_initial_states: WeakValueDictionary[tuple[str, str, bool], NetState] = WeakValueDictionary()


def _initial_state(net: NetRecord, *, active: bool) -> NetState:
    """Return a net in its initial state, which is shared by all sessions with the same record.

    Raises `NetError`.
    """
    key = net.key, net.name, active
    net_state = _initial_states.get(key)
    if net_state is None or net_state.net is not net:
        net_state = _initial_states[key] = NetState(net=net, active=active, marking=initial_marking(net))
    return net_state


def _switch(net: NetState, active: bool) -> NetState:
    if net.active == active:
        return net
    if net is _initial_states.get((net.net.key, net.net.name, net.active)):
        return _initial_state(net.net, active=active)
    return copy_with(net, {"active": active})


def _activate(
    event: JournalEvent, nets: dict[str, NetState], active: tuple[str, ...]
) -> dict[str, NetState]:
    """Return `nets` with exactly those in `active` active."""
    for key in active:
        if key not in nets:
            raise impossible(event, f"active net '{key}' is not among its nets")
    return {key: _switch(net, key in active) for key, net in nets.items()}


def _status(state: SessionState, event: JournalEvent, body: SessionStatus) -> None:
    state.phase, state.error = body.status, body.error
    if body.status != "running":
        state.at_rest = True
    if body.status == "idle":
        end_turn(state)
    elif body.status != "running":
        # An external agent's calls run where the agent runs, which has not ended.
        end_session(state, running_on=state.kind == "outside" and body.error == HANDED_OVER)
    if body.error:
        say(state, "note", event.at, f"error: {body.error}")
    if body.by:
        say(state, "note", event.at, f"{body.status} (by {body.by})", body.by)


def _message(state: SessionState, event: JournalEvent, body: MessageAdded) -> None:
    if body.role == "tool":
        _tool_message(state, body)
        return
    if body.message_id is not None:
        take_queued(state, event, body.message_id)
    if body.role == "user":
        _note_author(state, body.by)
    if body.text:
        by = body.by
        if by is None and body.role == "assistant" and state.flow is not None:
            by = speaker(state.flow)
        say(state, body.role, event.at, body.text, by, body.reported_by)
    for call in body.calls:
        propose(state, event.at, call.call_id, call.tool, call.input, call.shell_fields)


def _tool_message(state: SessionState, body: MessageAdded) -> None:
    """Apply a tool message that stands for a result: why a call was blocked, skipped or cut short."""
    if body.text is None or body.call_id is None:
        return
    call = find_call(state, body.call_id, {"proposed", "waiting", "running", "blocked"})
    if call is None:
        return
    if body.ended is not None:
        run_input = call.input if body.input is None or call.outcome is not None else body.input
        update = {"status": body.ended, "output": body.text, "input": run_input}
        replace_call(state, call, copy_with(call, update))
        return
    match call.status:
        case "blocked":
            status = "blocked"
        case "running":
            status = "unknown"
        case "proposed" | "waiting":
            status = "skipped"
        case _:
            return
    replace_call(state, call, copy_with(call, {"status": status, "output": body.text}))


def _decide(state: SessionState, event: JournalEvent, body: CallDecided) -> None:
    blocked = body.outcome == "block" and body.mode == "enforce"
    if blocked and body.steps:
        raise impossible(event, "a blocked call fires nothing")
    now = [step for step in body.steps if not step.deferred]
    later = [step for step in body.steps if step.deferred]
    for step in later:
        transition_of(_net_of(state, event, step).net, step)
    _move(state, _fire(state, event, body.clock, now), body.input)
    for step in later:
        _note_value(state, step.net, body.input)
        _await_result(state, event, PendingState(call_id=body.call_id, since=event.at, step=step))
    call = find_call(state, body.call_id, UNDECIDED if body.via is None else UNDECIDED | {"skipped"})
    if call is None or any(a.call_id == body.call_id for a in state.approvals.values()):
        call = propose(state, event.at, body.call_id, body.tool, body.input, body.shell_fields)
    fields = body.__dict__
    decided_call = copy_with(
        call,
        {
            "status": "blocked" if blocked else "running",
            "original": call.input if body.edited else None,
            "waits_for": (),
            "late": None,
            **{name: fields[name] for name in _DECIDED},
        },
    )
    replace_call(state, call, decided_call)


def _await_result(state: SessionState, event: JournalEvent, waiting: PendingState) -> None:
    """Let a step wait for a result, unless a waiting step voids it; steps that it voids stop waiting."""
    key = waiting.step.net
    record = _net_of(state, event, waiting.step).net
    waiting_transitions = [transition_of(record, p.step) for p in state.pending if p.step.net == key]
    if any(waiting.step.transition in transition.voids for transition in waiting_transitions):
        return
    void = transition_of(record, waiting.step).voids
    pending = [p for p in state.pending if p.step.net != key or p.step.transition not in void]
    state.pending = [*pending, waiting]


def _result(state: SessionState, event: JournalEvent, body: CallResult) -> None:
    if body.anomaly is not None:
        say(state, "note", event.at, f"anomaly: {body.anomaly}")
        return
    pending = list(state.pending)
    for step in (*body.fired, *body.dropped):
        pending_state = next((p for p in pending if p.call_id == body.call_id and p.step == step), None)
        if pending_state is None:
            raise impossible(
                event, f"'{step.transition}' of net '{step.net}' is not pending for call '{body.call_id}'"
            )
        pending.remove(pending_state)
    call = find_call(state, body.call_id, UNRESOLVED)
    call_input = {} if call is None else call.input
    _move(state, _take_back(state, event, body, _fire(state, event, body.clock, body.fired)), call_input)
    state.pending = pending
    call = find_call(state, body.call_id, UNRESOLVED)
    if call is not None:
        status = "unknown" if body.unknown else "failed" if body.is_error else "done"
        seconds = None if body.unknown else body.seconds
        update = {"status": status, "output": body.output, "seconds": seconds}
        replace_call(state, call, copy_with(call, update))


def _net_of(state: SessionState, event: JournalEvent, step: StepRecord) -> NetState:
    net = state.net_state(step.net)
    if net is not None:
        return net
    net = state.nets.get(split_key(step.net)[0])
    if net is None or net.net.per_value is None:
        raise impossible(event, f"the session has no net '{step.net}'")
    return copy_with(net, {"marking": initial_marking(net.net), "since": {}})


def _fire(
    state: SessionState, event: JournalEvent, clock: float | None, steps: Iterable[StepRecord]
) -> dict[str, NetState]:
    """Return the nets after `steps` fired in order; `clock` is when the gate says they fired."""
    moved_nets: dict[str, NetState] = {}
    for step in steps:
        net = moved_nets.get(step.net) or _net_of(state, event, step)
        marking = marking_after(net.net, net.marking, step)
        update: dict[str, object] = {"marking": marking}
        if ages(net.net):
            at = event.at.timestamp() if clock is None else clock
            update["since"] = arrivals_after(net.net, net.since, net.marking, marking, step, at)
        moved_nets[step.net] = copy_with(net, update)
    return moved_nets


def _take_back(
    state: SessionState, event: JournalEvent, body: CallResult, moved: dict[str, NetState]
) -> dict[str, NetState]:
    """Return the nets, as in `moved` or in `state`, after undone steps of the call were taken back."""
    restored_nets = dict(
        earlier_nets := {s.net: moved.get(s.net) or _net_of(state, event, s) for s in body.undone}
    )
    for step in body.undone:
        net = restored_nets[step.net]
        restored_nets[step.net] = copy_with(net, {"marking": marking_before(net.net, net.marking, step)})
    for key, net in restored_nets.items():
        times, after = body.arrived.get(key, {}), earlier_nets[key].marking
        restored_nets[key] = copy_with(
            net, {"since": reverted_arrivals(net.net, net.since, net.marking, after, times)}
        )
    return {**moved, **restored_nets}


def _note_value(state: SessionState, key: str, used: Mapping[str, object]) -> None:
    """Add the net of a value that waits for its first result; the value is in the call's input."""
    net = state.nets.get(split_key(key)[0])
    if net is not None and key not in state.nets and key not in state.values:
        _move(state, {key: copy_with(net, {"marking": initial_marking(net.net), "since": {}})}, used)


def _move(state: SessionState, moved: dict[str, NetState], used: Mapping[str, object]) -> None:
    """Store the `moved` nets; `used` is the call's input, which has the value of a per-value net."""
    for key, net in moved.items():
        if key in state.nets:
            state.nets[key] = net
        elif net.net.per_value is not None:
            value = state.values.get(key)
            text = "" if value is None else value.value
            # Move it to the end: the last one is the one that changed last.
            state.values.pop(key, None)
            state.values[key] = ValueState(
                net=net.key,
                value=text or net.net.per_value.text(used) or "",
                marking=net.marking,
                since=net.since,
            )
        else:
            state.grants[key] = copy_with(state.grants[key], {"net": net})
