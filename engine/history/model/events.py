"""Events of the journal: one frozen model per kind, distinguished by `type`.

Everything else about a session (marking, pending set, active nets, mode, approvals, transcript) is a fold
over these events. Later versions read what is written here, so fields are added and never renamed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter

from ...core.approvers import Approvers, names_with_groups
from ...core.condition import Shell
from ...core.rule import Risk
from ..redaction.hidden_text import HiddenText
from .records import (
    AppliedRules,
    CallEnd,
    CallRecord,
    ExtensionRecord,
    FlowRecord,
    FlowStepped,
    GrantRecord,
    KeyProof,
    Kind,
    NetRecord,
    PlanStepRecord,
    Record,
    RuleRecord,
    StepRecord,
)


class SessionOpened(Record):
    """A session begins: its agent, model, tools and nets (`active` in order of activation).

    A `branch` starts from the conversation of session `parent` up to event `parent_seq`. It starts its
    nets with `markings`; `since` has the arrival times of tokens that age, and nets not listed start with
    their initial marking. A `child` was started by the call `parent_call` of `parent`. A `flow` runs
    `flow`. `source` is the data needed to start the session again. `owner` is the owner of the token that
    an external agent used. `labels` are display names of tools. `session_labels` are the labels that
    people gave the session, for conditions. `max_cost` is the most that it may cost, in US dollars.
    `reason` says why a branch begins with fewer restrictions than the record it continues (G-67). `rules`
    are the sentences about the rules at the end of the model's system prompt, if it has them (G-73).
    `applied` says who replaced the server's rules since the server started, if anyone did.
    """

    type: Literal["session.opened"] = "session.opened"
    agent: str
    model: str
    mode: Literal["enforce", "shadow"]
    nets: tuple[NetRecord, ...] = ()
    active: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    workdir: str | None = None
    shell: Shell | None = None
    opened_by: str | None = None
    reason: str | None = None
    owner: str | None = None
    kind: Kind = "root"
    parent: str | None = None
    parent_seq: int | None = None
    parent_call: str | None = None
    markings: dict[str, dict[str, int]] = Field(default_factory=dict[str, dict[str, int]])
    since: dict[str, dict[str, tuple[float, ...]]] = Field(
        default_factory=dict[str, dict[str, tuple[float, ...]]]
    )
    source: dict[str, JsonValue] | None = None
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    session_labels: tuple[str, ...] = ()
    max_cost: float | None = None
    flow: FlowRecord | None = None
    rules: tuple[str, ...] | None = None
    applied: AppliedRules | None = None


class SessionResumed(Record):
    """A session that had ended resumes, perhaps in another process, with another agent or model.

    Its nets keep their markings, except `nets`, which start fresh because they are new or have changed,
    and `dropped`, which are gone. Those in `forgot` lost the state of their callbacks. `active` are all
    nets that are active from now on, in order of activation. `asked_again` are calls that the gate had
    not decided when the host died and decides now. `going_on` are calls whose subagents continue their
    work. Both use the gate's ids for calls of subagents. `owner` is as in `SessionOpened`. `ended_grants`
    no longer answer requests, because what they were based on has changed. Without `source` the previous
    one stays. `labels`, `session_labels` and `max_cost` replace the previous ones. `reason` says why the
    session resumes with fewer restrictions (G-67). `rules` is as in `SessionOpened`, for a session whose
    model had not been given its rules; so is `applied`. `imported` is the number of events that an
    imported session came with.
    """

    type: Literal["session.resumed"] = "session.resumed"
    agent: str
    model: str
    mode: Literal["enforce", "shadow"]
    nets: tuple[NetRecord, ...] = ()
    dropped: tuple[str, ...] = ()
    forgot: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    workdir: str | None = None
    shell: Shell | None = None
    by: str | None = None
    reason: str | None = None
    owner: str | None = None
    source: dict[str, JsonValue] | None = None
    asked_again: tuple[str, ...] = ()
    going_on: tuple[str, ...] = ()
    ended_grants: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    session_labels: tuple[str, ...] = ()
    max_cost: float | None = None
    rules: tuple[str, ...] | None = None
    applied: AppliedRules | None = None
    imported: int | None = None


class SessionStatus(Record):
    """Status of a session: `running` at work, `idle` between tasks, `done` or `failed` at the end.

    `by` is the operator who ended the session.
    """

    type: Literal["session.status"] = "session.status"
    status: Literal["running", "idle", "done", "failed"]
    error: str | None = None
    by: str | None = None


class MessageAdded(Record):
    """A message joined the conversation.

    A tool message whose call has a `call.result` leaves out `text`, which is in the result. `by` is the
    operator of a steering message. `ended` is how the call of a tool message ended in the session that it
    was copied from, or in a session without a gate; this record then has no decision and no result of the
    call. A summary replaces, for the model, all earlier messages except the last `kept`, counted without
    summaries; `by` is then the operator who requested it. `message_id` is the id of a queued message,
    which no longer waits. `input` is the input that the call of a tool message ran with, if no decision
    has it and it differs from the model's (A-45). `reported_by` is the token of an external agent that
    reported this as a user's message, or names an imported record; no person is known to have written it.
    `rules_added` and `rules_removed`, of a model's reply, are the sentences about the gate's rules that
    the model was told right before as new or as no longer valid (G-73).
    """

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "tool", "summary"]
    text: str | None = None
    calls: tuple[CallRecord, ...] = ()
    call_id: str | None = None
    tool: str | None = None
    is_error: bool = False
    by: str | None = None
    ended: CallEnd | None = None
    kept: int | None = None
    message_id: str | None = None
    input: dict[str, JsonValue] | None = None
    shell_fields: tuple[str, ...] = ()
    reported_by: str | None = None
    rules_added: tuple[str, ...] = ()
    rules_removed: tuple[str, ...] = ()

    @property
    def attribution(self) -> str | None:
        """Author of a user's message: a person, or `reported by` and an agent's token."""
        return self.by if self.reported_by is None else f"reported by {self.reported_by}"


class MessageQueued(Record):
    """A person sent a message while the agent was working; it waits to join the conversation.

    `steer` joins before the next model call, `queue` after the turn (A-70). The message waits until a
    message with its `message_id` is recorded or it is withdrawn, even if its host dies.
    """

    type: Literal["message.queued"] = "message.queued"
    message_id: str
    mode: Literal["steer", "queue"]
    text: str
    by: str | None = None


class MessageWithdrawn(Record):
    """A queued message will not join the conversation, and why (A-63)."""

    type: Literal["message.withdrawn"] = "message.withdrawn"
    message_id: str
    reason: str


class StepEnded(Record):
    """One model call ended: input and output tokens, `cached_tokens` of the input; `cost` in US dollars.

    `via` is the session of the subagent that made the model call, if it was not this session.
    """

    type: Literal["step"] = "step"
    finish_reason: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    via: str | None = None


class ToolHints(Record):
    """Hints of a tool's server about the tool, written before the first call that they affect (G-113).

    `hints` are the ones that apply from now on: true or false, by their names in rules. Those in `differ`
    had another value earlier in this session and no longer apply.
    """

    type: Literal["tool.hints"] = "tool.hints"
    tool: str
    hints: dict[str, bool]
    differ: tuple[str, ...] = ()


class CallWaits(Record):
    """A call waits for the decisions on other calls before an operator is asked about it (G-68).

    The calls compete for the last tokens of a net. The call is undecided, as if it had not reached the
    gate. With empty `waits_for` it no longer waits.
    """

    type: Literal["call.waits"] = "call.waits"
    call_id: str
    waits_for: tuple[str, ...] = ()


class CallLate(Record):
    """The client of a call stopped waiting for approval; the request stays open until a time (G-102).

    `subagent` is the external agent's own id of the subagent that made the call, if any.
    """

    type: Literal["call.late"] = "call.late"
    call_id: str
    until: datetime
    subagent: str = ""


class CallRepeated(Record):
    """The agent made a late call again, with the id `made_as`: it waits for the answer or gets it."""

    type: Literal["call.repeated"] = "call.repeated"
    call_id: str
    made_as: str


class RequestMade(Record):
    """A client of the Agent Approval Protocol requests approval of a call, which is recorded next.

    `call_id` is the call's id. `tool` and `server` are the client's names. `text` is the agent's
    reasoning, and `input` the context that the client observed. At `deadline` the undecided request
    expires. `valid` is the number of seconds during which an approval can be used. The event is written
    again if the call could not be recorded.
    """

    type: Literal["request.made"] = "request.made"
    call_id: str
    tool: str
    timeout: str
    deadline: datetime
    valid: float
    server: str | None = None
    text: str | None = None
    input: dict[str, JsonValue] | None = None


class RequestStep(Record):
    """A change of a request of the Agent Approval Protocol that is not a change of its call.

    A request ends with the first of these: the decision on its call, `cancelled` by its client, or
    `expired`. `consumed` records the one use of an approval, for the idempotency key with the hash `key`;
    the tool starts after it. `notified` says that the client's receiver was told how the request ended.
    """

    type: Literal["request.step"] = "request.step"
    call_id: str
    step: Literal["cancelled", "expired", "consumed", "notified"]
    key: str | None = None


class CallDecided(Record):
    """The gate's decision on one call, written before the tool starts.

    `off` are nets that would have blocked the call or needed approval, and the operators who switched
    each of them off (G-67).

    `outcome` is the decision of enforce mode; in shadow mode the call ran regardless. `input` is what
    runs, `edited` says that an operator changed it, and `edited_by` is the last one who did (G-75).
    `steps` were committed in this order. `granted` are the grants that replaced an operator's approval.
    `clock` is the time with which nets with timed transitions were judged, in seconds since 1970. `via`
    is the session of the subagent that made the call, if it is not the agent's own. `uninspectable` is
    why the call counted as `unclear` (G-64). `judged_as` are names in the rules that the tool's name
    folds to without being equal to them (G-66). `shell_fields` is as in `CallRecord`, here and in every
    event with an input. `uses` has, by net, the counter of each limit over sessions that the call counts
    for: see `SharedLimit.counter`. `groups` has, by name, the groups that the operators in `approved_by`
    were in when they approved.
    """

    type: Literal["call.decided"] = "call.decided"
    call_id: str
    tool: str
    input: dict[str, JsonValue]
    names: tuple[str, ...]
    outcome: Literal["allow", "block", "ask"]
    mode: Literal["enforce", "shadow"]
    reason: str | None = None
    net: str | None = None
    rule: RuleRecord | None = None
    steps: tuple[StepRecord, ...] = ()
    approved_by: tuple[str, ...] = ()
    edited: bool = False
    granted: tuple[str, ...] = ()
    clock: float | None = None
    via: str | None = None
    off: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    uninspectable: str | None = None
    judged_as: tuple[str, ...] = ()
    edited_by: str | None = None
    shell_fields: tuple[str, ...] = ()
    uses: dict[str, str] = Field(default_factory=dict[str, str])
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])

    @property
    def approver_names(self) -> str:
        """All approvers with their groups: `maria (security), ada`."""
        return names_with_groups(self.approved_by, self.groups)

    @property
    def off_words(self) -> str | None:
        """The rules that were off and who had switched each off: `block-rm was off: ada`."""
        return "; ".join(f"{net} was off: {', '.join(by)}" for net, by in self.off.items()) or None


class CallResult(Record):
    """A tool ended: its output, and the deferred transitions that fired or were dropped.

    `unknown` closes a call that was allowed when its host died: whether the tool did its work is not
    known. It counts as an error, so nothing that waited for it fires, and the call is never run again.
    `undone` are the steps of its decision that were taken back, last first, because the call never ran
    (A-40). `arrived` has, for nets with timed transitions, by net and place, the arrival times of the
    tokens that those steps moved or returned, in seconds since 1970.
    """

    type: Literal["call.result"] = "call.result"
    call_id: str
    tool: str
    output: str
    is_error: bool
    seconds: float = 0.0
    fired: tuple[StepRecord, ...] = ()
    dropped: tuple[StepRecord, ...] = ()
    anomaly: str | None = None
    unknown: bool = False
    undone: tuple[StepRecord, ...] = ()
    clock: float | None = None
    arrived: dict[str, dict[str, tuple[float, ...]]] = Field(
        default_factory=dict[str, dict[str, tuple[float, ...]]]
    )


class ApprovalRequested(Record):
    """An approval request, written before it is shown.

    `uninspectable` says why the call may do more than its names say (G-51). `preview` is the change that
    its tool announced, such as a file's diff, when the request was made. `via` is as in `CallDecided`.

    An answer must name the `digest`, which covers the input, the rule that needs approval, and all rules
    in force. The rules are in it as their `rules_digest`, so that the digest can be computed again from
    this event. `people` is how many different operators must approve. At `expires` the request is denied
    automatically. `may_grant` says whether an answer may also allow later calls; `exact_only` says why
    such a grant can only cover calls with the same input. `beyond` is why the session's last grant does
    not answer the request. `note` is why the rule applies although its condition cannot be evaluated.
    `wants` is the JSON Schema of what an operator fills in to approve.

    `approvers` says whose approvals count, `None` for everybody's.

    `edited` says that `input` is one that an operator chose earlier in place of the agent's own, and
    `edited_by` is the last operator who did (G-75).

    `runs` and `hidden` are empty in a journal; they are filled in from unmasked data when the request is
    shown. `runs` are the commands in a shell command, masked. `hidden` are the masked texts that may be
    more than secrets, which an operator must see before approving. `marked` are positions among the
    `commands` that the names of the call were derived from: those that a rule names or whose words are
    not all known. They come first in `runs`.

    `plan` is the forecast of each step of a plan (G-108), in order; the steps are in `input`.

    `digest_salt` is part of the digest, so that masked input cannot be found by trying values; it is
    masked whenever anything else is. `first_asked` is when approval of the call was first requested, if
    this is not the first request for it, as after a restart or a withdrawn request.
    """

    type: Literal["approval.requested"] = "approval.requested"
    approval_id: str
    call_id: str
    tool: str
    called: str
    input: dict[str, JsonValue]
    names: tuple[str, ...]
    net: str
    transition: str
    title: str
    message: str
    marking: dict[str, int]
    rule: RuleRecord | None = None
    uninspectable: str | None = None
    preview: str | None = None
    via: str | None = None
    digest: str | None = None
    risk: Risk | None = None
    people: int = 1
    approvers: Approvers | None = None
    expires: datetime | None = None
    may_grant: bool = False
    exact_only: str | None = None
    beyond: str | None = None
    note: str | None = None
    wants: dict[str, JsonValue] | None = None
    runs: tuple[str, ...] = ()
    commands: int = 0
    marked: tuple[int, ...] = ()
    hidden: tuple[HiddenText, ...] = ()
    edited: bool = False
    edited_by: str | None = None
    shell_fields: tuple[str, ...] = ()
    rules_digest: str | None = None
    plan: tuple[PlanStepRecord, ...] = ()
    digest_salt: str | None = None
    first_asked: datetime | None = None


class ApprovalGiven(Record):
    """An operator approved a request that needs several approvals and waits for the others.

    `token` is the id of the operator's token, `None` if none is needed. `groups` are the operator's
    groups at that time, `login` is their identity at the provider where they logged in, if any. `proof`
    is that of their passkey, if the rule requires one (G-106).
    """

    type: Literal["approval.given"] = "approval.given"
    approval_id: str
    call_id: str
    by: str
    digest: str | None = None
    token: str | None = None
    groups: tuple[str, ...] = ()
    login: str | None = None
    proof: KeyProof | None = None


class ApprovalFused(Record):
    """The last approval that a request needs; its call is released at `until` unless it is taken back.

    The request stays open until then, and `approval.decided` follows when the call is released. `input`
    is as in `ApprovalDecided`; `token`, `groups`, `login` and `proof` are as in `ApprovalGiven`. The call
    of a late request (G-102) is released once the agent makes it again; `held` is the latest time for
    that.
    """

    type: Literal["approval.fused"] = "approval.fused"
    approval_id: str
    call_id: str
    by: str
    until: datetime
    reason: str | None = None
    input: dict[str, JsonValue] | None = None
    digest: str | None = None
    token: str | None = None
    shell_fields: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    login: str | None = None
    held: datetime | None = None
    proof: KeyProof | None = None


class ApprovalTakenBack(Record):
    """An operator took an approval back before its call was released: all approvals are needed again."""

    type: Literal["approval.taken_back"] = "approval.taken_back"
    approval_id: str
    call_id: str
    by: str


class ApprovalClaimed(Record):
    """An operator claimed a request until a time; others may still decide it."""

    type: Literal["approval.claimed"] = "approval.claimed"
    approval_id: str
    call_id: str
    by: str
    until: datetime


class ApprovalUnclaimed(Record):
    """The claim of `by` on a request ended: it was given up, or its time or the connection is over."""

    type: Literal["approval.unclaimed"] = "approval.unclaimed"
    approval_id: str
    call_id: str
    by: str
    reason: str


class ApprovalCommented(Record):
    """An operator's comment on a request; `to` names the operator who should look at it."""

    type: Literal["approval.commented"] = "approval.commented"
    approval_id: str
    call_id: str
    by: str
    text: str
    to: str | None = None


