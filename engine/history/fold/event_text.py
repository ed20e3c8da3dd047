"""Events as text: one line for a list, and what an event changed for a replay.

Everything that an agent, a model or a tool wrote passes `visible`, so a line can be printed as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping

from pydantic import JsonValue

from ...core.approvers import chat_of, with_groups
from ...core.durations import format_duration
from ...core.sanitize import visible
from ...core.value_key import split_key
from ...net.net import format_marking
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
from ..model.records import AppliedRules, FlowStepped, GrantRecord, StepRecord
from ..model.state import NetState, SessionState
from .flow_steps import step_changes, step_headline
from .markings import initial_marking

LONGEST = 200
_SPACES = re.compile(r"[ \t\n]+")


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return one visible line of at most `longest` characters; runs of white space become one space."""
    line = visible(_SPACES.sub(" ", text[: longest * 8]).strip())
    cut = len(line) > longest or len(text) > longest * 8
    return f"{line[: longest - 1]}…" if cut else line


def input_head(arguments: dict[str, JsonValue], longest: int = LONGEST) -> str:
    """Return the beginning of a call's input as JSON; empty for no input."""
    return shortened(json.dumps(arguments, ensure_ascii=False), longest) if arguments else ""


def headline(event: JournalEvent, wanting: Container[str] = ()) -> str:
    """Return an event in one line, beginning with its type; `wanting` are requests for an answer."""
    parts = [event.body.type, *_headline(event, wanting)]
    return "  ".join(visible(part) for part in parts if part)


