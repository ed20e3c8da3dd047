"""Sessions and their owners: which server writes, and which takes an ended server's sessions."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalDisturbed, JournalError, SessionElsewhere
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded, SessionStatus
from interlock.engine.history.postgres.connection import PostgresConnection
from interlock.engine.history.postgres.servers import lease as leasing
from interlock.engine.history.postgres.servers.lease import Orphan, Ownership, ServerLease

from ..support.recording import opening
from .support.servers import end, writer

HELLO = MessageAdded(role="user", text="hello")
DONE = SessionStatus(status="done")


@pytest.fixture
def two(postgresql: PostgresLocation) -> Iterator[tuple[Journal, Journal]]:
    """Two servers of one database."""
    with Journal.open(postgresql) as one, Journal.open(postgresql) as other:
        yield one, other


class TestOwner:
    def test_event_of_second_server_is_refused(self, two: tuple[Journal, Journal]) -> None:
        """A second server's event is refused with the first one's URL."""
        one, other = two
        one.name_server("http://one:1")
        one.write("s", opening(), HELLO)
        with pytest.raises(SessionElsewhere, match="http://one:1") as refused:
            other.write("s", HELLO)
        assert refused.value.url == "http://one:1"
        assert one.write("s", HELLO)[0].seq == 3

    @pytest.mark.slow
    def test_both_servers_name_the_owner(self, two: tuple[Journal, Journal]) -> None:
        """Both servers name the owner, and none for an unknown session."""
        one, other = two
        one.name_server("http://one:1")
        one.write("s", opening())
        owner = other.owner("s")
        assert owner is not None
        assert owner.url == "http://one:1"
        assert one.owner("s") == owner
        assert other.owner("t") is None

    @pytest.mark.slow
    def test_released_session_continues_elsewhere_and_returns(self, two: tuple[Journal, Journal]) -> None:
        """Each server continues after the other's last event."""
        one, other = two
        one.write("s", opening())
        one.release("s")
        assert one.owner("s") is None
        assert other.write("s", HELLO)[0].seq == 2
        with pytest.raises(SessionElsewhere):
            one.write("s", HELLO)
        other.release("s")
        assert one.write("s", HELLO)[0].seq == 3

    @pytest.mark.slow
    def test_released_session_can_be_continued_by_same_server(self, two: tuple[Journal, Journal]) -> None:
        """The server that released a session can continue it if no other has."""
        one, _ = two
        one.write("s", opening())
        one.release("s")
        assert one.write("s", HELLO)[0].seq == 2

    @pytest.mark.slow
    def test_closed_server_releases_its_sessions(self, postgresql: PostgresLocation) -> None:
        """Another server can continue the sessions of a closed one at once."""
        with Journal.open(postgresql) as one:
            one.write("s", opening())
        with Journal.open(postgresql) as other:
            assert other.write("s", HELLO)[0].seq == 2


