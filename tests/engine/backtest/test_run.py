"""Many recordings: reports, totals, progress, cancelling."""

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
    """A recording with a call of each tool, numbered from 1, one second apart."""
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
    """What is said of one session."""

    def test_the_first_divergence(self) -> None:
        """Event, time, call, then and now, and the rule with its place; counts; where it becomes
        hypothetical."""
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
        """All as recorded: nothing else to say."""
        [report], _ = run(session("s1", "look", "test"))
        assert (report.first, report.hypothetical_after) == (None, None)
        assert report.counts.same == Count(calls=2)

    def test_a_divergence_at_the_end(self) -> None:
        """Nothing comes after it that could be hypothetical."""
        [report], _ = run(session("s1", "rm"))
        assert (report.first and report.first.event, report.hypothetical_after) == (1, None)

    def test_a_session_without_calls(self) -> None:
        """It is not judged, and not counted."""
        reports, totals = run(session("s1"), session("s2", "look"))
        assert ([r.session for r in reports], totals.sessions) == (["s2"], 1)

    def test_long_and_hostile_inputs(self) -> None:
        """What an agent wrote is cut short and made visible; a lone text stands as it is."""
        call = RecordedCall(1, "c1", "rm", {"command": "\x1b[2J" + "x" * 9_000}, RecordedOutcome())
        [report], _ = run(Recording("s1", [call]))
        assert report.first is not None
        assert report.first.input.startswith("\\x1b[2Jxxx")
        assert len(report.first.input) <= 200


class TestTotals:
    """All sessions together."""

    def test_counts_by_rule(self) -> None:
        """Each change counts for the rule behind it: the new one, or the recorded one that lets go."""
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

    def test_sessions_do_not_touch_each_other(self) -> None:
        """A budget that one session spent is whole in the next."""
        reports, _ = run(session("s1", "test", "test"), session("s2", "test"))
        assert [r.first and r.first.event for r in reports] == [2, None]

    def test_where_operators_are_followed(self) -> None:
        """Sessions count in which the record had nets switched; a switch of no net here does not."""
        switch = RecordedSwitch("block-rm", active=False)
        other = RecordedSwitch("x", active=False)
        call = RecordedCall(2, "c1", "rm", {}, RecordedOutcome())
        _, totals = run(Recording("s1", [switch, call]), Recording("s2", [other, call]))
        assert (totals.following, totals.diverging) == (1, 1)


class TestProgress:
    """Telling how far it is, and stopping."""

    def test_told_along_the_way(self) -> None:
        """Every thousand calls and after every recording, with the total if it is known."""
        told: list[tuple[int, int | None]] = []
        backtest = Backtest(Trial.of({}))
        long, short = session("s1", *["a"] * (2 * EVERY + 5)), session("s2", "a")
        reports = backtest.run([long, short], total=2_006, progress=lambda *seen: told.append(seen))
        assert len(list(reports)) == 2
        assert told == [(EVERY, 2_006), (2 * EVERY, 2_006), (2_005, 2_006), (2_006, 2_006)]

    def test_cancelled_amid_a_session(self) -> None:
        """No more is judged or read; what was judged counts, without a report on the rest."""
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
        """The report on the one that was finished comes."""
        backtest = Backtest(Trial.of({}))
        reports = backtest.run([session("s1", "a"), session("s2", "a")], cancelled=lambda: True)
        assert [r.session for r in reports] == ["s1"]
        assert (backtest.totals.sessions, backtest.totals.cancelled) == (1, True)
