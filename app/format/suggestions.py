"""Suggestions as lines of 80 columns; rules and scenarios are complete, for copying.

Text from agents, operators and rules files is made visible here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from ...engine.backtest.suggestions import Effect, History, Kind, ListedCall, Suggestion
from ..terminal.charset import visible
from .backtest import row
from .text import count
from .times import day_and_time

TITLES: dict[Kind, str] = {
    "condition": "fewer approvals: a condition that every denied call meets",
    "value": "fewer approvals: values that were always approved",
    "order": "new rule: an order that always held",
    "limit": "new rule: twice the most calls of any session",
}

NOTHING = (
    "Nothing to suggest. A condition needs 10 approved calls that have something in common, an order "
    "20 calls in 5 sessions, a limit 20 sessions. Rules with `risk high`, `by N` or `no grants` are left "
    "as they are."
)
NO_FINDINGS = "no new findings"


def history_line(history: History) -> str:
    """Return the numbers of calls that were examined."""
    return (
        f"{count(history.calls, 'call')} in {count(history.sessions, 'session')}, "
        f"{history.approved:,} approved and {history.denied:,} denied under these rules: "
        f"{count(len(history.suggestions), 'suggestion')}"
    )


def suggestion_lines(number: int, suggestion: Suggestion, zone: tzinfo | None = None) -> Iterator[str]:
    """Yield a suggestion, its support and its effect."""
    effect = suggestion.effect
    yield f"{number}. {TITLES[suggestion.kind]}"
    if suggestion.replaces is not None:
        yield f"  {visible(suggestion.replaces)}"
        yield f"  - {visible((suggestion.before or '').strip())}"
    yield f"  + {visible(suggestion.rule.strip())}"
    yield from row("why", support_words(suggestion, zone))
    yield from row("does", effect_words(effect))
    for title, lines in listed_calls(effect, zone):
        yield f"  {title}"
        yield from (f"    {line}" for line in lines)
    yield from row("check", NO_FINDINGS if not suggestion.warnings else "")
    for warning in suggestion.warnings:
        yield from row("check", warning)
    if suggestion.scenarios:
        yield "  scenarios"
        yield from (f"    {visible(line)}" for line in suggestion.scenarios.split("\n"))


def support_words(suggestion: Suggestion, zone: tzinfo | None = None) -> str:
    """Return the recorded calls that support a suggestion."""
    support = suggestion.support
    calls = f"{count(support.calls, 'call')} in {count(support.sessions, 'session')}"
    times = ""
    if support.first is not None and support.last is not None:
        times = f", {day_and_time(support.first, zone)} to {day_and_time(support.last, zone)}"
    if suggestion.kind in ("order", "limit"):
        return calls + times
    denied = (
        f"{count(support.denied, 'denied call')} it still asks about" if support.denied else "none denied"
    )
    return f"{calls} approved by {', '.join(support.people)}{times}; {denied}"


def effect_words(effect: Effect) -> str:
    """Return the numbers of an effect."""
    numbers = ", ".join(
        f"{number:,} newly {change}"
        for number, change in (
            (effect.allowed, "allowed"),
            (effect.asked, "asked"),
            (effect.blocked, "blocked"),
        )
    )
    saved = f"{count(effect.saved, 'approval request')} saved, " if effect.saved else ""
    return f"of {count(effect.calls, 'call')}: {saved}{numbers}"


def listed_calls(effect: Effect, zone: tzinfo | None = None) -> Iterator[tuple[str, list[str]]]:
    """Yield the calls whose result differs, by change, with a line for each listed call."""
    for title, total, listed in (
        ("newly allowed", effect.allowed, effect.listed_allowed),
        ("newly asked", effect.asked, effect.listed_asked),
        ("newly blocked", effect.blocked, effect.listed_blocked),
    ):
        if total:
            more = [f"and {total - len(listed):,} more"] if total > len(listed) else []
            yield title, [*(_call_line(call, zone) for call in listed), *more]


def _call_line(call: ListedCall, zone: tzinfo | None) -> str:
    at = "" if call.at is None else f", {day_and_time(call.at, zone)}"
    return visible(f"{call.session} event {call.event}{at}: {call.tool} {call.input}".rstrip())
