"""Events of the journal: one frozen model per kind, distinguished by `type`.

Everything else about a session (marking, pending set, active nets, mode, approvals, transcript) is a
fold over these. They are a border: what is written here is read back by later versions, so fields are
added, never renamed.
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
    """A session begins: who runs, on what, under which nets (`active` in order of activation).

    A `branch` begins with what was said in session `parent` up to its event `parent_seq`, and its nets
    with `markings`, whose tokens came at the times in `since` where they age; nets that are not among
    these begin with their initial marking. A `child` was started by the call `parent_call` of `parent`, a
    `flow` runs `flow`. `source` is what whoever started it needs to start it again. `owner` is that of
    the token that an external agent used. `labels` are the names for people of those tools that have one,
    `session_labels` the words that people have given the session, for conditions, `max_cost` is what it
    may cost in US dollars. `reason` says why a branch begins under less than the record it continues
    (G-67). `rules` are the sentences on the rules that the model's system prompt ends with, if it is told
    them (G-73). `applied` says who replaced the server's rules since it started, if anyone did.
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
    """A session that had ended goes on, perhaps in another process, with another agent or model.

    Its nets stay where they were, but for `nets`, which start fresh because they are new or have
    changed, and `dropped`, which are gone; those in `forgot` lost what their callbacks had noted.
    `active` are all that are active from here on, in order of activation. `asked_again` are calls that
    the gate had not decided when the host died, and gets to decide now; `going_on` are calls whose
    subagents go on with their work. Both name calls of subagents as the gate does. `owner` is as at the
    opening. `ended_grants` answer nothing any more, as what they rested on is not what it was. Without
    `source` that of before holds; `labels`, `session_labels` and `max_cost` are those from here on.
    `reason` says why it goes on under less than before (G-67). `rules` are as at the opening, in a
    session whose model had not been told its rules, and `applied` is as there, too. `imported` is the
    number of events that an imported session came with.
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
    """`running` while the agent works, `idle` between tasks, `done` or `failed` at the end.

    `by` is the operator who ended it.
    """

    type: Literal["session.status"] = "session.status"
    status: Literal["running", "idle", "done", "failed"]
    error: str | None = None
    by: str | None = None


class MessageAdded(Record):
    """A message joined the conversation.

    A tool message whose call has a `call.result` leaves `text` out: the result has it.
    `by` is the operator of a steering message. `ended` is how the call of a tool message ended in the
    session that it was copied from, or where no gate decides: the call's decision and result are then
    not in this record. A summary stands, for the model, in place of all messages before it but the last
    `kept`, counted without summaries; `by` is then who wanted it. `message_id` is that of a message which
    was queued before: it waits no more. `input` is what the call of a tool message ran with, where no
    decision says so and it is not what the model wrote (A-45). `reported_by` is the token of an
    external agent that says a user said this, or an imported record: no person is known to have. Of
    a model's reply `rules_added` are sentences on the gate's rules that it was told right before as new,
    `rules_removed` those that count no longer (G-73).
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
        """The author of a user's message: a person, or `reported by` and the token of an agent."""
        return self.by if self.reported_by is None else f"reported by {self.reported_by}"


class MessageQueued(Record):
    """A person said something that waits to join the conversation, because the agent was working.

    `steer` joins before the next model call, `queue` after the turn (A-70). It waits until a message
    bears its `message_id`, or until it is withdrawn; also through the death of its host.
    """

    type: Literal["message.queued"] = "message.queued"
    message_id: str
    mode: Literal["steer", "queue"]
    text: str
    by: str | None = None


class MessageWithdrawn(Record):
    """A message that waited and will not join the conversation any more, and why (A-63)."""

    type: Literal["message.withdrawn"] = "message.withdrawn"
    message_id: str
    reason: str


class StepEnded(Record):
    """One model call ended: tokens in and out, `cached_tokens` of those in; `cost` in US dollars.

    `via` is the subagent's session that made it, where that is not this one.
    """

    type: Literal["step"] = "step"
    finish_reason: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    via: str | None = None


class ToolHints(Record):
    """The server of a tool claims something of it, written before the first call by that claim (G-113).

    `hints` are those that count from here on: true or false, by the names that rules have for them. Those
    in `differ` were claimed otherwise before in this session, and count no more.
    """

    type: Literal["tool.hints"] = "tool.hints"
    tool: str
    hints: dict[str, bool]
    differ: tuple[str, ...] = ()


class CallWaits(Record):
    """A call waits until other calls are decided before anybody is asked about it (G-68).

    They compete for the last tokens of a net. The call is undecided, as if it had not come to the gate.
    Without any it waits no more.
    """

    type: Literal["call.waits"] = "call.waits"
    call_id: str
    waits_for: tuple[str, ...] = ()


class CallLate(Record):
    """The client of a call waits no more for its approval; the request stays open until a time (G-102).

    `subagent` is the agent's own subagent that made the call, by the agent's id for it, if any.
    """

    type: Literal["call.late"] = "call.late"
    call_id: str
    until: datetime
    subagent: str = ""


