"""Sessions of which a database lost acknowledged events: noted for all servers, until it is accepted."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from interlock.app.cli.main import main
from interlock.engine.gateway.cluster.accepted_loss import record_acceptance
from interlock.engine.history.audit.copying import copy_journal
from interlock.engine.history.audit.prune import prune
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError, SessionDiverged
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.maintenance import index_mismatches, rebuild
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import LossAccepted, MessageAdded, SessionStatus
from interlock.engine.history.postgres import divergence
from interlock.engine.history.postgres import writer as writing
from interlock.engine.history.postgres.connection import connect
from tests.support.postgres import named

from ..support.recording import opening
from .support.servers import end, fail_over, lease, lose, rows, wait_for, writer

HELLO = MessageAdded(role="user", text="hello")
OPEN = "SELECT session, seq, kept FROM divergence WHERE accepted IS NULL ORDER BY session, seq"
CHILD = {"kind": "child", "parent": "s", "parent_call": "c1"}


@pytest.fixture
def journal(postgresql: PostgresLocation) -> Iterator[Journal]:
    with Journal.open(postgresql) as journal:
        yield journal


@pytest.fixture
def other(postgresql: PostgresLocation, journal: Journal) -> Iterator[Journal]:
    with Journal.open(postgresql) as other:
        yield other


def diverged(journal: Journal, session: str = "s", kept: int = 1) -> None:
    """Have a session lose all of its events but the first, and its server find that."""
    lose(lease(journal).location, session, kept)
    fail_over(journal)
    with pytest.raises(JournalError):
        journal.write(session, HELLO)
    assert session in journal.diverged_sessions


def accept(journal: Journal, session: str = "s") -> None:
    record_acceptance(journal, session, by="ada", reason="the deploy was seen")


class TestNoted:
    def test_is_in_the_database_with_what_it_had(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """The row says what was acknowledged, what was there, who noticed, and when."""
        journal.write("s", opening(), HELLO, HELLO)
        [(head,)] = rows(postgresql, "SELECT hash FROM event WHERE seq = 3")
        diverged(journal)
        [row] = divergence.open_divergences(postgresql)
        assert row[:6] == ("s", 3, head, 1, lease(journal).id, lease(journal).name)
        assert row.at > 0
        assert rows(postgresql, "SELECT server FROM owner WHERE session = 's'") == [(None,)]
        [line] = open_reader(postgresql).sessions()
        assert (line.diverged, line.newer, line.status) == (True, False, "failed")
        assert line.error == "diverged: event 3 of it was acknowledged and lost"

    def test_is_logged_once(self, journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
        """However often its agent calls, and however often the database is reached anew."""
        journal.write("s", opening(), HELLO)
        diverged(journal)
        for _ in range(3):
            fail_over(journal)
            with pytest.raises(SessionDiverged):
                journal.write("s", HELLO)
        assert [each.levelno for each in caplog.records if "diverged" in each.message] == [logging.ERROR]

    def test_before_anything_else_is_written(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As long as it cannot be noted, the server writes nothing at all."""
        journal.write("s", opening(), HELLO)
        journal.write("t", opening())
        monkeypatch.setattr(writing, "RECONNECT_SECONDS", 0.2)
        rows(postgresql, "ALTER TABLE divergence ADD CONSTRAINT none CHECK (seq < 0)")
        lose(postgresql, "s", 1)
        fail_over(journal)
        for _ in range(2):
            with pytest.raises(JournalError):
                journal.write("t", HELLO)
        assert rows(postgresql, "SELECT count(*) FROM event") == [(2,)]
        rows(postgresql, "ALTER TABLE divergence DROP CONSTRAINT none")
        wait_for(lambda: writer(journal).away is None)
        journal.write("t", HELLO)
        assert rows(postgresql, OPEN) == [("s", 2, 1)]

    def test_by_a_server_that_writes_nothing(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A look for sessions to take compares, too, whatever the connection that writes has seen."""
        journal.write("s", opening(), HELLO)
        lose(postgresql, "s", 1)
        writer(journal)._ends._compared = None
        journal.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 2, 1)]

    def test_before_sessions_are_left_to_others(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A server that ends, or lets a session go, notes first what was lost."""
        journal.write("s", opening(), HELLO)
        lose(postgresql, "s", 1)
        writer(journal)._ends._compared = None
        journal.release("s")
        assert rows(postgresql, OPEN) == [("s", 2, 1)]

    @pytest.mark.slow
    def test_at_the_end_of_a_server(self, postgresql: PostgresLocation) -> None:
        """A server that ends notes what was lost before others may take its sessions."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening(), HELLO)
            journal.write("t", opening(), HELLO)
            lose(postgresql, "s", 1)
            lose(postgresql, "t", 1)
            writer(journal)._ends._compared = None
            journal.hand_over()
            assert len(rows(postgresql, OPEN)) == 2

    def test_of_a_session_that_had_ended(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """Its end may be among what is lost: then the database has it as one that goes on."""
        journal.write("s", opening(), HELLO, SessionStatus(status="done"))
        lose(postgresql, "s", 1)
        fail_over(journal)
        journal.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 3, 1)]

    def test_by_a_server_that_was_ended(self, postgresql: PostgresLocation, other: Journal) -> None:
        """What another server went on with meanwhile stops there, too."""
        journal = Journal.open(postgresql)
        journal.write("s", opening(), HELLO)
        lose(postgresql, "s", 1)
        end(journal)
        assert other.orphans(9) == ["s"]
        other.write("s", HELLO)
        fail_over(journal)
        with pytest.raises(JournalError):
            journal.write("s", HELLO)
        journal.close()
        with pytest.raises(SessionDiverged, match=r"event 2 of it was acknowledged.*another one there"):
            other.write("s", HELLO)

    def test_by_a_server_that_followed_it(self, postgresql: PostgresLocation, other: Journal) -> None:
        """Where its own server was killed, others remember how far it had come."""
        journal = Journal.open(postgresql)
        journal.write("s", opening(), HELLO)
        other.note_followed("s", 2, is_over=False)
        lose(postgresql, "s", 1)
        end(journal)
        writer(other)._ends._compared = None
        assert other.orphans(9) == []
        assert rows(postgresql, OPEN) == [("s", 2, 1)]
        journal.close()

    @pytest.mark.slow
    def test_twice_is_as_once(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """Two servers that notice the same leave one row; what was accepted stays so."""
        journal.write("s", opening(), HELLO)
        other.note_followed("s", 2, is_over=False)
        diverged(journal)
        fail_over(other)
        other.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 2, 1)]
        accept(journal)
        other.orphans(9)
        other.note_followed("s", 2, is_over=False)
        writer(other)._ends.note_followed("s", 9, is_over=False)
        assert rows(postgresql, OPEN) == []
        assert not other.diverged_sessions

    def test_that_a_database_loses_as_well_is_noted_again(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """Any server that knew of it notes it again: the one that noticed may be gone."""
        journal.write("s", opening(), HELLO)
        diverged(journal)
        other.orphans(9)
        rows(postgresql, "DELETE FROM divergence")
        other.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 2, 1)]
        assert divergence.open_divergences(postgresql)[0].server == lease(other).id

    @pytest.mark.slow
    def test_nothing_that_came_back(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """Where the events are there again, nothing is noted again."""
        journal.write("s", opening(), HELLO)
        other.note_followed("s", 2, is_over=False)
        writer(other)._ends._compared = None
        other.orphans(9)
        assert rows(postgresql, OPEN) == []


class TestLeftAlone:
    @pytest.fixture
    def lost(self, postgresql: PostgresLocation) -> PostgresLocation:
        """A database with a session that diverged, whose server has ended."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening(), HELLO)
            diverged(journal)
        return postgresql

    def test_by_servers_that_take_sessions(self, lost: PostgresLocation) -> None:
        """A server that starts later takes it no more than any other, but knows of it."""
        with Journal.open(lost) as journal:
            assert journal.orphans(9) == []
            assert journal.diverged_sessions["s"].seq == 2

    def test_by_whoever_writes_to_it(self, lost: PostgresLocation) -> None:
        """An event is refused with what happened and what to do, before a look at the others."""
        with Journal.open(lost) as journal:
            with pytest.raises(SessionDiverged, match="interlock approvals accept-loss s --reason TEXT"):
                journal.write("s", HELLO)
            with pytest.raises(SessionDiverged, match="event 2 of it was acknowledged"):
                journal.check_whole("s")
            journal.check_whole("t")
        assert rows(lost, "SELECT count(*) FROM event") == [(1,)]

    def test_by_who_owns_it(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A server that has it and knows nothing yet is fenced, and told why."""
        journal.write("s", opening(), HELLO)
        journal.write("s", HELLO)
        with Journal.open(postgresql) as other:
            other.note_followed("s", 4, is_over=False)
            writer(other)._ends._compared = None
            other.orphans(9)
        with pytest.raises(SessionDiverged, match="event 4 of it was acknowledged"):
            journal.write("s", HELLO)

    @pytest.mark.slow
    def test_with_its_family(self, postgresql: PostgresLocation) -> None:
        """A session whose subagent's diverged is not taken without it; others are."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening())
            journal.write("s/1", opening().model_copy(update=CHILD), HELLO)
            journal.write("t", opening())
            diverged(journal, "s/1")
        with Journal.open(postgresql) as journal:
            assert journal.orphans(1) == ["t"]
            accept(journal, "s/1")
            wait_for(lambda: "s" in journal.orphans(9))

    def test_under_its_id_where_nothing_is_left(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """Of a session whose opening is lost, too, no other one begins under its id."""
        journal.write("s", opening(), HELLO)
        lose(postgresql, "s", 0)
        fail_over(journal)
        journal.orphans(9)
        with Journal.open(postgresql) as other:
            with pytest.raises(SessionDiverged, match=r"has none of it\. Nothing goes on under this id"):
                other.write("s", opening())
            with pytest.raises(ValueError, match="nothing is left of session 's'"):
                accept(other)
            other.write("t", opening())


class TestAccepted:
    def test_goes_on_with_who_accepted_what_in_its_record(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """Its chain has the acceptance, it is ended, and any server can go on with it."""
        journal.write("s", opening(), HELLO, HELLO)
        [(head,)] = rows(postgresql, "SELECT hash FROM event WHERE seq = 3")
        diverged(journal)
        accept(other)
        bodies = [each.body for each in open_reader(postgresql).events("s")][1:]
        assert isinstance(bodies[0], LossAccepted)
        assert (bodies[0].by, bodies[0].acknowledged, bodies[0].kept) == ("ada", 3, 1)
        assert (bodies[0].head, bodies[0].noticed_by) == (head.hex(), lease(journal).name)
        assert (bodies[1].status, bodies[1].by) == ("failed", "ada")
        assert rows(postgresql, "SELECT accepted FROM divergence") == [(2,)]
        assert [check.fault for check in verify_journal(postgresql)] == [None]
        assert list(index_mismatches(postgresql)) == []
        other.release("s")
        journal.orphans(9)
        assert not journal.diverged_sessions
        assert journal.write("s", HELLO)[0].seq == 4

    def test_only_once(self, journal: Journal, other: Journal) -> None:
        """What was accepted, or never diverged, cannot be accepted."""
        journal.write("s", opening(), HELLO)
        with pytest.raises(ValueError, match="did not diverge"):
            accept(other)
        diverged(journal)
        accept(other)
        with pytest.raises(ValueError, match="did not diverge, or its loss is accepted already"):
            accept(journal)

    @pytest.mark.slow
    def test_only_once_if_two_operators_accept_at_the_same_moment(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """At two servers: one acceptance is recorded, the other one is refused."""
        for number in range(10):
            name = f"s{number}"
            journal.write(name, opening(), HELLO)
            diverged(journal, name)
            with ThreadPoolExecutor(2) as pool:
                answers = [pool.submit(accept, each, name) for each in (journal, other)]
            errors = [error for each in answers if (error := each.exception()) is not None]
            assert len(errors) == 1
            assert isinstance(errors[0], ValueError | JournalError)
            types = [each.body.type for each in open_reader(postgresql).events(name)]
            assert types.count("loss.accepted") == 1

    @pytest.mark.slow
    def test_what_is_lost_again_is_noted_again(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """An acceptance that the database loses counts no more."""
        journal.write("s", opening(), HELLO)
        diverged(journal)
        accept(journal)
        lose(postgresql, "s", 1)
        rows(postgresql, "UPDATE divergence SET accepted = NULL")
        fail_over(journal)
        journal.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 2, 1), ("s", 3, 1)]
        accept(journal)
        assert rows(postgresql, OPEN) == []

    @pytest.mark.slow
    def test_beside_others_in_one_batch(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A batch with an acceptance writes the other sessions as any other."""
        journal.write("s", opening(), HELLO)
        journal.write("t", opening())
        diverged(journal)
        accept(journal)
        assert journal.write("t", HELLO)[0].seq == 2


class TestMaintenance:
    @pytest.fixture
    def lost(self, postgresql: PostgresLocation) -> PostgresLocation:
        with Journal.open(postgresql) as journal:
            journal.write("s", opening(), HELLO)
            journal.write("t", opening(), SessionStatus(status="done"))
            diverged(journal)
        return postgresql

    def test_verify_names_it(self, lost: PostgresLocation, capsys: pytest.CaptureFixture[str]) -> None:
        """Auditors see it, with the exit code of a broken journal, until it is accepted."""
        assert main(["history", "--db", named(lost), "verify"]) == 1
        said = capsys.readouterr().out
        assert "✗ s  diverged: event 2 of it was acknowledged, and the database" in said
        assert "now ends it with event 1" in said
        assert main(["history", "--db", named(lost), "verify", "s", "--json"]) == 1
        [found] = json.loads(capsys.readouterr().out)["diverged"]
        assert (found["session"], found["acknowledged"], found["kept"]) == ("s", 2, 1)

    def test_servers_name_it(self, lost: PostgresLocation, capsys: pytest.CaptureFixture[str]) -> None:
        """Also once the server that noticed has ended."""
        main(["servers", "--db", named(lost)])
        assert "Session s diverged: event 2 of it was acknowledged" in capsys.readouterr().out

    @pytest.mark.slow
    def test_an_export_says_so(self, lost: PostgresLocation, capsys: pytest.CaptureFixture[str]) -> None:
        """Whoever exports it is told that the file lacks something."""
        assert main(["history", "--db", named(lost), "export", "s"]) == 0
        assert "Session 's' diverged" in capsys.readouterr().err

    @pytest.mark.slow
    def test_it_is_not_pruned_until_then(self, lost: PostgresLocation, tmp_path: Path) -> None:
        """It stays as evidence; afterwards it is pruned as any other, with its rows."""
        key, at = tmp_path / "key.pem", 1 << 50
        done = prune(lost, before=at, by="ada", at=at, key=key)
        assert [stub.session for stub in done.pruned] == ["t"]
        assert [check.fault and check.fault.message for check in done.kept] == [
            "it diverged, and nobody accepted yet that events of it are lost"
        ]
        with Journal.open(lost) as journal:
            accept(journal)
        assert [stub.session for stub in prune(lost, before=at, by="ada", at=at, key=key).pruned] == ["s"]
        assert rows(lost, "SELECT * FROM divergence") == []

    @pytest.mark.slow
    def test_a_rebuild_leaves_it_so(self, lost: PostgresLocation) -> None:
        """The lines of sessions are rebuilt, but for what no event says of this one."""
        assert list(index_mismatches(lost)) == []
        assert rebuild(lost).mended == ()
        rows(lost, "UPDATE session SET status = 'idle' WHERE id = 's'")  # as an older version's does
        assert rebuild(lost).mended == ("s",)
        assert rows(lost, "SELECT status FROM session WHERE id = 's'") == [("diverged",)]

    @pytest.mark.slow
    def test_the_journal_is_not_copied_until_then(self, lost: PostgresLocation, tmp_path: Path) -> None:
        """A copy would not show it, and its sessions could be resumed there."""
        with pytest.raises(JournalError, match="lost events of session 's'"):
            copy_journal(lost, tmp_path / "copy.db")

    @pytest.mark.slow
    def test_a_servers_role_removes_no_row(self, lost: PostgresLocation) -> None:
        """It may note and accept, and neither change nor remove what was noted."""
        role = f"{lost.schema}_noting"
        rows(lost, f"CREATE ROLE {role} LOGIN")
        try:
            rows(lost, f"GRANT USAGE ON SCHEMA {lost.schema} TO {role}")
            rows(lost, f"GRANT SELECT, INSERT, UPDATE (accepted) ON divergence TO {role}")
            connection = connect(
                PostgresLocation(lost.url.replace("//interlock@", f"//{role}@"), lost.schema)
            )
            for statement in ("DELETE FROM divergence", "UPDATE divergence SET seq = 1"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
            connection.close()
        finally:
            rows(lost, f"DROP OWNED BY {role}")
            rows(lost, f"DROP ROLE {role}")

    @pytest.mark.slow
    @pytest.mark.parametrize("right", ["SELECT", "INSERT", "UPDATE"])
    def test_a_server_without_its_rights_does_not_start(
        self, postgresql: PostgresLocation, right: str
    ) -> None:
        """Otherwise the missing right would be noticed only once something is lost or accepted."""
        Journal.open(postgresql).close()
        role = f"{postgresql.schema}_older"
        rows(postgresql, f"CREATE ROLE {role} LOGIN")
        try:
            rows(postgresql, f"GRANT USAGE ON SCHEMA {postgresql.schema} TO {role}")
            rows(
                postgresql,
                f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {postgresql.schema} TO {role}",
            )
            rows(postgresql, f"REVOKE {right} ON divergence FROM {role}")
            location = PostgresLocation(
                postgresql.url.replace("//interlock@", f"//{role}@"), postgresql.schema
            )
            with pytest.raises(JournalError, match=r"table divergence\. The role lacks a right"):
                Journal.open(location)
        finally:
            rows(postgresql, f"DROP OWNED BY {role}")
            rows(postgresql, f"DROP ROLE {role}")
