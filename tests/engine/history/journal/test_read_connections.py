"""Connections kept for a journal's own queries: one per concurrent query, none after its end."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from interlock.engine.history.journal import read_connections as kept
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.read_connections import Connections
from interlock.engine.history.journal.reader import SessionNotFound

from ..support.recording import opening

pytestmark = pytest.mark.sqlite("connections to a file")


class TestConnections:
    def test_consecutive_queries_share_a_connection(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Consecutive queries share a connection; concurrent ones do not."""
        opened: list[Path] = []

        def connect(path: Path) -> sqlite3.Connection:
            opened.append(path)
            return sqlite3.connect(path)

        monkeypatch.setattr(kept, "connect_readonly", connect)
        connections = Connections(tmp_path / "file.db")
        for _ in range(3):
            with connections.reading() as first:
                first.execute("SELECT 1")
        with connections.reading() as first, connections.reading() as second:
            assert first is not second
        assert len(opened) == 2
        connections.close()

    def test_failed_connection_is_not_reused(self, tmp_path: Path) -> None:
        """A connection on which a query failed is not reused."""
        path = tmp_path / "journal.db"
        Journal.open(path).close()
        connections = Connections(path)
        with pytest.raises(JournalError, match=r"journal\.db"), connections.reading() as failed:
            failed.execute("SELECT nothing")
        with connections.reading() as another:
            assert another is not failed
            assert another.execute("SELECT 1").fetchone() == (1,)
        connections.close()

    def test_closed_journal_leaves_no_other_files(self, tmp_path: Path) -> None:
        """A closed journal leaves no files beside its own, and can still be read."""
        journal = Journal.open(tmp_path / "journal.db")
        journal.write("s1", opening())
        assert journal.reader().session("s1").events == 1
        journal.close()
        assert not (tmp_path / "journal.db-wal").exists()
        assert journal.reader().session("s1").events == 1


class TestWhole:
    def test_whole_id_does_not_match_as_prefix(self, tmp_path: Path) -> None:
        """A whole id does not match a session whose id only begins with it."""
        with Journal.open(tmp_path / "journal.db") as journal:
            journal.write("session-1", opening())
            reader = journal.reader()
            assert reader.session("session").id == "session-1"
            assert reader.session("session-1", whole=True).id == "session-1"
            with pytest.raises(SessionNotFound):
                reader.session("session", whole=True)
