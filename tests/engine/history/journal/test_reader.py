"""Reading: sessions by id and prefix, events page by page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import PAGE, SessionNotFound
from interlock.engine.history.model.events import MessageAdded, SessionStatus

from ..support.recording import NOON, opening


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A journal with three sessions of two agents, opened one second apart."""
    seconds = count()
    with Journal.open(
        tmp_path / "journal.db", clock=lambda: NOON + timedelta(seconds=next(seconds))
    ) as journal:
        journal.write("release-1", opening())
        journal.write("release-12", opening())
        journal.write("docs-7", opening(agent="docs-writer"))
        yield journal


class TestSessions:
    def test_latest_changed_first(self, journal: Journal) -> None:
        """A session with a new event moves to the top."""
        journal.write("release-1", SessionStatus(status="running"))
        assert [s.id for s in journal.reader().sessions()] == ["release-1", "docs-7", "release-12"]

    def test_limit_and_filter_by_agent(self, journal: Journal) -> None:
        """The list can be limited or filtered by agent."""
        reader = journal.reader()
        assert [s.id for s in reader.sessions(1)] == ["docs-7"]
        assert [s.id for s in reader.sessions(limit=None)] == ["docs-7", "release-12", "release-1"]
        assert [s.id for s in reader.sessions(agent="release-bot")] == ["release-12", "release-1"]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [("docs-7", "docs-7"), ("d", "docs-7"), ("release-1", "release-1"), ("release-12", "release-12")],
    )
    def test_by_id_or_unique_prefix(self, journal: Journal, wanted: str, found: str) -> None:
        """A complete id takes precedence over a prefix; a prefix must be unique."""
        assert journal.reader().session(wanted).id == found

    def test_ambiguous_prefix_lists_matching_ids(self, journal: Journal) -> None:
        """An ambiguous prefix gives an error with the matching ids."""
        with pytest.raises(SessionNotFound, match=r"begin with 'rel': release-12, release-1\. Give more"):
            journal.reader().session("rel")

    @pytest.mark.parametrize("wanted", ["x", "", "%", "release-_", "\ud800", "x\x1b"])
    def test_unknown_id_gets_latest_sessions(self, journal: Journal, wanted: str) -> None:
        """The error for an unknown id names the latest sessions; no character acts as a wildcard."""
        with pytest.raises(SessionNotFound) as caught:
            journal.reader().session(wanted)
        assert caught.value.candidates == ("docs-7", "release-12", "release-1")
        assert "The latest are: docs-7, release-12, release-1." in str(caught.value)
        assert "\x1b" not in str(caught.value)

    def test_empty_journal_suggests_no_sessions(self, tmp_path: Path) -> None:
        """An empty journal has no sessions to suggest."""
        with Journal.open(tmp_path / "empty.db") as journal:
            assert journal.reader().sessions() == []
            with pytest.raises(SessionNotFound, match="no sessions yet"):
                journal.reader().session("x")


class TestEvents:
    def test_come_in_order_across_pages(self, journal: Journal) -> None:
        """Events across several pages come in order, in whole or in part."""
        hello = MessageAdded(role="user", text="hello")
        journal.write("docs-7", *[hello] * (2 * PAGE))
        reader = journal.reader()
        assert [e.seq for e in reader.events("docs-7")] == list(range(1, 2 * PAGE + 2))
        assert [e.seq for e in reader.events("docs-7", after=PAGE - 1, limit=3)] == [
            PAGE,
            PAGE + 1,
            PAGE + 2,
        ]
        assert [e.seq for e in reader.events("docs-7", limit=PAGE + 1)] == list(range(1, PAGE + 2))
        assert list(reader.events("docs-7", limit=0)) == []
        assert reader.count("docs-7") == 2 * PAGE + 1

    def test_sessions_do_not_mix(self, journal: Journal) -> None:
        """Events of sessions do not mix, and an unknown session has none."""
        reader = journal.reader()
        assert [e.session for e in reader.events("release-1")] == ["release-1"]
        assert list(reader.events("release")) == []
        assert reader.count("release") == 0

    def test_reader_blocks_no_writer(self, journal: Journal) -> None:
        """A reader in the middle of a session blocks no writer and sees later events."""
        journal.write("docs-7", *[SessionStatus(status="running")] * PAGE)
        events = journal.reader().events("docs-7")
        next(events)
        journal.write("docs-7", SessionStatus(status="done"))
        assert [e.seq for e in events][-1] == PAGE + 2
