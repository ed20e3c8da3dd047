"""Decisions as lines: columns for a width, verdicts with symbols, counts over time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from textual.content import Content

from ...engine.history.decisions.counts import (
    DecisionCounts,
    Group,
    RuleShare,
    ShadowSession,
    ShadowSummary,
    total,
)
from ...engine.history.decisions.filter import (
    EVERYTHING,
    DecisionFilter,
    Result,
    Verdict,
    quoted,
    time_of,
)
from ...engine.history.decisions.reader import Decision
from ..terminal.symbols import CALL, SHADOW, Look
from .sessions import HOW_TO_RECORD
from .text import MUTED, clip, count, name_shown, pad, shown, width_of
from .times import clock, day, short_day_and_time

GAP = 2
LEVELS = "▁▂▃▄▅▆▇█"
OWN = 4
"""Characters at the end of an id that distinguish it from similar ids."""
STEPS = 24
"""Number of time steps for which decisions are counted."""

VERDICT: Mapping[Verdict, Look] = {
    "allow": Look("▸", "allow", MUTED),
    "approved": Look("◐", "approved", "$text-success"),
    "block": Look("■", "block", "$text-error"),
    "denied": Look("■", "denied", "$text-error"),
    "would-block": Look(SHADOW.symbol, "would block", "$text-secondary"),
    "would-ask": Look(SHADOW.symbol, "would ask", "$text-secondary"),
    "changed": Look("Δ", "changed", "$text-warning"),
    "proposed": Look("?", "proposed", "$text-warning"),
    "agreed": Look("?", "agreed", "$text-warning"),
    "dropped": Look("·", "not done", MUTED),
}
RESULT: Mapping[Result, Look] = {result: CALL[result] for result in ("done", "failed", "unknown")}


class Columns(NamedTuple):
    """Widths in cells of the list's columns; 0 for a column that does not fit.

    The input gets the rest.
    """

    time: int = 11
    session: int = 0
    agent: int = 0
    tool: int = 9
    verdict: int = 15
    rule: int = 0

    def input(self, width: int) -> int:
        """Return the width of the input column in a line of `width` cells."""
        columns = [cells for cells in self if cells]
        return max(4, width - sum(columns) - GAP * len(columns))


def columns(width: int) -> Columns:
    """Return the columns that fit into `width` cells. What is left out is shown in the detail below."""
    if width >= 150:
        return Columns(session=22, agent=16, tool=14, verdict=22, rule=30)
    if width >= 105:
        return Columns(session=16, agent=12, verdict=19, rule=18)
    if width >= 65:
        return Columns(session=13)
    return Columns(time=11 if width >= 50 else 0)


def heading(width: int) -> str:
    """Return the column headings of the list."""
    return _row(width, ("time", "session", "agent", "tool", "input", "verdict", "rule")).plain


def _row(width: int, cells: Sequence[str], styles: Sequence[str] = ("",) * 7) -> Content:
    sizes = columns(width)
    widths = (*sizes[:4], sizes.input(width), *sizes[4:])
    parts: list[tuple[str, str]] = []
    for text, style, room in zip(cells, styles, widths, strict=True):
        if room:
            parts += [(pad(text, room), style), (" " * GAP, "")]
    return Content.assemble(*parts[:-1])


def verdict_words(decision: Decision) -> str:
    """Return `◐ approved by maria`, or `▸ allow, unclear` for a call that could not be analysed."""
    if decision.newer is not None:
        return f"? {shown(decision.newer)}, of a newer version"
    look = VERDICT[decision.verdict]
    by = f" by {shown(decision.by)}" if decision.by else ""
    by = f", unclear{by}" if decision.unclear else by
    by += f" ({shown(decision.off)})" if decision.off else ""
    if decision.verdict == "allow" and (decision.by or decision.off):
        return f"{look.symbol} allowed{by}"
    if decision.verdict == "allow" and decision.mode == "shadow":
        return f"{SHADOW.symbol} {look.word}{by}"
    return f"{look.symbol} {look.word}{by}"


def subject(decision: Decision) -> str:
    """Return the tool that was called, or the kind of setting that was changed."""
    return name_shown(decision.tool) if decision.kind == "call" else decision.kind


def moment(at: datetime, now: datetime, zone: tzinfo | None) -> str:
    """Return the time if `at` is today, else date and time."""
    if day(at, zone) == day(now, zone):
        return clock(at, zone)
    return short_day_and_time(at, zone)


def line(decision: Decision, width: int, *, now: datetime, zone: tzinfo | None) -> Content:
    """Return one decision of the list, exactly `width` cells wide if the columns fit."""
    look = VERDICT[decision.verdict]
    ended = RESULT[decision.result].symbol if decision.result in ("failed", "unknown") else ""
    # The sign of shadow mode is enough here, since the call's result must fit.
    brief = decision if decision.mode == "enforce" else decision.model_copy(update={"off": None})
    verdict = f"{verdict_words(brief)} {ended}".rstrip()
    who = (
        f"{name_shown(decision.via)} of {name_shown(decision.agent)}"
        if decision.via
        else name_shown(decision.agent)
    )
    cells = (
        moment(decision.at, now, zone),
        _short(name_shown(decision.session), columns(width).session),
        who,
        subject(decision),
        name_shown(decision.input),
        verdict,
        shown(decision.net or ""),
    )
    strong = "bold " if decision.verdict not in ("allow", "approved") else ""
    styles = (MUTED, "", MUTED, f"{strong}$foreground", MUTED, strong + look.style, MUTED)
    return _row(width, cells, styles)


def _short(name: str, room: int) -> str:
    """Shorten an id in its middle: it begins with the agent's name and ends with its distinctive part."""
    if len(name) <= room or room <= 2 * OWN or not name.isascii():
        return name
    return f"{name[: room - OWN - 1]}…{name[-OWN:]}"


