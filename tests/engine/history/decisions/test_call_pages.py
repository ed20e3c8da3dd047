"""Reading only the events about calls."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.history.database.statements import CALL_TYPES
from interlock.engine.history.decisions import call_pages as calls
from interlock.engine.history.decisions.call_pages import (
    CallRow,
    call_pages,
    count_calls,
    recorded_sessions,
)
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal

from ..support.recording import NOON, asks, decided, opening, result


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Three sessions, opened one day apart; the second has a subagent's session."""
    path = tmp_path / "journal.db"
    days = iter(range(100))
    with Journal.open(path, clock=lambda: NOON + timedelta(days=next(days))) as writer:
        for session in ("b", "a", "c"):
            calls_of = [decided("c1", "x"), result("c1", "x")] * (2 if session == "a" else 1)
            writer.write(session, opening(), asks(("c1", "x")), *calls_of)
            if session == "a":
                child = opening(kind="child", parent="a")
                writer.write("child", child, decided("c1", "x"), result("c1", "x"))
    return path


def rows_of(path: Path, sessions: list[str], **options: int) -> list[tuple[str, CallRow]]:
    """Return every row with its session."""
    return [(session, row) for session, rows in call_pages(path, sessions, **options) for row in rows]


class TestSessions:
    """The list of sessions and their number of calls."""

    def test_in_opening_order_without_subagents(self, journal: Path) -> None:
        """Sessions of subagents are left out, because their calls are in their parent's record."""
        assert list(recorded_sessions(journal)) == ["b", "a", "c"]
        assert count_calls(journal) == 4

    def test_with_an_event_since_a_time(self, journal: Path) -> None:
        """Sessions with an event at that time or later."""
        assert list(recorded_sessions(journal, NOON + timedelta(days=1))) == ["a", "c"]
        assert list(recorded_sessions(journal, NOON + timedelta(days=1, seconds=1))) == ["c"]
        assert count_calls(journal, NOON + timedelta(days=1)) == 3
        assert count_calls(journal, NOON + timedelta(days=9)) == 0

    def test_pages_list_each_session_once(self, journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sessions are listed page by page, each once."""
        for size in (1, 2, 3):
            monkeypatch.setattr(calls, "SESSIONS", size)
            assert list(recorded_sessions(journal)) == ["b", "a", "c"]


class TestRows:
    """The rows of given sessions."""

    def test_only_call_events_in_requested_order(self, journal: Path) -> None:
        """Rows come in the requested order of sessions, in order within each, without messages."""
        rows = rows_of(journal, ["c", "b"])
        assert [(session, row[0], row[2]) for session, row in rows] == [
            (session, seq, kind)
            for session in ("c", "b")
            for seq, kind in ((1, "session.opened"), (3, "call.decided"), (4, "call.result"))
        ]
        assert {row[2] for _, row in rows} <= set(CALL_TYPES)

    def test_after_an_event(self, journal: Path) -> None:
        """Only events after the given number are returned; an unknown session has none."""
        rows = rows_of(journal, ["c", "x", "b"], after=3)
        assert [(session, row[0]) for session, row in rows] == [("c", 4), ("b", 4)]

    @pytest.mark.parametrize("text", [1, 150, 4_000])
    def test_page_size_does_not_change_rows(
        self, journal: Path, text: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Any size of page gives the same rows, without gaps or repetitions."""
        whole = rows_of(journal, ["a", "b", "c"])
        monkeypatch.setattr(calls, "PAGE_TEXT", text)
        monkeypatch.setattr(calls, "CHUNK", 1)
        assert rows_of(journal, ["a", "b", "c"]) == whole

    def test_reading_does_not_block_a_writer(self, journal: Path) -> None:
        """Reading does not block a writer, and events added before its end are included."""
        pages = call_pages(journal, ["c"], page=1)
        assert next(pages)[1][0][2] == "session.opened"
        with Journal.open(journal) as writer:
            writer.write("c", decided("c2", "x"))
        assert [row[0] for _, rows in pages for row in rows] == [3, 4, 5]

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        """A file that is not a journal raises `JournalError`."""
        path = tmp_path / "journal.db"
        path.write_text("no database, but long enough to be looked at for one" * 100)
        for read in (lambda: rows_of(path, ["a"]), lambda: count_calls(path)):
            with pytest.raises(JournalError):
                read()
