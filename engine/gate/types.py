"""Values that the gate accepts and returns: calls, verdicts, approvals, decisions.

Frozen and free of I/O. Values for a wire or a database are translated there.
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

    `undo` are steps of the call to take back, because its tool certainly never started.
    """

    tool_call_id: str
    tool_name: str
    input: Input = field(default_factory=dict[str, object])
    is_error: bool = False
    undo: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """Transition of one net that a call fires, under the name `tool` that matched it.

    `net` is the manager's key for the net: the registry key, or the net's name.
    """

    net: str
    transition: Transition
    tool: str


@dataclass(frozen=True, slots=True)
class NetVerdict:
    """Verdict of one net on a call (G-10). `steps` are the gated ones; `tool` is the deciding name.

    `note` is about the net's condition: that it does not hold, for a net that abstains for this reason,
    or why it is unknown, for a net that applies for this reason.
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
    """Input that an operator chose for a call, and the agent's own, `original` (G-75).

    `by` is the operator who edited last, `None` if they gave no name.
    """

    original: Input
    input: Input
    by: str | None = None


@frozen
class ApprovalRequest:
    """A question to an operator: everything a dialog shows.

    `net` is the manager's key for the net, empty for a net without a manager. `tool` is the name that
    needs approval (`deploy`), `call` what will run, `names` all names of the call, `marking` the asking
    net's marking, `rule` its rule with its location. `note` is why it is unknown whether the condition
    holds. `tokens` is how many people's approvals the net still requires. `edit` is the input that an
    operator chose earlier in place of the agent's, `None` if `call` is as the agent made it (G-75).
    `beyond` is why the session's last grant for this question does not cover the call, `None` without
    one.
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
        """Conditions on who may approve."""
        return self.transition.approvers or ANYBODY

    @property
    def within(self) -> float | None:
        """Seconds to decide, as the rule states them; `None` if it does not."""
        return self.rule.within if isinstance(self.rule, ApprovalRule) else None

    @property
    def risk(self) -> Risk | None:
        """Risk as the rule states it; `None` if it does not."""
        return self.rule.risk if isinstance(self.rule, ApprovalRule) else None

    @property
    def may_grant(self) -> bool:
        """True if the answer may let later calls pass as well.

        For some calls only with the same input: see `classify.exact_input_reason`.
        """
        if self.people > 1 or self.approvers.passkey or self.call.tool_name == PLAN:
            return False
        return not isinstance(self.rule, ApprovalRule) or self.rule.may_grant

    @property
    def title(self) -> str:
        return f"Approve: {self.tool}"

    @property
    def message(self) -> str:
        net_clause = f" in net '{self.skill_net.name}'" if self.net else ""
        return f"Allow '{self.tool}' via transition '{self.transition.name}'{net_clause}?"


@frozen
class OpenQuestion:
    """Question that an earlier gate had shown to operators and that has no answer (G-67).

    The net under the key `net` asked about `tool`, one of the names of a call of `called`. `skill_net` is
    that net if it is still registered unchanged, else one that asks the same.
    """

    net: str
    skill_net: SkillNet
    tool: str
    called: str


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """Terms on which an answer lets later calls pass, besides the call it is about.

    With the scope `names`, it covers calls of the same tool with the same set of names, the same values
    in the fields that no map reads and the same programs; with `input`, only calls with equal input. It
    lasts for `uses` calls and `seconds` seconds; `None` means without limit. It covers the calls of
    subagents only with `subagents` (G-74). Raises `ValueError` for anything else.
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
            raise ValueError(f"a grant's subagents is True or False, not {self.subagents!r}")


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """An operator's answer. `input` replaces the call's input; the edited call is classified again.

    `others` are the people who approved the same before `by`, if several must. `grant` lets later calls
    pass as well. With `again` what was shown is void, with all approvals: the call is classified from the
    start, with the `input` that `by` chose, or the input that an operator had chosen before (G-75). If
    `asked` is false, it is a refusal, for `reason`, without asking an operator. `groups` are the groups
    of each of them, by name; `escalated` says that the group of an escalation counts too. `keys` are the
    names of those whose approval came with a proof of their passkey.
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
        """An approval by as many people as required, `kind 1` and so on, all of the rule's group."""
        names = tuple(f"{kind} {number}" for number in range(1, request.people + 1))
        groups = dict.fromkeys(names, request.approvers.groups())
        return cls(True, by=names[0], others=names[1:], groups=groups, keys=names)


