"""Finding and reading decisions page by page: each filter is compared with a full scan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from pydantic import JsonValue

from interlock.engine.history.database.compiled import DecisionLine
from interlock.engine.history.decisions.counts import count_decisions, shadow_summary, total
from interlock.engine.history.decisions.filter import (
    EVERYTHING,
    RESULTS,
    CallVerdict,
    DecisionFilter,
    parse_filter,
)
from interlock.engine.history.decisions.index import HEAD
from interlock.engine.history.decisions.reader import (
    PAGE_SIZE,
    Decision,
    DecisionPage,
    DecisionReader,
    ListPosition,
    Scan,
)
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from tests.support.decisions import NOW, Ticking, call, ended, many, opened, usual
from tests.support.raw_database import raw_database

ROWS, FIRST_STEP, STEP = 25_000, 700, 17_500
"""A scan takes 700 lines, then 3,500, then 17,500, with some lines left over."""


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use smaller scan steps than in production, so that fewer lines cover every step."""
    for name, lines in (("FIRST_STEP", FIRST_STEP), ("STEP", STEP)):
        monkeypatch.setattr(f"interlock.engine.history.decisions.reader.{name}", lines)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with `ROWS` decisions of 200 sessions."""
    return many(tmp_path_factory.mktemp("large") / "large.db", ROWS)


@pytest.fixture(scope="module")
def lines(large: Path) -> list[DecisionLine]:
    """All decision lines, newest first."""
    with closing(raw_database(large)) as connection:
        rows = connection.execute("SELECT * FROM decision ORDER BY at DESC, cursor DESC")
        return [DecisionLine(*row) for row in rows]


def all_pages(
    reader: DecisionReader, wanted: DecisionFilter, *, seconds: float = 0.05
) -> list[DecisionPage]:
    """Return all pages, scan by scan."""
    parts: list[DecisionPage] = []
    scan = reader.scan(wanted, seconds=seconds)
    parts += scan.parts
    while scan.next is not None:
        scan = reader.scan(wanted, top=scan.next, seconds=seconds)
        parts += scan.parts
    return parts


def listed(reader: DecisionReader, wanted: DecisionFilter) -> list[Decision]:
    """Return all matching decisions, page by page."""
    return [decision for part in all_pages(reader, wanted) for decision in reader.read(wanted, part)]


def filtered(text: str) -> DecisionFilter:
    return parse_filter(text, now=NOW, zone=UTC)


def millis_ago(hours: float) -> int:
    return int((NOW - timedelta(hours=hours)).timestamp() * 1000)


CASES: dict[str, Callable[[DecisionLine], bool]] = {
    "": lambda d: True,
    "tool:deploy": lambda d: "deploy" in (d.tool, d.called),
    "tool:bash": lambda d: "bash" in (d.tool, d.called),
    "tool:e": lambda d: "e" in d.tool,
    "tool:nothing": lambda d: False,
    "rule:block-rm": lambda d: d.net == "block-rm",
    'rule:"limit push"': lambda d: d.net == "limit-push-3",
    "rule:deploy.rules:7": lambda d: d.net == "block-rm",
    "rule:require-bash": lambda d: (d.net or "").startswith("require-bash"),
    "rule:block-rm rule:limit-push-3": lambda d: d.net in ("block-rm", "limit-push-3"),
    "verdict:denied": lambda d: d.verdict == "denied",
    "verdict:ask": lambda d: d.verdict in ("approved", "denied", "would-ask"),
    "verdict:allow": lambda d: d.verdict == "allow",
    "session:agent-3-0003": lambda d: d.session == "agent-3-0003",
    "session:agent-3-00": lambda d: d.session.startswith("agent-3-00"),
    "agent:agent-19": lambda d: d.agent == "agent-19",
    "result:failed": lambda d: d.result == "failed",
    "since:5h": lambda d: d.at >= millis_ago(5),
    "since:5h until:3h": lambda d: millis_ago(5) <= d.at < millis_ago(3),
    "shop-77": lambda d: "shop-77" in d.input,
    "STEP tool:rm verdict:block": lambda d: d.tool == "rm" and d.verdict == "block",
    "100% _": lambda d: False,
    "shop- zzz": lambda d: False,
}


class TestFilters:
    @pytest.mark.slow
    @pytest.mark.parametrize("text", CASES)
    def test_equal_a_full_scan(self, large: Path, lines: list[DecisionLine], text: str) -> None:
        """The reader finds the same decisions in the same order, whichever index it uses."""
        expected = [line.cursor for line in lines if CASES[text](line)]
        if text == "tool:e":
            expected = [
                line.cursor
                for line in lines
                if "e" in line.tool or ("e" in line.called and line.called != line.tool)
            ]
        assert [d.cursor for d in listed(DecisionReader(large), filtered(text))] == expected

    def test_case_is_ignored_beyond_ascii(self, tmp_path: Path) -> None:
        """Upper and lower case do not matter for letters beyond ASCII either."""
        path = tmp_path / "j.db"
        with Journal.open(path) as journal:
            journal.write("s1", opened("bot"), call("c1", "bash", "echo Größe ÄNDERN"))
        for word in ("größe", "ändern", "ÄNDERN"):
            assert len(listed(DecisionReader(path), filtered(word))) == 1

    def test_subagent_call_is_found_by_either_session_id(self, tmp_path: Path) -> None:
        """A subagent's calls are found by its own id and by its parent's id."""
        reader = DecisionReader(usual(tmp_path / "j.db"))
        assert [d.via for d in listed(reader, filtered("session:reader-3c"))] == ["reader-3c"]
        assert len(listed(reader, filtered("session:docs-writer-77c0"))) == 3

    def test_exact_name_matches_only_itself(self, tmp_path: Path) -> None:
        """An exact name matches only itself; any other text matches all names that contain it."""
        path = tmp_path / "j.db"
        with Journal.open(path) as journal:
            journal.write("s1", opened("bot"), call("c1", "test", "a"), call("c2", "test-all", "b"))
        reader = DecisionReader(path)
        assert [d.tool for d in listed(reader, filtered("tool:test"))] == ["test"]
        assert [d.tool for d in listed(reader, filtered("tool:TEST"))] == ["test-all", "test"]


def written(path: Path, *inputs: dict[str, JsonValue]) -> DecisionReader:
    """Return a reader of a journal with one call for each input, the first one oldest."""
    with Journal.open(path, clock=Ticking()) as journal:
        calls = [call(f"c{n}", "write", "", input=each) for n, each in enumerate(inputs)]
        journal.write("s1", opened("bot"), *calls)
    return DecisionReader(path)


class TestInput:
    """`input:` searches the complete input, while words search only its head."""

    def calls(self, reader: DecisionReader, text: str) -> list[str]:
        return [decision.call_id for decision in listed(reader, filtered(text))]

    def test_text_beyond_the_head_is_found(self, tmp_path: Path) -> None:
        """Text after the first 200 characters is found at any depth."""
        deep: JsonValue = {"edits": [{"old": "x" * HEAD}, {"new": "needle in HAY"}]}
        reader = written(
            tmp_path / "j.db", {"text": "y" * 5_000 + "needle"}, {"path": "a"}, {"deep": deep}
        )
        assert self.calls(reader, "needle") == []
        assert self.calls(reader, "input:needle") == ["c2", "c0"]
        assert self.calls(reader, 'input:"needle IN hay"') == ["c2"]
        assert self.calls(reader, "input:y input:hay") == ["c2", "c0"]
        assert self.calls(reader, "input:needle tool:bash verdict:block") == []

    @pytest.mark.parametrize(
        ("value", "word"),
        [
            ("C:\\temp\\x", "\\temp\\"),
            ("100% of a_b", "0% of a_"),
            ("Größe", "GRÖSSE".replace("SS", "ß")),
            ("ÄNDERN", "ändern"),
            ("日本", "本"),
            ("line\nnext", "next"),
        ],
    )
    def test_special_characters_match_literally(self, tmp_path: Path, value: str, word: str) -> None:
        """Backslashes, LIKE wildcards and non-ASCII letters match literally."""
        reader = written(tmp_path / "j.db", {"text": "-" * HEAD + value}, {"text": "-" * HEAD + "other"})
        assert self.calls(reader, f'input:"{word}"') == ["c0"]

    def test_only_the_input_is_searched(self, tmp_path: Path) -> None:
        """Other fields of the event, such as tool and mode, are not searched."""
        reader = written(tmp_path / "j.db", {"path": "a", "n": float("nan")}, {"mode": "fast"})
        assert self.calls(reader, "input:enforce") == []
        assert self.calls(reader, "input:call_id") == []
        assert self.calls(reader, "input:path") == ["c0"]
        assert self.calls(reader, "input:NaN") == ["c0"]

    def test_scan_reads_few_events_per_step(self, tmp_path: Path, large: Path) -> None:
        """A scan reads few events before it returns a position to continue from."""
        scan = DecisionReader(large).scan(filtered("input:nothing"), seconds=0)
        assert (scan.looked, scan.next is None) == (FIRST_STEP, False)
        scan = DecisionReader(large).scan(filtered("input:nothing"), top=scan.next, seconds=0)
        assert scan.looked == FIRST_STEP

    def test_matches_are_counted_by_complete_input(self, tmp_path: Path) -> None:
        """Matches are counted by the complete input."""
        reader = written(tmp_path / "j.db", *({"text": "-" * HEAD + f"call {n}"} for n in range(3)))
        assert count_decisions(reader.path, filtered("input:call")).total.count == 3
        assert count_decisions(reader.path, filtered('input:"call 1"')).total.count == 1

    def test_cancelled_count_raises_an_error(self, large: Path) -> None:
        """A cancelled count raises an error instead of continuing to the end of the journal."""
        stop = threading.Event()
        assert count_decisions(large, by="tool", stop=stop).total.count == ROWS
        stop.set()
        with pytest.raises(JournalError):
            count_decisions(large, by="tool", stop=stop)


class TestParts:
    def test_pages_are_small_and_complete(self, large: Path) -> None:
        """No page exceeds `PAGE_SIZE`, and each page returns as many decisions as it announces."""
        reader = DecisionReader(large)
        parts = all_pages(reader, EVERYTHING, seconds=60)
        assert sum(part.count for part in parts) == ROWS
        assert max(part.count for part in parts) == PAGE_SIZE
        for part in (parts[0], parts[len(parts) // 2], parts[-1]):
            assert len(reader.read(EVERYTHING, part)) == part.count

    def test_scan_resumes_at_its_position(self, large: Path) -> None:
        """With no time a scan takes one step and returns its position; continued, it finds the same."""
        reader = DecisionReader(large)
        first = reader.scan(EVERYTHING, seconds=0)
        assert first.next is not None
        assert first.looked < ROWS // 10
        slow = all_pages(reader, filtered("shop-77"), seconds=0)
        quick = all_pages(reader, filtered("shop-77"), seconds=60)
        assert sum(p.count for p in slow) == sum(p.count for p in quick)

    def test_scan_to_a_border_includes_newer_decisions(self, tmp_path: Path) -> None:
        """A scan down to the border of the first page returns that page and the newer decisions."""
        path = tmp_path / "j.db"
        clock = Ticking()
        with Journal.open(path, clock=clock) as journal:
            journal.write("s1", opened("bot"))
            journal.write("s1", *(call(f"c{n}", "bash", f"echo {n}") for n in range(500)))
            reader = DecisionReader(path)
            before = all_pages(reader, EVERYTHING)
            journal.write("s1", call("new", "bash", "echo new"))
            again = reader.scan(EVERYTHING, bottom=before[0].bottom)
            assert sum(p.count for p in again.parts) == before[0].count + 1
            assert reader.read(EVERYTHING, again.parts[0])[0].call_id == "new"
            kept = [d.cursor for part in before[1:] for d in reader.read(EVERYTHING, part)]
            above = [d.cursor for part in again.parts for d in reader.read(EVERYTHING, part)]
            assert [*above, *kept] == [d.cursor for d in listed(reader, EVERYTHING)]

    def test_same_millisecond_is_ordered_by_cursor(self, tmp_path: Path) -> None:
        """Decisions of the same millisecond are ordered by their cursors."""
        path = tmp_path / "j.db"
        with Journal.open(path, clock=lambda: NOW) as journal:
            journal.write("s1", opened("bot"))
            journal.write("s1", *(call(f"c{n}", "bash", "ls") for n in range(3 * PAGE_SIZE + 7)))
        ids = [d.call_id for d in listed(DecisionReader(path), EVERYTHING)]
        assert ids == [f"c{n}" for n in reversed(range(3 * PAGE_SIZE + 7))]

    def test_survive_json_round_trip(self, large: Path) -> None:
        """Filters, scans and decisions survive a round trip through JSON."""
        reader = DecisionReader(large)
        wanted = filtered("tool:rm since:9h")
        assert DecisionFilter.model_validate_json(wanted.model_dump_json()) == wanted
        scan = reader.scan(wanted)
        assert Scan.model_validate_json(scan.model_dump_json()) == scan
        decision = reader.read(wanted, scan.parts[0])[0]
        assert Decision.model_validate_json(decision.model_dump_json()) == decision


class TestOne:
    def test_event_of_a_decision_is_returned(self, tmp_path: Path) -> None:
        """The event of a decision is returned for its session and number."""
        reader = DecisionReader(usual(tmp_path / "j.db"))
        denied = listed(reader, filtered("verdict:denied"))[0]
        event = reader.event(denied.session, denied.seq)
        assert event.cursor == denied.cursor
        assert event.body.type == "call.decided"

    def test_missing_event_is_an_error(self, tmp_path: Path) -> None:
        """A missing event gives an error with its session and number."""
        with pytest.raises(JournalError, match="no event 99 of session 'nobody'"):
            DecisionReader(usual(tmp_path / "j.db")).event("nobody", 99)

    @pytest.mark.parametrize("column", ["verdict", "mode", "result", "kind"])
    def test_newer_value_does_not_break_the_page(self, tmp_path: Path, column: str) -> None:
        """A value that only a newer version knows does not break the page; its line names the value."""
        path = usual(tmp_path / "j.db")
        with closing(raw_database(path)) as connection:
            connection.execute(f"UPDATE decision SET {column} = 'asleep'")
            connection.commit()
        part = DecisionPage(top=(10**15, 10**9), bottom=None, count=1)
        [line, *_] = DecisionReader(path).read(DecisionFilter(), part)
        assert line.newer == f"{column} 'asleep'"

    def test_unreadable_line_is_reported_with_its_file(self, tmp_path: Path) -> None:
        """A line with an unreadable value is reported with its file."""
        path = usual(tmp_path / "j.db")
        with closing(raw_database(path)) as connection:
            connection.execute("UPDATE decision SET seq = 'perhaps'")
            connection.commit()
        reader = DecisionReader(path)
        part = DecisionPage(top=(10**15, 10**9), bottom=None, count=1)
        with pytest.raises(JournalError, match=r"j\.db': the line of decision \d+ cannot be read"):
            reader.read(EVERYTHING, part)


class TestCounts:
    @pytest.mark.variants
    @pytest.mark.parametrize("by", ["rule", "tool"])
    def test_sums_equal_lines_in_total_and_over_time(
        self, large: Path, lines: list[DecisionLine], by: str
    ) -> None:
        """The sums equal those of the lines, in total and in each time step."""
        wanted = filtered("since:20h shop-1")
        mine = [line for line in lines if line.at >= millis_ago(20) and "shop-1" in line.input]
        counts = count_decisions(large, wanted, by="rule" if by == "rule" else "tool", steps=10)
        assert counts.total.count == len(mine) == sum(counts.total.course)
        names = {line.net if by == "rule" else line.tool for line in mine}
        assert {group.name for group in counts.groups} == names
        assert [g.count for g in counts.groups] == sorted((g.count for g in counts.groups), reverse=True)
        assert counts.start is not None
        start = int(counts.start.timestamp() * 1000)
        size = -(-(max(line.at for line in lines) - start + 1) // 10)
        for group in counts.groups:
            own = [line for line in mine if group.name == (line.net if by == "rule" else line.tool)]
            assert group.count == len(own)
            assert group.stopped == sum(d.verdict in ("block", "denied", "would-block") for d in own)
            assert group.asked == sum(d.verdict in ("approved", "denied", "would-ask") for d in own)
            steps = [sum((d.at - start) // size == n for d in own) for n in range(10)]
            assert list(group.course) == steps

    def test_group_by_rule_has_rule_text(self, large: Path) -> None:
        """A group by rule has the rule's text."""
        groups = count_decisions(large, by="rule").groups
        assert next(g.rule for g in groups if g.name == "block-rm") == "block rm"

    def test_empty_journal_gives_empty_counts(self, tmp_path: Path) -> None:
        """An empty journal gives empty counts, not an error."""
        path = tmp_path / "j.db"
        Journal.open(path).close()
        assert count_decisions(path).total.count == 0
        assert shadow_summary(path).sessions == ()


