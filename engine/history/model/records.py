"""Parts of events: rules, nets, steps, calls and grants as the journal keeps them.

A border like the events: fields are added, never renamed.
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
    """Base of everything journalled: immutable, unknown fields of a newer version are kept out.

    Numbers that JSON lacks (`NaN`) are written as Python's reader takes them, not turned into null.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="constants")


class View(BaseModel):
    """Base of what consoles and other programs get: immutable."""

    model_config = ConfigDict(frozen=True)


class RuleRecord(Record):
    """A rule as written, and where; `line` counts from 1."""

    file: str
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


class AppliedRules(Record):
    """Replacement of a server's rules by `by`, for whose loosening `others` agreed before (G-67).

    The `reason` is kept without secrets: it is no content of an event, so it is not masked later.
    """

    by: str
    at: datetime
    others: tuple[str, ...] = ()
    reason: str | None = None


class KeyProof(Record):
    """Proof of a person's passkey: what it signed, and the signature (G-106). Bytes are base64url.

    `client` is the client's data, whose challenge is made of what was approved and of the `nonce`;
    `authenticator` says for which domain, `rp`, and that the person was verified. `key` is the public key
    of the `credential`, and `enrolment` the hash of the line of the log of keys that says whose it is.
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

    It was made at the page's `origin`, `at` a time, and is named by its operator. The first one of an
    operator is `confirmed` by a code from the terminal of the process that writes the journal, each
    further one by the `proof` of an earlier one.
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

    The `reason` is kept without secrets, as it is no content of one session.
    """

    by: str
    at: datetime
    reason: str = ""

    @property
    def words(self) -> str:
        """The freeze as everybody reads it: `frozen by maria: the deploys look wrong`."""
        return f"frozen by {self.by}{f': {self.reason}' if self.reason else ''}"


@lru_cache(maxsize=1024)
def shared_rule(file: str, line: int, text: str) -> RuleRecord:
    """The record of a rule, which thousands of requests and decisions have in common."""
    return RuleRecord(file=file, line=line, text=text)


class TransitionRecord(Record):
    """A transition's structure, enough to fire it again without the rules that made it.

    `after` is in seconds, for one that fires by itself. `voids` names deferred transitions that do not
    fire for calls which run at the same time as one of its own. With an `amount` it takes as many tokens
    as the call's number has units. `approvers` says whose approvals a manual one takes.
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
    """A person's claim on a request, until a time: others may decide it, and are asked once more."""

    by: str
    at: datetime
    until: datetime


class CommentRecord(Record):
    """A comment on a request; one that is addressed `to` a person asks for their attention."""

    by: str
    at: datetime
    text: str
    to: str | None = None


class ExtensionRecord(Record):
    """Time that one person wants a request to have, `None` for ever; `token` as in `ApprovalGiven`."""

    until: datetime | None
    by: str
    token: str | None = None


class NetRecord(Record):
    """A net's structure under its registry key.

    `when` is the condition under which it has a say in calls by the names in `governs`, as it is written.
    `people` is how many others it takes to turn it off (G-67); where it takes some, `maps` is the digest
    of all maps. `name_maps` has those by which calls come by the name that its rule restricts, and
    `lead_maps` by the first in `leads`, which count before others of one call, and `other_lead_maps` by
    the others. Older records have none of these. With `per_value` it is one net for each value of that
    field, with `shared` one whose uses count over sessions.
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
        """Terms on the people who approve for the net; `None` for everybody."""
        return next((t.approvers for t in self.transitions if t.approvers is not None), None)


class StepRecord(Record):
    """A transition of a net that a call fired, or that waits for the call's result if deferred.

    One that fired by itself after a time has no `tool`; one that takes an amount has its `units`. Of a
    net that is one for each value of a field, `net` goes on with the value's digest:
    `limit-refund-2-each-customer[9f86…]`.
    """

    net: str
    transition: str
    tool: str
    deferred: bool = False
    units: int | None = None


class CallRecord(Record):
    """A tool call inside an assistant's message.

    `malformed` is what the model wrote in place of a JSON object; `input` is then empty. `made_as` is the
    id under which an external agent made it, where that was another call's before (G-76). `shell_fields`
    are the paths of fields, `line` or `run.line`, that hold shell commands though their names do not
    tell (G-51).
    """

    call_id: str
    tool: str
    input: dict[str, JsonValue]
    malformed: str | None = None
    made_as: str | None = None
    shell_fields: tuple[str, ...] = ()


class GrantRecord(Record):
    """Grant: calls of one tool that pass from now on without the approval that one net requires.

    `key` is its own name and that of its net, whose tokens are the uses left. It answers for net `asks`
    what that asks about the name `asked`, when `tool` is called under exactly `names`; with `exact` only
    for one input. `uses` and `seconds` are its bounds; without either it holds for the session. `since`
    is when its tokens came, in seconds since 1970. It reaches subagents' calls only with `subagents`, and
    holds while the digest of the maps is `maps`: one that was recorded without ends with its process.
    `programs` are those that its names leave open, which calls may not go beyond.

    One of a plan, by its key, is for a step: `uses` of the tool under no other than `names`. It answers
    what nets ask about names in `also`, too, each a net and a name. The step is the event's content.
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
        """The nets whose questions it answers."""
        return (self.asks, *(net for net, _ in self.also))


class PlanFinding(Record):
    """The outcome of so many calls of a plan's step, one after the other, when people were asked.

    They run without approval, the plan answers for them, they may need approval or need it all the same,
    are blocked, or may be blocked. `reason` is why they do not run with the plan's approval alone.
    """

    calls: int
    outcome: Literal["runs", "planned", "may_ask", "asks", "blocked", "open"]
    reason: str | None = None


class PlanStepRecord(Record):
    """The forecast of one step of a plan: at `most` so many of its `count` calls the plan answers for."""

    tool: str
    count: int
    findings: tuple[PlanFinding, ...]
    most: int


Kind: TypeAlias = Literal["root", "branch", "child", "outside", "flow"]
"""Origin of a session: none, an earlier moment of another, another that started it, an external agent,
or a run of a flow."""

CallEnd: TypeAlias = Literal["done", "failed", "blocked", "skipped", "unknown"]
"""End of a call; see `CallState`."""


# Record of a flow's run: its shape, and each step with all that the next one needs.


class FlowRecord(Record):
    """A flow's shape: a net with a place for each state it can hold and a transition for each node.

    `name` is the flow's own, `output` the state it ends with. `names` are those that its author gave to
    its nodes, by transition; a node that needs no function has none, and neither has an older record.
    """

    name: str
    net: NetRecord
    output: str
    names: dict[str, str] = Field(default_factory=dict[str, str])


class FlowStepped(Record):
    """A flow advanced by one step, or is at its beginning; written before the next step begins.

    `node` is the key of the node that worked, `live` are the keys of the states the flow holds now, in
    their order, `waits` is the call whose answer the next step needs. `output` is all that the flow needs
    to go on from here: `snapshot`, and in `history` what the conversations of its agents gained.
    """

    type: Literal["flow.step"] = "flow.step"
    step: int
    node: str | None = None
    live: tuple[str, ...]
    waits: str | None = None
    done: bool = False
    output: dict[str, JsonValue]