def facts(decision: Decision, zone: tzinfo | None) -> list[Content]:
    """Return facts of a decision that a narrow list leaves out, as three lines to be cut off."""
    look = VERDICT[decision.verdict]
    by = f"made by {name_shown(decision.via)} · " if decision.via else ""
    when = f"{decision.at.astimezone(zone):%m-%d %H:%M:%S}"
    ended = RESULT[decision.result] if decision.result else None
    where = (
        f"{name_shown(decision.session)} · {when} · {decision.mode} · {by}{name_shown(decision.agent)}"
    )
    if decision.called != decision.tool:
        where += f" · called {name_shown(decision.called)}"
    first = [(verdict_words(decision), f"bold {look.style}"), (f"  {subject(decision)}", "bold")]
    if ended is not None:
        first.append((f"  {ended.symbol} {ended.word}", ended.style))
    first.append((f"  {where}", MUTED))
    net = shown(decision.net or ("no rule matched" if decision.kind == "call" else ""))
    rule = [(f"{shown(decision.rule or '')}  ", ""), (f"{shown(decision.place or '')}  ", MUTED)]
    return [
        Content.assemble(*first),
        Content.assemble((name_shown(decision.input), "")),
        Content.assemble(*(rule if decision.rule else []), (net, MUTED)),
    ]


def facts_within(decision: Decision, width: int, zone: tzinfo | None) -> Content:
    """Return the lines of `facts`, cut off at `width`."""
    return Content("\n").join([row.truncate(width, ellipsis=True) for row in facts(decision, zone)])


def title_texts(
    total: int, row: int | None, newer: int, *, some: bool, looked: int | None
) -> tuple[Content, Content]:
    """Return the number of decisions, with and without details.

    The detail is the cursor's `row`, if any, or the number `looked` at during a search.
    """
    matches = (" matches" if total == 1 else " match") if some else ""
    number = Content(f"{total:,} {'decision' if total == 1 else 'decisions'}{matches}")
    more = Content("")
    if looked is not None:
        more = Content.styled(f" · searching… {looked:,} looked at", MUTED)
    elif newer:
        more = Content.styled(f" · ↑ {newer:,} newer", "$text-warning")
    elif total and row is not None:
        more = Content.styled(f" · row {row + 1:,}", MUTED)
    return number + more, number


# Over time


