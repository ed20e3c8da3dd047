"""The values the gate takes and gives: calls, verdicts, approvals, decisions.

Frozen and free of I/O. What reaches a wire or a database is translated there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal, Protocol, TypeAlias, get_args

from ..core.approvers import ANYBODY, Approvers
from ..core.frozen import frozen
from ..core.plan import PLAN
from ..core.rule import ApprovalRule, Risk, Rule
from ..net.net import GateState, Input, Since, SkillNet, ToolCall, Transition

Mode: TypeAlias = Literal["enforce", "shadow"]
VerdictKind: TypeAlias = Literal["free", "abstain", "gated", "blocked"]
Outcome: TypeAlias = Literal["allow", "block", "ask"]
GrantScope: TypeAlias = Literal["names", "input"]

MOST_USES = 1_000_000


@frozen
class ToolResult:
    """Result of a call. `is_error` keeps its deferred transitions from firing.

    `undo` are steps of the call to take back, since its tool certainly never started.
    """

    tool_call_id: str
    tool_name: str
    input: Input = field(default_factory=dict[str, object])
    is_error: bool = False
    undo: tuple[Step, ...] = ()


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
    """Verdict of one net on a call (G-10). `steps` are the gated ones; `tool` is the name that decided.

    `note` is about the net's condition: that it does not hold, for a net that therefore abstains, or why
    that is unknown, for one that therefore applies.
    """

    net: str
    kind: VerdictKind
    tool: str
    steps: tuple[Step, ...] = ()
    reason: str | None = None
    rule: Rule | None = None
    note: str | None = None


@frozen
class ChosenEdit:
    """An input that a person chose for a call, and the agent's own, `original` (G-75).

    `by` is the person who edited last, `None` where they gave no name.
    """

    original: Input
    input: Input
    by: str | None = None


@frozen
class ApprovalRequest:
    """A question to a person: everything a dialog shows.

    `net` is the key a manager knows the net by, empty when a net asks outside of one. `tool` is the name
    that asks (`deploy`), `call` what will run, `names` all names of the call, `marking` the asking net's
    marking, `rule` what was written and where. `note` is why it is unknown whether the condition holds.
    `tokens` is how many people's approvals the net still wants for the call. `edit` is what a person had
    chosen before in place of the agent's input, `None` where `call` is as the agent made it (G-75).
    `beyond` is why the session's last grant for this question does not answer it, `None` without one.
    """

    call: ToolCall
    net: str
    skill_net: SkillNet
    transition: Transition
    tool: str
    names: tuple[str, ...]
    marking: Mapping[str, int]
    rule: Rule | None = None
    note: str | None = None
    tokens: int = 1
    edit: ChosenEdit | None = None
    beyond: str | None = None

    @property
    def people(self) -> int:
        """Number of different people who must approve."""
        return max(self.tokens, self.rule.people if isinstance(self.rule, ApprovalRule) else 1)

    @property
    def approvers(self) -> Approvers:
        """Terms on the people who may approve."""
        return self.transition.approvers or ANYBODY

    @property
    def within(self) -> float | None:
        """The seconds there are to decide, as the rule has it; `None` when it says nothing."""
        return self.rule.within if isinstance(self.rule, ApprovalRule) else None

    @property
    def risk(self) -> Risk | None:
        """Risk as the rule states it; `None` when it says nothing."""
        return self.rule.risk if isinstance(self.rule, ApprovalRule) else None

    @property
    def may_grant(self) -> bool:
        """True if the answer may let later calls pass as well.

        For some calls even so only with the same input: see `classify.exact_input_reason`.
        """
        if self.people > 1 or self.approvers.passkey or self.call.tool_name == PLAN:
            return False
        return not isinstance(self.rule, ApprovalRule) or self.rule.may_grant

    @property
    def title(self) -> str:
        return f"Approve: {self.tool}"

    @property
    def message(self) -> str:
        where = f" in net '{self.skill_net.name}'" if self.net else ""
        return f"Allow '{self.tool}' via transition '{self.transition.name}'{where}?"


@frozen
class OpenQuestion:
    """A question that an earlier gate had put to people and that has no answer (G-67).

    The net under the key `net` asked about `tool`, one of the names of a call of `called`. `skill_net` is
    that net where it is still here unchanged, else one that asks the same.
    """

    net: str
    skill_net: SkillNet
    tool: str
    called: str


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """Terms on which an answer lets later calls pass, besides the call it is about.

    Calls of the same tool with the same set of names, the same values in the fields that no map reads
    and no other programs, or only those with equal input; as many `uses` and for as many `seconds` as it
    says, `None` without end. It reaches the calls of subagents only with `subagents` (G-74). Raises
    `ValueError` for anything else.
    """

    scope: GrantScope
    uses: int | None = None
    seconds: float | None = None
    subagents: bool = False

    def __post_init__(self) -> None:
        if self.scope not in get_args(GrantScope):
            raise ValueError(f"a grant's scope is 'names' or 'input', not {self.scope!r}")
        uses, seconds = self.uses, self.seconds
        if uses is not None and (type(uses) is not int or not 1 <= uses <= MOST_USES):
            raise ValueError(f"a grant has from 1 to {MOST_USES:,} uses, not {uses!r}")
        if seconds is not None and (type(seconds) not in (int, float) or not 0 < seconds < inf):
            raise ValueError(f"a grant lasts a number of seconds above 0, not {seconds!r}")
        if type(self.subagents) is not bool:
            raise ValueError(f"a grant reaches subagents or does not, not {self.subagents!r}")


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """A person's answer. `input` replaces the call's input; the edited call is classified again.

    `others` approved the very same before `by` did, where several must. `grant` lets later calls pass
    as well. With `again` what was shown is void, and the approvals with it: the call is classified from
    the start, with the `input` that `by` has chosen, else with what a person had chosen before (G-75).
    Without `asked` it is a refusal that was given, for `reason`, without asking an operator. `groups` are
    those that each of them was in, by name; `escalated` says that those of an escalation count, too.
    `keys` are the names of those whose approval came with the proof of their passkey.
    """

    approved: bool
    reason: str | None = None
    input: Input | None = None
    by: str | None = None
    others: tuple[str, ...] = ()
    grant: GrantTerms | None = None
    again: bool = False
    asked: bool = True
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    escalated: bool = False
    keys: tuple[str, ...] = ()

    @classmethod
    def of_enough(cls, request: ApprovalRequest, kind: str) -> ApprovalAnswer:
        """An approval by as many people as must, `kind 1` and so on, all of them of the rule's group."""
        names = tuple(f"{kind} {number}" for number in range(1, request.people + 1))
        groups = dict.fromkeys(names, request.approvers.groups())
        return cls(True, by=names[0], others=names[1:], groups=groups, keys=names)