def _headline(event: JournalEvent, wanting: Container[str]) -> Iterable[str]:
    match event.body:
        case SessionOpened() as body:
            nets = "1 net" if len(body.nets) == 1 else f"{len(body.nets)} nets"
            return (
                body.agent,
                f"{_mode_words(body.model, body.mode)}, {nets}",
                _origin(body),
                _labels(body.session_labels),
                _by(body.opened_by),
                _applied_words(body.applied),
            )
        case SessionResumed() as body:
            fresh = ", ".join(net.key for net in body.nets)
            return (
                body.agent,
                _mode_words(body.model, body.mode),
                f"fresh: {fresh}" if fresh else "",
                f"dropped: {', '.join(body.dropped)}" if body.dropped else "",
                f"asked again: {', '.join(body.asked_again)}" if body.asked_again else "",
                f"continuing: {', '.join(body.going_on)}" if body.going_on else "",
                _labels(body.session_labels),
                _by(body.by),
                shortened(body.reason or ""),
                _applied_words(body.applied),
            )
        case RulesReplaced() as body:
            fresh = ", ".join(net.key for net in body.nets)
            return (
                f"fresh: {fresh}" if fresh else "",
                f"dropped: {', '.join(body.dropped)}" if body.dropped else "",
                _applied_words(body.applied),
            )
        case SessionStatus() as body:
            return body.status, shortened(body.error or ""), _by(body.by)
        case MessageAdded() as body:
            return _message_headline(body)
        case MessageQueued() as body:
            return f"{body.mode} {_by(body.by)}".rstrip(), shortened(body.text)
        case MessageWithdrawn() as body:
            return f"message {body.message_id}", shortened(body.reason)
        case StepEnded() as body:
            cost = f", {dollars(body.cost)}" if body.cost else ""
            usage = f"{body.input_tokens} tokens in, {body.output_tokens} out{cost}"
            return body.finish_reason, usage, _by(body.via)
        case FlowStepped() as body:
            return step_headline(body)
        case ToolHints() as body:
            return body.tool, f"its server claims {hint_words(body.hints)}", differing_words(body)
        case CallWaits() as body:
            return f"call {body.call_id}", f"waits for {', '.join(body.waits_for) or 'no other call'}"
        case CallLate() as body:
            return f"call {body.call_id}", _late_words(body)
        case CallRepeated() as body:
            return f"call {body.call_id}", _repetition_words(body)
        case RequestMade() as body:
            return f"call {body.call_id}", _request(body)
        case RequestStep() as body:
            return f"call {body.call_id}", f"request {body.step}"
        case CallDecided() as body:
            return _decision_headline(body)
        case CallResult() as body:
            if body.anomaly is not None:
                return body.tool, f"anomaly: {shortened(body.anomaly)}"
            outcome = f"{'error' if body.is_error else 'ok'} {body.seconds:.1f} s"
            return (
                body.tool,
                "outcome unknown" if body.unknown else outcome,
                shortened(body.output),
            )
        case ApprovalRequested() as body:
            where = f"[{body.rule.where}]" if body.rule else ""
            asks = f"needs approval: {body.net} {where}".rstrip()
            return body.tool, input_head(body.input), asks, _by(body.via)
        case ApprovalDecided() as body:
            return f"call {body.call_id}", _answer(body, wanting)
        case ApprovalGiven() as body:
            return (
                f"call {body.call_id}",
                f"approved by {with_groups(body.by, body.groups)}, others must approve too",
            )
        case ApprovalFused() as body:
            return f"call {body.call_id}", _fuse_words(body)
        case ApprovalTakenBack() as body:
            return f"call {body.call_id}", "approval taken back", _by(body.by)
        case ApprovalClaimed() as body:
            return f"call {body.call_id}", f"{body.by} has this until {body.until:%H:%M:%S}"
        case ApprovalUnclaimed() as body:
            return f"call {body.call_id}", f"{body.by} no longer has this: {shortened(body.reason)}"
        case ApprovalCommented() as body:
            return f"call {body.call_id}", _comment(body), _by(body.by)
        case ApprovalExtended() as body:
            may = "may wait" if body.proposed is None else "is to wait"
            return f"call {body.call_id}", f"{may} {_until_words(body)}", _by(_people(body))
        case ApprovalRevealed() as body:
            return f"call {body.call_id}", "masked text looked at", _by(body.by)
        case ApprovalEscalated() as body:
            return f"call {body.call_id}", f"escalated to {body.group}"
        case ApprovalWithdrawn() | ApprovalExpired() as body:
            return f"call {body.call_id}", shortened(body.reason)
        case GrantGiven() as body:
            return (
                body.grant.key,
                f"{grant_words(body.grant, body.input)}{_reason_suffix(body.reason)}",
                _by(body.by),
            )
        case GrantRevoked() as body:
            return body.key, "revoked", _by(body.by)
        case NetToggled() as body:
            return body.net, "on" if body.active else "off", _switch_words(body)
        case ModeChanged() as body:
            return body.mode, _switch_words(body)
        case ChangeProposed() as body:
            what = "shadow mode" if body.net is None else f"{body.net} {'on' if body.active else 'off'}"
            return what, f"proposed, takes {body.people}: {shortened(body.reason)}", _by(body.by)
        case ChangeAgreed() as body:
            return f"change {body.change_id}", "agreed, others must agree too", _by(body.by)
        case ChangeDropped() as body:
            return f"change {body.change_id}", shortened(body.reason), _by(body.by)
        case FreezeBegan() | FreezeLifted() as body:
            what = "calls wait" if isinstance(body, FreezeBegan) else "calls continue"
            return f"{what}{_reason_suffix(body.reason)}", _by(body.by)
        case LimitRaised() as body:
            return f"to {dollars(body.max_cost)}{_reason_suffix(body.reason)}", _by(body.by)
        case LossAccepted() as body:
            return f"{loss_words(body)}{_reason_suffix(body.reason)}", _by(body.by)
        case NewerEvent() as body:
            return body.name, "unknown to this version, not shown"


def _switch_words(body: NetToggled | ModeChanged) -> str:
    """Return the operators who made a switch, until when and why."""
    until = f", until {body.until:%H:%M:%S}" if body.until is not None else ""
    who = ", ".join(dict.fromkeys((*body.others, body.by)))
    return (
        f"(its time is over, set by {who})"
        if body.timed
        else f"(by {who}{until}{_reason_suffix(body.reason)})"
    )


def _reason_suffix(reason: str | None) -> str:
    return f": {shortened(reason)}" if reason else ""


def _mode_words(model: str, mode: str) -> str:
    """Omit a model that is not known: an external agent need not name its own."""
    return f"on {model}, {mode} mode" if model else f"in {mode} mode"


def _labels(labels: tuple[str, ...]) -> str:
    return f"labels {', '.join(labels)}" if labels else ""


def _applied_words(rules: AppliedRules | None) -> str:
    """Return who replaced the server's rules before, and why; empty if nobody did."""
    if rules is None:
        return ""
    people = " and ".join((*rules.others, rules.by))
    return f"rules applied by {people}" + (f": {shortened(rules.reason)}" if rules.reason else "")


def _origin(body: SessionOpened) -> str:
    if body.kind == "outside":
        return "external agent"
    if body.flow is not None:
        return f"runs flow {body.flow.name}"
    if body.parent is None:
        return ""
    moment = "" if body.parent_seq is None else f" at event {body.parent_seq}"
    return f"{body.kind} of {body.parent}{moment}"


