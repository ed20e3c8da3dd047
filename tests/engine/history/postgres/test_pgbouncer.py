"""A journal behind PgBouncer, in both supported modes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.database.location import Pooling, PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import MessageAdded, SessionStatus
from interlock.engine.history.postgres import bell as ringing
from interlock.engine.history.postgres.acts import Acts
from interlock.engine.history.postgres.bell import Bell
from interlock.engine.history.postgres.pool import close_idle

from ....support.pgbouncer import pooler
from ....support.postgres import PostgresServer, own_server
from ..support.recording import decided, opening, result
from .support.servers import end, lease, rows, wait_for

MODES: tuple[Pooling, ...] = ("session", "transaction")
HELLO = MessageAdded(role="user", text="hello")


@dataclass(frozen=True, slots=True)
class Pooled:
    """A journal's location behind a pooler, and its direct location."""

    mode: Pooling
    place: PostgresLocation
    direct: PostgresLocation
    query: str

    def named(self, schema: str, kind: str = "") -> PostgresLocation:
        return PostgresLocation.of(f"postgresql://interlock@/postgres?{self.query}&schema={schema}{kind}")


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with own_server(durable=False) as found:
        yield found


@pytest.fixture(params=MODES)
def pooled(request: pytest.FixtureRequest, database: PostgresServer) -> Iterator[Pooled]:
    mode: Pooling = request.param
    schema = f"journal_{mode}"
    direct = PostgresLocation(database.url, schema)
    rows(direct, f"ALTER ROLE interlock SET search_path = {schema}")
    with pooler(database, mode) as query:
        url = f"postgresql://interlock@/postgres?{query}&schema={schema}&pooler={mode}"
        place = PostgresLocation.of(url)
        yield Pooled(mode, place, direct, query)
        close_idle(place)
    rows(direct, "ALTER ROLE interlock RESET search_path")
    rows(direct, f"DROP SCHEMA IF EXISTS {schema} CASCADE")


class TestJournal:
    @pytest.mark.slow
    def test_is_shared_by_servers(self, pooled: Pooled) -> None:
        """Servers create tables, write, take over, exchange acts and read as without a pooler."""
        with Journal.open(pooled.place) as one, Journal.open(pooled.place) as two:
            one.write("s", opening(), decided("c1", "test"), result("c1", "test"))
            two.write("t", opening())
            threads = [
                threading.Thread(target=lambda n=n: one.write(f"s{n}", opening(), *[HELLO] * 9))
                for n in range(20)
            ]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            acts = Acts(lease(two))
            acts.post("a", "s", "approval.decide", "{}", "{}")
            [act] = Acts(lease(one)).take()
            Acts(lease(one)).answer(act.id, "done")
            assert acts.result("a") == "done"
            end(one)
            taken: list[str] = []

            def all_taken() -> bool:
                taken.extend(two.orphans(99))
                return len(taken) == 21

            wait_for(all_taken)
            with pytest.raises(JournalError):
                one.write("s", HELLO)
            assert two.write("s", HELLO, SessionStatus(status="done"))[0].seq == 4
        assert [each for each in verify_journal(pooled.place) if each.fault] == []
        assert len(list(open_reader(pooled.place).events("s"))) == 5
        assert len(list(open_reader(pooled.direct).events("s7"))) == 10

    def test_replaces_connections_that_were_ended(self, pooled: Pooled) -> None:
        """The journal replaces connections that were ended, and writes each event once."""
        with Journal.open(pooled.place) as journal:
            journal.write("s", opening())
            for _ in range(3):
                ended = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                )
                rows(pooled.direct, f"{ended} AND datname = 'postgres' AND application_name <> ''")
                journal.write("s", HELLO)
        # The reading connection was ended too; the pool does not check one it has just used.
        close_idle(pooled.direct)
        assert [each.seq for each in open_reader(pooled.direct).events("s")] == [1, 2, 3, 4]


class TestBell:
    @pytest.mark.slow
    def test_is_heard_in_session_mode_only(self, pooled: Pooled, monkeypatch: pytest.MonkeyPatch) -> None:
        """In session mode the bell is heard; in transaction mode it notices that it is not."""
        monkeypatch.setattr(ringing, "SILENCE_SECONDS", 0.5)
        rung = threading.Event()
        bell, other = Bell(pooled.place, rung.set), Bell(pooled.place, lambda: None)
        try:
            if pooled.mode == "transaction":
                wait_for(lambda: bell.deaf)
                return

            def heard() -> bool:
                rung.clear()
                other.ring()
                return rung.wait(0.2)

            wait_for(lambda: heard() and not bell.deaf)
        finally:
            bell.close()
            other.close()


class TestPoolerThatIsNotNamed:
    def test_schema_refusal_names_the_parameter_to_add(self, pooled: Pooled) -> None:
        """A pooler that refuses the schema is detected, and the error names the parameter to add."""
        with pytest.raises(JournalError, match="pooler=transaction or &pooler=session"):
            Journal.open(pooled.named(f"other_{pooled.mode}"))

    def test_ignored_schema_is_detected(self, pooled: Pooled, database: PostgresServer) -> None:
        """A pooler that ignores the schema is detected; otherwise the journal would be in another one."""
        with pooler(database, pooled.mode, "ignore_startup_parameters = options") as query:
            url = f"postgresql://interlock@/postgres?{query}&schema=other_{pooled.mode}"
            with pytest.raises(JournalError, match="Name its pool_mode in the URL"):
                Journal.open(url)
