"""Reasons why a call would pass, need approval or be blocked, and what has to happen first (G-10, G-60).

Pure: nothing is asked, fired or recorded. Verdicts use all names of the call, as in the gate (G-50). The
way to the call is proved for all active nets together, from their current markings.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core.condition import Condition, Surroundings
from ..core.rule import BlockRule, Rule
from ..net.net import SkillNet, ToolCall
from .approve import manual_steps
from .classify import CallbackError, NetNames, Roster
from .conditions import EvaluationContext, under_condition
from .description import marking_by_now
from .grants.plans import distinct
from .grants.store import GrantStore
from .member import Member
from .types import GateDecision, NetVerdict, Outcome

if TYPE_CHECKING:
    from ..verify import Answer


log = logging.getLogger(__name__)

OUTSIDE = "(A call is outside a rule when its input does not meet the rule's condition.)"


@dataclass(frozen=True, slots=True)
class NetExplanation:
    """One active net: its verdict on the call, its marking, and its rule, if any.

    `where` is the rule's `file:line`. `asks` is true if this net requires approval of the call.
    `condition` is the net's condition, if it applies to the call.
    """

    net: str
    verdict: NetVerdict
    marking: Mapping[str, int]
    rule: Rule | None
    condition: Condition | None = None

    @property
    def where(self) -> str | None:
        return None if self.rule is None or self.rule.source is None else self.rule.source.where

    @property
    def asks(self) -> bool:
        return any(step.transition.type == "manual" for step in self.verdict.steps)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Outcome of `call` under the active nets now, net by net in order of activation.

    `outcome` is the outcome in enforce mode if operators can be asked. `way` is `None` for a call that is
    allowed; otherwise it is the shortest sequence of calls that ends with this one passing, with
    approvals marked, or `Never` with the nets that forbid it, or `Unknown`. Validators are not consulted,
    and results of running calls are not anticipated. `granted` are the keys of grants that would answer
    in place of an operator. `unclear` and `judged_as` are as in `GateDecision`.
    """

    call: ToolCall
    names: tuple[str, ...]
    outcome: Outcome
    nets: tuple[NetExplanation, ...]
    way: Answer | None = None
    granted: tuple[str, ...] = ()
    unclear: str | None = None
    judged_as: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GateView:
    """Verdicts of a gate's nets on a call and their markings, taken at one moment.

    `asks` is true if the call needs an approval that no grant in `granted` gives. `has_values` is true if
    the call has a value in every field that a rule distinguishes by value.
    """

    call: ToolCall
    names: tuple[str, ...]
    skill_nets: tuple[SkillNet, ...]
    nets: tuple[NetExplanation, ...]
    asks: bool
    granted: tuple[str, ...]
    surroundings: Surroundings
    names_by_net: tuple[NetNames, ...]
    unclear: str | None
    judged_as: tuple[str, ...]
    has_values: bool


def view_gate(
    roster: Roster, granted: GrantStore, call: ToolCall, context: EvaluationContext
) -> GateView:
    """Capture what `explain` needs; the gate may change afterwards."""
    classification = roster.classify(call, context)
    judged = {m.order: m for m, _ in (*classification.verdicts, *classification.abstaining)}
    covered = granted.covering(classification, call, None, context, roster)
    return GateView(
        call,
        classification.names,
        tuple(judged.get(member.order, member).net for member in roster.members),
        tuple(
            _explained(judged.get(member.order, member), verdict, classification.names, context)
            for member, verdict in zip(roster.members, roster.verdicts(classification), strict=True)
        ),
        any(question not in covered for *_, question in manual_steps(classification.verdicts)),
        tuple(member.key for member, _ in distinct(covered.values())),
        context.surroundings,
        tuple(roster.naming(call).by_net),
        classification.unclear,
        classification.judged_as,
        all(_has_values(member) for member, _ in classification.verdicts),
    )


def _has_values(member: Member) -> bool:
    """Return whether a net judged the call with the value and the number that its rule reads."""
    if member.net.per_value is not None and member.template is None:
        return False
    return all(t.amount is None or t.amount.units for t in member.net.transitions)


def _explained(
    member: Member, verdict: NetVerdict, names: Sequence[str], context: EvaluationContext
) -> NetExplanation:
    net = member.net
    condition = net.condition if any(name in net.governs for name in names) else None
    marking = dict(marking_by_now(member, context))
    return NetExplanation(member.registered, verdict, marking, net.rule, condition)


def explain(view: GateView) -> Explanation:
    """Explain the call. Exceptions of a net's callback are not raised."""
    outcome: Outcome = "allow"
    if any(net.verdict.kind == "blocked" for net in view.nets):
        outcome = "block"
    elif view.asks:
        outcome = "ask"
    way = None if outcome == "allow" else _way(view)
    return Explanation(
        view.call, view.names, outcome, view.nets, way, view.granted, view.unclear, view.judged_as
    )


def _way(view: GateView) -> Answer:
    """The way to the call from the captured markings; unknown if a net cannot even name the call."""
    if not view.has_values:
        from ..verify import Unknown

        return Unknown()
    # Imported here: gates that never explain, such as a hook's, do not load the proofs.
    from ..verify import Action, Together, Unknown
    from ..verify.vocabulary import vocabulary

    nets = {net.net: skill_net for net, skill_net in zip(view.nets, view.skill_nets, strict=True)}
    try:
        names = {
            key: under_condition(net, known_by, view.call, view.surroundings)[0]
            for (key, net), known_by in zip(nets.items(), view.names_by_net, strict=True)
            if not isinstance(known_by, CallbackError)
        }
    except Exception:
        # A callback that fails makes the gate block in that net's name, and no net can say what would
        # help.
        return Unknown()
    if len(names) < len(nets):
        return Unknown()
    together = Together(
        nets,
        markings={net.net: net.marking for net in view.nets},
        words=vocabulary(nets.values()),
        extra=[Action(view.names, by_net=names)],
    )
    return together.way_to_extra()


def with_way(
    roster: Roster, granted: GrantStore, decision: GateDecision, context: EvaluationContext
) -> GateDecision:
    """A block with the way out added to its reason; any other decision unchanged.

    If explaining fails, the block keeps its original reason.
    """
    if not decision.block or decision.net is None:
        return decision
    try:
        sentence = _in_words(explain(view_gate(roster, granted, decision.call, context)))
    except Exception:
        log.exception("Call '%s' could not be explained", decision.call.tool_call_id)
        return decision
    return decision if sentence is None else replace(decision, reason=f"{decision.reason} {sentence}")


def _in_words(explained: Explanation) -> str | None:
    """Sentence for the model about the way to a blocked call; `None` if it would add nothing.

    The reason of a `block` rule already says that nothing helps.
    """
    from ..verify import Never, Way

    if explained.outcome != "block":
        return None
    match explained.way:
        case Way(calls):
            way = f"To get there: {' → '.join(map(str, calls))}."
            outside = any(call.outside for call in calls)
            return f"{way} {OUTSIDE}" if outside else way
        case Never(nets):
            is_blocked = any(isinstance(n.rule, BlockRule) for n in explained.nets if n.net in nets)
            return (
                None
                if is_blocked or not nets
                else f"No sequence of calls leads there ({', '.join(nets)})."
            )
        case _:
            return None
