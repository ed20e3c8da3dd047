"""The cost of approvals for operators, computed from recorded events."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.history.database.compiled import SELECT_APPROVALS
from interlock.engine.history.database.connection import ALL_ROWS
from interlock.engine.history.decisions.approval_stats import ENOUGH, SESSIONS, Fatigue, fatigue
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    EventBody,
)
from interlock.engine.history.model.records import RuleRecord
from tests.support.laws import examples
from tests.support.raw_database import plan_of, raw_database

from ..support.recording import opening

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
RULE = RuleRecord(file="deploy.rules", line=5, text="require human-approval before deploy")


class Bench:
    """A journal in which requests are made and answered at chosen times."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = NOON
        self.asked = 0
        self.journal = Journal.open(path, clock=lambda: self.now)

    def open(self, session: str = "bot-1") -> None:
        self.journal.write(session, opening())

    def ask(self, *, session: str = "bot-1", rule: RuleRecord | None = RULE, **more: object) -> str:
        self.asked += 1
        approval_id = f"ap{self.asked}"
        body = {
            "approval_id": approval_id,
            "call_id": f"c{self.asked}",
            "tool": "deploy",
            "called": "deploy",
            "input": {},
            "names": ("deploy",),
            "net": "approve-before-deploy",
            "transition": "approve",
            "title": "",
            "message": "",
            "marking": {},
            "rule": rule,
            **more,
        }
        self.journal.write(session, ApprovalRequested.model_validate(body))
        return approval_id

    def end(self, body: EventBody, after: float, *, session: str = "bot-1") -> None:
        self.now += timedelta(seconds=after)
        self.journal.write(session, body)

    def answer(self, approval_id: str, after: float = 1.0, *, by: str = "maria", **more: object) -> None:
        given = {"approval_id": approval_id, "call_id": "c", "approved": True, "by": by, **more}
        session = str(given.pop("session", "bot-1"))
        self.end(ApprovalDecided.model_validate(given), after, session=session)

    def count(self, since: datetime | None = None) -> Fatigue:
        return fatigue(self.path, since)


@pytest.fixture
def bench(tmp_path: Path):
    made = Bench(tmp_path / "deploy.db")
    made.open()
    yield made
    made.journal.close()


