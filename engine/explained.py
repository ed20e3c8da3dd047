"""An explanation as consoles and other programs get it: plain fields, ready for a wire."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from .gate.explain import Explanation, NetExplanation
from .history.parts import RuleRecord
from .records import json_input, rule_record
from .verify import Answer, Never, PlannedCall, Way


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class NetView(_View):
    """What one active net says of the call, where its tokens are and what rule it was made of."""

    net: str
    verdict: Literal["free", "abstain", "gated", "blocked"]
    tool: str
    asks: bool
    reason: str | None
    marking: dict[str, int]
    rule: RuleRecord | None


class PlannedCallView(_View):
    """A call on the way: all its names, whether a person is asked, how it has to end."""

    names: tuple[str, ...]
    approval: bool
    succeeds: bool

    def __str__(self) -> str:
        return str(PlannedCall(self.names, self.approval, self.succeeds))


class WayView(_View):
    """How the call comes to be allowed.

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
    """What the active nets would do with a call now; see `gate.explain.Explanation`."""

    tool: str
    input: dict[str, JsonValue]
    names: tuple[str, ...]
    outcome: Literal["allow", "block", "ask"]
    nets: tuple[NetView, ...]
    way: WayView | None

    @classmethod
    def of(cls, explained: Explanation) -> ExplanationView:
        """The explanation without the nets and steps that stay in this process."""
        return cls(
            tool=explained.call.tool_name,
            input=json_input(explained.call.input),
            names=explained.names,
            outcome=explained.outcome,
            nets=tuple(map(_net, explained.nets)),
            way=None if explained.way is None else _way(explained.way),
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
    )


def _way(answer: Answer) -> WayView:
    match answer:
        case Way(calls, shortest):
            planned = tuple(
                PlannedCallView(names=c.names, approval=c.approval, succeeds=c.succeeds) for c in calls
            )
            return WayView(reachable="yes", calls=planned, shortest=shortest)
        case Never(nets):
            return WayView(reachable="never", against=nets)
        case _:
            return WayView(reachable="unknown")
