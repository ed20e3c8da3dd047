"""Text that compares recorded calls with the decisions of other nets on them."""

from __future__ import annotations

from datetime import tzinfo

from textual.content import Content

from ....engine.backtest import (
    BacktestDivergence,
    ChangeCounts,
    Count,
    RecordedOutcome,
    RecordedOutcomeView,
    RuleCount,
    SessionReport,
    Totals,
)
from ....engine.gate.types import Outcome
from ....engine.history.model.records import RuleRecord
from ...format.backtest import change_sentence, now_words, then_words
from ...format.text import MUTED, clip, count, in_rows, name_shown, pad, place, shown, spread, wrap_all
from ...format.times import clock, day_and_time
from ...terminal.symbols import SHADOW, Look

HYPOTHETICAL = "hypothetical"
WIDE = 96
"""Width in cells from which a call takes one line."""
VERDICTS = 27
RULE = 24

_ALLOWED = Look("▸", "allowed", "$text-success")
_ASKS = Look("◐", "asks", "$text-warning")
_BLOCKED = Look("■", "blocked", "$text-error")
NOW: dict[Outcome, Look] = {"allow": _ALLOWED, "ask": _ASKS, "block": _BLOCKED}


def then_look(view: RecordedOutcome | RecordedOutcomeView) -> Look:
    """Return symbol, word and style for the recorded outcome of a call."""
    if view.outcome == "ask" and view.denied:
        return Look("◐", "denied", "$text-warning")
    if view.shadow and view.outcome != "allow":
        word = "would ask" if view.outcome == "ask" else "would block"
        return Look(SHADOW.symbol, word, SHADOW.style)
    if view.outcome == "ask":
        return Look("◐", "approved" if view.by else "asked", "$text-warning")
    return NOW[view.outcome]


def judged_lines(
    called: BacktestDivergence, width: int, *, first: bool, zone: tzinfo | None
) -> list[Content]:
    """Return a call with its outcomes then and now and the rule: one line, or two if space is limited.

    `first` marks the first divergence. A hypothetical divergence is dimmed and labelled.
    """
    dim = called.hypothetical
    mark = "▶ " if first else ("~ " if dim else "  ")
    at = "" if called.at is None else f"{clock(called.at, zone)}  "
    text = called.input if called.name == called.tool else f"{called.tool} {called.input}"
    head = Content.assemble(
        (mark, "bold $text-accent" if first else MUTED),
        (f"{called.event:>6}  ", MUTED),
        (at if width >= WIDE else "", MUTED),
        (shown(called.name), "" if dim else "bold"),
        (f"  {shown(text)}", MUTED),
    )
    verdicts = _verdicts(called, dim)
    rule = called.now.rule or called.then.rule if called.change != "same" else None
    where = "" if rule is None else place(rule)
    said = HYPOTHETICAL if dim else ""
    if width >= WIDE:
        right = Content.assemble(
            verdicts, " " * max(0, VERDICTS - verdicts.cell_length), (pad(where, RULE), MUTED)
        )
        lines = [spread(head, Content.assemble(right, (pad(said, len(HYPOTHETICAL)), MUTED)), width)]
    elif called.change == "same":
        lines = [spread(head, Content.assemble(verdicts, (f" {said}" if said else "", MUTED)), width)]
    else:
        below = Content.assemble("          ", verdicts, (f"  {where}", MUTED))
        lines = [head.truncate(width, ellipsis=True), spread(below, Content.styled(said, MUTED), width)]
    return [line.stylize(MUTED) for line in lines] if dim else lines


def _verdicts(called: BacktestDivergence, dim: bool) -> Content:
    """Return text such as `▸ allowed → ■ blocked`; an outcome that is the same is written once."""
    then, now = then_look(called.then), NOW[called.now.outcome]
    if called.change == "same":
        return Content.styled(f"{then.symbol} {then.word} → same", MUTED)
    return Content.assemble(
        (f"{then.symbol} {then.word}", MUTED),
        (" → ", MUTED),
        (f"{now.symbol} {now.word}", now.style if dim else f"bold {now.style}"),
    )


def judged_height(called: BacktestDivergence, width: int) -> int:
    """Return the number of lines that `judged_lines` returns."""
    return 1 if width >= WIDE or called.change == "same" else 2


def judged_facts(called: BacktestDivergence, width: int) -> list[Content]:
    """Return a call in full lines: what was decided then and by whom, and what would be decided now."""
    head = Content.assemble(
        (f"event {called.event}  ", MUTED),
        (shown(called.name), "bold"),
        (f"  {shown(f'{called.tool} {called.input}')}", ""),
    )
    rows = [("then", shown(then_words(called.then)), called.then.rule)]
    rows.append(("now", shown(now_words(called.now)), called.now.rule))
    lines = [head]
    for label, words, rule in rows:
        lines.append(
            Content.assemble(
                (f"{label:<6}", MUTED), words, (f"  {rule_words(rule)}" if rule else "", MUTED)
            )
        )
    if called.hypothetical:
        lines.append(Content.styled("hypothetical: the agent would have acted differently", MUTED))
    return [line.truncate(width, ellipsis=True) for line in lines]


