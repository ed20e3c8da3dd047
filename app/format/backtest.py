"""Results of a backtest as lines of 80 columns, for the command line and panels.

Text from agents, operators and rules files is made visible here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from textwrap import wrap

from ...engine.backtest import (
    BacktestDivergence,
    Count,
    RecordedOutcomeView,
    RuleCount,
    SessionReport,
    Totals,
    TrialOutcomeView,
)
from ..terminal.charset import to_charset, visible
from .text import count, rule_line
from .times import day_and_time

WIDTH = 80
INDENT = 8

_NEWLY = (("blocked", "newly blocked"), ("asked", "newly asked"), ("allowed", "newly allowed"))


def session_lines(report: SessionReport, zone: tzinfo | None = None) -> Iterator[str]:
    """Yield the lines of a session that diverges: counts and first divergence.

    Otherwise yield nothing.
    """
    first = report.first
    if first is None:
        return
    counts = report.counts
    news = [
        f"{getattr(counts, kind).calls:,} {word}" for kind, word in _NEWLY if getattr(counts, kind).calls
    ]
    yield visible(report.session)
    yield from row("", f"{count(counts.judged.calls, 'call')}: {', '.join(news)}")
    yield from row("first", f"{_when(first, report, zone)}")
    yield from row("call", f"{first.tool} {first.input}".rstrip())
    yield from row("then", then_words(first.then, logged=report.unit == "message"))
    yield from row("", rule_line(first.then.rule))
    yield from row("now", now_words(first.now))
    yield from row("", rule_line(first.now.rule))
    after = report.hypothetical_after
    if after is not None:
        rest = counts.judged.hypothetical
        those = "The call" if rest == 1 else f"The {rest:,} calls"
        yield from row(
            "",
            f"{those} after {report.unit} {after} {'is' if rest == 1 else 'are'} hypothetical: judged as "
            "recorded, though the agent would have acted differently.",
        )


def _when(first: BacktestDivergence, report: SessionReport, zone: tzinfo | None) -> str:
    at = "" if first.at is None else f", {day_and_time(first.at, zone)}"
    return f"{report.unit} {first.event}{at}"


def then_words(view: RecordedOutcomeView, *, logged: bool = False) -> str:
    """Return the recorded outcome of a call."""
    who = f" by {', '.join(view.by)}" if view.by else ""
    shadow = " (in shadow mode: it ran)" if view.shadow and view.outcome != "allow" else ""
    match view.outcome:
        case "allow" if logged:
            return to_charset("▸ ran" if view.ran else "▸ called, no result")
        case "allow":
            return to_charset("▸ allowed")
        case "ask" if view.denied:
            return f"{to_charset('◐')} needed approval: denied{who}"
        case "ask":
            return f"{to_charset('◐')} needed approval{': approved' + who if who else ''}{shadow}"
        case "block":
            return f"{to_charset('■')} blocked: {view.reason or 'no reason recorded'}{shadow}"


def now_words(view: TrialOutcomeView) -> str:
    """Return the nets' decision on a call now."""
    match view.outcome:
        case "allow":
            return to_charset("▸ allowed")
        case "ask" if view.assumed:
            return to_charset("◐ needs approval; counted as approved")
        case "ask":
            return to_charset("◐ needs approval")
        case "block":
            return f"{to_charset('■')} blocked: {view.reason or 'not available'}"


MOST_CHANGED = 3
"""Maximum number of tools named in the sentence on all changes."""


def change_sentence(totals: Totals) -> str:
    """Return `12 of 3,436 decisions change, all on deploy`; several tools come by number of changes."""
    judged, number = totals.counts.judged.calls, sum(tool.calls for tool in totals.changed)
    if not number:
        return f"None of {count(judged, 'decision')} changes." if judged else ""
    head = f"{number:,} of {count(judged, 'decision')} {'changes' if number == 1 else 'change'}"
    if len(totals.changed) == 1:
        return f"{head}, {'' if number == 1 else 'all '}on {totals.changed[0].name}."
    named = [f"{tool.name} ({tool.calls:,})" for tool in totals.changed[:MOST_CHANGED]]
    if len(totals.changed) > MOST_CHANGED:
        named.append(f"{len(totals.changed) - MOST_CHANGED:,} more")
    return f"{head}: {', '.join(named[:-1])} and {named[-1]}."


def total_lines(totals: Totals) -> Iterator[str]:
    """Yield a sentence on all changes, the counts, then the changes of each rule, most first."""
    if sentence := change_sentence(totals):
        yield from wrap(visible(sentence), WIDTH, break_on_hyphens=False)
        yield ""
    counts = totals.counts
    same = totals.sessions - totals.diverging
    yield f"{count(counts.judged.calls, 'call')} in {count(totals.sessions, 'session')}"
    if totals.cancelled:
        yield from row("", "Cancelled: these are the calls judged until then.")
    if not counts.judged.calls:
        return
    yield from row("", f"{count(same, 'session')} as recorded, {totals.diverging:,} with a divergence")
    for kind, word in (("same", "as recorded"), *_NEWLY):
        yield f"  {getattr(counts, kind).calls:>9,}  {word}{_hypothetical(getattr(counts, kind))}"
    if totals.following:
        where = count(totals.following, "session")
        yield from row(
            "",
            f"In {where} nets of these names were on or off as operators had set them; "
            "--active NET fixes which are active.",
        )
    if totals.rules:
        yield ""
        yield "By rule"
    for rule in sorted(totals.rules, key=_size, reverse=True):
        yield from _of_rule(rule)


def _hypothetical(number: Count) -> str:
    if not number.hypothetical:
        return ""
    every = number.hypothetical == number.calls
    return f", {'all' if every else f'{number.hypothetical:,} of them'} hypothetical"


def _size(rule: RuleCount) -> int:
    return rule.blocked.calls + rule.asked.calls + rule.allowed.calls


def _of_rule(rule: RuleCount) -> Iterator[str]:
    """Yield lines on a rule: calls that it newly blocks or asks about, or did then and no longer does."""
    own = "in no rule's name" if rule.side == "then" else "the gate itself"
    named = rule_line(rule.rule) or (own if rule.net is None else f"net {rule.net}")
    yield from row("", named + ("  (as recorded)" if rule.side == "then" else ""))
    for kind, word in _NEWLY:
        number: Count = getattr(rule, kind)
        if number.calls:
            yield f"  {number.calls:>9,}  {word}{_hypothetical(number)}"


def row(label: str, text: str) -> Iterator[str]:
    """Yield `text` after its label, wrapped; nothing for an empty text."""
    if not text:
        return
    lines = wrap(visible(text), WIDTH - INDENT, break_on_hyphens=False)
    for position, line in enumerate(lines):
        yield f"  {'' if position else label:<{INDENT - 2}}{line}"