class ApprovalRevealed(Record):
    """An operator looked at the masked texts of a request that may be more than secrets."""

    type: Literal["approval.revealed"] = "approval.revealed"
    approval_id: str
    call_id: str
    by: str


class ApprovalEscalated(Record):
    """A request has waited so long that it also goes to the members of `group`, as its rule says.

    If the rule names no approvers of its own, everybody may decide, and the group is only notified.
    """

    type: Literal["approval.escalated"] = "approval.escalated"
    approval_id: str
    call_id: str
    group: str


class ApprovalDecided(Record):
    """An operator's answer, written before the waiting call is released.

    `input` is the input that the call runs with if an operator changed it, or what they filled in if the
    request wants something. `others` approved before, if several operators must. `groups` are those of
    `by` at that time; `login` and `proof` are as in `ApprovalGiven`. For a decision made in Slack `login`
    is the account there.
    """

    type: Literal["approval.decided"] = "approval.decided"
    approval_id: str
    call_id: str
    approved: bool
    by: str
    reason: str | None = None
    input: dict[str, JsonValue] | None = None
    others: tuple[str, ...] = ()
    digest: str | None = None
    shell_fields: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    login: str | None = None
    proof: KeyProof | None = None


class ApprovalExpired(Record):
    """No answer came in time: the call is denied for this reason."""

    type: Literal["approval.expired"] = "approval.expired"
    approval_id: str
    call_id: str
    reason: str