class TestOrphans:
    def test_running_server_sessions_are_not_taken(self, two: tuple[Journal, Journal]) -> None:
        """A running server's sessions are not taken."""
        one, other = two
        one.write("s", opening())
        assert other.orphans(10) == []

    @pytest.mark.slow
    def test_oldest_are_taken_first_up_to_a_number(self, postgresql: PostgresLocation) -> None:
        """A server takes an ended server's unfinished sessions, oldest first and up to a number."""
        with Journal.open(postgresql) as one:
            for name in ("c", "b", "a"):
                one.write(name, opening())
            one.write("b", DONE)
        with Journal.open(postgresql) as other:
            assert other.orphans(1) == ["c"]
            assert other.orphans(10) == ["a"]
            assert other.orphans(10) == []
            assert other.write("a", HELLO)[0].seq == 2

    @pytest.mark.slow
    def test_concurrent_servers_share_the_sessions(self, postgresql: PostgresLocation) -> None:
        """Servers that ask at the same time share the sessions."""
        names = [f"s{number:02}" for number in range(40)]
        with Journal.open(postgresql) as one:
            for name in names:
                one.write(name, opening())
        with Journal.open(postgresql) as other, Journal.open(postgresql) as third:
            found: dict[Journal, list[str]] = {other: [], third: []}

            def take(journal: Journal) -> None:
                while taken := journal.orphans(3):
                    found[journal] += taken

            threads = [threading.Thread(target=take, args=(each,)) for each in found]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for journal, taken in found.items():
                for name in taken:
                    journal.write(name, HELLO)
            left = other.orphans(100) + third.orphans(100)  # one may have found only locked sessions
            assert sorted(found[other] + found[third] + left) == names

    def test_session_written_while_taken_can_continue(
        self, postgresql: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server that writes to a session while it takes it as an orphan can continue it."""
        with Journal.open(postgresql) as one:
            one.write("s", opening())
        with Journal.open(postgresql) as other:
            claims = writer(other)._orphan_claims
            claim = claims.claim

            def slow(connection: PostgresConnection, *given: Any) -> dict[str, Ownership]:
                found = claim(connection, *given)
                other.write("s", HELLO)
                return found

            monkeypatch.setattr(claims, "claim", slow)
            assert other.orphans(9) == ["s"]
            assert other.write("s", HELLO)[0].seq == 3

    @pytest.mark.slow
    def test_subagent_session_follows_its_parent(self, postgresql: PostgresLocation) -> None:
        """A subagent's session is taken only by the server of its parent."""
        with Journal.open(postgresql) as one:
            one.write("root", opening())
            one.write("child", opening(kind="child", parent="root", parent_seq=1))
        with Journal.open(postgresql) as other, Journal.open(postgresql) as third:
            assert other.orphans(1) == ["root", "child"]
            other.release("child")
            assert third.orphans(10) == []
            assert other.orphans(10) == ["child"]

    @pytest.mark.slow
    def test_sessions_of_an_ended_server_are_taken(self, two: tuple[Journal, Journal]) -> None:
        """A server that another one has ended writes no event; its sessions are taken."""
        one, other = two
        one.write("s", opening())
        end(one)
        assert other.orphans(1) == ["s"]
        with pytest.raises((JournalDisturbed, SessionElsewhere)):
            one.write("s", HELLO)
        assert other.write("s", HELLO)[0].seq == 2

    @pytest.mark.sqlite("a file has no owners")
    @pytest.mark.parametrize("executed", ["at once", "later", "never"])
    def test_sessions_whose_claim_was_not_answered_are_taken(
        self, two: tuple[Journal, Journal], monkeypatch: pytest.MonkeyPatch, executed: str
    ) -> None:
        """A server gets the sessions that it claimed by a statement whose answer was lost."""
        here, there = two
        here.write("s", opening(), HELLO)
        end(here)
        claim, late = ServerLease.claim_orphans, list[Sequence[Orphan]]()

        def unanswered(lease: ServerLease, connection: Any, wanted: Sequence[Orphan]) -> None:
            if executed == "at once":
                claim(lease, connection, wanted)
            late.append(wanted)
            raise psycopg.OperationalError("no answer")

        with monkeypatch.context() as patch:
            patch.setattr(ServerLease, "claim_orphans", unanswered)
            with pytest.raises(JournalError, match="no answer"):
                there.orphans(10)
        if executed == "later":

            def overtaken(lease: ServerLease, connection: Any, wanted: Sequence[Orphan]) -> object:
                claim(lease, connection, late[0])
                return claim(lease, connection, wanted)

            with monkeypatch.context() as patch:
                patch.setattr(ServerLease, "claim_orphans", overtaken)
                assert there.orphans(10) == []
        assert there.orphans(10) == ["s"]
        assert there.orphans(10) == []
        assert there.write("s", HELLO)[0].seq == 3

    def test_file_returns_all_unfinished_sessions(self, tmp_path: Path) -> None:
        """A journal in a file returns its unfinished sessions and has no owners."""
        with Journal.open(tmp_path / "journal.db") as journal:
            journal.write("a", opening())
            journal.write("b", opening())
            journal.write("b", DONE)
            assert journal.orphans(10) == ["a"]
            assert journal.owner("a") is None
            journal.release("a")
            assert journal.write("a", HELLO)[0].seq == 2


class TestServersEnded:
    def test_other_servers_are_notified(
        self, postgresql: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server is notified that another one left, and can take its sessions."""
        monkeypatch.setattr(leasing, "LEASE_SECONDS", 0.4)
        told = threading.Event()
        with Journal.open(postgresql) as one, Journal.open(postgresql) as other:
            one.write("s", opening())
            other.on_servers_ended = told.set
            one.close()
            assert told.wait(20)
            assert other.orphans(1) == ["s"]
