"""Copying a complete journal from a file into PostgreSQL and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.engine.history.audit.copying import copy_journal
from interlock.engine.history.audit.prune import prune, stubs
from interlock.engine.history.audit.verify import check_file
from interlock.engine.history.database.compiled import SELECT_LINKED
from interlock.engine.history.database.connection import ALL_ROWS
from interlock.engine.history.database.location import Location, PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.maintenance import index_mismatches
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.schema import reading
from interlock.engine.history.logs.freeze_log import FreezeLog
from interlock.engine.history.logs.line_log import line_log
from interlock.engine.history.model.events import SessionStatus
from interlock.engine.history.model.records import FreezeRecord
from interlock.engine.history.model.times import to_ms
from interlock.engine.history.postgres import schema
from tests.support.decisions import usual

from ..support.keeping import NOW, recorded_at, tamper, verdicts
from ..support.recording import opening

pytestmark = pytest.mark.sqlite("from a file into a database")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A journal with sessions of all kinds, a pruned session, and a freeze."""
    path = usual(tmp_path / "source.db")
    recorded_at(path, NOW.replace(year=2020), "old")
    prune(path, before=to_ms(NOW.replace(year=2021)), by="maria", at=to_ms(NOW), key=tmp_path / "k.pem")
    FreezeLog(path, lambda: NOW).begin(FreezeRecord(by="maria", at=NOW, reason="looked odd"))
    return path


def links(place: Location, session: str) -> list[tuple[object, ...]]:
    """Return all rows of a session without their cursors."""
    with reading(place) as connection:
        rows = connection.execute(SELECT_LINKED, (session, -1, ALL_ROWS)).fetchall()
    return [tuple(row[1:]) for row in rows]


def check_same(one: Location, other: Location) -> None:
    """Check that both journals have the same content and that the copy is intact."""
    listed = [open_reader(place).sessions(None) for place in (one, other)]
    assert listed[0] == listed[1]
    for summary in listed[0]:
        assert links(one, summary.id) == links(other, summary.id)
    assert [each.stub for each in stubs(one)] == [each.stub for each in stubs(other)]
    assert all(each.good for each in stubs(other))
    assert all(check.fault is None for check in verdicts(other).values())
    assert check_file(other).missing == 0
    assert list(index_mismatches(other)) == []
    assert line_log(one, "freeze").read(1 << 20) == line_log(other, "freeze").read(1 << 20)


