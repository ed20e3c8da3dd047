"""Outages of a journal as its writes show them: beginning, kind and end."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.engine.history.batches.writer import Silence
from interlock.engine.history.journal import write_monitor
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.write_monitor import WriteMonitor
from interlock.engine.history.model.events import MessageAdded

from ..postgres.support.servers import wait_for
from ..support.recording import opening

HELLO = MessageAdded(role="user", text="hello")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Both clocks of a monitor."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def steady(self) -> float:
        return self.seconds


class TestMonitor:
    def test_a_failed_write_lasts_until_another_succeeds(self) -> None:
        """An outage starts with the first failure and has the last reason; proofs are due meanwhile."""
        clock = Clock()
        monitor = WriteMonitor(clock, clock.steady)
        for reason in ("disk full", "read-only"):
            monitor.begin()
            monitor.end(OSError(reason))
            found = monitor.outage(None, None)
            assert found is not None
            assert (found.kind, found.reason, found.since) == (
                "unwritable",
                reason,
                BEGIN + timedelta(seconds=100),
            )
            assert not monitor.needs_proof
            clock.seconds += write_monitor.PROOF_SECONDS
            assert monitor.needs_proof
        monitor.end(None)
        assert monitor.outage(None, None) is None

    def test_hanging_write_is_an_outage(self) -> None:
        """A write that hangs is an outage from its beginning, even before it fails."""
        clock = Clock()
        monitor = WriteMonitor(clock, clock.steady)
        monitor.begin()
        assert monitor.outage(None, None) is None
        clock.seconds += write_monitor.SLOW_SECONDS
        found = monitor.outage(None, None)
        assert found is not None
        assert found.since == BEGIN + timedelta(seconds=100)

    def test_precedence_of_ended_server_silence_and_failure(self) -> None:
        """A silent database takes precedence over a failed write, and an ended server over both."""
        clock = Clock()
        monitor = WriteMonitor(clock, clock.steady)
        monitor.end(OSError("lost"))
        silent = monitor.outage(Silence(7.0, "refused\x1b"), None)
        assert silent is not None
        assert (silent.kind, silent.since) == ("unreachable", BEGIN + timedelta(seconds=93))
        assert "\x1b" not in silent.reason
        ended = monitor.outage(Silence(8.0, "refused"), "another server took over")
        assert ended is not None
        assert (ended.kind, ended.since) == ("ended", silent.since)


class TestFile:
    def test_failed_write_is_outage_until_proof(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failed write is an outage that ends after a successful proof, without another write."""
        monkeypatch.setattr(write_monitor, "PROOF_SECONDS", 0.0)
        with Journal.open(tmp_path / "j.db") as journal:
            journal.write("s", opening())
            assert journal.outage is None
            writer = journal._writer
            commit, prove = writer.commit, writer.prove

            def full(*_: object) -> None:
                raise sqlite3.OperationalError("database or disk is full")

            monkeypatch.setattr(writer, "commit", full)
            monkeypatch.setattr(writer, "prove", full)
            with pytest.raises(JournalError, match="disk is full"):
                journal.write("s", HELLO)
            assert journal.outage is not None
            assert journal.outage.reason == "database or disk is full"
            monkeypatch.setattr(writer, "commit", commit)
            monkeypatch.setattr(writer, "prove", prove)
            wait_for(lambda: journal.outage is None)
            assert journal.write("s", HELLO)[0].seq == 2