def _by(name: str | None) -> str:
    return f"(by {name})" if name else ""


def _message_headline(body: MessageAdded) -> Iterable[str]:
    calls = [f"{call.tool} {input_head(call.input, 80)}".rstrip() for call in body.calls]
    speaker = f"{body.role} {_by(body.by)}".rstrip()
    if body.reported_by is not None:
        speaker = f"{body.role} ({body.attribution})"
    if body.role == "summary":
        speaker += f"  ({body.kept or 0} kept)"
    run_text = "" if body.input is None else f"ran with {input_head(body.input, 80)}".rstrip()
    return (
        (f"{speaker} {body.tool}" if body.tool else speaker),
        shortened(body.text or ""),
        run_text,
        *calls,
    )


def _decision_headline(body: CallDecided) -> Iterable[str]:
    verdict = (
        f"would {body.outcome}" if body.mode == "shadow" and body.outcome != "allow" else body.outcome
    )
    if body.outcome == "allow" and body.approved_by:
        verdict += f" (approved by {body.approver_names})"
    if body.granted:
        verdict += f" (by {', '.join(body.granted)})"
    if body.off and body.outcome == "allow":
        verdict += f" ({shortened(body.off_words or '')})"
    edited = " (input edited)" if body.edited else ""
    edited += f" (unclear: {shortened(body.uninspectable)})" if body.uninspectable else ""
    edited += f" (judged as {', '.join(body.judged_as)})" if body.judged_as else ""
    reason = f": {body.reason}" if body.reason else ""
    where = f" [{body.rule.where}]" if body.rule and body.outcome != "allow" else ""
    name = body.names[0] if body.names else body.tool
    return name, f"{verdict}{edited}{shortened(reason)}{where}", _by(body.via)


def _answer(body: ApprovalDecided, wanting: Container[str]) -> str:
    is_answer = body.input is not None and body.approval_id in wanting
    verdict = "answered" if is_answer else "approved" if body.approved else "denied"
    edited = " with edited input" if body.input is not None and not is_answer else ""
    chat = chat_of(body.login)
    by = f"{with_groups(body.by, body.groups)}{f' in {chat}' if chat else ''}"
    return f"{verdict} by {by}{edited}{_reason_suffix(body.reason)}"


def _comment(body: ApprovalCommented) -> str:
    return f"{'' if body.to is None else f'@{body.to} '}{shortened(body.text)}"


def _fuse_words(body: ApprovalFused) -> str:
    edited = " with edited input" if body.input is not None else ""
    by = with_groups(body.by, body.groups)
    run_text = f"runs at {body.until:%H:%M:%S}"
    if body.held is not None:
        run_text = f"runs once the agent makes the call again, until {body.held:%H:%M:%S}"
    return f"approved by {by}{edited}{_reason_suffix(body.reason)}, {run_text}"


def loss_words(body: LossAccepted) -> str:
    """Return the missing events as a clause, as in *events 5 to 7 were acknowledged and lost*."""
    first, last = min(body.kept + 1, body.acknowledged), body.acknowledged
    lost_events = f"event {last} was" if first == last else f"events {first} to {last} were"
    return f"{lost_events} acknowledged and lost by the database"


def hint_words(hints: Mapping[str, bool]) -> str:
    """Return claims about a tool in the syntax of rules: `read_only = true, open_world = false`."""
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in hints.items()) or "nothing"


def differing_words(body: ToolHints) -> str:
    """Return a note on hints that a server claimed differently before; empty if there are none."""
    if not body.differ:
        return ""
    return (
        f"the server of {body.tool} claims {', '.join(body.differ)} differently than before in this "
        "session: these claims no longer count, and rules that use them apply"
    )


def _late_words(body: CallLate) -> str:
    subagent = f" (of subagent {body.subagent})" if body.subagent else ""
    return f"its client{subagent} is gone, open until {body.until:%H:%M:%S}"


def _repetition_words(body: CallRepeated) -> str:
    return "made again" if body.made_as == body.call_id else f"made again as {body.made_as}"


def _request(body: RequestMade) -> str:
    server = f" of {body.server}" if body.server else ""
    return f"requested for {body.tool}{server}, open until {body.deadline:%H:%M:%S}"


