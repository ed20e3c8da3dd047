"""Approval statistics in numbers and words, for the screen and the command line.

For a possible change it states only the saving in this history. That no request was denied so far does
not show that none should ever be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...engine.backtest.answers import Saved
from ...engine.history.decisions.approval_stats import QUICK, Fatigue, RuleFatigue, Tally
from .text import clip, count, pad, place, shown

HEADINGS = ("asked", "approved", "median", f"<{QUICK:g} s", "edited", "denied")
WIDTHS = (7, 9, 8, 7, 7, 7)
NUMBERS = sum(WIDTHS)
ALWAYS = "always"
WARNING = (
    "That nobody denied these calls does not make them harmless: read them before you ask less, and try "
    "new rules with: interlock backtest"
)


def name_width(width: int) -> int:
    """Return the width that the numbers leave for a name, in cells."""
    return max(8, width - NUMBERS - 1)


def heading(name: str, width: int) -> str:
    """Return the column headings of a table."""
    return f"{pad(name, name_width(width))} " + _cells(HEADINGS)


def row(name: str, tally: Tally, width: int, *, always: bool = False) -> str:
    """Return one line of a table."""
    values = (
        f"{tally.requests:,}",
        ALWAYS if always else percent(tally.rate, tally.denied),
        seconds(tally.seconds),
        f"{tally.quick:,}",
        f"{tally.edited:,}",
        f"{tally.denied:,}",
    )
    return f"{pad(name, name_width(width))} " + _cells(values)


def _cells(values: Sequence[str]) -> str:
    return "".join(f"{value:>{width}}" for value, width in zip(values, WIDTHS, strict=True))


def percent(rate: float | None, others: int) -> str:
    """Return a rate in percent. A rate that is not complete is never shown as 100 %."""
    if rate is None:
        return "–"
    return f"{min(round(rate * 100), 99) if others else 100} %"


def seconds(value: float | None) -> str:
    """Return response times such as `1.4 s`, `12 s`, `3 min`, or `2.5 h`."""
    if value is None:
        return "–"
    if value < 9.95:
        return f"{value:.1f} s"
    if value < 89.5:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5_400 else f"{value / 3600:.1f} h"


def rule_text(rule: RuleFatigue) -> str:
    """Return location and text of a rule; without a rule, say that the tool itself needs approval."""
    if rule.rule is None:
        return "no rule: its tool needs approval"
    return f"{place(rule.rule)}  {shown(' '.join(rule.rule.text.split()))}"


def rule_notes(rule: RuleFatigue) -> str:
    """Return further counts that matter for a rule, to be appended to its text."""
    parts: list[str] = []
    if rule.people > 1:
        parts.append(f"{rule.people} people")
    if rule.tally.expired:
        parts.append(f"{rule.tally.expired:,} expired")
    if rule.tally.withdrawn:
        parts.append(f"{rule.tally.withdrawn:,} withdrawn")
    if rule.tally.open:
        parts.append(f"{rule.tally.open:,} open")
    return "".join(f" · {part}" for part in parts)


def total_line(found: Fatigue, width: int | None = None) -> str:
    """Return all totals in a line. Those that do not fit into `width` are left out."""
    total = found.total
    parts = [f"{count(total.requests, 'request')}"]
    if total.decided:
        parts += [
            f"{percent(total.rate, total.denied)} approved",
            f"median {seconds(total.seconds)}",
            f"{total.quick:,} within {QUICK:g} s",
            f"{total.denied:,} denied",
            f"{total.edited:,} edited",
        ]
    parts += [f"{total.expired:,} expired"] if total.expired else []
    while width is not None and len(parts) > 1 and len(" · ".join(parts)) > width:
        parts.pop()
    return " · ".join(parts)


def saved_lines(rule: RuleFatigue, saved: Saved) -> Iterator[str]:
    """Yield sentences on changes that would have saved approval requests of a rule."""
    tally = rule.tally
    yield (
        f"In this history all {count(tally.approved, 'answer')} were unchanged approvals, half of them "
        f"within {seconds(tally.seconds)} (by {clip(', '.join(map(shown, rule.by)), 60)})."
    )
    of = f"{saved.asked:,} requests in {_session_count(rule, saved)}"
    if saved.by_grant:
        uses = count(saved.uses or 0, "use")
        yield (
            f"A grant for {uses}, given again whenever it is used up, would have saved "
            f"{saved.by_grant:,} of {of}."
        )
    if saved.by_condition and saved.when is not None:
        word = "and" if rule.rule is not None and " when " in f" {rule.rule.text} " else "when"
        yield f"With `{word} {shown(saved.when)}` it would not have asked {saved.by_condition:,} of {of}."


def _session_count(rule: RuleFatigue, saved: Saved) -> str:
    """Return the sessions whose calls were judged again; of very many, only the latest."""
    if rule.all_sessions <= saved.sessions:
        return count(saved.sessions, "session")
    return f"the latest {saved.sessions:,} of {count(rule.all_sessions, 'session')}"
