"""Report of `interlock check --against`: calls that two rule sets decide differently."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from ....engine.core.sanitize import visible
from ....rules import Problem
from ....rules.analysis.comparison import LOOSER, Comparison, Difference, Kind
from ....rules.parse.lines import code
from .check_report import WIDTH, Json

SAME = "The same: every sequence of calls is allowed, asked about and blocked as before."

_HEADS: dict[Kind, str] = {
    "possible": "newly possible",
    "fewer": "needs fewer people",
    "weaker": "asks on weaker terms",
    "impossible": "newly blocked",
    "more": "needs more people",
    "stricter": "asks on stricter terms",
}


def summary(comparison: Comparison) -> str:
    """Return one line on all differences: `newly possible: deploy, rm; newly blocked: push`."""
    if comparison.same:
        return SAME
    tools: dict[Kind, list[str]] = {}
    for each in comparison.differences:
        tools.setdefault(each.kind, []).append(visible(each.tool))
    words = [f"{_HEADS[kind]}: {', '.join(tools[kind])}" for kind in _HEADS if kind in tools]
    return "; ".join(words) or "No difference was found, but not everything was compared."


def as_lines(comparison: Comparison, old: str) -> Iterator[str]:
    """Yield each difference with its shortest sequence and the responsible rule, then unknown cases."""
    yield f"Against {visible(old)}"
    if comparison.same:
        yield f"  {SAME}"
        return
    for kind, head in _HEADS.items():
        found = [each for each in comparison.differences if each.kind == kind]
        if found:
            yield f"  {head}"
        for each in found:
            yield from _indented(visible(_way(each)), 4)
            yield from _indented(f"{_answers(each)}{_rule(each)}", 6)
    for text in comparison.unknown:
        yield from _indented(f"not known: {visible(text)}", 2)
    if not comparison.differences:
        yield "  No other difference was found."


def _way(each: Difference) -> str:
    when = each.way[-1].when
    return " → ".join(map(str, each.way)) + (f" when {when}" if when else "")


def _answers(each: Difference) -> str:
    """Return the two outcomes as text: `blocked before, allowed now`."""
    if each.kind in ("weaker", "stricter"):
        return "other terms of approval: who approves, risk, or whether one answer may cover later calls"
    return f"{_answer(each.before)} before, {_answer(each.now)} now"


def _answer(people: int | None) -> str:
    if people is None:
        return "blocked"
    return {0: "allowed", 1: "asked"}.get(people, f"{people} people asked")


def _rule(each: Difference) -> str:
    if each.rule is None:
        return ""
    return f" ({visible(each.rule.where)}: {visible(code(each.rule.text).strip())})"


def _indented(text: str, columns: int) -> Iterator[str]:
    lines = wrap(text, WIDTH - columns, break_long_words=False, break_on_hyphens=False) or [""]
    yield from (f"{' ' * columns}{line}" for line in lines)


def as_json(comparison: Comparison) -> Json:
    """Return the differences, what is not known, and whether the sets are equal or the new one looser."""
    return {
        "same": comparison.same,
        "looser": comparison.looser,
        "unknown": list(comparison.unknown),
        "differences": [
            {
                "kind": each.kind,
                "tool": each.tool,
                "way": [
                    {"tool": step.names[0] if step.names else None, "people": step.people}
                    for step in each.way
                ],
                "when": each.way[-1].when or None,
                "before": each.before,
                "now": each.now,
                "rule": None if each.rule is None else each.rule.where,
            }
            for each in comparison.differences
        ],
    }


def as_problems(comparison: Comparison, file: str) -> Iterator[Problem]:
    """Yield, as findings about `file`, the differences that make it looser, and what is not known."""
    for each in comparison.differences:
        if each.kind in LOOSER:
            message = f"{_HEADS[each.kind]}: {_way(each)}"
            yield Problem(file, 0, 0, 0, "", message, f"{_answers(each)}{_rule(each)}")
    for text in comparison.unknown:
        yield Problem(file, 0, 0, 0, "", f"not known whether more is possible: {text}", "")