def course(counts: Sequence[int]) -> str:
    """Return counts as bars, relative to the highest; a dot for zero."""
    most = max(counts, default=0)
    return "".join("·" if not c else LEVELS[min(7, c * 8 // (most + 1))] for c in counts)


def merged(counts: Sequence[int], of: int) -> tuple[int, ...]:
    """Merge counts into fewer steps of `of` counts each."""
    return tuple(sum(counts[at : at + of]) for at in range(0, len(counts), of))


def course_line(counts: DecisionCounts, width: int, zone: tzinfo | None) -> Content:
    """Return all matching decisions over time, between the two end times; empty if there are none."""
    if counts.start is None or counts.end is None or not counts.total.count:
        return Content("")
    start, end = (short_day_and_time(at, zone) for at in (counts.start, counts.end))
    bars = course(counts.total.course)
    short = Content.assemble((bars, "$text-accent"))
    line = Content.assemble((f"{start} ", MUTED), short, (f" {end}", MUTED))
    return line if line.cell_length <= width else short.truncate(max(0, width))


def group_lines(groups: Sequence[Group], by: str, width: int) -> list[Content]:
    """Return lines on rules or tools: names, numbers of calls, stopped and asked, and bars over time.

    If space is limited, the bars are shortened and then dropped, then the numbers.
    """
    names = [shown(g.name) if g.name else f"no {by}" for g in groups]
    numbers = [
        [f"{number:,}" for number in column]
        for column in zip(*((g.count, g.stopped, g.asked) for g in groups), strict=True)
    ]
    sizes = [max(map(len, column)) for column in numbers]
    longest = max(map(width_of, names), default=0)
    room = width - sum(sizes) - 2 * GAP - len("  ■ ◐ ")
    step = next((of for of in (1, 2) if longest + GAP + STEPS // of <= room), None)
    room -= 0 if step is None else STEPS // step + GAP
    return [
        Content.assemble(
            (_named(name, group.rule, room), "bold" if group.name else MUTED),
            (f"  {calls:>{sizes[0]}}", ""),
            (f"  ■ {stopped:>{sizes[1]}}", "$text-error" if group.stopped else MUTED),
            (f"  ◐ {asked:>{sizes[2]}}", "$text-warning" if group.asked else MUTED),
            (f"  {course(merged(group.course, step))}" if step else "", "$text-accent"),
        ).truncate(width, ellipsis=True)
        for group, name, calls, stopped, asked in zip(groups, names, *numbers, strict=True)
    ]


def _named(name: str, rule: str | None, room: int) -> str:
    """Return a name and, if some of it fits, the rule's text."""
    more = f"  {shown(rule)}" if rule and width_of(name) + 12 < room else ""
    return pad(name + more, max(8, room))


# Shadow mode

SHARE = 40
"""Maximum width of a net's name in cells."""


def shares(found: Sequence[RuleShare], most: int) -> str:
    """Return `block-rm 3, limit-push-3 1`, for example."""
    named = [f"{shown(clip(s.net or 'no rule', 40))} {s.ended.calls:,}" for s in found[:most]]
    if len(found) > most:
        named.append(f"{len(found) - most} more")
    return ", ".join(named)


def shadow_words(summary: ShadowSummary, most: int = 3) -> Content:
    """Return the calls that enforce mode would have stopped, by rule (`most` of them)."""
    sessions, calls = count(len(summary.sessions), "session"), count(summary.calls, "call")
    return Content.assemble(
        (f"{SHADOW.symbol} Shadow: ", "bold $text-secondary"),
        (f"{sessions}, {calls}; enforce would have ", ""),
        *_enforce_effect(summary.blocked, summary.asked, most),
    )


def shadow_lines(summary: ShadowSummary, width: int, *, sessions: int) -> Content:
    """Return the summary and, if there are several, the `sessions` with most changes by enforce mode."""
    lines = [shadow_words(summary, 3 if width >= 98 else 1)]
    affected = [s for s in summary.sessions if s.blocked or s.asked]
    if len(summary.sessions) > 1:
        lines += [Content.assemble("  ", session_words(s)) for s in affected[:sessions]]
        lines = [lines[0], *(line.truncate(width, ellipsis=True) for line in lines[1:])]
        more = len(affected) - sessions
        if sessions and more > 0:
            lines.append(Content.styled(f"  {more} more (s)", MUTED))
    return Content("\n").join(lines)


def session_words(session: ShadowSession) -> Content:
    """Return the summary of one session."""
    calls = count(session.calls, "call")
    return Content.assemble(
        (f"{name_shown(session.session)}", "bold"),
        (f"  {calls}; enforce would have ", MUTED),
        *_enforce_effect(session.blocked, session.asked, 3),
    )


def share_lines(rows: Sequence[tuple[str, RuleShare]], width: int) -> list[Content]:
    """Return the nets' calls that enforce mode would have stopped or asked about, and their results.

    If names and words do not both fit, the words are left out.
    """
    names = [shown(share.net or "no rule") for _, share in rows]
    calls, done, failed = (
        [f"{number:,}" for number in column]
        for column in zip(*((s.ended.calls, s.ended.done, s.ended.failed) for _, s in rows), strict=True)
    )
    sizes = [max(map(len, column)) for column in (calls, done, failed)]
    longest = min(SHARE, max(map(width_of, names)))
    labels = [verdict for verdict, _ in rows]
    label = max(map(width_of, labels))
    room = width - GAP - label - sum(sizes) - 4 * GAP - len("✓ ✗ ")
    words = (" done", " failed") if room - len(" done failed") >= longest else ("", "")
    if room < longest:
        # The panel's title says that this is hypothetical.
        labels, label = [text.replace("would ", "") for text in labels], label - len("would ")
        room += len("would ")
    return [
        Content.assemble(
            (f"  {text:<{label}}  ", "$text-secondary"),
            (f"{calls[n]:>{sizes[0]}}  ", "bold"),
            pad(names[n], max(8, min(longest, room))),
            (f"  ✓ {done[n]:>{sizes[1]}}{words[0]}", "$text-success" if s.ended.done else MUTED),
            (f"  ✗ {failed[n]:>{sizes[2]}}{words[1]}", "$text-error" if s.ended.failed else MUTED),
        ).truncate(width, ellipsis=True)
        for n, (text, (_, s)) in enumerate(zip(labels, rows, strict=True))
    ]


def _enforce_effect(
    blocked: Sequence[RuleShare], questions: Sequence[RuleShare], most: int
) -> list[tuple[str, str]]:
    stopped, waiting = total(tuple(blocked)), total(tuple(questions))
    together = stopped.calls + waiting.calls
    if not together:
        return [("blocked and asked nothing", "")]
    parts = [(f"blocked {stopped.calls:,}", "bold" if stopped.calls else "")]
    later = stopped.calls - sum(share.first for share in blocked)
    following = f"; {later:,} after the first" if later else ""
    parts += [(f" ({shares(blocked, most)}{following})", MUTED)] if blocked else []
    parts += [(f" and asked {waiting.calls:,}", "bold" if waiting.calls else "")]
    parts += [(f" ({shares(questions, most)})", MUTED)] if questions else []
    done = stopped.done + waiting.done
    if together == 1:
        word = "it succeeded" if done else "it did not succeed"
        return [*parts, (f"; {word}", "$text-success" if done else "")]
    return [*parts, (f"; {done:,} of those {together:,} calls succeeded", "$text-success")]


# Texts of the decisions screen if the list is empty.


EMPTY = (
    "No decisions are recorded yet.\n\nEvery call that an agent makes under rules is listed here, and "
    "every change by people to rules, modes, limits and grants."
)


def yesterday_words(
    typed: str, decision_filter: DecisionFilter, now: datetime, zone: tzinfo | None
) -> str:
    """Return a note for a time of day that is still to come today and therefore means yesterday."""
    found: list[str] = []
    for key, at in (("since", decision_filter.since), ("until", decision_filter.until)):
        clock = re.search(rf"\b{key}:(\d{{1,2}}:\d\d(?::\d\d)?)(?!\S)", time_of(typed), re.IGNORECASE)
        if at is None or clock is None:
            continue
        then = at.astimezone(zone)
        if then.date() < now.astimezone(zone).date():
            found.append(
                f"{key}:{clock[1]} means yesterday, {then:%Y-%m-%d %H:%M}: it is still to come today"
            )
    return "; ".join(found)


def nothing_found(decision_filter: DecisionFilter, back: str, again: str) -> str:
    """Return why the list is empty, and what to do.

    `back` is the key that clears the filter, `again` the key that reads the decisions again.
    """
    if decision_filter == EVERYTHING:
        return f"{EMPTY}\n\n{HOW_TO_RECORD}, then press {again}."
    hint = f"No decision matches. Press {back} to see all of them."
    if decision_filter.words:
        hint += "\nWords search the first 200 characters of an input; input:WORD searches all of it."
    for key, values in decision_filter.named.items():
        for value in values:
            if "," in value:
                several = " ".join(f"{key}:{quoted(each.strip())}" for each in value.split(",") if each)
                hint += f"\nName several one by one: {several}"
    return hint


def choose_shadow(key: str) -> str:
    """Return what to do before a session can be switched; `key` shows the sessions."""
    return f"Choose a decision that was made in shadow mode, or press {key} for the sessions."
