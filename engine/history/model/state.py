"""Session state at one moment: the fold of its events, and the console's view.

The same models serve the live screen and the replay, so that both show the same things.
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
    """The status to show: `waiting` while a session has open approvals, unless it ended."""
    return "waiting" if waiting and phase in ("running", "idle") else phase


class NetState(BaseModel):
    """A net of the session: its structure, whether it is active, where its tokens are.

    `since` is when the tokens came that age, by place, oldest first, in seconds since 1970.
    """

    net: NetRecord
    active: bool
    marking: dict[str, int]
    since: dict[str, tuple[float, ...]] = {}

    @property
    def key(self) -> str:
        return self.net.key


class ValueState(BaseModel):
    """The net of one value of a field: `net` is the key of those alike, `value` as calls write it.

    Marking and `since` are as in `NetState`. The value is empty where no call of this record names it.
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
    """A grant: calls that pass unasked, by whom, why and since when; `net` holds the uses left.

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

    `given` are the people who have approved so far, of the `people` that must, and `given_at` says when
    each of them did; `tokens` are those they came with, `given_groups` the groups they were in, and
    `given_keys` the ids of the passkeys that they proved, where the rule asks for one.
    `extension` is the time that one person wants it to have and that takes a second one. `revealed` are
    the operators who have seen what `hidden` tells of. `original` is the agent's own input where a person
    had chosen another one, `None` where none had (G-75). `fuse` is the approval that releases the call in
    a moment, `taken_back` who took the last such approval back. `opener` is the token that opened the
    session of an external agent. `escalated` is when it was. `claim` is who has taken it on, `comments`
    are what people said of it, oldest first. `late` is until when the request of a call
    stays open whose client has gone (G-102). `disconnected` is when the last connection went that waited
    for the answer, `readers` are those who have it before them: both are in no journal. For the rest see
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
        """People who must approve: `2 of security`, or `2 people`."""
        return some_of(self.people, self.approvers and self.approvers.group)

    @property
    def passkey(self) -> bool:
        """Tell whether each approval needs the proof of a key (G-105)."""
        return self.approvers is not None and self.approvers.passkey

    @property
    def renewed_by_edit(self) -> bool:
        """Tell whether an edited call is asked about anew, since the edit alone approves nothing.

        Several people and keys approve what they were shown, and a plan has a forecast (G-108).
        """
        return self.people > 1 or self.passkey or self.called == PLAN

    @property
    def asks_for(self) -> bool:
        """Tell whether it asks for more than anybody's approval."""
        return self.people > 1 or (self.approvers is not None and self.approvers.guards)


def mark_disconnected(approvals: dict[str, ApprovalState], calls: Mapping[str, datetime]) -> None:
    """Set when the last connection went for each request, by the id of its call; none for all others."""
    for key, asked in approvals.items():
        since = calls.get(asked.call_id)
        if asked.disconnected != since:
            approvals[key] = asked.model_copy(update={"disconnected": since})


def mark_readers(approvals: dict[str, ApprovalState], approval_id: str, names: tuple[str, ...]) -> None:
    """Set who has a request before them."""
    asked = approvals.get(approval_id)
    if asked is not None and asked.readers != names:
        approvals[approval_id] = asked.model_copy(update={"readers": names})


class SwitchState(BaseModel):
    """Switch of a net to off, or of the session to shadow mode: by whom, when, why, until when (G-67)."""

    by: str
    others: tuple[str, ...] = ()
    at: datetime
    reason: str | None = None
    until: datetime | None = None

    @property
    def people(self) -> tuple[str, ...]:
        """All who did it, the first of them first."""
        return tuple(dict.fromkeys((*self.others, self.by)))


