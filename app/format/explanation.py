"""An explanation as lines for a person, the same on the command line and in a panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ...engine.recording.explanation import ExplanationView, NetView, WayView
from ..terminal.charset import ours

Tone = Literal["plain", "good", "ask", "bad", "quiet"]

Moment = Literal["now", "then"]
"""When things stand as they are explained: as the nets are, or as they were at a recorded call."""

ABOVE: dict[Moment, str] = {"now": "rules now", "then": "rules at that time"}
"""What stands above an explanation."""

_LOOKS: dict[str, tuple[str, Tone]] = {
    "allow": ("▸", "good"),
    "free": ("▸", "good"),
    "gated": ("▸", "good"),
    "abstain": ("·", "quiet"),
    "ask": ("◐", "ask"),
    "blocked": ("■", "bad"),
}
_SAYS: dict[Moment, dict[str, str]] = {
    "now": {
        "allow": "allowed",
        "ask": "needs approval",
        "asks": "needs",
        "free": "always allows it",
        "gated": "lets it pass",
        "abstain": "abstains",
        "applies": "applies",
        "answers": "answers",
        "answer": "answer",
        "blocked": "blocks it",
        "is": "is",
        "forbids": "forbids",
        "forbid": "forbid",
        "does": "does",
        "do": "do",
    },
    "then": {
        "allow": "allowed",
        "ask": "needed approval",
        "asks": "needed",
        "free": "always allowed it",
        "gated": "let it pass",
        "abstain": "abstained",
        "applies": "applied",
        "answers": "answered",
        "answer": "answered",
        "blocked": "blocked it",
        "is": "was",
        "forbids": "forbade",
        "forbid": "forbade",
        "does": "did",
        "do": "did",
    },
}
"""What is said of a call and its nets, at each moment."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line under its label; a label that is empty continues the one above."""

    label: str
    text: str
    tone: Tone = "plain"


def explained(view: ExplanationView, moment: Moment = "now") -> Iterator[Line]:
    """Lines with the call's outcome at that moment, the way to allow it, and each net's verdict.

    Texts are as agents and rules files wrote them: the caller that shows them makes them safe.
    """
    says = _SAYS[moment]
    blocked = next((net for net in view.nets if net.verdict == "blocked"), None)
    asking = next((net for net in view.nets if net.asks), None)
    people = max((net.people for net in view.nets), default=0)
    if blocked is not None:
        yield Line(moment, f"{ours('■')} blocked: {blocked.reason or 'not available'}", "bad")
    else:
        symbol, tone = _LOOKS[view.outcome]
        becomes = _asks(people, says) if view.outcome == "ask" else says[view.outcome]
        yield Line(moment, ours(f"{symbol} {becomes}"), tone)
    if view.granted:
        answer = says["answers" if len(view.granted) == 1 else "answer"]
        yield Line("grant", f"{', '.join(view.granted)} {answer} in a person's place")
    speaker = blocked or asking
    if speaker is not None and speaker.rule is not None:
        yield Line("rule", f"{speaker.rule.where}  {speaker.rule.text}")
    if view.way is not None:
        yield from _way(view.way, people if blocked is None else 0, says)
    if len(view.names) > 1:
        yield Line("counts", f"as {', '.join(view.names)}")
    if view.unclear is not None:
        yield Line("unclear", f"cannot be read to its end: {view.unclear}", "ask")
    if view.off is not None:
        yield Line("was off", view.off, "ask")
    if view.judged_as:
        those = ", ".join(view.judged_as)
        yield Line("taken", f"for {those}, too: {view.tool!r} differs from it only in looks")
    label = "rules"
    concerned = [net for net in view.nets if net.verdict != "abstain" or net.note is not None]
    for net in concerned:
        yield from _net(net, label, says)
        label = ""
    others = len(view.nets) - len(concerned)
    if others:
        word = f"rule {says['does']}" if others == 1 else f"rules {says['do']}"
        more = "other " if concerned else ""
        yield Line(label, f"{others} {more}{word} not apply", "quiet")
    elif not concerned:
        yield Line(label, f"no rule {says['is']} active", "quiet")


def _asks(people: int, says: Mapping[str, str]) -> str:
    return says["ask"] if people < 2 else f"{says['asks']} {people} approvals"


def _way(way: WayView, asked: int, says: Mapping[str, str]) -> Iterator[Line]:
    """The way; `asked` is how many people's approval is all that the call wants, 0 for more than that."""
    calls = ours(" → ").join(map(str, way.calls))
    match way.reachable:
        case "yes" if asked:
            yield Line("allow", "one approval" if asked == 1 else f"{asked} approvals")
        case "yes":
            yield Line(
                "allow",
                calls if way.shortest else f"{calls}; perhaps there {says['is']} a shorter one",
            )
        case "never" if way.against:
            verb = says["forbids" if len(way.against) == 1 else "forbid"]
            yield Line("allow", f"no way: {', '.join(way.against)} always {verb} it", "bad")
        case "never":
            yield Line("allow", f"no way: there {says['is']} no such call", "bad")
        case "unknown":
            yield Line("allow", "unknown: too many possibilities to try", "quiet")
    if any(call.outside for call in way.calls):
        yield Line("", "outside a net: by a call that does not meet its condition", "quiet")


def _net(net: NetView, label: str, says: Mapping[str, str]) -> Iterator[Line]:
    kind = "ask" if net.asks else net.verdict
    symbol, tone = _LOOKS[kind]
    said = _asks(net.people, says) if net.asks else says[kind]
    if net.verdict == "abstain" and net.note is not None:
        said = f"{said}: {net.note}"
    yield Line(label, f"{ours(symbol)} {net.net}  {said}", tone)
    if net.verdict != "abstain" and net.note is not None:
        yield Line("", f"  {says['applies']} because {net.note}", "ask")
    elif net.verdict != "abstain" and net.when is not None:
        yield Line("", f"  when {net.when}", "quiet")
    marking = ", ".join(f"{place}:{tokens}" for place, tokens in net.marking.items() if tokens)
    rule = "" if net.rule is None else f"   {net.rule.where}"
    yield Line("", f"  {marking or 'no tokens'}{rule}", "quiet")