class TestNumbers:
    def test_rule_has_requests_by_outcome(self, bench: Bench) -> None:
        """A rule's requests by outcome, with decision time, edits and decisions that were too quick."""
        for after, more in (
            (1.0, {}),
            (1.999, {}),
            (2.0, {"input": {"env": "staging"}}),
            (30.0, {"approved": False}),
        ):
            bench.answer(bench.ask(), after, **more)
        bench.end(ApprovalExpired(approval_id=bench.ask(), call_id="c", reason="too late"), 900)
        bench.end(ApprovalWithdrawn(approval_id=bench.ask(), call_id="c", reason="gone"), 3)
        bench.ask()
        [rule] = bench.count().rules
        tally = rule.tally
        assert (tally.requests, tally.approved, tally.denied) == (7, 3, 1)
        assert (tally.expired, tally.withdrawn, tally.open) == (1, 1, 1)
        assert (tally.edited, tally.quick) == (1, 2)
        assert (tally.seconds, tally.rate) == (1.9995, 0.75)
        assert (rule.rule, rule.by) == (RULE, ("maria",))
        assert bench.count().total == tally

    def test_operators_have_their_own_decisions(self, bench: Bench) -> None:
        """Each operator's own decisions; one of several required approvals counts for its giver."""
        first = bench.ask(people=2)
        bench.end(ApprovalGiven(approval_id=first, call_id="c", by="jo"), 10)
        bench.answer(first, 5.0, by="maria", others=("jo",))
        bench.answer(bench.ask(), 1.0, by="maria", approved=False)
        found = bench.count()
        by = {operator.name: operator.tally for operator in found.operators}
        assert (by["jo"].approved, by["jo"].denied, by["jo"].seconds) == (1, 0, 10.0)
        assert (by["maria"].approved, by["maria"].denied, by["maria"].seconds) == (1, 1, 8.0)
        assert found.total.decided == 2
        assert set(found.rules[0].by) == {"maria", "jo"}

    def test_rules_are_identified_by_net_and_text(self, bench: Bench) -> None:
        """A rule is identified by net and text, not by line; rules with most requests come first."""
        moved = RULE.model_copy(update={"line": 9})
        changed = RULE.model_copy(update={"text": "require human-approval before deploy within 5m"})
        for rule in (RULE, changed, moved, None):
            bench.answer(bench.ask(rule=rule))
        found = bench.count().rules
        assert [r.tally.requests for r in found] == [2, 1, 1]
        assert found[0].rule == moved
        assert {None if r.rule is None else r.rule.text for r in found[1:]} == {None, changed.text}

    def test_requests_before_the_start_are_not_counted(self, bench: Bench) -> None:
        """Requests from before the time, and their answers, are not counted."""
        early = bench.ask()
        bench.now += timedelta(hours=1)
        since = bench.now
        bench.answer(early, 5.0)
        bench.answer(bench.ask(), 3.0)
        total = bench.count(since).total
        assert (total.requests, total.decided, total.seconds) == (1, 1, 3.0)

    def test_equal_ids_in_two_sessions_count_separately(self, bench: Bench) -> None:
        """Equal approval ids in two sessions are counted separately."""
        bench.open("bot-2")
        first = bench.ask()
        bench.asked -= 1
        bench.ask(session="bot-2")
        bench.answer(first, 2.5)
        assert (bench.count().total.decided, bench.count().total.open) == (1, 1)

    def test_answer_dated_before_request_counts_as_zero(self, bench: Bench) -> None:
        """An answer that is dated before its request counts as zero seconds."""
        bench.answer(bench.ask(), -60.0)
        assert bench.count().total.seconds == 0.0

    def test_journal_without_requests_gives_empty_statistics(self, bench: Bench) -> None:
        """A journal without requests gives empty statistics, not an error."""
        found = bench.count()
        assert (found.rules, found.operators, found.total.rate, found.total.seconds) == (
            (),
            (),
            None,
            None,
        )


class TestAlways:
    def approved(self, bench: Bench, number: int, **more: object) -> None:
        for _ in range(number):
            bench.answer(bench.ask(**more))

    def test_enough_unchanged_approvals(self, bench: Bench) -> None:
        """A rule counts as always approved after `ENOUGH` unchanged approvals without exception."""
        self.approved(bench, ENOUGH - 1)
        assert not bench.count().rules[0].always
        self.approved(bench, 1)
        assert bench.count().rules[0].always

    @pytest.mark.parametrize(
        "spoiled", [{"approved": False}, {"input": {"env": "staging"}}], ids=["denied", "edited"]
    )
    def test_one_exception_is_enough(self, bench: Bench, spoiled: dict[str, object]) -> None:
        """One denial or one edited approval is enough: the rule no longer counts as always approved."""
        self.approved(bench, ENOUGH)
        bench.answer(bench.ask(), **spoiled)
        assert not bench.count().rules[0].always

    def test_expired_request_counts_as_denied(self, bench: Bench) -> None:
        """An expired request counts as denied."""
        self.approved(bench, ENOUGH)
        bench.end(ApprovalExpired(approval_id=bench.ask(), call_id="c", reason="late"), 900)
        assert not bench.count().rules[0].always

    @pytest.mark.parametrize("where", ["event", "text"])
    def test_high_risk_rule_never_counts(self, bench: Bench, where: str) -> None:
        """A high-risk rule never counts as always approved, whether event or text has the risk."""
        high = RULE.model_copy(update={"text": f"{RULE.text}  risk   high"})
        more = {"risk": "high"} if where == "event" else {"rule": high}
        self.approved(bench, ENOUGH, **more)
        assert bench.count().rules[0].high
        assert not bench.count().rules[0].always

    def test_rule_forbidding_grants_gets_no_suggestion(self, bench: Bench) -> None:
        """A rule that forbids grants or needs several approvers gets no suggestion of a grant."""
        forbids = RULE.model_copy(update={"text": f"{RULE.text} no grants"})
        self.approved(bench, 1, rule=forbids)
        self.approved(bench, 2, people=2)
        assert [rule.grants for rule in bench.count().rules] == [False, False]

    @pytest.mark.slow
    def test_only_latest_sessions_are_listed(self, bench: Bench) -> None:
        """Only a rule's latest sessions are listed by name, with their numbers of requests."""
        for number in range(SESSIONS + 5):
            bench.open(f"s{number}")
            bench.ask(session=f"s{number}")
        bench.ask(session="s7")
        sessions = bench.count().rules[0].sessions
        assert len(sessions) == SESSIONS
        assert list(sessions.items())[-1] == ("s7", 2)
        assert "s4" not in sessions
        assert bench.count().rules[0].all_sessions == SESSIONS + 5