def rule_words(rule: RuleRecord) -> str:
    """Return a rule's place and text."""
    return f"{place(rule)}  {shown(rule.text)}"


def _news(counts: ChangeCounts | RuleCount) -> list[tuple[str, str]]:
    """Return parts such as `■ 2 newly blocked` with styles; for a rule, with the hypothetical share."""
    news: list[tuple[str, str]] = []
    for look, word, number in (
        (_BLOCKED, "blocked", counts.blocked),
        (_ASKS, "asked", counts.asked),
        (_ALLOWED, "allowed", counts.allowed),
    ):
        if number.calls:
            unsure = _unsure(number) if isinstance(counts, RuleCount) else ""
            news.append((f"{look.symbol} {number.calls:,} newly {word}{unsure}", look.style))
    return news


def _unsure(number: Count) -> str:
    if not number.hypothetical:
        return ""
    return (
        ", hypothetical"
        if number.hypothetical == number.calls
        else f", {number.hypothetical:,} hypothetical"
    )


def totals_lines(totals: Totals, width: int) -> list[Content]:
    """Return the totals of all sessions, then of each rule, most changes first."""
    counts, judged = totals.counts, totals.counts.judged
    said = f"{count(judged.calls, 'call')} in {count(totals.sessions, 'session')}"
    head = Content.styled(f"{said}, {totals.diverging:,} with a divergence", "bold")
    unsure = Content.styled(_unsure(judged), MUTED)
    whole = Content.assemble(head, unsure)
    changes = Content.styled(shown(change_sentence(totals)), "bold $text-accent")
    lines = [changes] if totals.changed else []
    lines += [whole] if whole.cell_length <= width else [head, Content("  ") + unsure[len(", ") :]]
    pieces = [(f"{counts.same.calls:,} as recorded", MUTED), *_news(counts)]
    numbers = in_rows([Content.styled(text, style) for text, style in pieces], width - 2)
    lines += [Content.assemble("  ", line) for line in numbers]
    if totals.following:
        those = count(totals.following, "session")
        lines.append(
            Content.styled(f"  in {those} nets were on or off as operators had set them then", MUTED)
        )
    if totals.rules:
        lines += [Content(" "), Content.styled("By rule", "bold $text-primary")]
    for rule in sorted(
        totals.rules, key=lambda r: -sum(n.calls for n in (r.blocked, r.asked, r.allowed))
    ):
        lines += _rule_lines(rule, width)
    return [line.truncate(width, ellipsis=True) for line in lines]


def _rule_lines(rule: RuleCount, width: int) -> list[Content]:
    """Return a rule with the changes it causes: on one line, or with the numbers below it."""
    own = "no rule" if rule.side == "then" else "the gate itself"
    name = (
        rule_words(rule.rule)
        if rule.rule is not None
        else (f"net {shown(rule.net)}" if rule.net else own)
    )
    gone = "  (of the record)" if rule.side == "then" else ""
    news = Content("   ").join(Content.styled(text, style) for text, style in _news(rule))
    named = Content.assemble("  ", name, (gone, MUTED))
    if named.cell_length + news.cell_length + 3 <= width:
        return [Content.assemble(named, " " * max(3, min(64, width - 40) - named.cell_length), news)]
    return [named, Content.assemble("      ", news)]


def report_lines(report: SessionReport, width: int, zone: tzinfo | None) -> list[Content]:
    """Return a session that diverges: its changes, the first divergence, and the hypothetical part."""
    first, counts = report.first, report.counts
    assert first is not None
    news = [(f"  {text}", style) for text, style in _news(counts)]
    calls = count(counts.judged.calls, "call")
    head = Content.assemble(
        (clip(name_shown(report.session), width // 2), "bold"), (f"  {calls}", MUTED), *news
    )
    at = "" if first.at is None else f", {day_and_time(first.at, zone)}"
    where = f"first at {report.unit} {first.event}{at}: "
    lines = [
        head,
        Content.assemble(("  ", ""), (where, MUTED), (shown(f"{first.tool} {first.input}"), "")),
    ]
    verdicts = Content.assemble("  ", _verdicts(first, dim=False))
    rule = first.now.rule or first.then.rule
    lines.append(Content.assemble(verdicts, (f"  {rule_words(rule)}" if rule else "", MUTED)))
    lines = [line.truncate(width, ellipsis=True) for line in lines]
    if report.hypothetical_after is not None:
        rest = counts.judged.hypothetical
        those = count(rest, "call")
        text = f"{those} after {report.unit} {report.hypothetical_after}: hypothetical"
        lines += [Content.styled(f"  ~ {row}", MUTED) for row in wrap_all([text], width - 4)]
    return lines