Answer: TypeAlias = "bool | ApprovalAnswer | Awaitable[bool | ApprovalAnswer]"
RequestConfirm: TypeAlias = Callable[[ApprovalRequest], Answer]
TitledConfirm: TypeAlias = Callable[[str, str], Answer]
Confirm: TypeAlias = RequestConfirm | TitledConfirm
"""Callback that asks an operator: given the request, or its `title` and `message` (G-69)."""

Waits: TypeAlias = Callable[[ToolCall, tuple[str, ...]], Awaitable[None]]


@frozen
class Approval:
    """An answered question, as recorded in the decision."""

    net: str
    tool: str
    answer: ApprovalAnswer


@dataclass(frozen=True, slots=True)
class GateContext:
    """Callbacks for asking operators about a call; without `confirm` manual transitions block (G-13).

    `waits` is awaited with the ids of other calls when the call must wait for their decisions before its
    approval is requested (G-68), and without ids each time the call is judged again. `at_once` says that
    the caller cannot wait: an async `on_decision` then runs only up to its first wait.
    """

    confirm: Confirm | None = None
    waits: Waits | None = None
    at_once: bool = False


@frozen
class GateDecision:
    """Decision of the gate on one call.

    `outcome` is what enforce mode does: `allow`, `block`, or in shadow mode `ask`. `block` is true if the
    call must not run; in shadow mode it is never true, and `outcome` still says what enforce mode would
    have done. `net` and `rule` are the first that blocked or asked (G-60). `steps` are the transitions
    that fired or, if deferred, were recorded as pending, in commit order; timed transitions come first in
    their net, with the tool "". `call` is what may run: the original, or as an operator edited it.
    `granted` are the keys of grants that answered in place of an operator, `gave` the keys of grants
    created by this decision. `clock` is the time of judgement, if it mattered. `unclear` is why the call
    may do more than its names say (G-64). `judged_as` are names in the rules that equal its tool's name
    after folding, but not exactly (G-66). `edited_by` is the operator who chose the input of `call` in
    place of the agent's (G-75).
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

    An anomaly (a result with another tool name than its call, G-53) changes nothing and is recorded.
    `undone` are the steps of a call that never ran that were taken back, last first. `arrived` has, by
    net and place with timed tokens, the arrival times of tokens that were removed or returned with them.
    `clock` is the time of what fired, if it matters.
    """

    fired: tuple[Step, ...] = ()
    dropped: tuple[Step, ...] = ()
    anomaly: str | None = None
    undone: tuple[Step, ...] = ()
    clock: float | None = None
    arrived: Mapping[str, Since] = field(default_factory=dict[str, Since])


@dataclass(frozen=True, slots=True)
class ReplayEntry:
    """A finished call in a history; without `input` the tool's mapper gets an empty one.

    `output` is what it returned, for conditions that look for values there.
    """

    tool_name: str
    input: Input | None = None
    is_error: bool = False
    output: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SaidText:
    """A user's words in a history."""

    text: str


@dataclass(frozen=True, slots=True)
class ActiveNet:
    """An active net: its name for operators, its structure, its state."""

    name: str
    net: SkillNet
    state: GateState


OnDecision: TypeAlias = Callable[[ToolCall, GateDecision], object]
RecordDecision: TypeAlias = Callable[[ToolCall, GateDecision], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ToggleResult:
    """Outcome of switching a net on or off, with a sentence about it (G-20, G-21)."""

    ok: bool
    message: str


class CallGate(Protocol):
    """Gate that a session's loop asks before each call and notifies after it.

    `decide` waits if the call needs approval; cancelling it withdraws the question. It raises nothing
    else: internal failures become blocks. `settle` is awaited before the model sees the result; `output`
    is the tool's text, `seconds` how long it ran.
    """

    async def decide(self, call: ToolCall) -> GateDecision: ...

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord: ...


# Errors of gated tools.


class BlockedCallError(Exception):
    """A call that did not run because it is not allowed; its text is meant for the model.

    Every gated tool raises it, as one of two classes: `ToolCallBlockedError` of a gate in this process,
    and `Blocked` of a server's client. `reason` is the gate's own sentence.
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
    """A synchronous tool would have had to wait for an operator; it has not run, and nothing fired."""

    def __init__(self, tool_name: str) -> None:
        super().__init__(
            f"Tool '{tool_name}' is synchronous and cannot wait for an answer that comes later: "
            f"give a confirm that answers at once, make the tool async, or call it with "
            f"'await session.call(\"{tool_name}\", …)'"
        )
        self.tool_name = tool_name
