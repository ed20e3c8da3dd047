"""The values the gate takes and gives: calls, verdicts, approvals, decisions.

Frozen and free of I/O. What reaches a wire or a database is translated there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ..frozen import frozen
from ..net import GateState, Input, Rule, SkillNet, ToolCall, Transition

Mode: TypeAlias = Literal["enforce", "shadow"]
VerdictKind: TypeAlias = Literal["free", "abstain", "gated", "blocked"]
Outcome: TypeAlias = Literal["allow", "block", "ask"]


@frozen
class ToolResult:
    """How a call ended. `is_error` keeps its deferred transitions from firing."""

    tool_call_id: str
    tool_name: str
    input: Input = field(default_factory=dict[str, object])
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One net's transition that a call fires, under the name `tool` that matched it.

    `net` is the key the manager knows the net by: the registry key, or the net's name.
    """

    net: str
    transition: Transition
    tool: str


@dataclass(frozen=True, slots=True)
class NetVerdict:
    """What one net says of a call (G-10). `steps` are the gated ones; `tool` is the name that decided."""

    net: str
    kind: VerdictKind
    tool: str
    steps: tuple[Step, ...] = ()
    reason: str | None = None
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to a person: everything a dialog shows.

    `net` is the key a manager knows the net by, empty when a net asks outside of one. `tool` is the name
    that asks (`deploy`), `call` what will run, `names` all names of the call, `marking` the asking net's
    marking, `rule` what was written and where.
    """

    call: ToolCall
    net: str
    skill_net: SkillNet
    transition: Transition
    tool: str
    names: tuple[str, ...]
    marking: Mapping[str, int]
    rule: Rule | None = None

    @property
    def title(self) -> str:
        return f"Approve: {self.tool}"

    @property
    def message(self) -> str:
        where = f" in net '{self.skill_net.name}'" if self.net else ""
        return f"Allow '{self.tool}' via transition '{self.transition.name}'{where}?"


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """A person's answer. `input` replaces the call's input; the edited call is classified anew."""

    approved: bool
    reason: str | None = None
    input: Input | None = None
    by: str | None = None


Confirm: TypeAlias = Callable[
    [ApprovalRequest], "bool | ApprovalAnswer | Awaitable[bool | ApprovalAnswer]"
]


@dataclass(frozen=True, slots=True)
class Approval:
    """An answered question, as the decision remembers it."""

    net: str
    tool: str
    answer: ApprovalAnswer


@dataclass(frozen=True, slots=True)
class GateContext:
    """How a call may ask a person; without `confirm` manual transitions block (G-13)."""

    confirm: Confirm | None = None


@frozen
class GateDecision:
    """What the nets decided about one call.

    `outcome` is what enforce mode does: `allow`, `block`, or in shadow mode `ask`. `block` says whether
    the call must not run: never in shadow mode, where `outcome` still tells what enforce would have
    done. `net` and `rule` are those that blocked or asked first (G-60). `steps` are the transitions
    that fired or, if deferred, were recorded as pending, in the order they were committed. `call` is
    what may run: the original, or as a person edited it.
    """

    call: ToolCall
    outcome: Outcome
    mode: Mode = "enforce"
    reason: str | None = None
    net: str | None = None
    rule: Rule | None = None
    names: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    approvals: tuple[Approval, ...] = ()

    @property
    def block(self) -> bool:
        return self.mode == "enforce" and self.outcome == "block"


@frozen
class ResultRecord:
    """What a result did: deferred transitions that fired, those that were dropped, or an anomaly.

    An anomaly (a result that names another tool than its call, G-53) changes nothing and is kept for
    the record.
    """

    fired: tuple[Step, ...] = ()
    dropped: tuple[Step, ...] = ()
    anomaly: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayEntry:
    """A finished call from a history; without `input` the tool's mapper sees an empty one."""

    tool_name: str
    input: Input | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ActiveNet:
    """A net in force: the name people know it by, its structure, its state."""

    name: str
    net: SkillNet
    state: GateState


OnDecision: TypeAlias = Callable[[ToolCall, GateDecision], object]
RecordDecision: TypeAlias = Callable[[ToolCall, GateDecision], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ToggleResult:
    """Whether switching a net on or off worked, and the sentence that says so (G-20, G-21)."""

    ok: bool
    message: str


class CallGate(Protocol):
    """What a session's loop asks before a call and tells after it.

    `decide` waits for a person where the nets want one; cancelling it withdraws the question. It never
    raises anything else: what goes wrong inside comes back as a block. `settle` is awaited before the
    model sees the result; `output` is the tool's text, `seconds` how long it ran.
    """

    async def decide(self, call: ToolCall) -> GateDecision: ...

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord: ...