class ApprovalExtended(Record):
    """The deadline of a request was changed to `until`; without a time it waits forever.

    `others` requested the change before, if it takes more than one operator. With `proposed` the first of
    two operators has requested it (G-77), and `until` is the unchanged deadline.
    """

    type: Literal["approval.extended"] = "approval.extended"
    approval_id: str
    call_id: str
    until: datetime | None
    by: str
    others: tuple[str, ...] = ()
    proposed: ExtensionRecord | None = None


class ApprovalWithdrawn(Record):
    """An approval request is withdrawn, for a `reason`.

    `again` says that the call returns to the gate, which may request approval again; the call was not
    interrupted. The new request then has the `input` that `by` chose, if any (G-75).
    """

    type: Literal["approval.withdrawn"] = "approval.withdrawn"
    approval_id: str
    call_id: str
    reason: str
    again: bool = False
    input: dict[str, JsonValue] | None = None
    by: str | None = None
    shell_fields: tuple[str, ...] = ()


class GrantGiven(Record):
    """An operator's answer about a call also applies to later calls, for a `reason`.

    `input` is the exact input of an exact grant. For a grant by names it has the values of the fields
    that no map reads; for a grant of a plan it is the plan with only that step.
    """

    type: Literal["grant.given"] = "grant.given"
    grant: GrantRecord
    by: str
    call_id: str | None = None
    input: dict[str, JsonValue] | None = None
    reason: str | None = None
    shell_fields: tuple[str, ...] = ()


