"""An explanation as lines, for the command line and panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ...engine.recording.explanation import ExplanationView, NetView, WayView
from ..terminal.charset import to_charset

Tone = Literal["plain", "good", "ask", "bad", "quiet"]

Moment = Literal["now", "then"]
"""Moment of an explanation: with the nets as they are now, or as they were at a recorded decision."""

ABOVE: dict[Moment, str] = {"now": "rules now", "then": "rules at that time"}
"""Headings of explanations."""

_LOOKS: dict[str, tuple[str, Tone]] = {
    "allow": ("▸", "good"),
    "free": ("▸", "good"),
    "gated": ("▸", "good"),
    "abstain": ("·", "quiet"),
    "ask": ("◐", "ask"),
    "blocked": ("■", "bad"),
}
_SAYS: dict[str, tuple[str, str]] = {
    "allow": ("allowed", "allowed"),
    "ask": ("needs approval", "needed approval"),
    "asks": ("needs", "needed"),
    "free": ("always allows it", "always allowed it"),
    "gated": ("lets it pass", "let it pass"),
    "abstain": ("abstains", "abstained"),
    "applies": ("applies", "applied"),
    "answers": ("answers", "answered"),
    "answer": ("answer", "answered"),
    "blocked": ("blocks it", "blocked it"),
    "is": ("is", "was"),
    "forbids": ("forbids", "forbade"),
    "forbid": ("forbid", "forbade"),
    "does": ("does", "did"),
    "do": ("do", "did"),
}
"""Words about a call and its nets, in present and past tense."""


@dataclass(frozen=True, slots=True)
class ExplanationLine:
    """A line with its label; an empty label continues the line above."""

    label: str
    text: str
    tone: Tone = "plain"


def explained(view: ExplanationView, moment: Moment = "now") -> Iterator[ExplanationLine]:
    """Yield the call's outcome at that moment, the way to allow it, and each net's verdict.

    Texts are as agents and rules files wrote them; the caller makes them safe to show.
    """
    says = {key: words[moment == "then"] for key, words in _SAYS.items()}
    blocked = next((net for net in view.nets if net.verdict == "blocked"), None)
    asking = next((net for net in view.nets if net.asks), None)
    people = max((net.people for net in view.nets), default=0)
    if blocked is not None:
        yield ExplanationLine(
            moment, f"{to_charset('■')} blocked: {blocked.reason or 'not available'}", "bad"
        )
    else:
        symbol, tone = _LOOKS[view.outcome]
        becomes = says[view.outcome]
        if view.outcome == "ask":
            becomes = _asks(people, next((n.approvers for n in view.nets if n.approvers), None), says)
        yield ExplanationLine(moment, to_charset(f"{symbol} {becomes}"), tone)
    if view.granted:
        answer = says["answers" if len(view.granted) == 1 else "answer"]
        yield ExplanationLine("grant", f"{', '.join(view.granted)} {answer} in a person's place")
    speaker = blocked or asking
    if speaker is not None and speaker.rule is not None:
        yield ExplanationLine("rule", f"{speaker.rule.where}  {speaker.rule.text}")
    if view.way is not None:
        yield from _way(view.way, people if blocked is None else 0, says)
    if len(view.names) > 1:
        yield ExplanationLine("counts", f"as {', '.join(view.names)}")
    if view.unclear is not None:
        yield ExplanationLine("unclear", f"cannot be fully analysed: {view.unclear}", "ask")
    if view.off is not None:
        yield ExplanationLine("was off", view.off, "ask")
    if view.judged_as:
        those = ", ".join(view.judged_as)
        yield ExplanationLine("taken", f"for {those}, too: {view.tool!r} only looks different")
    label = "rules"
    concerned = [net for net in view.nets if net.verdict != "abstain" or net.note is not None]
    for net in concerned:
        yield from _net(net, label, says)
        label = ""
    others = len(view.nets) - len(concerned)
    if others:
        word = f"rule {says['does']}" if others == 1 else f"rules {says['do']}"
        more = "other " if concerned else ""
        yield ExplanationLine(label, f"{others} {more}{word} not apply", "quiet")
    elif not concerned:
        yield ExplanationLine(label, f"no rule {says['is']} active", "quiet")


def _asks(people: int, approvers: str | None, words: Mapping[str, str]) -> str:
    question = words["ask"] if people < 2 else f"{words['asks']} {people} approvals"
    return question if approvers is None else f"{question} {approvers}"


def _way(way: WayView, people: int, words: Mapping[str, str]) -> Iterator[ExplanationLine]:
    """Yield the way. `people` is the number of approvals if the call needs nothing else, otherwise 0."""
    calls = to_charset(" → ").join(map(str, way.calls))
    match way.reachable:
        case "yes" if people:
            yield ExplanationLine("allow", "one approval" if people == 1 else f"{people} approvals")
        case "yes":
            yield ExplanationLine(
                "allow",
                calls if way.shortest else f"{calls}; perhaps there {words['is']} a shorter one",
            )
        case "never" if way.against:
            verb = words["forbids" if len(way.against) == 1 else "forbid"]
            yield ExplanationLine("allow", f"no way: {', '.join(way.against)} always {verb} it", "bad")
        case "never":
            yield ExplanationLine("allow", f"no way: there {words['is']} no such call", "bad")
        case "unknown":
            yield ExplanationLine("allow", "unknown: too many possibilities to try", "quiet")
    if any(call.outside for call in way.calls):
        yield ExplanationLine("", "outside a net: by a call that does not meet its condition", "quiet")


def _net(net: NetView, label: str, words: Mapping[str, str]) -> Iterator[ExplanationLine]:
    kind = "ask" if net.asks else net.verdict
    symbol, tone = _LOOKS[kind]
    state = _asks(net.people, net.approvers, words) if net.asks else words[kind]
    if net.verdict == "abstain" and net.note is not None:
        state = f"{state}: {net.note}"
    yield ExplanationLine(label, f"{to_charset(symbol)} {net.net}  {state}", tone)
    if net.verdict != "abstain" and net.note is not None:
        yield ExplanationLine("", f"  {words['applies']} because {net.note}", "ask")
    elif net.verdict != "abstain" and net.when is not None:
        yield ExplanationLine("", f"  when {net.when}", "quiet")
    marking = ", ".join(f"{place}:{tokens}" for place, tokens in net.marking.items() if tokens)
    rule = "" if net.rule is None else f"   {net.rule.where}"
    yield ExplanationLine("", f"  {marking or 'no tokens'}{rule}", "quiet")
