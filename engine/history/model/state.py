"""Session state at one moment: the fold of its events, and the console's view.

The live screen and the replay use the same models, so both show the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, JsonValue

from ...core.approvers import Approvers, names_with_groups, some_of
from ...core.condition import Shell
from ...core.durations import format_duration
from ...core.people import Part
from ...core.plan import PLAN
from ...core.rule import Risk
from ..redaction.hidden_text import HiddenText
from .records import (
    ClaimRecord,
    CommentRecord,
    ExtensionRecord,
    FlowRecord,
    FreezeRecord,
    FuseRecord,
    GrantRecord,
    Kind,
    NetRecord,
    PlanStepRecord,
    Record,
    RuleRecord,
    StepRecord,
)

Phase = Literal["running", "idle", "done", "failed"]
Status = Literal["running", "waiting", "idle", "done", "failed"]


def shown_status(phase: Phase, waiting: int) -> Status:
    """Return the status to show: `waiting` while a session has open approvals, unless it ended."""
    return "waiting" if waiting and phase in ("running", "idle") else phase


class NetState(BaseModel):
    """A net of the session: its structure, whether it is active, its marking.

    `since` has the arrival times of tokens that age, by place, oldest first, in seconds since 1970.
    """

    net: NetRecord
    active: bool
    marking: dict[str, int]
    since: dict[str, tuple[float, ...]] = {}

    @property
    def key(self) -> str:
        return self.net.key


class ValueState(BaseModel):
    """The net for one value of a field: `net` is the key that these nets share, `value` as in calls.

    Marking and `since` are as in `NetState`. `value` is empty if no call of this record has it.
    """

    net: str
    value: str
    marking: dict[str, int]
    since: dict[str, tuple[float, ...]] = {}


class PendingState(BaseModel):
    """A deferred transition that waits for its call's result, and since when."""

    call_id: str
    since: datetime
    step: StepRecord


class GrantState(BaseModel):
    """A grant: which calls pass without approval, by whom, why and since when; `net` holds the uses left.

    `input` is as in `GrantGiven`.
    """

    record: GrantRecord
    input: dict[str, JsonValue] | None = None
    net: NetState
    by: str
    at: datetime
    revoked_by: str | None = None
    reason: str | None = None
    shell_fields: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.record.key


class ApprovalState(BaseModel):
    """An open approval request; `session` and `agent` make it complete on its own in a queue.

    `given` are the operators who have approved so far, of the `people` required, and `given_at` says when
    each of them did. `tokens` are their tokens, `given_groups` their groups at that time, and
    `given_keys` the ids of the passkeys that they proved, if the rule requires one. `extension` is the
    deadline that one operator wants and that needs a second one. `revealed` are the operators who have
    seen the texts in `hidden`. `original` is the agent's own input if an operator chose another one, else
    `None` (G-75). `fuse` is the approval that releases the call soon, `taken_back` is who took the last
    such approval back. `opener` is the token that opened the session of an external agent. `escalated` is
    when the request was escalated. `claim` is who has claimed it, `comments` are the operators' comments,
    oldest first. `late` is until when the request stays open although the call's client has gone (G-102).
    `disconnected` is when the last connection that waited for the answer was closed, and `readers` are
    the operators who have the request on screen; neither is in a journal. For the other fields see
    `ApprovalRequested`.
    """

    id: str
    session: str
    agent: str
    call_id: str
    since: datetime
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
    escalated: datetime | None = None
    given: tuple[str, ...] = ()
    given_at: tuple[datetime, ...] = ()
    tokens: tuple[str | None, ...] = ()
    given_groups: tuple[tuple[str, ...], ...] = ()
    given_keys: tuple[str | None, ...] = ()
    extension: ExtensionRecord | None = None
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
    revealed: tuple[str, ...] = ()
    original: dict[str, JsonValue] | None = None
    edited_by: str | None = None
    shell_fields: tuple[str, ...] = ()
    fuse: FuseRecord | None = None
    taken_back: str | None = None
    claim: ClaimRecord | None = None
    comments: tuple[CommentRecord, ...] = ()
    readers: tuple[str, ...] = ()
    opener: str | None = None
    late: datetime | None = None
    disconnected: datetime | None = None
    plan: tuple[PlanStepRecord, ...] = ()

    @property
    def needs(self) -> str:
        """Required approvals as text: `2 of security`, or `2 people`."""
        return some_of(self.people, self.approvers and self.approvers.group)

    @property
    def passkey(self) -> bool:
        """Return whether each approval needs the proof of a passkey (G-105)."""
        return self.approvers is not None and self.approvers.passkey

    @property
    def renewed_by_edit(self) -> bool:
        """Return whether an edited call needs a new request, because the edit alone does not approve it.

        Several people and passkeys approve what they were shown, and a plan has a forecast (G-108).
        """
        return self.people > 1 or self.passkey or self.called == PLAN

    @property
    def asks_for(self) -> bool:
        """Return whether one approval by anybody is not enough."""
        return self.people > 1 or (self.approvers is not None and self.approvers.guards)