class CallRepeated(Record):
    """The agent has made a late call again, under its id `made_as`: it waits for, or gets, the answer."""

    type: Literal["call.repeated"] = "call.repeated"
    call_id: str
    made_as: str


class RequestMade(Record):
    """A client of the Agent Approval Protocol asks for the call `call_id`, which is recorded next.

    `tool` and `server` are as the client names them, `text` is the agent's reasoning and `input` the
    context that the client observed. `deadline` is when it expires undecided, `valid` for how many
    seconds an approval can be used. Written again where the call could not be recorded.
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
    """A request of the Agent Approval Protocol goes on, where the call itself does not.

    The first of its ends counts: the call's decision, `cancelled` by its client, or `expired`. `consumed`
    is the one use of an approval, for the idempotency key with the hash `key`; the tool starts after it.
    `notified` says that the client's receiver knows the end.
    """

    type: Literal["request.step"] = "request.step"
    call_id: str
    step: Literal["cancelled", "expired", "consumed", "notified"]
    key: str | None = None


class CallDecided(Record):
    """The gate's decision on one call, written before the tool starts.

    `off` are nets that would have blocked or asked, had people not switched them off, each with who did
    (G-67).

    `outcome` is what enforce mode does. In shadow mode the call ran whatever it says. `input` is what
    runs, `edited` whether a person changed it, `edited_by` who did that last (G-75). `steps` were
    committed in this order. `granted` are the grants that let it pass in place of a person. `clock` is
    the time by which nets that age were judged, in seconds since 1970. `via` is the subagent's session
    that made the call, for a call that is not the agent's own. `uninspectable` is why the call counted as
    `unclear` (G-64), `judged_as` are names of the rules that the tool's name folds to without being one
    of them (G-66). `shell_fields` are as in `CallRecord`, here and wherever an event has an input. `uses`
    has, by net, the counter of a limit over sessions that the call counts for: see `SharedLimit.counter`.
    `groups` are those that people in `approved_by` were in when they approved, by name.
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
        """Everybody who approved, with their groups: `maria (security), ada`."""
        return names_with_groups(self.approved_by, self.groups)

    @property
    def off_words(self) -> str | None:
        """The rules that were off, each with who had switched it off: `block-rm was off: ada`."""
        return "; ".join(f"{net} was off: {', '.join(by)}" for net, by in self.off.items()) or None


class CallResult(Record):
    """A tool ended: what it said, and the deferred transitions that fired or were dropped.

    `unknown` closes a call that had been allowed when its host died: it is not known whether the
    tool did its work. It counts as an error, so nothing that waited for it fires; it is never run again.
    `undone` are the steps of its decision that were taken back, last first, since it never ran (A-40).
    `arrived` says of nets that age, by net and place, when those tokens came that went with them or
    returned, in seconds since 1970.
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

    `uninspectable` says why the call may do more than its names tell (G-51). `preview` is what its tool
    said it would change, such as a file's diff, when the question was asked. `via` is as for a decision.

    An answer must name the `digest`, which covers the input, what asks and all rules in force; these are
    in it by their `rules_digest`, so that whoever has the event can make it again. `people`
    is how many different ones must approve, `expires` when the request is denied by itself, `may_grant`
    whether an answer may let later calls pass as well, `exact_only` why at most those with this very
    input, `beyond` why the session's last grant does not answer it, `note` why the rule applies although
    its condition cannot be told, `wants` the JSON Schema of what a person fills in to approve.

    `approvers` says whose approvals count, `None` for everybody's.

    `edited` says that `input` is what a person chose before in place of the agent's own, `edited_by` who
    did that last (G-75).

    `runs` and `hidden` are empty in a journal: they are filled in when the request is shown, from what
    is not masked. `runs` are the commands in a shell command, masked, `hidden` the masked texts that may
    be more than secrets, which an operator has to see before approving. `marked` are the positions, among
    the `commands` that the call's names were found by, of those that a rule names or whose words are not
    all known: in `runs` they come first.

    `plan` is the forecast of each step of a plan (G-108), in their order; the steps are in `input`.

    `digest_salt` is in the digest, so that no masked input is found by trying; where anything is masked,
    so is the salt. `first_asked` is when people were first asked about the call, where this is not the
    first request for it: after a restart, or when the one before was void.
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
    """One of several people who must approve has done so; the request waits for the others.

    `token` is the id of the token they came with, `None` where none is needed. `groups` are those they
    were in then, `login` who they were at the provider where they logged in, if at any. `proof` is that
    of their passkey, where the rule asks for one (G-106).
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
    """The last approval that a request needs, whose call is released at `until`, unless it is taken back.

    The request stays open until then; an `approval.decided` follows when the call is released. `input` is
    as there, `token`, `groups`, `login` and `proof` as in `ApprovalGiven`. Of a late request (G-102) it
    is released once the agent makes the call again; `held` is until when it can.
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
    """A person took an approval back before its call was released: everybody is asked again."""

    type: Literal["approval.taken_back"] = "approval.taken_back"
    approval_id: str
    call_id: str
    by: str


class ApprovalClaimed(Record):
    """A person has taken a request on until a time; others may decide it all the same."""

    type: Literal["approval.claimed"] = "approval.claimed"
    approval_id: str
    call_id: str
    by: str
    until: datetime


class ApprovalUnclaimed(Record):
    """The claim of `by` on a request is over: given up, or its time or their connection is gone."""

    type: Literal["approval.unclaimed"] = "approval.unclaimed"
    approval_id: str
    call_id: str
    by: str
    reason: str


class ApprovalCommented(Record):
    """A person's comment on a request; with `to` they want that person to look at it."""

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
    """A request has waited so long that it is for the members of `group` as well, as its rule says.

    Where its rule names no group of its own everybody counts, and these are only called.
    """

    type: Literal["approval.escalated"] = "approval.escalated"
    approval_id: str
    call_id: str
    group: str


