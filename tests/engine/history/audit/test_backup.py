"""Backups of a journal: complete, made while a writer writes, and usable as a journal."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from interlock.engine.history.audit.backup import back_up
from interlock.engine.history.audit.verify import check_file, verify_journal
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded
from tests.engine.history.support.recording import opening

pytestmark = pytest.mark.sqlite("backups of a file")


def message(text: str) -> MessageAdded:
    return MessageAdded(role="user", text=text)


class TestBackup:
    def test_is_consistent_while_a_writer_writes(self, tmp_path: Path) -> None:
        """A backup has all events up to one moment, and a restored backup continues its chain."""
        wrote, stop = threading.Event(), threading.Event()
        with Journal.open(tmp_path / "a.db") as journal:
            journal.write("s", opening(), message("first"))

            def write() -> None:
                while not stop.is_set():
                    journal.write("s", message("more"))
                    wrote.set()

            writer = threading.Thread(target=write)
            writer.start()
            try:
                assert wrote.wait(30)
                found = [back_up(tmp_path / "a.db", tmp_path / f"b{n}.db") for n in range(3)]
            finally:
                stop.set()
                writer.join()
        assert 3 <= found[0].events <= found[1].events <= found[2].events
        with Journal.open(tmp_path / "b1.db") as restored:
            restored.write("s", message("after the restore"))
        [check] = verify_journal(tmp_path / "b1.db")
        assert check.fault is None
        assert check.events == found[1].events + 1
        assert check_file(tmp_path / "b1.db").missing == 0

    def test_includes_freeze_and_passkey_logs(self, tmp_path: Path) -> None:
        """The backup includes the logs of freezes and passkeys, and only its owner can read the files."""
        with Journal.open(tmp_path / "a.db") as journal:
            journal.write("s", opening())
        (tmp_path / "a.db.freeze").write_text("{}\n")
        back_up(tmp_path / "a.db", tmp_path / "b.db")
        assert (tmp_path / "b.db.freeze").read_text() == "{}\n"
        for name in ("b.db", "b.db.freeze"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600

    def test_overwrites_no_existing_file(self, tmp_path: Path) -> None:
        """A backup overwrites neither an existing target nor an existing log of the target."""
        with Journal.open(tmp_path / "a.db") as journal:
            journal.write("s", opening())
        (tmp_path / "b.db").write_text("mine")
        (tmp_path / "c.db.keys").write_text("mine")
        for name in ("b.db", "c.db"):
            with pytest.raises(JournalError, match="exists already"):
                back_up(tmp_path / "a.db", tmp_path / name)
        assert (tmp_path / "b.db").read_text() == "mine"

    @pytest.mark.parametrize("log", ["-wal", "-shm", "-journal"])
    def test_refused_beside_leftover_sqlite_log(self, tmp_path: Path, log: str) -> None:
        """A backup is refused if a leftover SQLite log has the target's name: SQLite would apply it."""
        with Journal.open(tmp_path / "a.db") as journal:
            journal.write("s", opening())
        (tmp_path / f"b.db{log}").write_text("of a file that is gone")
        with pytest.raises(JournalError, match=f"b.db{log}' exists already"):
            back_up(tmp_path / "a.db", tmp_path / "b.db")
        assert not (tmp_path / "b.db").exists()

    def test_refused_for_a_broken_chain(self, tmp_path: Path) -> None:
        """A journal that was tampered with is not backed up."""
        from tests.engine.history.support.keeping import tamper

        with Journal.open(tmp_path / "a.db") as journal:
            journal.write("s", opening(), message("first"))
        tamper(tmp_path / "a.db", "UPDATE event SET body = replace(body, 'first', 'other')")
        with pytest.raises(JournalError, match="is not intact"):
            back_up(tmp_path / "a.db", tmp_path / "b.db")
        assert [each.name for each in tmp_path.glob("*b.db*")] == []
