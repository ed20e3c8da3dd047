"""Suggestions as lines of 80 columns; rules and scenarios are whole, to be copied.

What agents, operators and rules files wrote is made visible here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from ...engine.backtest.suggestions import Effect, History, Kind, ListedCall, Suggestion, Support
from ..terminal.charset import visible
from .backtest import row
from .text import count
from .times import day_and_time

_TITLES: dict[Kind, str] = {
    "condition": "fewer approvals: a condition that every denied call meets",
    "value": "fewer approvals: values that were always approved",
    "order": "new rule: an order that always held",
    "limit": "new rule: twice the most calls of any session",
}


def history_line(history: History) -> str:
    """The calls that were looked at."""
    return (
        f"{count(history.calls, 'call')} in {count(history.sessions, 'session')}, "
        f"{history.approved:,} approved and {history.denied:,} denied under these rules: "
        f"{count(len(history.suggestions), 'suggestion')}"
    )


def suggestion_lines(number: int, suggestion: Suggestion, zone: tzinfo | None = None) -> Iterator[str]:
    """A suggestion, what speaks for it and what it would have done."""
    effect = suggestion.effect
    yield f"{number}. {_TITLES[suggestion.kind]}"
    if suggestion.replaces is not None:
        yield f"  {visible(suggestion.replaces)}"
        yield f"  - {visible((suggestion.before or '').strip())}"
    yield f"  + {visible(suggestion.rule.strip())}"
    yield from row("why", _support(suggestion.support, suggestion.kind, zone))
    yield from row("does", _effect(effect))
    for title, total, listed in (
        ("newly allowed", effect.allowed, effect.listed_allowed),
        ("newly asked", effect.asked, effect.listed_asked),
        ("newly blocked", effect.blocked, effect.listed_blocked),
    ):
        yield from _listed(title, total, listed, zone)
    yield from row("check", "no new findings" if not suggestion.warnings else "")
    for warning in suggestion.warnings:
        yield from row("check", warning)
    if suggestion.scenarios:
        yield "  scenarios"
        yield from (f"    {visible(line)}" for line in suggestion.scenarios.split("\n"))


def _support(support: Support, kind: Kind, zone: tzinfo | None) -> str:
    calls = f"{count(support.calls, 'call')} in {count(support.sessions, 'session')}"
    times = ""
    if support.first is not None and support.last is not None:
        times = f", {day_and_time(support.first, zone)} to {day_and_time(support.last, zone)}"
    if kind in ("order", "limit"):
        return calls + times
    denied = (
        f"{count(support.denied, 'denied call')} it still asks about" if support.denied else "none denied"
    )
    return f"{calls} approved by {', '.join(support.people)}{times}; {denied}"


def _effect(effect: Effect) -> str:
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


def _listed(title: str, total: int, calls: Sequence[ListedCall], zone: tzinfo | None) -> Iterator[str]:
    if not total:
        return
    yield f"  {title}"
    for call in calls:
        at = "" if call.at is None else f", {day_and_time(call.at, zone)}"
        where = f"{call.session} event {call.event}{at}"
        yield f"    {visible(f'{where}: {call.tool} {call.input}'.rstrip())}"
    if total > len(calls):
        yield f"    and {total - len(calls):,} more"