class ApprovalDecided(Record):
    """A person's answer, written before the waiting call is released.

    `input` is what the call runs with where a person changed that, and what they filled in where the
    request wants something. `others` have approved before, where several people must. `groups` are those
    that `by` was in then, `login` and `proof` as in `ApprovalGiven`; of who decided in Slack `login` is
    the account there.
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
    """No answer came in time: the call is denied, for this reason."""

    type: Literal["approval.expired"] = "approval.expired"
    approval_id: str
    call_id: str
    reason: str


class ApprovalExtended(Record):
    """A request may be answered until then; without a time it waits for ever.

    `others` wanted it before, where one person is not enough. With `proposed` it is only wanted so far,
    by the first of two people (G-77), and `until` is the time there was.
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

    `again` says that its call goes back to the gate, which may ask again: it was not interrupted. It is
    then about the `input` that `by` has chosen, if there is one (G-75).
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
    """A person's answer about a call holds for later calls as well, for a `reason`.

    `input` is that of an exact grant; for one by names the values of the fields that no map reads, and
    for one of a plan the plan with that step alone.
    """

    type: Literal["grant.given"] = "grant.given"
    grant: GrantRecord
    by: str
    call_id: str | None = None
    input: dict[str, JsonValue] | None = None
    reason: str | None = None
    shell_fields: tuple[str, ...] = ()


class GrantRevoked(Record):
    """A grant answers nothing any more."""

    type: Literal["grant.revoked"] = "grant.revoked"
    key: str
    by: str


class NetToggled(Record):
    """A registry net was switched on or off; `message` is what the gate said.

    Switched off it is for a `reason`, with the agreement of `others` where its rule asks for several
    people, and until a time if there is one (G-67). `waiting` are the calls that asked a person then.
    `timed` says that its time was over, `by` then who had switched it off.
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
    """Enforce or shadow from here on; the rest is as for `NetToggled`."""

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
    """The rules of a live session are others from here on, as `applied` says who wanted it and why.

    Its nets stay where they were, but for `nets`, which start fresh because they are new or have changed,
    and `dropped`, which are gone. `renewed` stay where they were too, and their rule or the maps by which
    they count calls are others. `active` are all that are active from here on, in order of activation.
    What waits for results in nets that start fresh or are gone waits no more. `ended_grants`, `waiting`
    and `source` are as in `SessionResumed` and `NetToggled`.
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
    """An operator wants a net off, or on where `active` says so, which takes `people` (G-67).

    Shadow mode is what is wanted where `net` is `None`. Until `expires` others may agree. `counts` says
    whether `by` is one of the people it takes; `seconds` is for how long it will hold, `token` as in
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
    """One of several people agrees to what was proposed; others still have to."""

    type: Literal["change.agreed"] = "change.agreed"
    change_id: str
    by: str
    token: str | None = None


class ChangeDropped(Record):
    """A proposed change does not happen, for a `reason`; `by` is the operator who said so."""

    type: Literal["change.dropped"] = "change.dropped"
    change_id: str
    reason: str
    by: str | None = None


class LimitRaised(Record):
    """The session may cost more from here on, in US dollars."""

    type: Literal["limit.raised"] = "limit.raised"
    max_cost: float
    by: str
    reason: str | None = None


class FreezeBegan(Record):
    """All agents of the hub are frozen: calls of this session wait before they are judged.

    `since` is when the freeze began, which may be before the session did. The session's record follows
    the freeze; `FreezeLog` is what a hub that starts again goes by.
    """

    type: Literal["freeze.began"] = "freeze.began"
    by: str
    since: datetime
    reason: str = ""


class FreezeLifted(Record):
    """The agents of the hub are frozen no more, written before any call goes on."""

    type: Literal["freeze.lifted"] = "freeze.lifted"
    by: str
    reason: str = ""


class NewerEvent(Record):
    """An event of another version, as this one shows it: its type, and nothing of what it says.

    It is never recorded: what the database has stays as it is, for a version that knows it.
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
    | NewerEvent,
    Field(discriminator="type"),
]


event_body: TypeAdapter[EventBody] = TypeAdapter(EventBody)
"""Reads a body."""


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
