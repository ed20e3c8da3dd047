"""An explanation as lines for a person, the same on the command line and in a panel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..engine.explained import ExplanationView, NetView, WayView

Tone = Literal["plain", "good", "ask", "bad", "quiet"]

_NOW = {"allow": ("▸", "allowed", "good"), "ask": ("◐", "asks a person", "ask")}
_NET = {
    "free": ("▸", "always allows it", "good"),
    "gated": ("▸", "lets it pass", "good"),
    "blocked": ("■", "blocks it", "bad"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line under its label; a label that is empty continues the one above."""

    label: str
    text: str
    tone: Tone = "plain"


def explained(view: ExplanationView) -> Iterator[Line]:
    """What becomes of the call now, the way to it, and what each net says.

    Texts are as agents and rules files wrote them: whoever shows them makes them safe.
    """
    blocked = next((net for net in view.nets if net.verdict == "blocked"), None)
    asking = next((net for net in view.nets if net.asks), None)
    if blocked is not None:
        yield Line("now", f"■ blocked: {blocked.reason or 'not available'}", "bad")
    else:
        symbol, word, tone = _NOW[view.outcome]
        yield Line("now", f"{symbol} {word}", tone)
    speaker = blocked or asking
    if speaker is not None and speaker.rule is not None:
        yield Line("rule", f"{speaker.rule.where}  {speaker.rule.text}")
    if view.way is not None:
        yield from _way(view.way, blocked is None)
    if len(view.names) > 1:
        yield Line("names", ", ".join(view.names))
    label = "nets"
    concerned = [net for net in view.nets if net.verdict != "abstain"]
    for net in concerned:
        yield from _net(net, label)
        label = ""
    others = len(view.nets) - len(concerned)
    if others:
        word = "net does" if others == 1 else "nets do"
        more = "other " if concerned else ""
        yield Line(label, f"{others} {more}{word} not know it", "quiet")
    elif not concerned:
        yield Line(label, "no net is active", "quiet")


def _way(way: WayView, only_asks: bool) -> Iterator[Line]:
    match way.reachable:
        case "yes" if only_asks:
            yield Line("way", f"{way}: nothing is missing but a person's answer")
        case "yes":
            yield Line("way", str(way) if way.shortest else f"{way}; perhaps there is a shorter one")
        case "never" if way.against:
            verb = "forbids" if len(way.against) == 1 else "forbid"
            yield Line("way", f"none: {', '.join(way.against)} {verb} it for good", "bad")
        case "never":
            yield Line("way", "none: there is no such call", "bad")
        case "unknown":
            yield Line("way", "unknown: too many possibilities to try", "quiet")


def _net(net: NetView, label: str) -> Iterator[Line]:
    symbol, word, tone = ("◐", "asks a person", "ask") if net.asks else _NET[net.verdict]
    yield Line(label, f"{symbol} {net.net}  {word}", tone)
    marking = ", ".join(f"{place}:{tokens}" for place, tokens in net.marking.items() if tokens)
    rule = "" if net.rule is None else f"   {net.rule.where}"
    yield Line("", f"  {marking or 'no tokens'}{rule}", "quiet")
