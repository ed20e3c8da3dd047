"""What the journal keeps: one frozen model per kind of event, told apart by `type`.

Everything else about a session (marking, pending set, active nets, mode, approvals, transcript) is a
fold over these. They are a border: what is written here is read back by later versions, so fields are
added, never renamed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter

from ..rule import Risk
from .flow import FlowRecord, FlowStepped
from .parts import CallEnd, CallRecord, GrantRecord, Kind, NetRecord, Record, RuleRecord, StepRecord


class SessionOpened(Record):
    """A session begins: who runs, on what, under which nets (`active` in order of activation).

    A `branch` begins with what was said in session `parent` up to its event `parent_seq`, and its nets
    with `markings`; nets that are not among these begin with their initial marking. A `child` was
    started by the call `parent_call` of `parent`, a `flow` runs `flow`. `source` is what whoever started
    it needs to start it again. `labels` are the names for people of those tools that have one, `max_cost`
    what it may cost in US dollars.
    """

    type: Literal["session.opened"] = "session.opened"
    agent: str
    model: str
    mode: Literal["enforce", "shadow"]
    nets: tuple[NetRecord, ...] = ()
    active: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    workdir: str | None = None
    opened_by: str | None = None
    kind: Kind = "root"
    parent: str | None = None
    parent_seq: int | None = None
    parent_call: str | None = None
    markings: dict[str, dict[str, int]] = Field(default_factory=dict[str, dict[str, int]])
    source: dict[str, JsonValue] | None = None
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    max_cost: float | None = None
    flow: FlowRecord | None = None


class SessionResumed(Record):
    """A session that had ended goes on, perhaps in another process, with another agent or model.

    Its nets stay where they were, but for `nets`, which start fresh because they are new or have
    changed, and `dropped`, which are gone; those in `forgot` lost what their callbacks had noted.
    `active` are all that are active from here on, in order of activation. `asked_again` are calls that
    the gate had not decided when the host died, and gets to decide now; `going_on` are calls whose
    subagents go on with their work. Both name calls of subagents as the gate does. Without `source` that
    of before holds; `labels` and `max_cost` are those from here on.
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
    by: str | None = None
    source: dict[str, JsonValue] | None = None
    asked_again: tuple[str, ...] = ()
    going_on: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    max_cost: float | None = None


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
    decision says so and it is not what the model wrote (A-45).
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


class CallDecided(Record):
    """The gate's decision on one call, written before the tool starts.

    `outcome` is what enforce mode does. In shadow mode the call ran whatever it says. `input` is what
    runs, `edited` whether a person changed it. `steps` were committed in this order. `granted` are the
    grants that let it pass in place of a person. `clock` is the time by which nets that age were judged,
    in seconds since 1970. `via` is the subagent's session that made the call, for a call that is not the
    agent's own.
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


class CallResult(Record):
    """A tool ended: what it said, and the deferred transitions that fired or were dropped.

    `unknown` closes a call that had been allowed when its host died: nobody knows whether the tool did
    its work. It counts as an error, so nothing that waited for it fires, and it is never run again.
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
    """A question to the operators, written before it is shown.

    `uninspectable` says why the call may do more than its names tell (G-51). `preview` is what its tool
    said it would change, such as a file's diff, when the question was asked. `via` is as for a decision.

    An answer must name the `digest`, which covers the input, what asks and all rules in force. `people`
    is how many different ones must approve, `expires` when the request is denied by itself, `may_grant`
    whether an answer may let later calls pass as well, `exact_only` why at most those with this very
    input, `note` why the rule applies although its condition cannot be told, `wants` the JSON Schema of
    what a person fills in to approve.
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
    expires: datetime | None = None
    may_grant: bool = False
    exact_only: str | None = None
    note: str | None = None
    wants: dict[str, JsonValue] | None = None


class ApprovalGiven(Record):
    """One of several people who must approve has done so; the request waits for the others."""

    type: Literal["approval.given"] = "approval.given"
    approval_id: str
    call_id: str
    by: str
    digest: str | None = None


class ApprovalDecided(Record):
    """A person's answer, written before the waiting call is released.

    `input` is what the call runs with where a person changed that, and what they filled in where the
    request wants something. `others` have approved before, where several people must.
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


class ApprovalExpired(Record):
    """Nobody answered in time: the call is denied, for this reason."""

    type: Literal["approval.expired"] = "approval.expired"
    approval_id: str
    call_id: str
    reason: str


class ApprovalExtended(Record):
    """A request may be answered until then; without a time it waits for ever."""

    type: Literal["approval.extended"] = "approval.extended"
    approval_id: str
    call_id: str
    until: datetime | None
    by: str


class ApprovalWithdrawn(Record):
    """A question nobody needs to answer any more, and why.

    `again` says that its call goes back to the gate, which may ask anew: nobody interrupted it.
    """

    type: Literal["approval.withdrawn"] = "approval.withdrawn"
    approval_id: str
    call_id: str
    reason: str
    again: bool = False


class GrantGiven(Record):
    """A person's answer about a call holds for later calls as well; `input` is that of an exact grant."""

    type: Literal["grant.given"] = "grant.given"
    grant: GrantRecord
    by: str
    call_id: str | None = None
    input: dict[str, JsonValue] | None = None


class GrantRevoked(Record):
    """A grant answers nothing any more."""

    type: Literal["grant.revoked"] = "grant.revoked"
    key: str
    by: str


class NetToggled(Record):
    """A registry net was switched on or off; `message` is what the gate said."""

    type: Literal["net.toggled"] = "net.toggled"
    net: str
    active: bool
    by: str
    message: str


class ModeChanged(Record):
    """Enforce or shadow from here on."""

    type: Literal["mode.changed"] = "mode.changed"
    mode: Literal["enforce", "shadow"]
    by: str


class LimitRaised(Record):
    """The session may cost more from here on, in US dollars."""

    type: Literal["limit.raised"] = "limit.raised"
    max_cost: float
    by: str


EventBody = Annotated[
    SessionOpened
    | SessionResumed
    | SessionStatus
    | MessageAdded
    | MessageQueued
    | MessageWithdrawn
    | StepEnded
    | FlowStepped
    | CallDecided
    | CallResult
    | ApprovalRequested
    | ApprovalGiven
    | ApprovalExtended
    | ApprovalDecided
    | ApprovalExpired
    | ApprovalWithdrawn
    | GrantGiven
    | GrantRevoked
    | NetToggled
    | ModeChanged
    | LimitRaised,
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
