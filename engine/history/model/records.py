"""Parts of events: rules, nets, steps, calls and grants as recorded in the journal.

Later versions read them, as they do events: fields are added and never renamed.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ...core.amounts import Amount
from ...core.approvers import Approvers
from ...core.shared_limit import SharedLimit
from ...core.value_key import ValueKey
from ...net.net import NameMaps


class Record(BaseModel):
    """Base of everything that is journalled: immutable; unknown fields of a newer version are ignored.

    Numbers that JSON lacks (`NaN`) are written as Python's JSON reader accepts them, not as null.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="constants")


class View(BaseModel):
    """Base of the data sent to consoles and other programs: immutable."""

    model_config = ConfigDict(frozen=True)


class RuleRecord(Record):
    """A rule's text and position; `line` counts from 1."""

    file: str
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


class AppliedRules(Record):
    """Replacement of a server's rules by `by`; `others` agreed to any loosening before (G-67).

    The `reason` is stored without secrets: it is not part of an event's content, so it is not masked
    later.
    """

    by: str
    at: datetime
    others: tuple[str, ...] = ()
    reason: str | None = None


class KeyProof(Record):
    """Proof of an operator's passkey: the signed data and the signature (G-106). Bytes are base64url.

    `client` is the client data, whose challenge is derived from what was approved and from the `nonce`.
    `authenticator` is the authenticator data: the domain, `rp`, and that the user was verified. `key` is
    the public key of the `credential`. `enrolment` is the hash of the line in the key log that names the
    owner of the key.
    """

    credential: str
    key: str
    rp: str
    authenticator: str
    client: str
    signature: str
    nonce: str
    enrolment: str = ""


class EnrolledKey(Record):
    """A passkey that an operator enrolled: the public `key` of a `credential`, for the domain `rp`.

    It was created at the page's `origin`, at the time `at`, and has a name given by its operator. An
    operator's first passkey is `confirmed` by a code from the terminal of the process that writes the
    journal, each further one by the `proof` of an earlier one.
    """

    credential: str
    key: str
    operator: str
    name: str
    rp: str
    origin: str
    at: datetime
    uses: int = 0
    confirmed: Literal["code", "key"] = "code"
    nonce: str = ""
    proof: KeyProof | None = None


class FreezeRecord(Record):
    """A freeze of all agents of a hub, or its end: by whom, when and why.

    The `reason` is stored without secrets, because it is not content of one session.
    """

    by: str
    at: datetime
    reason: str = ""

    @property
    def words(self) -> str:
        """The freeze as text: `frozen by maria: the deploys look wrong`."""
        return f"frozen by {self.by}{f': {self.reason}' if self.reason else ''}"


OutageKind: TypeAlias = Literal["unreachable", "unwritable", "ended"]


class JournalOutage(View):
    """An outage of the journal: nothing can be recorded, so nothing is decided.

    `kind` is `unreachable` if the database does not answer, `unwritable` if writes fail, and `ended` if
    the journal accepts no more events until the server restarts. `since` is a time of the journal's
    clock. `reason` is the last error, for operators.
    """

    since: datetime
    kind: OutageKind
    reason: str


@lru_cache(maxsize=1024)
def shared_rule(file: str, line: int, text: str) -> RuleRecord:
    """The record of a rule, shared by the thousands of requests and decisions that refer to it."""
    return RuleRecord(file=file, line=line, text=text)


class TransitionRecord(Record):
    """A transition's structure, enough to fire it again without the rules that made it.

    `after` is the delay of a timed transition, in seconds. `voids` names deferred transitions that do not
    fire for calls which run at the same time as a call of this transition. With an `amount` it consumes
    as many tokens as the call's number has units. `approvers` says whose approvals count for a manual
    transition.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tools: tuple[str, ...] = ()
    manual: bool = False
    deferred: bool = False
    transfers: tuple[tuple[str, str], ...] = ()
    after: float | None = None
    partial: bool = False
    voids: tuple[str, ...] = ()
    amount: Amount | None = None
    approvers: Approvers | None = None


class FuseRecord(Record):
    """An approval that releases its call at `until`, unless somebody takes it back before."""

    by: str
    at: datetime
    until: datetime
    edited: bool = False


class ClaimRecord(Record):
    """An operator's claim on a request, until a time: others may decide it after a confirmation."""

    by: str
    at: datetime
    until: datetime


class CommentRecord(Record):
    """A comment on a request; one addressed `to` an operator asks for their attention."""

    by: str
    at: datetime
    text: str
    to: str | None = None


class ExtensionRecord(Record):
    """Deadline that one operator wants for a request, `None` for none; `token` as in `ApprovalGiven`."""

    until: datetime | None
    by: str
    token: str | None = None