class ChangeState(BaseModel):
    """A proposed change that waits for others to agree; `given` are those who count so far.

    `tokens` are what each of them came with; for the rest see `ChangeProposed`.
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
        """The number of people who have yet to agree."""
        return self.people - len(self.given)

    @property
    def words(self) -> str:
        """The change, and for how long."""
        turned = f"turn {'on' if self.active else 'off'} {self.net}"
        change = "shadow mode" if self.net is None else turned
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

    `proposed` before the gate spoke, `waiting` for a person, `running`, then `done`, `failed` (the
    tool's error) or `blocked`; `skipped` when it was never decided; `unknown` when it was allowed and
    the session ended without a result, which stays so when the session is resumed. `uninspectable` and
    `judged_as` are as in `CallDecided`. While it is proposed it may wait for the decision on other calls,
    whose ids are in `waits_for` (G-68).
    `groups` are those that people in `approved_by` were in, by name. Of an edited call `original` is the
    agent's own input and `edited_by` who chose the other last (G-75). `late` is as in `ApprovalState`.
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
        """Everybody who approved, with their groups."""
        return names_with_groups(self.approved_by, self.groups)


class TranscriptEntry(BaseModel):
    """One entry of the transcript, in the order a person reads it; exactly one of text and call.

    A `summary` is what the model reads from there on in place of older entries; `by` is who wanted it.
    Of what an agent said, `by` is the node of the flow that it works at, if any. `reported_by` is the
    token of an external agent that says a user said this, or an imported record.
    """

    at: datetime
    kind: Literal["user", "assistant", "call", "note", "summary"]
    text: str | None = None
    by: str | None = None
    call: CallState | None = None
    reported_by: str | None = None


class FlowState(BaseModel):
    """State of a flow after its step number `step`, which `node` took.

    `live` are the states it holds, in their order; `waits` is the call whose answer the next step needs.
    """

    flow: FlowRecord
    step: int = 0
    node: str | None = None
    live: tuple[str, ...] = ()
    waits: str | None = None
    done: bool = False

    @property
    def marking(self) -> dict[str, int]:
        """The same as tokens of its net."""
        return {place: self.live.count(place) for place in self.flow.net.places}


class HintsState(Record):
    """Hints of one tool: those that count, and those of which its server's claims `differ`."""

    hints: dict[str, bool]
    differ: tuple[str, ...] = ()


class SessionState(BaseModel):
    """All that is known of a session after its event number `seq`.

    `phase` is the last status recorded, `status` the one to show. Tokens and `cost` are the session's own
    and its subagents'; `max_cost` is the most it may cost. `starters` says of the people it began or went
    on by what they did, `started_by` is who did so last, `task_by` who spoke in its last turn, `at_rest`
    that the next who speaks begins another turn. `labels` are its tools' names for people,
    `session_labels` the words that people have given the session, `hints` what servers claim of their
    tools. `queued` is what people said and the
    agent has not taken up yet, in the order it was said. `off` are the nets that people switched off,
    `shadowed` is who switched it to shadow mode, if anybody did; `changes` are those proposed that wait
    for others to agree. `frozen` is the freeze of all agents, while there is one. A `newer` session has
    events of a newer version: it is shown as far as it is known, and nobody acts on it here. What the
    containers hold (nets, calls, entries) is replaced, never changed in place, so a copy of the
    containers is a copy of the state.
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
        """The open requests that want an answer filled in."""
        return frozenset(asked.id for asked in self.approvals.values() if asked.wants is not None)

    def net_state(self, key: str) -> NetState | None:
        """The net, grant or net of one value that steps name by this key, where there is one."""
        grant = self.grants.get(key)
        if grant is not None:
            return grant.net
        value = self.values.get(key)
        if value is None:
            return self.nets.get(key)
        net = self.nets.get(value.net)
        return net and net.model_copy(update={"marking": value.marking, "since": value.since})

    def net_name(self, key: str) -> str:
        """The name of a net for people: of that of one value the value in place of its digest."""
        value = self.values.get(key)
        return key if value is None or not value.value else f"{value.net}[{value.value}]"

    # A fold sets some fields at every event; pydantic's way there takes eight times as long.
    __setattr__ = object.__setattr__


class Origin(Record):
    """Source that a recorded session says it was started from.

    Of an `imported` session neither that nor anything else in its record was observed here.
    """

    session: str
    source: dict[str, JsonValue] | None
    imported: bool = False


class SessionSummary(BaseModel):
    """A line in a list of sessions; one that was `imported` was recorded in another journal.

    `session_labels` are known in lists for consoles alone. A `newer` line has a value that only a newer
    version knows, in whose place another one stands: nobody acts on its session here.
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
    session_labels: tuple[str, ...] = ()