Answer: TypeAlias = "bool | ApprovalAnswer | Awaitable[bool | ApprovalAnswer]"
RequestConfirm: TypeAlias = Callable[[ApprovalRequest], Answer]
TitledConfirm: TypeAlias = Callable[[str, str], Answer]
Confirm: TypeAlias = RequestConfirm | TitledConfirm
"""Asks a person: given the request, or its `title` and `message` (G-69)."""

Waits: TypeAlias = Callable[[ToolCall, tuple[str, ...]], Awaitable[None]]


@frozen
class Approval:
    """An answered question, as the decision remembers it."""

    net: str
    tool: str
    answer: ApprovalAnswer


@dataclass(frozen=True, slots=True)
class GateContext:
    """Callbacks for asking operators about a call; without `confirm` manual transitions block (G-13).

    `waits` is awaited when the call has to wait until other calls are decided before it is asked about
    (G-68), with their ids, and without any each time it is judged again. `at_once` says that the caller
    cannot wait: an async `on_decision` is then run up to where it waits.
    """

    confirm: Confirm | None = None
    waits: Waits | None = None
    at_once: bool = False


@frozen
class GateDecision:
    """Decision of the gate on one call.

    `outcome` is what enforce mode does: `allow`, `block`, or in shadow mode `ask`. `block` says whether
    the call must not run: never in shadow mode, where `outcome` still tells what enforce would have
    done. `net` and `rule` are those that blocked or asked first (G-60). `steps` are the transitions
    that fired or, if deferred, were recorded as pending, in the order they were committed; those that
    time had brought about come first in their net, with the tool "". `call` is what may run: the
    original, or as a person edited it. `granted` are the grants that answered in a person's place, `gave`
    those that came about with this decision, both by key. `clock` is the time at which it was judged,
    where that counted. `unclear` is why the call may do more than its names tell (G-64); `judged_as` are
    names of the rules that its tool's name folds to without being one of them (G-66). `edited_by` is the
    person who chose the input of `call` in place of the agent's (G-75).
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
    granted: tuple[str, ...] = ()
    gave: tuple[str, ...] = ()
    clock: float | None = None
    unclear: str | None = None
    judged_as: tuple[str, ...] = ()
    edited_by: str | None = None

    @property
    def block(self) -> bool:
        return self.mode == "enforce" and self.outcome == "block"


@frozen
class ResultRecord:
    """Effect of a result: deferred transitions that fired, those that were dropped, or an anomaly.

    An anomaly (a result that names another tool than its call, G-53) changes nothing and is kept for
    the record. `undone` are steps taken back, last first, of a call that never ran; `arrived` says by net
    and place, where tokens age, when those came that went with them or returned. `clock` is the time of
    what fired, where that counts.
    """

    fired: tuple[Step, ...] = ()
    dropped: tuple[Step, ...] = ()
    anomaly: str | None = None
    undone: tuple[Step, ...] = ()
    clock: float | None = None
    arrived: Mapping[str, Since] = field(default_factory=dict[str, Since])


@dataclass(frozen=True, slots=True)
class ReplayEntry:
    """A finished call from a history; without `input` the tool's mapper sees an empty one.

    `output` is what it returned, for conditions that look for values there.
    """

    tool_name: str
    input: Input | None = None
    is_error: bool = False
    output: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SaidText:
    """A person's words in a history."""

    text: str


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
    """Outcome of switching a net on or off, and the sentence that says so (G-20, G-21)."""

    ok: bool
    message: str


