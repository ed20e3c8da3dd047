"""Rules as written: the source of a net, with its location in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from .amounts import SumField
from .approvers import ANYBODY, Approvers, are_as_strict
from .condition import Condition
from .sanitize import folded_name
from .shared_limit import Reach
from .value_key import ValueKey

Risk: TypeAlias = Literal["low", "medium", "high"]

UNCLEAR = "unclear"
"""Name of every call with a mapped field that cannot be analysed completely (G-64)."""

ANYTHING_ELSE = "anything-else"
"""Name of every call that no rule, map or free list of the active nets names (G-66)."""

RESERVED = frozenset({UNCLEAR, ANYTHING_ELSE})
"""Names that calls get from the gate: neither a tool nor a map can have them."""


def check_tool_name(name: str) -> None:
    """Raise `ValueError` for a tool whose name is reserved, or folds to a reserved name."""
    plain_name = folded_name(name)
    if plain_name in RESERVED:
        raise ValueError(
            f"Tool {name!r}: '{plain_name}' is a reserved name, which rules use for calls of other "
            "tools; give the tool another name"
        )


@dataclass(frozen=True, slots=True)
class RuleSource:
    """Source of a rule: file (or `<rules>`), line and column from 1, and the text of the line.

    An `implied` rule was not written: it follows from the map at that location, and `text` says so.
    """

    file: str
    line: int
    column: int
    text: str
    implied: bool = False

    @property
    def where(self) -> str:
        """`deploy.rules:4`, as shown to people."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class SequenceRule:
    """`require A before B`; `when` is about calls of B.

    With `others` it is `require A or C before B`, or with `every` it is `A and C`. A call of `since`
    makes them necessary again. Their successes count for `within` seconds, if given. With `once` they
    allow any number of calls of B, otherwise one. With `same`, here and in other rules, the rule applies
    to each value of that field separately. `because`, in every rule, is its reason in the author's words.
    """

    prerequisite: str
    dependent: str
    source: RuleSource | None = None
    when: Condition | None = None
    because: str | None = None
    others: tuple[str, ...] = ()
    every: bool = False
    since: str | None = None
    within: float | None = None
    same: ValueKey | None = None
    once: bool = False

    @property
    def prerequisites(self) -> tuple[str, ...]:
        """Tools whose success B needs, in the order written."""
        return (self.prerequisite, *self.others)

    @property
    def needed(self) -> str:
        """`lint or typecheck`, the text for what B needs."""
        *first, last = self.prerequisites
        return f"{', '.join(first)} {'and' if self.every else 'or'} {last}" if first else last


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """`require human-approval before B`.

    `people` is how many different people must approve, `within` the seconds they have, `grants` whether
    one answer may let later calls pass as well. With `after` approval is needed only once a call of that
    tool or one of `others` has begun in the session; with `until` an approved call that succeeded ends
    that. `approvers` are the conditions on who may approve, `None` for everybody.
    """

    tool: str
    source: RuleSource | None = None
    when: Condition | None = None
    people: int = 1
    within: float | None = None
    risk: Risk | None = None
    grants: bool = True
    because: str | None = None
    after: str | None = None
    until: bool = False
    approvers: Approvers | None = None
    others: tuple[str, ...] = ()
    same: ValueKey | None = None

    @property
    def group(self) -> str | None:
        """Group whose members must approve; `None` for anybody."""
        return None if self.approvers is None else self.approvers.group

    @property
    def guards(self) -> bool:
        """True if some people's approvals do not count."""
        return self.approvers is not None and self.approvers.guards

    @property
    def passkey(self) -> bool:
        """True if each approval needs a proof by a passkey."""
        return self.approvers is not None and self.approvers.passkey

    @property
    def may_grant(self) -> bool:
        """True if one answer may let later calls pass; never if each approval needs a passkey proof."""
        return self.grants and not self.passkey

    @property
    def causes(self) -> str:
        """`read_web or read_mail`, the tools whose calls bring the rule into effect."""
        return " or ".join(causes_of(self))


@dataclass(frozen=True, slots=True)
class BlockRule:
    """`block A`; with `after` only once a call of that tool or of one of `others` has begun."""

    tool: str
    source: RuleSource | None = None
    when: Condition | None = None
    because: str | None = None
    after: str | None = None
    same: ValueKey | None = None
    others: tuple[str, ...] = ()

    @property
    def causes(self) -> str:
        """`read_web or read_mail`, the tools whose calls bring the rule into effect."""
        return " or ".join(causes_of(self))