class TestCopy:
    def test_copy_and_its_copy_have_all_content(
        self, source: Path, postgresql: PostgresLocation, tmp_path: Path
    ) -> None:
        """The copy has all content of the journal, and so has a copy of the copy."""
        copied = copy_journal(source, postgresql)
        assert (copied.sessions, copied.stubs, copied.lines) == (4, 1, {"freeze": 1, "keys": 0})
        check_same(source, postgresql)
        back = tmp_path / "back.db"
        assert copy_journal(postgresql, back) == copied
        check_same(source, back)

    @pytest.mark.slow
    def test_copied_session_can_be_resumed(self, source: Path, postgresql: PostgresLocation) -> None:
        """A server resumes a session of the copy and extends its chain."""
        copy_journal(source, postgresql)
        with Journal.open(postgresql) as journal:
            journal.write("docs-writer-77c0", SessionStatus(status="running"))
        assert all(check.fault is None for check in verdicts(postgresql).values())
        assert check_file(postgresql).missing == 0

    @pytest.mark.slow
    def test_into_a_journal_with_other_sessions(self, source: Path, postgresql: PostgresLocation) -> None:
        """A journal that already has other sessions accepts the copied ones."""
        recorded_at(postgresql, NOW, "other")
        copy_journal(source, postgresql)
        assert len(verdicts(postgresql)) == 5
        assert check_file(postgresql).missing == 0

    @pytest.mark.slow
    def test_after_the_last_server_was_killed(
        self, source: Path, postgresql: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server that was killed and whose lease expired does not prevent copying."""
        monkeypatch.setattr(schema, "SILENT_SECONDS", 0.3)
        copy_journal(source, postgresql)
        with reading(postgresql) as connection:
            connection.execute(
                "INSERT INTO server (id, name, version, started, lease) VALUES ('dead', 'it', '1', 1, 1)"
            )
        assert copy_journal(postgresql, source.parent / "copy.db").sessions == 4

    def test_name_with_nul_is_restored_from_events(
        self, postgresql: PostgresLocation, tmp_path: Path
    ) -> None:
        """Names with NUL are restored in the file from the events, and are never reported as a change."""
        source, back = tmp_path / "source.db", tmp_path / "back.db"
        recorded_at(source, NOW.replace(year=2020), "old", opening(agent="o\0ld"))
        prune(source, before=to_ms(NOW.replace(year=2021)), by="m", at=to_ms(NOW), key=tmp_path / "k.pem")
        recorded_at(source, NOW, "s", opening(agent="a\0b"))
        copy_journal(source, postgresql)
        assert list(index_mismatches(postgresql)) == []
        assert [each.good for each in stubs(postgresql)] == [True]
        copy_journal(postgresql, back)
        check_same(source, back)


class TestRefused:
    def test_session_that_already_exists(self, source: Path, postgresql: PostgresLocation) -> None:
        """A target that already has one of the sessions stays unchanged."""
        recorded_at(postgresql, NOW, "docs-writer-77c0")
        with pytest.raises(JournalError, match="has, or had, session 'docs-writer-77c0'"):
            copy_journal(source, postgresql)
        assert [*verdicts(postgresql)] == ["docs-writer-77c0"]
        assert line_log(postgresql, "freeze").read(1 << 20) is None

    @pytest.mark.slow
    def test_a_pruned_session(self, source: Path, postgresql: PostgresLocation) -> None:
        """A session that was pruned in the target is not copied back."""
        copy_journal(source, postgresql)
        with pytest.raises(JournalError, match="has, or had, session"):
            copy_journal(source, postgresql)

    @pytest.mark.slow
    def test_a_broken_chain(self, source: Path, postgresql: PostgresLocation) -> None:
        """A journal that is not intact is not copied, because the copy would look genuine."""
        tamper(source, "UPDATE event SET at = at + 1 WHERE session = 'docs-writer-77c0' AND seq = 2")
        with pytest.raises(JournalError, match="'docs-writer-77c0' is not intact"):
            copy_journal(source, postgresql)
        assert verdicts(postgresql) == {}

    def test_missing_events(self, source: Path, postgresql: PostgresLocation) -> None:
        """A journal that lacks events is refused: the copy is renumbered and would hide the gap."""
        tamper(
            source,
            "DELETE FROM event WHERE session = 'reader-3c'",
            "DELETE FROM session WHERE id = 'reader-3c'",
        )
        with pytest.raises(JournalError, match="lacks 3 of the events"):
            copy_journal(source, postgresql)

    @pytest.mark.slow
    def test_two_different_key_logs(self, source: Path, postgresql: PostgresLocation) -> None:
        """Two logs are not merged, because that would break the chain of the key log."""
        Journal.open(postgresql).close()
        line_log(postgresql, "freeze").append("{}")
        with pytest.raises(JournalError, match="has its own log of freeze"):
            copy_journal(source, postgresql)

    @pytest.mark.slow
    def test_source_that_is_being_written(self, source: Path, postgresql: PostgresLocation) -> None:
        """A source that is being written is refused, because it and the copy would diverge."""
        with Journal.open(source), pytest.raises(JournalError, match="is in use by"):
            copy_journal(source, postgresql)
        copy_journal(source, postgresql)
        other = source.with_name("other.db")
        with Journal.open(postgresql), pytest.raises(JournalError, match="is being written by a server"):
            copy_journal(postgresql, other)

    def test_journal_into_itself(self, source: Path) -> None:
        """A journal cannot be copied into itself, however its path is written."""
        with pytest.raises(JournalError, match="into itself"):
            copy_journal(source, source.parent / "." / ".." / source.parent.name / source.name)


class TestCommand:
    def test_reports_number_of_items_and_target(
        self, source: Path, postgresql: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The command reports the number of copied items and the target."""
        assert main(["journal", "copy", str(source), str(postgresql)]) == 0
        out = capsys.readouterr().out
        assert out.startswith("Copied 4 sessions, ")
        assert "1 stub, 1 line of freezes to postgresql://interlock@/postgres" in out
        assert main(["journal", "copy", str(source), str(postgresql)]) == 2
        assert "Nothing was copied; name another journal." in capsys.readouterr().err

    def test_refuses_other_databases(self, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A URL of another kind gives an error that lists the accepted ones, without the password."""
        with pytest.raises(SystemExit):
            main(["journal", "copy", str(source), "mysql://ada:hunter2@db/lock"])
        said = capsys.readouterr().err
        assert "postgresql://user@host/database" in said
        assert "hunter2" not in said
