"""Sessions with acknowledged events that a database lost: noted for all servers until accepted."""

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
    """Let the database lose a session's events after the first `kept`, and its server notice that."""
    lose(lease(journal).location, session, kept)
    fail_over(journal)
    with pytest.raises(JournalError):
        journal.write(session, HELLO)
    assert session in journal.diverged_sessions


def accept(journal: Journal, session: str = "s") -> None:
    record_acceptance(journal, session, by="ada", reason="the deploy was seen")


class TestNoted:
    def test_row_has_lost_and_kept_event(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """The row has the acknowledged event, the kept one, the server that noticed, and the time."""
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
        """Further calls and reconnections do not log the divergence again."""
        journal.write("s", opening(), HELLO)
        diverged(journal)
        for _ in range(3):
            fail_over(journal)
            with pytest.raises(SessionDiverged):
                journal.write("s", HELLO)
        assert [each.levelno for each in caplog.records if "diverged" in each.message] == [logging.ERROR]

    def test_before_any_other_write(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Until the server can note a divergence, it writes no event at all."""
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

    def test_by_search_for_orphans(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A search for orphans also compares, even if the writing connection has not."""
        journal.write("s", opening(), HELLO)
        lose(postgresql, "s", 1)
        writer(journal)._ends._compared = None
        journal.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 2, 1)]

    def test_before_a_session_is_released(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A server that releases a session first notes its lost events."""
        journal.write("s", opening(), HELLO)
        lose(postgresql, "s", 1)
        writer(journal)._ends._compared = None
        journal.release("s")
        assert rows(postgresql, OPEN) == [("s", 2, 1)]

    @pytest.mark.slow
    def test_at_the_end_of_a_server(self, postgresql: PostgresLocation) -> None:
        """A server that ends notes lost events before other servers may take its sessions."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening(), HELLO)
            journal.write("t", opening(), HELLO)
            lose(postgresql, "s", 1)
            lose(postgresql, "t", 1)
            writer(journal)._ends._compared = None
            journal.hand_over()
            assert len(rows(postgresql, OPEN)) == 2

    def test_of_a_session_that_had_ended(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A loss is noted even if the session had ended and its end is among the lost events."""
        journal.write("s", opening(), HELLO, SessionStatus(status="done"))
        lose(postgresql, "s", 1)
        fail_over(journal)
        journal.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 3, 1)]

    def test_by_server_that_took_the_session(self, postgresql: PostgresLocation, other: Journal) -> None:
        """A server that took the session from an ended server stops it as well."""
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

    def test_by_a_server_that_ended_long_after_its_last_renewal(
        self, postgresql: PostgresLocation
    ) -> None:
        """A copy without the server's row ends it; it notes the loss, however old its lease is."""
        journal = Journal.open(postgresql)
        journal.write("s", opening(), HELLO)
        lose(postgresql, "s", 0)
        rows(postgresql, "DELETE FROM server")
        wait_for(lambda: lease(journal).ended)
        lease(journal)._valid_until -= lease(journal).seconds
        journal.close()
        assert rows(postgresql, OPEN) == [("s", 2, 0)]

    def test_if_a_copy_of_the_tables_is_restored_beside_the_server(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """A restored copy is compared although the connections to the database stay open."""
        for each in ("s", "t", "idle"):
            journal.write(each, opening())
        other.write("u", opening())
        [(lane, last)] = rows(
            postgresql, "SELECT lane, last FROM lane WHERE lane = ?", (lease(journal).lane,)
        )
        journal.write("s", HELLO)
        journal.write("idle", HELLO)
        other.write("u", HELLO)
        for each in ("s", "idle", "u"):
            lose(postgresql, each, 1)
        rows(postgresql, "UPDATE lane SET last = ? WHERE lane = ?", (last, lane))
        with pytest.raises(JournalError, match="not what the database has"):
            journal.write("t", HELLO)
        journal.write("t", HELLO)
        assert rows(postgresql, OPEN) == [("idle", 2, 1), ("s", 2, 1)]
        for _ in range(2):
            with pytest.raises(SessionDiverged):
                journal.write("s", HELLO)
        with pytest.raises(SessionDiverged):  # the number of its lane is still right
            other.write("u", HELLO)
        assert rows(postgresql, OPEN) == [("idle", 2, 1), ("s", 2, 1), ("u", 2, 1)]

    @pytest.mark.slow
    def test_if_a_session_is_set_back_that_the_server_does_not_remember(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """The loss is noted as well if the state of the session is read from the database again."""
        journal.write("s", opening(), HELLO)
        lose(postgresql, "s", 1)
        writer(journal)._rows.sessions.clear()  # as after any failed batch
        with pytest.raises(SessionDiverged):
            journal.write("s", HELLO)
        assert rows(postgresql, OPEN) == [("s", 2, 1)]

    def test_if_other_tables_take_their_place(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A search for orphans compares with tables that were restored, as it does after a restart."""
        journal.write("s", opening(), HELLO)
        journal.orphans(9)
        lose(postgresql, "s", 1)
        journal.orphans(9)
        assert rows(postgresql, OPEN) == []
        rows(postgresql, "CREATE TABLE restored (LIKE event INCLUDING ALL)")
        rows(postgresql, "INSERT INTO restored SELECT * FROM event")
        rows(postgresql, "DROP TABLE event")
        rows(postgresql, "ALTER TABLE restored RENAME TO event")
        journal.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 2, 1)]

    def test_by_another_server_that_followed_the_session(
        self, postgresql: PostgresLocation, other: Journal
    ) -> None:
        """If the session's own server was killed, another server that followed it notes the loss."""
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
    def test_same_loss_by_two_servers_is_one_row(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """Two servers that notice the same loss leave one row; an accepted loss remains accepted."""
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

    def test_lost_row_is_noted_again(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """If the database loses the row as well, any server that knew of the loss notes it again."""
        journal.write("s", opening(), HELLO)
        diverged(journal)
        other.orphans(9)
        rows(postgresql, "DELETE FROM divergence")
        other.orphans(9)
        assert rows(postgresql, OPEN) == [("s", 2, 1)]
        assert divergence.open_divergences(postgresql)[0].server == lease(other).id

    @pytest.mark.slow
    def test_restored_events_are_not_noted(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """If the database has the events again, a server notes no loss."""
        journal.write("s", opening(), HELLO)
        other.note_followed("s", 2, is_over=False)
        writer(other)._ends._compared = None
        other.orphans(9)
        assert rows(postgresql, OPEN) == []


class TestLeftAlone:
    @pytest.fixture
    def lost(self, postgresql: PostgresLocation) -> PostgresLocation:
        """A database with a diverged session whose server has ended."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening(), HELLO)
            diverged(journal)
        return postgresql

    def test_by_servers_that_take_sessions(self, lost: PostgresLocation) -> None:
        """A server that starts later does not take the session, but knows of the divergence."""
        with Journal.open(lost) as journal:
            assert journal.orphans(9) == []
            assert journal.diverged_sessions["s"].seq == 2

    def test_writes_and_checks_fail_with_the_remedy(self, lost: PostgresLocation) -> None:
        """A write and a check fail with the reason and the remedy; other sessions pass the check."""
        with Journal.open(lost) as journal:
            with pytest.raises(SessionDiverged, match="interlock approvals accept-loss s --reason TEXT"):
                journal.write("s", HELLO)
            with pytest.raises(SessionDiverged, match="event 2 of it was acknowledged"):
                journal.check_whole("s")
            journal.check_whole("t")
        assert rows(lost, "SELECT count(*) FROM event") == [(1,)]

    def test_unaware_owner_is_refused(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """The session's owner, which has not noticed the loss itself, is refused with the reason."""
        journal.write("s", opening(), HELLO)
        journal.write("s", HELLO)
        with Journal.open(postgresql) as other:
            other.note_followed("s", 4, is_over=False)
            writer(other)._ends._compared = None
            other.orphans(9)
        with pytest.raises(SessionDiverged, match="event 4 of it was acknowledged"):
            journal.write("s", HELLO)

    @pytest.mark.slow
    def test_parent_of_diverged_subagent_is_not_taken(self, postgresql: PostgresLocation) -> None:
        """A session with a diverged subagent is not taken; other sessions are."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening())
            journal.write("s/1", opening().model_copy(update=CHILD), HELLO)
            journal.write("t", opening())
            diverged(journal, "s/1")
        with Journal.open(postgresql) as journal:
            assert journal.orphans(1) == ["t"]
            accept(journal, "s/1")
            wait_for(lambda: "s" in journal.orphans(9))

    def test_id_of_a_lost_opening_is_not_reused(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """If the opening is lost as well, no other session may begin under its id."""
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
    def test_acceptance_is_recorded_and_session_can_continue(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """The chain records the acceptance; the session is ended, and any server can continue it."""
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

    def test_second_acceptance_is_refused(self, journal: Journal, other: Journal) -> None:
        """A loss cannot be accepted twice, nor for a session that did not diverge."""
        journal.write("s", opening(), HELLO)
        with pytest.raises(ValueError, match="did not diverge"):
            accept(other)
        diverged(journal)
        accept(other)
        with pytest.raises(ValueError, match="did not diverge, or its loss is accepted already"):
            accept(journal)

    @pytest.mark.slow
    def test_simultaneous_acceptances_record_one(
        self, postgresql: PostgresLocation, journal: Journal, other: Journal
    ) -> None:
        """At two servers: one acceptance is recorded, the other is refused."""
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
    def test_lost_acceptance_no_longer_counts(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """If the database loses the acceptance, it no longer counts."""
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
    def test_batch_after_acceptance_writes_other_sessions(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A batch after an acceptance writes other sessions as usual."""
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

    def test_verify_names_the_session(
        self, lost: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`verify` names the session and exits as for a broken journal until the loss is accepted."""
        assert main(["history", "--db", named(lost), "verify"]) == 1
        said = capsys.readouterr().out
        assert "✗ s  diverged: event 2 of it was acknowledged, and the database" in said
        assert "now ends it with event 1" in said
        assert main(["history", "--db", named(lost), "verify", "s", "--json"]) == 1
        [found] = json.loads(capsys.readouterr().out)["diverged"]
        assert (found["session"], found["acknowledged"], found["kept"]) == ("s", 2, 1)

    def test_servers_command_names_the_session(
        self, lost: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`servers` names the session even after the server that noticed the loss has ended."""
        main(["servers", "--db", named(lost)])
        assert "Session s diverged: event 2 of it was acknowledged" in capsys.readouterr().out

    @pytest.mark.slow
    def test_export_warns_of_divergence(
        self, lost: PostgresLocation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An export warns that the session diverged."""
        assert main(["history", "--db", named(lost), "export", "s"]) == 0
        assert "Session 's' diverged" in capsys.readouterr().err

    @pytest.mark.slow
    def test_not_pruned_until_accepted(self, lost: PostgresLocation, tmp_path: Path) -> None:
        """The session is kept as evidence until its loss is accepted; then it is pruned with its rows."""
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
    def test_rebuild_keeps_diverged_status(self, lost: PostgresLocation) -> None:
        """A rebuild keeps the diverged status, which no event records."""
        assert list(index_mismatches(lost)) == []
        assert rebuild(lost).mended == ()
        rows(lost, "UPDATE session SET status = 'idle' WHERE id = 's'")  # as an older version does
        assert rebuild(lost).mended == ("s",)
        assert rows(lost, "SELECT status FROM session WHERE id = 's'") == [("diverged",)]

    @pytest.mark.slow
    def test_copy_is_refused_until_accepted(self, lost: PostgresLocation, tmp_path: Path) -> None:
        """A copy is refused, since it would not show the loss and the session could be resumed there."""
        with pytest.raises(JournalError, match="lost events of session 's'"):
            copy_journal(lost, tmp_path / "copy.db")

    @pytest.mark.slow
    def test_server_role_cannot_change_or_remove_rows(self, lost: PostgresLocation) -> None:
        """The role may note and accept losses, but neither change nor remove a row."""
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
    def test_server_without_required_rights_does_not_start(
        self, postgresql: PostgresLocation, right: str
    ) -> None:
        """The server checks its rights at the start, not only at the first loss or acceptance."""
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