def mark_disconnected(approvals: dict[str, ApprovalState], calls: Mapping[str, datetime]) -> None:
    """Set when the last connection for each request's call was closed; `calls` has the times by call id.

    The time of a request whose call is not in `calls` is removed.
    """
    for key, request in approvals.items():
        since = calls.get(request.call_id)
        if request.disconnected != since:
            approvals[key] = request.model_copy(update={"disconnected": since})


def mark_readers(approvals: dict[str, ApprovalState], approval_id: str, names: tuple[str, ...]) -> None:
    """Set the operators who have a request on screen."""
    request = approvals.get(approval_id)
    if request is not None and request.readers != names:
        approvals[approval_id] = request.model_copy(update={"readers": names})


class SwitchState(BaseModel):
    """A net switched off, or the session switched to shadow mode: by whom, when, why, how long (G-67)."""

    by: str
    others: tuple[str, ...] = ()
    at: datetime
    reason: str | None = None
    until: datetime | None = None

    @property
    def people(self) -> tuple[str, ...]:
        """Everybody who agreed, beginning with the operator who switched it."""
        return tuple(dict.fromkeys((*self.others, self.by)))


class ChangeState(BaseModel):
    """A proposed change that waits for others to agree; `given` are the operators who count so far.

    `tokens` are their tokens; for the other fields see `ChangeProposed`.
    """

    id: str
    net: str | None
    by: str
    at: datetime
    reason: str
    people: int
    expires: datetime
    seconds: float | None = None
    given: tuple[str, ...] = ()
    tokens: tuple[str | None, ...] = ()
    active: bool = False

    @property
    def missing(self) -> int:
        """The number of people who must still agree."""
        return self.people - len(self.given)

    @property
    def words(self) -> str:
        """The change and its duration as text."""
        net_change = f"turn {'on' if self.active else 'off'} {self.net}"
        change = "shadow mode" if self.net is None else net_change
        return change if self.seconds is None else f"{change} for {format_duration(self.seconds)}"


class QueuedState(BaseModel):
    """A message that waits to join the conversation; see `MessageQueued` for `mode`."""

    id: str
    since: datetime
    mode: Literal["steer", "queue"]
    text: str
    by: str | None = None


class CallState(BaseModel):
    """A tool call in the transcript, from proposal to result.

    `proposed` before the gate decided, `waiting` for an operator, `running`, then `done`, `failed` (the
    tool's error) or `blocked`. `skipped` if it was never decided. `unknown` if it was allowed and the
    session ended without a result; this stays when the session is resumed. `uninspectable` and
    `judged_as` are as in `CallDecided`. While it is `proposed` it may wait for the decisions on other
    calls, whose ids are in `waits_for` (G-68). `groups` has, by name, the groups of the operators in
    `approved_by`. For an edited call `original` is the agent's own input, and `edited_by` is the last
    operator who changed it (G-75). `late` is as in `ApprovalState`.
    """

    call_id: str
    tool: str
    input: dict[str, JsonValue]
    at: datetime
    status: Literal[
        "proposed", "waiting", "running", "done", "failed", "blocked", "skipped", "unknown"
    ] = "proposed"
    outcome: Literal["allow", "block", "ask"] | None = None
    reason: str | None = None
    net: str | None = None
    rule: RuleRecord | None = None
    approved_by: tuple[str, ...] = ()
    groups: dict[str, tuple[str, ...]] = {}
    granted: tuple[str, ...] = ()
    edited: bool = False
    names: tuple[str, ...] = ()
    uninspectable: str | None = None
    judged_as: tuple[str, ...] = ()
    output: str | None = None
    seconds: float | None = None
    via: str | None = None
    waits_for: tuple[str, ...] = ()
    original: dict[str, JsonValue] | None = None
    edited_by: str | None = None
    shell_fields: tuple[str, ...] = ()
    late: datetime | None = None

    @property
    def approver_names(self) -> str:
        """All approvers with their groups."""
        return names_with_groups(self.approved_by, self.groups)


class TranscriptEntry(BaseModel):
    """One entry of the transcript, in reading order; exactly one of text and call.

    A `summary` replaces older entries for the model; `by` is who requested it. For an agent's text, `by`
    is the flow's node that it works for, if any. `reported_by` is the token of an external agent that
    reported this as a user's message, or names an imported record.
    """

    at: datetime
    kind: Literal["user", "assistant", "call", "note", "summary"]
    text: str | None = None
    by: str | None = None
    call: CallState | None = None
    reported_by: str | None = None