class NetRecord(Record):
    """A net's structure under its registry key.

    `when` is the text of the condition under which the net judges calls by the names in `governs`.
    `people` is how many other people must agree to switch it off (G-67); if there are any, `maps` is the
    digest of all maps. `name_maps` has the maps that give calls the name that its rule restricts.
    `lead_maps` has those for the first name in `leads`, which count before the others of a call, and
    `other_lead_maps` those for the other names. Older records have none of these. With `per_value` there
    is one such net for each value of that field; with `shared` its uses count across sessions.
    """

    key: str
    name: str
    places: tuple[str, ...]
    transitions: tuple[TransitionRecord, ...]
    initial_marking: dict[str, int]
    free_tools: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()
    rule: RuleRecord | None = None
    when: str | None = None
    governs: tuple[str, ...] = ()
    people: int = 0
    maps: str | None = None
    name_maps: NameMaps | None = None
    lead_maps: NameMaps | None = None
    other_lead_maps: tuple[NameMaps | None, ...] = ()
    per_value: ValueKey | None = None
    shared: SharedLimit | None = None

    @property
    def approvers(self) -> Approvers | None:
        """Conditions on who may approve for the net; `None` for everybody."""
        return next((t.approvers for t in self.transitions if t.approvers is not None), None)


class StepRecord(Record):
    """A transition that a call fired, or that waits for the call's result if deferred.

    A timed transition that fired by itself has no `tool`; one that consumes an amount has its `units`.
    For a net per value of a field, `net` ends with the value's digest:
    `limit-refund-2-each-customer[9f86…]`.
    """

    net: str
    transition: str
    tool: str
    deferred: bool = False
    units: int | None = None


class CallRecord(Record):
    """A tool call inside an assistant's message.

    `malformed` is what the model wrote instead of a JSON object; `input` is then empty. `made_as` is the
    id that an external agent gave the call, if an earlier call had that id (G-76). `shell_fields` are the
    paths of fields, `line` or `run.line`, that hold shell commands although their names do not show it
    (G-51).
    """

    call_id: str
    tool: str
    input: dict[str, JsonValue]
    malformed: str | None = None
    made_as: str | None = None
    shell_fields: tuple[str, ...] = ()


class GrantRecord(Record):
    """Grant: later calls of one tool that pass without the approval that one net requires.

    `key` identifies the grant and its net, whose tokens are the uses left. The grant answers what net
    `asks` requires for the name `asked`, when `tool` is called under exactly `names`; with `exact` only
    for one input. `uses` and `seconds` bound it; without either it lasts as long as the session. `since`
    is when its tokens arrived, in seconds since 1970. It covers calls of subagents only with `subagents`.
    It is valid while the digest of the maps is `maps`; a grant recorded without `maps` ends with its
    process. `programs` are the programs that its names leave open; calls may not use others.

    The grant of a plan, recognised by its key, is for one step: `uses` calls of the tool under no names
    but `names`. It also answers what nets require for names in `also`, pairs of a net and a name. The
    step is the event's content.
    """

    key: str
    net: NetRecord
    asks: str
    asked: str
    tool: str
    names: tuple[str, ...]
    exact: bool = False
    uses: int | None = None
    seconds: float | None = None
    since: float
    subagents: bool = False
    maps: str | None = None
    programs: tuple[str, ...] = ()
    plan: str | None = None
    also: tuple[tuple[str, str], ...] = ()

    @property
    def nets(self) -> tuple[str, ...]:
        """The nets whose approvals it replaces."""
        return (self.asks, *(net for net, _ in self.also))


class PlanFinding(Record):
    """Forecast for a number of consecutive calls of a plan's step, at the time of the request.

    They run without approval (`runs`), are allowed by the plan (`planned`), may need approval (`may_ask`)
    or need it (`asks`) in spite of the plan, are `blocked`, or may be blocked (`open`). `reason` is why
    the plan's approval alone is not enough for them.
    """

    calls: int
    outcome: Literal["runs", "planned", "may_ask", "asks", "blocked", "open"]
    reason: str | None = None


class PlanStepRecord(Record):
    """The forecast of one step of a plan, which answers for at `most` so many of its `count` calls."""

    tool: str
    count: int
    findings: tuple[PlanFinding, ...]
    most: int


Kind: TypeAlias = Literal["root", "branch", "child", "outside", "flow"]
"""Origin of a session: none, an earlier moment or a call of another session, an external agent, a flow.
"""

CallEnd: TypeAlias = Literal["done", "failed", "blocked", "skipped", "unknown"]
"""End of a call; see `CallState`."""


# Record of a flow's run: its shape, and each step with all that the next one needs.


class FlowRecord(Record):
    """A flow's shape: a net with a place for each state that it can have and a transition for each node.

    `name` is the flow's own, `output` its final state. `names` are the names that its author gave its
    nodes, by transition; a node without a function has none, and older records have none at all.
    """

    name: str
    net: NetRecord
    output: str
    names: dict[str, str] = Field(default_factory=dict[str, str])


class FlowStepped(Record):
    """A flow completed a step, or is at its beginning; written before the next step begins.

    `node` is the key of the node that ran. `live` are the keys of the flow's current states, in order.
    `waits` is the call whose answer the next step needs. `output` has what the flow needs to continue:
    `snapshot`, and in `history` the messages that its agents' conversations gained.
    """

    type: Literal["flow.step"] = "flow.step"
    step: int
    node: str | None = None
    live: tuple[str, ...]
    waits: str | None = None
    done: bool = False
    output: dict[str, JsonValue]