class GrantRevoked(Record):
    """A grant no longer answers requests."""

    type: Literal["grant.revoked"] = "grant.revoked"
    key: str
    by: str


class NetToggled(Record):
    """A registry net was switched on or off; `message` is the gate's.

    A net is switched off for a `reason`, with the agreement of `others` if its rule needs several people,
    and until a time if there is one (G-67). `waiting` are the calls that needed an operator's approval at
    that time. `timed` says that the time of an earlier switch was over; `by` is then the operator who had
    switched the net off.
    """

    type: Literal["net.toggled"] = "net.toggled"
    net: str
    active: bool
    by: str
    message: str
    reason: str | None = None
    others: tuple[str, ...] = ()
    until: datetime | None = None
    waiting: tuple[str, ...] = ()
    timed: bool = False
    change_id: str | None = None


class ModeChanged(Record):
    """Enforce or shadow mode from now on; the other fields are as in `NetToggled`."""

    type: Literal["mode.changed"] = "mode.changed"
    mode: Literal["enforce", "shadow"]
    by: str
    reason: str | None = None
    others: tuple[str, ...] = ()
    until: datetime | None = None
    waiting: tuple[str, ...] = ()
    timed: bool = False
    change_id: str | None = None


class RulesReplaced(Record):
    """The rules of a live session were replaced; `applied` says by whom and why.

    Its nets keep their markings, except `nets`, which start fresh because they are new or have changed,
    and `dropped`, which are gone. Nets in `renewed` keep theirs too, with a changed rule or changed maps.
    `active` are all nets that are active from now on, in order of activation. Deferred transitions of
    nets that start fresh or are gone no longer wait for results. `ended_grants` and `source` are as in
    `SessionResumed`, `waiting` as in `NetToggled`.
    """

    type: Literal["rules.replaced"] = "rules.replaced"
    applied: AppliedRules
    nets: tuple[NetRecord, ...] = ()
    dropped: tuple[str, ...] = ()
    renewed: tuple[NetRecord, ...] = ()
    active: tuple[str, ...] = ()
    ended_grants: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    source: dict[str, JsonValue] | None = None


