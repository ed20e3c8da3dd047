"""An explanation as consoles and other programs get it: plain fields, ready for a wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from ..core.condition import written
from ..gate.explain import Explanation, NetExplanation
from ..history.model.records import RuleRecord
from ..history.model.state import ApprovalState
from ..verify import Answer, Never, PlannedCall, Way
from .records import json_input, rule_record

if TYPE_CHECKING:
    from ..history.redaction.redaction import Redaction


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class NetView(_View):
    """Verdict of one active net on the call, its marking, and the rule it was made of.

    `people` is how many must approve, 0 where it needs no approval. `when` is the rule's condition, where
    it is asked of the call; `note` says that it does not hold, where the net therefore abstains, or why
    that is unknown, where the net therefore applies.
    """

    net: str
    verdict: Literal["free", "abstain", "gated", "blocked"]
    tool: str
    asks: bool
    reason: str | None
    marking: dict[str, int]
    rule: RuleRecord | None
    people: int = 0
    when: str | None = None
    note: str | None = None


class PlannedCallView(_View):
    """A call on the way: all its names, whether it needs approval, how it has to end.

    `people` is how many must approve, `outside` the nets whose conditions it must not meet. With
    `seconds` it is no call but waiting for so long; see `verify.PlannedCall`.
    """

    names: tuple[str, ...]
    approval: bool
    succeeds: bool
    people: int = 1
    outside: tuple[str, ...] = ()
    seconds: float | None = None

    def __str__(self) -> str:
        from ..verify import PlannedCall

        return str(
            PlannedCall(self.names, self.approval, self.succeeds, self.people, self.outside, self.seconds)
        )


class WayView(_View):
    """Way to have the call allowed.

    `reachable` is `yes` with the `calls`, itself last, `never` with the nets that are `against` it, or
    `unknown` when there was too much to try. `shortest` says that no fewer calls lead there.
    """

    reachable: Literal["yes", "never", "unknown"]
    calls: tuple[PlannedCallView, ...] = ()
    shortest: bool = False
    against: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " → ".join(map(str, self.calls))


class ExplanationView(_View):
    """Outcome of a call under the active nets now; see `gate.explain.Explanation`.

    `unclear` is why the call may do more than its names tell, `judged_as` are names of the rules that its
    tool's name folds to without being one of them. `off` says of a recorded call what people had switched
    off that would have stopped it, and who. `shell_fields` are as in `CallRecord`.
    """

    tool: str
    input: dict[str, JsonValue]
    names: tuple[str, ...]
    outcome: Literal["allow", "block", "ask"]
    nets: tuple[NetView, ...]
    way: WayView | None
    granted: tuple[str, ...] = ()
    unclear: str | None = None
    judged_as: tuple[str, ...] = ()
    off: str | None = None
    shell_fields: tuple[str, ...] = ()

    def masked(self, redaction: Redaction) -> ExplanationView:
        """The same as people may see it."""
        nets = tuple(
            net if net.reason is None else net.model_copy(update={"reason": redaction.text(net.reason)})
            for net in self.nets
        )
        names = tuple(map(redaction.text, self.names))
        unclear = None if self.unclear is None else redaction.text(self.unclear)
        return self.model_copy(
            update={
                "input": redaction.fields(self.input, self.shell_fields),
                "names": names,
                "nets": nets,
                "unclear": unclear,
            }
        )


# Conversion of the gate's explanations to what consoles and other programs get.


def view_of(explained: Explanation) -> ExplanationView:
    """The explanation without the nets and steps that stay in this process."""
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
    """The explanation of a call that waits for approval, with nets that no longer ask about it (G-67).

    Their questions are still to be answered, even if a rule has been switched off since; such a net
    moves nothing.
    """
    asking = {net.net for net in view.nets if net.asks}
    kept = [asked for asked in waiting if asked.net not in asking]
    if not kept:
        return view
    held = {asked.net for asked in kept}
    nets = (*(net for net in view.nets if net.net not in held), *map(_held, kept))
    outcome = "ask" if view.outcome == "allow" else view.outcome
    return view.model_copy(update={"nets": nets, "outcome": outcome})


def _held(asked: ApprovalState) -> NetView:
    return NetView(
        net=asked.net,
        verdict="gated",
        tool=asked.tool,
        asks=True,
        reason=None,
        marking=asked.marking,
        rule=asked.rule,
        people=asked.people,
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
        when=None if net.condition is None else written(net.condition),
        note=net.verdict.note,
    )


def _people(net: NetExplanation) -> int:
    """The most people that one question about the call wants; each name of it is a question."""
    asked = Counter(step.tool for step in net.verdict.steps if step.transition.type == "manual")
    return max(asked.values(), default=0)


def _way(answer: Answer) -> WayView:
    match answer:
        case Way(calls, shortest):
            planned = tuple(map(_planned, calls))
            return WayView(reachable="yes", calls=planned, shortest=shortest)
        case Never(nets):
            return WayView(reachable="never", against=nets)
        case _:
            return WayView(reachable="unknown")


def _planned(call: PlannedCall) -> PlannedCallView:
    return PlannedCallView(
        names=call.names,
        approval=call.approval,
        succeeds=call.succeeds,
        people=call.people,
        outside=call.outside,
        seconds=call.seconds,
    )
