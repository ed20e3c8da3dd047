"""Many recordings: reports, totals, progress, cancellation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.engine.backtest import (
    Backtest,
    Count,
    Recorded,
    RecordedCall,
    RecordedOutcome,
    RecordedResult,
    RecordedSwitch,
    Recording,
    SessionReport,
    Totals,
    Trial,
)
from interlock.engine.backtest.run import EVERY
from interlock.engine.history.model.records import RuleRecord
from interlock.engine.history.model.times import to_ms
from interlock.rules import compile_rules

from ..history.support.recording import NOON

RULES = "block rm\nrequire human-approval before deploy\nlimit test to 1 per session"
OLD = RuleRecord(file="old.rules", line=2, text="block look")
BLOCKED = RecordedOutcome("block", ran=False, net="block-look", rule=OLD, reason="look is blocked.")


def session(name: str, *tools: str | tuple[str, RecordedOutcome], **options: object) -> Recording:
    """Return a recording with a call of each tool, numbered from 1, one second apart."""
    items: list[Recorded] = []
    for n, each in enumerate(tools, 1):
        tool, then = (each, RecordedOutcome()) if isinstance(each, str) else each
        at = to_ms(NOON) + 1000 * n
        items += [
            RecordedCall(n, f"c{n}", tool, {"a": 1}, then, at),
            RecordedResult(f"c{n}", tool, False),
        ]
    return Recording(name, items, **options)  # type: ignore[arg-type]


def run(*recordings: Recording, rules: str = RULES) -> tuple[list[SessionReport], Totals]:
    backtest = Backtest(Trial.of(compile_rules(rules).registry))
    return list(backtest.run(recordings)), backtest.totals


class TestReports:
    """The report on one session."""

    def test_report_of_the_first_divergence(self) -> None:
        """The first divergence has event, time, call, both verdicts, the rule and its place.

        The report has the counts and the first hypothetical event.
        """
        [report], _ = run(session("s1", "look", "rm", "deploy", "look"))
        first = report.first
        assert first is not None
        assert (first.event, first.call_id, first.tool, first.input) == (2, "c2", "rm", '{"a": 1}')
        assert (first.at and first.at.second, first.change, first.hypothetical) == (2, "blocked", False)
        assert (first.then.outcome, first.then.ran) == ("allow", True)
        assert first.now.rule == RuleRecord(file="<rules>", line=1, text="block rm")
        assert report.hypothetical_after == 2
        assert report.counts.judged == Count(calls=4, hypothetical=2)
        assert report.counts.same == Count(calls=2, hypothetical=1)
        assert report.counts.blocked == Count(calls=1)
        assert report.counts.asked == Count(calls=1, hypothetical=1)

    def test_no_divergence(self) -> None:
        """A session without divergence has only counts."""
        [report], _ = run(session("s1", "look", "test"))
        assert (report.first, report.hypothetical_after) == (None, None)
        assert report.counts.same == Count(calls=2)

    def test_a_divergence_at_the_end(self) -> None:
        """After a divergence at the end nothing is hypothetical."""
        [report], _ = run(session("s1", "rm"))
        assert (report.first and report.first.event, report.hypothetical_after) == (1, None)

    def test_a_session_without_calls(self) -> None:
        """A session without calls is neither judged nor counted."""
        reports, totals = run(session("s1"), session("s2", "look"))
        assert ([r.session for r in reports], totals.sessions) == (["s2"], 1)

    def test_long_and_hostile_inputs(self) -> None:
        """A long input is cut, control characters are escaped, and a single text is shown as is."""
        call = RecordedCall(1, "c1", "rm", {"command": "\x1b[2J" + "x" * 9_000}, RecordedOutcome())
        [report], _ = run(Recording("s1", [call]))
        assert report.first is not None
        assert report.first.input.startswith("\\x1b[2Jxxx")
        assert len(report.first.input) <= 200


class TestTotals:
    """All sessions together."""

    def test_counts_by_rule(self) -> None:
        """Each change counts for its rule: the new rule, or the recorded one that no longer applies."""
        _, totals = run(
            session("s1", "rm", "rm", ("look", BLOCKED)), session("s2", "deploy"), session("s3", "look")
        )
        assert (totals.sessions, totals.diverging, totals.cancelled) == (3, 2, False)
        assert totals.counts.judged == Count(calls=5, hypothetical=2)
        found = {(r.side, r.net): r for r in totals.rules}
        assert found["now", "block-rm"].blocked == Count(calls=2, hypothetical=1)
        assert found["now", "approve-before-deploy"].asked == Count(calls=1)
        assert found["then", "block-look"].allowed == Count(calls=1, hypothetical=1)
        assert found["then", "block-look"].rule == OLD
        assert len(found) == 3

    def test_sessions_do_not_share_budgets(self) -> None:
        """A budget spent in one session is full in the next."""
        reports, _ = run(session("s1", "test", "test"), session("s2", "test"))
        assert [r.first and r.first.event for r in reports] == [2, None]

    def test_sessions_with_recorded_switches_are_counted(self) -> None:
        """Sessions with recorded switches of these nets are counted; switches of unknown nets are not."""
        switch = RecordedSwitch("block-rm", active=False)
        other = RecordedSwitch("x", active=False)
        call = RecordedCall(2, "c1", "rm", {}, RecordedOutcome())
        _, totals = run(Recording("s1", [switch, call]), Recording("s2", [other, call]))
        assert (totals.following, totals.diverging) == (1, 1)


class TestProgress:
    """Progress and cancellation."""

    def test_progress_is_reported(self) -> None:
        """Progress is reported every thousand calls and after each recording, with the total if known."""
        told: list[tuple[int, int | None]] = []
        backtest = Backtest(Trial.of({}))
        long, short = session("s1", *["a"] * (2 * EVERY + 5)), session("s2", "a")
        reports = backtest.run([long, short], total=2_006, progress=lambda *seen: told.append(seen))
        assert len(list(reports)) == 2
        assert told == [(EVERY, 2_006), (2 * EVERY, 2_006), (2_005, 2_006), (2_006, 2_006)]

    def test_cancelled_during_a_session(self) -> None:
        """Reading and judging stop; judged calls count, but the session has no report."""
        read: list[int] = []

        def items() -> Iterator[Recorded]:
            for n in range(5 * EVERY):
                read.append(n)
                yield RecordedCall(n, f"c{n}", "a", {}, RecordedOutcome())

        backtest = Backtest(Trial.of({}))
        asked = iter([False, True])
        recordings: Iterable[Recording] = [Recording("s1", items()), session("s2", "a")]
        assert list(backtest.run(recordings, cancelled=lambda: next(asked))) == []
        assert len(read) == 2 * EVERY
        totals = backtest.totals
        assert (totals.cancelled, totals.sessions, totals.counts.judged.calls) == (True, 1, 2 * EVERY)

    def test_cancelled_between_sessions(self) -> None:
        """The report of the finished session is still returned."""
        backtest = Backtest(Trial.of({}))
        reports = backtest.run([session("s1", "a"), session("s2", "a")], cancelled=lambda: True)
        assert [r.session for r in reports] == ["s1"]
        assert (backtest.totals.sessions, backtest.totals.cancelled) == (1, True)