class ChangeProposed(Record):
    """An operator proposes to switch a net off, or on if `active`; this takes `people` operators (G-67).

    With `net` `None` the proposal is shadow mode. Others may agree until `expires`. `counts` says whether
    `by` is one of those people. `seconds` is how long the change will last, and `token` is as in
    `ApprovalGiven`.
    """

    type: Literal["change.proposed"] = "change.proposed"
    change_id: str
    net: str | None
    by: str
    reason: str
    people: int
    expires: datetime
    counts: bool
    seconds: float | None = None
    token: str | None = None
    active: bool = False


class ChangeAgreed(Record):
    """One of several operators agrees to a proposed change; more must agree."""

    type: Literal["change.agreed"] = "change.agreed"
    change_id: str
    by: str
    token: str | None = None


class ChangeDropped(Record):
    """A proposed change does not happen, for a `reason`; `by` is the operator who dropped it."""

    type: Literal["change.dropped"] = "change.dropped"
    change_id: str
    reason: str
    by: str | None = None


class LimitRaised(Record):
    """The session may cost more from now on: `max_cost` in US dollars."""

    type: Literal["limit.raised"] = "limit.raised"
    max_cost: float
    by: str
    reason: str | None = None


class FreezeBegan(Record):
    """All agents of the hub are frozen: calls of this session wait before they are judged.

    `since` is when the freeze began, which may be before the session did. The session's record follows
    the freeze; a hub that restarts reads it from `FreezeLog`.
    """

    type: Literal["freeze.began"] = "freeze.began"
    by: str
    since: datetime
    reason: str = ""