def changes(before: SessionState, event: JournalEvent, after: SessionState) -> list[str]:
    """Return the changes by `event` as text; `before` and `after` are the states around it."""
    lines = [
        *_opening_changes(event, after),
        *_approval_changes(before, event),
        *_queue_changes(before, event),
        *_marking_changes(before, event, after),
        *_switch_changes(before, after),
        *_call_changes(before, event, after),
        *_pending_changes(before, event, after),
        *step_changes(event, after.nets),
        *_cost_changes(before, after),
    ]
    return [visible(line) for line in lines]


def _opening_changes(event: JournalEvent, after: SessionState) -> Iterable[str]:
    match event.body:
        case SessionOpened() as body:
            yield f"opened: {after.agent} {_mode_words(after.model, after.mode)}"
            if origin := _origin(body):
                yield origin
            if labels := _labels(body.session_labels):
                yield labels
            if applied := _applied_words(body.applied):
                yield applied
            for key, net in after.nets.items():
                yield _net_line(key, net)
        case SessionResumed() as body:
            yield f"resumed: {after.agent} {_mode_words(after.model, after.mode)}"
            if labels := _labels(body.session_labels):
                yield labels
            if applied := _applied_words(body.applied):
                yield applied
            yield from _net_changes(body, after)
            for key in body.forgot:
                yield f"{key}: notes forgotten"
            for call_id in body.asked_again:
                call = after.calls.get(call_id)
                yield f"asked again: {'unknown' if call is None else call.tool} (call {call_id})"
            for call_id in body.going_on:
                call = after.calls.get(call_id)
                yield f"continues: {'unknown' if call is None else call.tool} (call {call_id})"
        case RulesReplaced() as body:
            yield _applied_words(body.applied)
            yield from _net_changes(body, after)
            for record in body.renewed:
                yield f"{record.key}: its rule or its maps changed"
            for key in body.ended_grants:
                yield f"{key}: over"
        case _:
            pass


def _net_changes(body: SessionResumed | RulesReplaced, after: SessionState) -> Iterable[str]:
    for record in body.nets:
        yield f"starts fresh: {_net_line(record.key, after.nets[record.key])}"
    for key in body.dropped:
        yield f"{key}: dropped"


def _net_line(key: str, net: NetState) -> str:
    suffix = "" if net.active else " (off)"
    return f"{key}{suffix}: {format_marking(net.marking) or 'no tokens'}"


def _approval_changes(before: SessionState, event: JournalEvent) -> Iterable[str]:
    match event.body:
        case ApprovalRequested() as body:
            yield f"approval requested: {body.tool}"
        case ApprovalDecided() as body:
            yield f"approval of {_asked_tool(before, body.approval_id)}: {_answer(body, before.wanting)}"
        case ApprovalGiven() as body:
            request = before.approvals.get(body.approval_id)
            so_far = f" ({len(request.given) + 1} of {request.people})" if request else ""
            by = with_groups(body.by, body.groups)
            yield f"approval of {_asked_tool(before, body.approval_id)}: approved by {by}{so_far}"
        case ApprovalFused() as body:
            yield f"approval of {_asked_tool(before, body.approval_id)}: {_fuse_words(body)}"
        case ApprovalTakenBack() as body:
            yield f"approval of {_asked_tool(before, body.approval_id)} taken back (by {body.by})"
        case ApprovalClaimed() as body:
            yield f"{body.by} has the request of {_asked_tool(before, body.approval_id)}"
        case ApprovalUnclaimed() as body:
            asked_about = _asked_tool(before, body.approval_id)
            yield f"{body.by} no longer has the request of {asked_about}: {shortened(body.reason)}"
        case ApprovalCommented() as body:
            yield f"{body.by} on {_asked_tool(before, body.approval_id)}: {_comment(body)}"
        case ApprovalExtended() as body:
            asked_about = _asked_tool(before, body.approval_id)
            may = "may wait" if body.proposed is None else "is to wait, if a second person agrees,"
            yield f"approval of {asked_about} {may} {_until_words(body)} (by {_people(body)})"
        case ApprovalRevealed() as body:
            asked_about = _asked_tool(before, body.approval_id)
            yield f"masked text of {asked_about} looked at (by {body.by})"
        case ApprovalEscalated() as body:
            yield f"approval of {_asked_tool(before, body.approval_id)} escalated to {body.group}"
        case ApprovalExpired() as body:
            yield f"approval of {_asked_tool(before, body.approval_id)} expired: {shortened(body.reason)}"
        case GrantGiven() as body:
            words = f"{grant_words(body.grant, body.input)}{_reason_suffix(body.reason)}"
            yield f"{body.grant.key} given by {body.by}: {words}"
        case GrantRevoked() as body:
            yield f"{body.key} revoked by {body.by}"
        case ApprovalWithdrawn() as body:
            asked_about = _asked_tool(before, body.approval_id)
            yield f"approval of {asked_about} withdrawn: {shortened(body.reason)}"
        case _:
            pass