@dataclass(frozen=True, slots=True)
class LimitRule:
    """`limit A to N per session`, or per another tool's success: then `scope` is that tool's name.

    With `window`, in seconds, uses come back one by one that long after they were made, and `scope` is
    the time as written. `when` is about calls of A. With `total` the limit is on the sum of a number in
    these calls, in units of `total`: `limit A to 1000.00 of input.amount per session`. With `across` the
    calls of other sessions count as well.
    """

    tool: str
    limit: int
    scope: str
    source: RuleSource | None = None
    when: Condition | None = None
    window: float | None = None
    because: str | None = None
    same: ValueKey | None = None
    total: SumField | None = None
    across: Reach | None = None

    @property
    def most(self) -> str:
        """Largest number or sum in words: `2 calls`, or `1000.00 of input.amount`."""
        if self.total is None:
            return f"{self.limit} calls"
        return f"{self.total.text(self.limit)} of {self.total.name}"


Rule: TypeAlias = SequenceRule | ApprovalRule | BlockRule | LimitRule


def causes_of(rule: Rule | None) -> tuple[str, ...]:
    """Tools whose calls bring a rule into effect (`after`, `since`); empty if it always is."""
    match rule:
        case SequenceRule(since=str(cause)):
            return (cause,)
        case ApprovalRule(after=str(cause)) | BlockRule(after=str(cause)):
            return (cause, *rule.others)
        case _:
            return ()


def value_key(rule: Rule | None) -> ValueKey | None:
    """Field for each value of which a rule applies separately; `None` for a rule on all calls."""
    return None if rule is None else rule.same


def always(rule: Rule) -> bool:
    """Return whether a rule applies to every call of its tool, whatever its input and earlier calls."""
    return rule.when is None and not causes_of(rule) and value_key(rule) is None


def watched(rule: Rule) -> tuple[str, ...]:
    """Names of which a rule must see every call.

    These are the tools that it restricts and those that bring it into effect.
    """
    return (restricted(rule), *causes_of(rule))


def restricted(rule: Rule) -> str:
    """Tool whose calls a rule restricts."""
    return rule.dependent if isinstance(rule, SequenceRule) else rule.tool


RISKS: tuple[Risk | None, ...] = (None, "low", "medium", "high")
"""Risks in ascending order; a rule without one comes first."""


def strictest(rules: Iterable[Rule | None]) -> ApprovalRule | None:
    """The strictest of each term among the approval rules in `rules`, under any conditions.

    `None` if there are no approval rules. Its tool is that of the first, and so are its approvers if none
    of them are as strict as all others.
    """
    asking = [rule for rule in rules if isinstance(rule, ApprovalRule)]
    if not asking:
        return None
    return ApprovalRule(
        asking[0].tool,
        people=max(rule.people for rule in asking),
        within=min((rule.within for rule in asking if rule.within is not None), default=None),
        risk=RISKS[max(RISKS.index(rule.risk) for rule in asking)],
        grants=all(rule.grants for rule in asking),
        approvers=_strictest_approvers([rule.approvers for rule in asking]),
    )


def _strictest_approvers(each: Sequence[Approvers | None]) -> Approvers | None:
    for one in each:
        if all(are_as_strict(one, other) for other in each):
            return one
    needs_passkey = any(one is not None and one.passkey for one in each)
    people = (one for one in each if one is not None and replace(one, passkey=False).guards)
    approvers = next(people, ANYBODY if needs_passkey else None)
    return replace(approvers, passkey=True) if approvers is not None and needs_passkey else approvers


def is_weaker_approval(rule: ApprovalRule | None, other: ApprovalRule) -> bool:
    """Return whether `rule` requires fewer people than `other`, or lets one answer do more.

    `None` requires no approval.
    """
    return (
        rule is None
        or rule.people < other.people
        or (rule.may_grant and not other.may_grant)
        or (other.risk == "high" != rule.risk)
        or not are_as_strict(rule.approvers, other.approvers)
    )


def people_to_loosen(rule: Rule | None) -> int:
    """Number of other people needed to turn a rule off; 0 if anyone may with a reason (G-67)."""
    if isinstance(rule, ApprovalRule) and (
        rule.people > 1 or not rule.may_grant or rule.risk == "high" or rule.guards
    ):
        return rule.people
    return 0


def approvers_of(rule: Rule | None) -> Approvers | None:
    """Conditions on who approves for a rule, or agrees to turn it off; `None` for everybody."""
    return rule.approvers if isinstance(rule, ApprovalRule) else None