class FreezeLifted(Record):
    """The freeze of the hub's agents ended; written before any call continues."""

    type: Literal["freeze.lifted"] = "freeze.lifted"
    by: str
    reason: str = ""


class LossAccepted(Record):
    """An operator accepts that acknowledged events are missing, so that the session can be resumed.

    `acknowledged` is the number of the last acknowledged event, `head` its hash in hexadecimal if known.
    `kept` is the number of the last event that the database still had, as after a failover to a lagging
    standby. `noticed_by` is the server that noticed the loss, at the time `noticed`.
    """

    type: Literal["loss.accepted"] = "loss.accepted"
    by: str
    reason: str
    acknowledged: int
    kept: int
    noticed: datetime
    noticed_by: str
    head: str | None = None


class NewerEvent(Record):
    """An event that this version does not know, shown by its type without its content.

    It is never recorded: the database keeps the original for a version that knows it.
    """

    type: Literal["newer"] = "newer"
    name: str


EventBody = Annotated[
    SessionOpened
    | SessionResumed
    | SessionStatus
    | MessageAdded
    | MessageQueued
    | MessageWithdrawn
    | StepEnded
    | FlowStepped
    | ToolHints
    | CallWaits
    | CallLate
    | CallRepeated
    | RequestMade
    | RequestStep
    | CallDecided
    | CallResult
    | ApprovalRequested
    | ApprovalGiven
    | ApprovalExtended
    | ApprovalFused
    | ApprovalTakenBack
    | ApprovalClaimed
    | ApprovalUnclaimed
    | ApprovalCommented
    | ApprovalRevealed
    | ApprovalEscalated
    | ApprovalDecided
    | ApprovalExpired
    | ApprovalWithdrawn
    | GrantGiven
    | GrantRevoked
    | NetToggled
    | ModeChanged
    | RulesReplaced
    | ChangeProposed
    | ChangeAgreed
    | ChangeDropped
    | LimitRaised
    | FreezeBegan
    | FreezeLifted
    | LossAccepted
    | NewerEvent,
    Field(discriminator="type"),
]


event_body: TypeAdapter[EventBody] = TypeAdapter(EventBody)
"""Parses an event's body."""


class JournalEvent(Record):
    """One event of one session.

    `cursor` orders all events of a database, `seq` those of the session, from 1. `at` is UTC with
    millisecond resolution.
    """

    cursor: int
    session: str
    seq: int
    at: datetime
    body: EventBody