def _queue_changes(before: SessionState, event: JournalEvent) -> Iterable[str]:
    """Yield messages that wait to join the conversation, or no longer do."""
    messages_by_id = {message.id: message for message in before.queued}
    match event.body:
        case MessageQueued(mode="steer"):
            yield "message waits for the next model call"
        case MessageQueued():
            yield "message waits for the turn's end"
        case MessageWithdrawn(message_id=gone, reason=reason):
            text = shortened(messages_by_id[gone].text) if gone in messages_by_id else gone
            yield f"message not delivered, {shortened(reason)}: {text}"
        case MessageAdded(message_id=str() as taken) if taken in messages_by_id:
            seconds = (event.at - messages_by_id[taken].since).total_seconds()
            yield f"message taken up after {seconds:.1f} s"
        case _:
            pass


def _until_words(body: ApprovalExtended) -> str:
    until = body.until if body.proposed is None else body.proposed.until
    return "for ever" if until is None else f"until {until:%H:%M:%S}"


def _people(body: ApprovalExtended) -> str:
    return " and ".join((*body.others, body.by))


def grant_words(grant: GrantRecord, given: Mapping[str, JsonValue] | None = None) -> str:
    """Return which calls a grant allows without approval, how often and how long, in one line.

    `given` is the content of its event: for a grant of a plan, the plan with only that step.
    """
    which = "with one exact input" if grant.exact else f"as {', '.join(grant.names)}"
    if grant.plan is not None:
        which = f"of {grant.plan}{_condition_suffix(given)}, {which}"
    uses = [] if grant.uses is None else ["once" if grant.uses == 1 else f"{grant.uses} times"]
    time = [] if grant.seconds is None else [f"for {format_duration(grant.seconds)}"]
    bounds = " ".join([*uses, *time]) or "for this session"
    return f"{grant.tool} {which}, {bounds}"


def _condition_suffix(content: Mapping[str, JsonValue] | None) -> str:
    """Return the condition of a plan's only step: ` when input.env = "staging"`."""
    match content:
        case {"steps": [{"when": str() as when}]}:
            return f" when {shortened(when)}"
        case _:
            return ""


def _asked_tool(before: SessionState, approval_id: str) -> str:
    request = before.approvals.get(approval_id)
    return request.tool if request else approval_id


def _marking_changes(before: SessionState, event: JournalEvent, after: SessionState) -> Iterable[str]:
    undone_transitions = _by_net(event.body.undone) if isinstance(event.body, CallResult) else {}
    net_changes = {
        **{key: f"taken back: {' and '.join(names)}" for key, names in undone_transitions.items()},
        **{key: f"{' and '.join(names)} fired" for key, names in _fired_transitions(event).items()},
    }
    for key, what in net_changes.items():
        old_state, new_state = _net_before(before, key), after.net_state(key)
        if old_state is None or new_state is None:
            continue
        old, new = old_state.marking, new_state.marking
        moves = [f"{place} {old.get(place, 0)}→{n}" for place, n in new.items() if old.get(place, 0) != n]
        yield ", ".join([f"{after.net_name(key)}: {what}", *(moves or ["marking unchanged"])])


def _net_before(state: SessionState, key: str) -> NetState | None:
    """Return a net before a step; the net of a value that no call had named is in its initial state."""
    net = state.net_state(key) or state.nets.get(split_key(key)[0])
    if net is None or key in state.nets or key in state.values or key in state.grants:
        return net
    return net.model_copy(update={"marking": initial_marking(net.net), "since": {}})


def _fired_transitions(event: JournalEvent) -> dict[str, list[str]]:
    steps: Iterable[StepRecord] = ()
    match event.body:
        case CallDecided() as body:
            steps = (step for step in body.steps if not step.deferred)
        case CallResult(anomaly=None) as body:
            steps = body.fired
        case _:
            pass
    return _by_net(steps)