class FlowState(BaseModel):
    """State of a flow after its step number `step`, which `node` ran.

    `live` are its current states, in order; `waits` is the call whose answer the next step needs.
    """

    flow: FlowRecord
    step: int = 0
    node: str | None = None
    live: tuple[str, ...] = ()
    waits: str | None = None
    done: bool = False

    @property
    def marking(self) -> dict[str, int]:
        """The live states as a marking of the flow's net."""
        return {place: self.live.count(place) for place in self.flow.net.places}


class HintsState(Record):
    """Hints of one tool: those that apply, and those for which its server's claims `differ`."""

    hints: dict[str, bool]
    differ: tuple[str, ...] = ()


class SessionState(BaseModel):
    """State of a session after its event number `seq`.

    `phase` is the last status recorded, `status` the one to show. Tokens and `cost` include those of
    subagents; `max_cost` is the most that the session may cost. `starters` are the people whose actions
    started or resumed it, `started_by` is the last of them, `task_by` is the author of the last turn's
    message, and `at_rest` says that the next message begins another turn. `labels` are display names of
    its tools, `session_labels` the labels that people gave the session, `hints` the claims of servers
    about their tools. `queued` are messages that the agent has not taken up yet, in order. `off` are the
    nets that operators switched off, `shadowed` is who switched the session to shadow mode, if anybody
    did; `changes` are proposed changes that wait for others to agree. `frozen` is the freeze of all
    agents, while there is one. A `newer` session has events of a newer version: it is shown as far as it
    is known, and this version does not act on it. Elements of the containers (nets, calls, entries) are
    replaced, never changed in place, so copying the containers copies the state.
    """

    id: str
    seq: int = 0
    agent: str = ""
    model: str = ""
    mode: Literal["enforce", "shadow"] = "enforce"
    status: Status = "idle"
    phase: Phase = "idle"
    error: str | None = None
    opened: datetime | None = None
    opened_by: str | None = None
    started_by: str | None = None
    starters: dict[str, Part] = {}
    task_by: tuple[str, ...] = ()
    at_rest: bool = True
    updated: datetime | None = None
    workdir: str | None = None
    shell: Shell | None = None
    kind: Kind = "root"
    parent: str | None = None
    parent_seq: int | None = None
    parent_call: str | None = None
    source: dict[str, JsonValue] | None = None
    tools: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    session_labels: tuple[str, ...] = ()
    hints: dict[str, HintsState] = {}
    nets: dict[str, NetState] = {}
    values: dict[str, ValueState] = {}
    active: list[str] = []
    pending: list[PendingState] = []
    grants: dict[str, GrantState] = {}
    off: dict[str, SwitchState] = {}
    shadowed: SwitchState | None = None
    frozen: FreezeRecord | None = None
    changes: dict[str, ChangeState] = {}
    approvals: dict[str, ApprovalState] = {}
    calls: dict[str, CallState] = {}
    transcript: list[TranscriptEntry] = []
    queued: list[QueuedState] = []
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    max_cost: float | None = None
    flow: FlowState | None = None
    newer: bool = False

    @property
    def wanting(self) -> frozenset[str]:
        """The open requests that need an answer to be filled in."""
        return frozenset(request.id for request in self.approvals.values() if request.wants is not None)

    def net_state(self, key: str) -> NetState | None:
        """Return the net, grant or per-value net that steps name by this key, or `None`."""
        grant = self.grants.get(key)
        if grant is not None:
            return grant.net
        value = self.values.get(key)
        if value is None:
            return self.nets.get(key)
        net = self.nets.get(value.net)
        return net and net.model_copy(update={"marking": value.marking, "since": value.since})

    def net_name(self, key: str) -> str:
        """Return the name of a net for display: a per-value net has the value in place of its digest."""
        value = self.values.get(key)
        return key if value is None or not value.value else f"{value.net}[{value.value}]"

    # A fold sets some fields at every event; pydantic's `__setattr__` takes eight times as long.
    __setattr__ = object.__setattr__


class Origin(Record):
    """The origin that a recorded session states.

    For an `imported` session nothing in its record, including this, was observed here.
    """

    session: str
    source: dict[str, JsonValue] | None
    imported: bool = False


class SessionSummary(BaseModel):
    """A line in a list of sessions; `imported` says that the session was recorded in another journal.

    `session_labels` are filled in only in lists for consoles. A `newer` line has a value that only a
    newer version knows, replaced here by another one; this version does not act on its session. Of a
    `diverged` session the database lost acknowledged events; it continues only after an operator has
    accepted the loss.
    """

    id: str
    agent: str
    model: str
    mode: Literal["enforce", "shadow"]
    status: Status
    opened: datetime
    updated: datetime
    events: int
    waiting: int = 0
    calls: int = 0
    blocked: int = 0
    error: str | None = None
    kind: Kind = "root"
    parent: str | None = None
    parent_seq: int | None = None
    source: dict[str, JsonValue] | None = None
    imported: bool = False
    newer: bool = False
    diverged: bool = False
    session_labels: tuple[str, ...] = ()
