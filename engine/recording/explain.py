"""Conversion of the gate's explanations to views for consoles and other programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..core.condition import condition_text
from ..gate.explain import Explanation, NetExplanation
from ..history.model.state import ApprovalState
from .explanation import ExplanationView, NetView, PlannedCallView, WayView
from .records import json_input, rule_record

if TYPE_CHECKING:
    from ..verify import Answer


def view_of(explained: Explanation) -> ExplanationView:
    """View of an explanation, without the nets and steps, which stay in this process."""
    return ExplanationView(
        tool=explained.call.tool_name,
        input=json_input(explained.call.input),
        names=explained.names,
        outcome=explained.outcome,
        nets=tuple(map(_net, explained.nets)),
        way=None if explained.way is None else _way(explained.way),
        granted=explained.granted,
        unclear=explained.unclear,
        judged_as=explained.judged_as,
    )


def waiting_view(view: ExplanationView, waiting: Iterable[ApprovalState]) -> ExplanationView:
    """View of a call that waits for approval, including nets that no longer ask about it (G-67).

    Their questions must still be answered, even if a rule has been switched off since; such a net does
    not move.
    """
    asking = {net.net for net in view.nets if net.asks}
    earlier = [each for each in waiting if each.net not in asking]
    if not earlier:
        return view
    changed = {each.net for each in earlier}
    nets = (*(net for net in view.nets if net.net not in changed), *map(_question, earlier))
    outcome = "ask" if view.outcome == "allow" else view.outcome
    return view.model_copy(update={"nets": nets, "outcome": outcome})


def _question(request: ApprovalState) -> NetView:
    return NetView(
        net=request.net,
        verdict="gated",
        tool=request.tool,
        asks=True,
        reason=None,
        marking=request.marking,
        rule=request.rule,
        people=request.people,
        approvers=None if request.approvers is None else request.approvers.words,
        note="it had asked before it was switched off or changed",
    )


def _net(net: NetExplanation) -> NetView:
    return NetView(
        net=net.net,
        verdict=net.verdict.kind,
        tool=net.verdict.tool,
        asks=net.asks,
        reason=net.verdict.reason,
        marking=dict(net.marking),
        rule=rule_record(net.rule),
        people=_people(net),
        approvers=_approvers(net),
        when=None if net.condition is None else condition_text(net.condition),
        note=net.verdict.note,
    )


def _people(net: NetExplanation) -> int:
    """The most people that one question about the call requires; each name of the call is a question."""
    questions = Counter(step.tool for step in net.verdict.steps if step.transition.type == "manual")
    return max(questions.values(), default=0)


def _approvers(net: NetExplanation) -> str | None:
    """Conditions on who may approve, in the rule's words."""
    terms = (step.transition.approvers for step in net.verdict.steps)
    return next((each.words for each in terms if each is not None), None)


def _way(answer: Answer) -> WayView:
    # Imported here: if there is a way, verification is already loaded.
    from ..verify import Never, Way

    match answer:
        case Way(calls, shortest):
            planned = tuple(PlannedCallView.model_validate(call, from_attributes=True) for call in calls)
            return WayView(reachable="yes", calls=planned, shortest=shortest)
        case Never(nets):
            return WayView(reachable="never", against=nets)
        case _:
            return WayView(reachable="unknown")