def _by_net(steps: Iterable[StepRecord]) -> dict[str, list[str]]:
    """Return the transitions of each net."""
    transitions: dict[str, list[str]] = {}
    for step in steps:
        transitions.setdefault(step.net, []).append(step.transition)
    return transitions


def _switch_changes(before: SessionState, after: SessionState) -> Iterable[str]:
    if before.seq == 0:
        return
    for key, change in after.changes.items():
        if key not in before.changes:
            yield f"proposed by {change.by}: {change.words} ({len(change.given)} of {change.people})"
        elif before.changes[key].given != change.given:
            yield f"{change.words}: {len(change.given)} of {change.people} agreed"
    for key, change in before.changes.items():
        if key not in after.changes:
            yield f"no longer proposed: {change.words}"
    for key, net in after.nets.items():
        if key in before.nets and before.nets[key].active != net.active:
            yield f"{key}: {'on' if net.active else 'off'}"
    if before.mode != after.mode:
        yield f"mode {before.mode} → {after.mode}"
    if before.frozen is None and after.frozen is not None:
        yield f"{after.frozen.words}: calls wait"
    elif before.frozen is not None and after.frozen is None:
        yield "no longer frozen: calls continue"
    if before.max_cost != after.max_cost:
        old_limit, new_limit = (
            "none" if c is None else dollars(c) for c in (before.max_cost, after.max_cost)
        )
        yield f"cost limit {old_limit} → {new_limit}"
    if before.status != after.status:
        yield f"status {before.status} → {after.status}"
    if after.error and after.error != before.error:
        yield f"error: {shortened(after.error)}"


def _call_changes(before: SessionState, event: JournalEvent, after: SessionState) -> Iterable[str]:
    match event.body:
        case MessageAdded(role="summary", kept=kept):
            words = "1 message" if kept == 1 else f"{kept or 0} messages"
            yield f"compacted: the model reads this summary of what was said before the last {words}"
        case MessageAdded(role="assistant", calls=calls):
            for call in calls:
                yield f"proposed: {call.tool} (call {call.call_id})"
        case ToolHints() as body:
            yield f"{body.tool}: its server claims {hint_words(body.hints)}"
        case CallWaits() as body:
            yield f"call {body.call_id} waits for {', '.join(body.waits_for) or 'no other call'}"
        case CallLate() as body:
            yield f"call {body.call_id}: {_late_words(body)}"
        case CallRepeated() as body:
            yield f"call {body.call_id} {_repetition_words(body)}"
        case RequestMade() as body:
            yield f"call {body.call_id} {_request(body)}"
        case RequestStep() as body:
            yield f"request for call {body.call_id}: {body.step}"
        case CallResult(anomaly=str() as anomaly):
            yield f"anomaly, nothing changed: {shortened(anomaly)}"
        case (
            CallDecided(call_id=call_id)
            | CallResult(call_id=call_id)
            | MessageAdded(call_id=str() as call_id)
        ):
            old, new = before.calls.get(call_id), after.calls.get(call_id)
            if new is not None and (old is None or old.status != new.status):
                since = old.status if old is not None else "new"
                yield f"{new.tool} (call {call_id}): {since} → {new.status}"
            if isinstance(event.body, MessageAdded) and event.body.input is not None:
                yield f"ran with {input_head(event.body.input) or 'no arguments'}, not as proposed"
        case _:
            pass


def _pending_changes(before: SessionState, event: JournalEvent, after: SessionState) -> Iterable[str]:
    previous_steps = [(p.call_id, p.step) for p in before.pending]
    new_steps = [p for p in after.pending if (p.call_id, p.step) not in previous_steps]
    yield from dict.fromkeys(f"pending: {p.step.tool} (call {p.call_id})" for p in new_steps)
    if isinstance(event.body, CallResult) and event.body.anomaly is None:
        for step in event.body.dropped:
            yield f"{after.net_name(step.net)}: {step.transition} dropped"


def _cost_changes(before: SessionState, after: SessionState) -> Iterable[str]:
    used = after.input_tokens - before.input_tokens, after.output_tokens - before.output_tokens
    if any(used):
        cost = after.cost - before.cost
        yield f"model: {used[0]} tokens in, {used[1]} out" + (f", {dollars(cost)}" if cost > 0 else "")


def dollars(cost: float) -> str:
    """Format an amount in US dollars: `$1.25`, `$0.0042`, `<$0.0001`."""
    if 0 < cost < 0.0001:
        return "<$0.0001"
    return f"${cost:.2f}" if cost >= 0.1 else f"${cost:.4f}"