class TestShadow:
    def test_summary_has_calls_each_rule_would_stop(self, tmp_path: Path) -> None:
        """G-26: the summary has the calls that each rule would have stopped or asked for, and results."""
        summary = shadow_summary(usual(tmp_path / "j.db"))
        (session,) = summary.sessions
        assert (session.session, session.calls) == ("nightly-sync-02", 5)
        (blocked,) = session.blocked
        assert (blocked.net, blocked.ended.calls, blocked.ended.done, blocked.ended.failed) == (
            "block-rm",
            3,
            2,
            1,
        )
        assert [(s.net, s.ended.calls) for s in session.asked] == [("approve-before-deploy", 1)]
        assert total(summary.blocked).calls == 3

    def test_filter_applies_to_summary(self, large: Path, lines: list[DecisionLine]) -> None:
        """Each part of a filter applies to the summary as it does to the list."""
        shadow = [d for d in lines if d.mode == "shadow" and d.tool == "rm"]
        assert 0 < shadow_summary(large, filtered("tool:rm")).calls == len(shadow)
        assert shadow_summary(large, filtered("verdict:block")).sessions == ()
        some = shadow_summary(large, filtered("since:10h session:agent-0-0000"))
        own = [d for d in lines if d.session == "agent-0-0000" and d.at >= millis_ago(10)]
        assert [s.session for s in some.sessions] == ["agent-0-0000"]
        assert some.calls == len(own)
        assert total(some.blocked).calls == sum(d.verdict == "would-block" for d in own)
        assert total(some.blocked).done == sum(
            d.verdict == "would-block" and d.result == "done" for d in own
        )

    def test_first_blocks_are_counted_apart(self, tmp_path: Path) -> None:
        """G-57: a session's first block is counted apart from later ones, which may follow from it."""
        path = tmp_path / "j.db"
        with Journal.open(path) as journal:
            for session in ("s1", "s2"):
                journal.write(session, opened("bot", "shadow"))
                journal.write(session, call("c1", "rm", "rm x", "ask", "approve-rm", mode="shadow"))
                journal.write(session, call("c2", "test", "", "block", "require-lint", mode="shadow"))
                journal.write(session, call("c3", "deploy", "", "block", "require-test", mode="shadow"))
            journal.write("s3", opened("bot", "shadow"))
            journal.write("s3", call("c1", "deploy", "", "block", "require-test", mode="shadow"))
        summary = shadow_summary(path)
        assert {s.net: (s.ended.calls, s.first) for s in summary.blocked} == {
            "require-lint": (2, 2),
            "require-test": (3, 1),
        }
        firsts = {s.session: [(share.net, share.first) for share in s.blocked] for s in summary.sessions}
        assert firsts["s1"] == [("require-lint", 1), ("require-test", 0)]
        assert firsts["s3"] == [("require-test", 1)]

    def test_running_call_does_not_count_as_done(self, tmp_path: Path) -> None:
        """Only a call that ended without error counts as done."""
        path = tmp_path / "j.db"
        with Journal.open(path) as journal:
            journal.write("s1", opened("bot", "shadow"))
            journal.write("s1", call("c1", "rm", "rm x", "block", "block-rm", mode="shadow"))
            assert total(shadow_summary(path).blocked).done == 0
            journal.write("s1", ended("c1"))
            assert total(shadow_summary(path).blocked).done == 1


def test_the_generated_journal_has_everything(lines: list[DecisionLine]) -> None:
    """The generated journal has every verdict and every result except `unknown`."""
    assert {line.verdict for line in lines} == set(get_args(CallVerdict))
    assert {line.result for line in lines} == {None, *RESULTS} - {"unknown"}


def test_positions_compare_in_list_order() -> None:
    """Positions are pairs of time and cursor, which compare in list order."""
    older: ListPosition = (int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000), 5)
    assert older < (older[0], 6) < (older[0] + 1, 1)