class TestIndex:
    def test_only_requests_are_read(self, bench: Bench) -> None:
        """The query uses the index of approval events, with or without a start time."""
        assert "ix_event_approval" in plan_of(bench.path, SELECT_APPROVALS, (0, ALL_ROWS, 0, 9))


class TestReading:
    def test_page_size_does_not_change_numbers(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Page sizes do not change the numbers, even if large inputs end a page early."""
        for _ in range(30):
            bench.answer(bench.ask(input={"text": "x" * 300}))
        whole = bench.count()
        for page, text in ((1, 4_000_000), (7, 4_000_000), (2_000, 1_000)):
            monkeypatch.setattr("interlock.engine.history.decisions.approval_stats._PAGE", page)
            monkeypatch.setattr("interlock.engine.history.decisions.call_pages.PAGE_TEXT", text)
            monkeypatch.setattr("interlock.engine.history.decisions.call_pages.CHUNK", 3)
            assert bench.count() == whole

    def test_input_with_nan_is_counted(self, bench: Bench) -> None:
        """An input with `NaN` can be counted."""
        bench.answer(bench.ask(input={"at": float("nan")}))
        assert bench.count().total.approved == 1

    def test_unreadable_event_is_reported(self, bench: Bench) -> None:
        """An event that was made unreadable is reported, not skipped."""
        bench.answer(bench.ask())
        bench.journal.close()
        with closing(raw_database(bench.path)) as connection:
            connection.execute("UPDATE event SET body = '{}' WHERE type = 'approval.decided'")
            connection.commit()
        with pytest.raises(JournalError, match=r"event \d+ of the file cannot be read"):
            bench.count()

    def test_counting_stops_when_cancelled(self, bench: Bench) -> None:
        """Counting stops when its result is no longer needed."""
        bench.ask()
        stop = threading.Event()
        stop.set()
        with pytest.raises(JournalError, match="Nobody waits"):
            fatigue(bench.path, stop=stop)


@settings(max_examples=examples(15), deadline=None)
@given(
    times=st.lists(
        st.tuples(st.floats(0, 100), st.booleans(), st.sampled_from(["maria", "jo"])), max_size=12
    )
)
def test_sums_agree_for_any_decisions(
    times: Sequence[tuple[float, bool, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The sums over rules, over operators and the total agree for any sequence of decisions."""
    bench = Bench(tmp_path_factory.mktemp("law") / "deploy.db")
    bench.open()
    taken: list[float] = []
    for after, approved, by in times:
        asked = bench.now
        bench.answer(bench.ask(), after, by=by, approved=approved)
        taken.append((bench.now - asked) // timedelta(milliseconds=1) / 1000)
    found = bench.count()
    bench.journal.close()
    assert sum(rule.tally.decided for rule in found.rules) == found.total.decided == len(times)
    assert sum(o.tally.quick for o in found.operators) == found.total.quick
    if times:
        assert found.total.seconds == pytest.approx(median(taken), abs=0.002)