class CallGate(Protocol):
    """Gate that a session's loop asks before each call and informs after it.

    `decide` waits where the call needs approval; cancelling it withdraws the question. It never
    raises anything else: what goes wrong inside comes back as a block. `settle` is awaited before the
    model sees the result; `output` is the tool's text, `seconds` how long it ran.
    """

    async def decide(self, call: ToolCall) -> GateDecision: ...

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord: ...


# Errors of gated tools.


class BlockedCallError(Exception):
    """A call that did not run because it is not allowed; its text is fit for the model.

    Raised by every gated tool, in its two kinds: `ToolCallBlockedError` of a gate in this process, and
    `Blocked` of a server's client. `reason` is the gate's own sentence.
    """

    def __init__(self, tool_name: str, tool_call_id: str, reason: str) -> None:
        super().__init__(reason)
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        self.reason = reason

    def __reduce__(self) -> tuple[type[BlockedCallError], tuple[str, str, str]]:
        return type(self), (self.tool_name, self.tool_call_id, self.reason)


class ToolCallBlockedError(BlockedCallError):
    """The gate blocked the call; the tool has not run. `reason` is written for the model (G-30)."""

    def __str__(self) -> str:
        return f"Tool '{self.tool_name}' blocked: {self.reason}"


class Blocked(BlockedCallError):  # noqa: N818 - what happened to the call, not a fault
    """The server blocked the call; the function has not run. Its text is the reason."""


class SyncToolError(RuntimeError):
    """A synchronous tool would have had to wait for a person; it has not run, and nothing has fired."""

    def __init__(self, tool_name: str) -> None:
        super().__init__(
            f"Tool '{tool_name}' is synchronous and cannot wait for an answer that comes later: "
            f"give a confirm that answers at once, make the tool async, or call it with "
            f"'await session.call(\"{tool_name}\", …)'"
        )
        self.tool_name = tool_name
