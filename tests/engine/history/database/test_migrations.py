"""Migrations in both databases: what they keep, which older servers may continue, what stops them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine.history.audit.stream_positions import SentEvent, positions_text
from interlock.engine.history.database.location import Location, PostgresLocation
from interlock.engine.history.database.revisions import MIGRATIONS, Schema, read_revision
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.schema import CURRENT, inspect, reading
from interlock.engine.history.postgres import maintenance
from interlock.engine.history.postgres import schema as postgres_schema
from interlock.engine.history.postgres.connection import connect
from interlock.engine.history.postgres.servers import lease as leasing
from interlock.engine.history.postgres.servers.lease import ServerLease
from interlock.engine.history.postgres.stream_positions import PostgresPositions
from tests.support import postgres
from tests.support.migrations import (
    CONTRACTING,
    EXPANDING,
    LATER,
    NEXT,
    NOW,
    Place,
    journal_at,
    prepare,
    problems_after,
    schema_with,
)

from ..support.recording import decided, opening

pytestmark = pytest.mark.sqlite("both databases are named here")

OLDER = [each for each in CURRENT.known if each != CURRENT.newest]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Empty places for journals, in a file and in a database."""
    if request.param == "sqlite":
        yield lambda name: tmp_path / f"{name}.db"
        return
    made: list[PostgresLocation] = []

    def schema(_: str) -> Location:
        made.append(postgres.fresh_location())
        return made[-1]

    yield schema
    for each in made:
        postgres.drop(each)


@pytest.fixture
def expanded(tmp_path: Path) -> Schema:
    """The schema of a next version that still allows servers of this one."""
    return schema_with(tmp_path, EXPANDING)


@pytest.fixture
def contracted(tmp_path: Path) -> Schema:
    """The schema of the version after that, which allows no older servers."""
    return schema_with(tmp_path, EXPANDING, CONTRACTING)


class TestMigrations:
    @pytest.mark.parametrize("revision", OLDER)
    def test_keep_all_data(self, place: Place, revision: str) -> None:
        """A journal of each earlier revision becomes equal to a new one and keeps all its data."""
        assert problems_after(place("older"), place("fresh"), CURRENT, revision) == []

    def test_check_accepts_added_and_removed_columns(self, place: Place, contracted: Schema) -> None:
        """The check for future migrations accepts one that adds and one that removes."""
        assert problems_after(place("older"), place("fresh"), contracted, NOW) == []

    def test_migration_that_changes_an_event_is_reported(self, place: Place, tmp_path: Path) -> None:
        """A migration that changes an event is reported."""
        faulty = EXPANDING + "    op.execute(\"UPDATE event SET body = '{}' WHERE seq = 2\")\n"
        found = problems_after(place("older"), place("fresh"), schema_with(tmp_path, faulty), NOW)
        assert "or others" in found[0]

    def test_new_columns_have_declared_types(self, tmp_path: Path, expanded: Schema) -> None:
        """A new text column has PostgreSQL's byte order, and a new number column has 64 bits."""
        location = postgres.fresh_location()
        try:
            prepare(location, expanded)
            with reading(location) as connection:
                found = connection.execute(
                    "SELECT column_name, data_type, collation_name FROM information_schema.columns "
                    "WHERE table_schema = ? AND column_name IN ('team', 'minutes') ORDER BY 1",
                    (location.schema,),
                ).fetchall()
            assert found == [("minutes", "bigint", None), ("team", "text", "C")]
        finally:
            postgres.drop(location)


class TestRange:
    def test_defaults_to_own_revision(self, place: Place) -> None:
        """A journal of this version names no older version that it allows."""
        location = place("new")
        prepare(location, CURRENT)
        with reading(location) as connection:
            assert read_revision(connection) == (CURRENT.newest, ())

    def test_allowed_older_version_reads_and_writes(self, place: Place, expanded: Schema) -> None:
        """This version reads and writes a newer journal that allows it, and changes no table."""
        location = place("newer")
        prepare(location, expanded)
        assert inspect(location) == ("current", NEXT)
        with Journal.open(location) as journal:
            journal.write("s", opening(), decided("c1", "test"))
        assert len(list(open_reader(location).events("s"))) == 2
        with Journal.open(location, schema=expanded) as journal:
            journal.write("t", opening())
        with reading(location) as connection:
            assert read_revision(connection) == (NEXT, (NOW,))

    def test_version_not_allowed_is_refused(self, place: Place, contracted: Schema) -> None:
        """An older version reports the schema it found and leaves the journal unchanged."""
        location = place("newer")
        prepare(location, contracted)
        for opened in (Journal.open, open_reader):
            with pytest.raises(
                JournalError, match=f"has schema {LATER}; this version knows schemas up to {NOW}"
            ):
                opened(location)
        with reading(location) as connection:
            assert read_revision(connection) == (LATER, ())

    def test_range_of_another_revision_is_ignored(self, place: Place, expanded: Schema) -> None:
        """The list of allowed versions is ignored if the revision was changed without updating it."""
        location = place("newer")
        prepare(location, expanded)
        with_writer = connect(location) if isinstance(location, PostgresLocation) else None
        statement = "UPDATE alembic_version SET version_num = '9999'"
        if with_writer is not None:
            with_writer.execute(statement)
            with_writer.close()
        else:
            import sqlite3

            with sqlite3.connect(location) as file:
                file.execute(statement)
        with pytest.raises(JournalError, match="has schema 9999"):
            inspect(location)


class TestUpgradeOfADatabase:
    @pytest.fixture
    def older(self, postgresql: PostgresLocation) -> PostgresLocation:
        """A journal of this version, before an upgrade."""
        journal_at(postgresql, CURRENT, NOW)
        return postgresql

    def test_is_done_by_one_of_many(self, older: PostgresLocation, expanded: Schema) -> None:
        """If servers of the next version start at the same time, all find one upgraded journal."""
        problems: list[Exception] = []

        def start() -> None:
            try:
                Journal.open(older, schema=expanded).close()
            except Exception as error:
                problems.append(error)

        threads = [threading.Thread(target=start) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert problems == []
        assert inspect(older, expanded) == ("current", NEXT)

    def test_blocked_upgrade_gives_up_and_can_be_retried(
        self, older: PostgresLocation, expanded: Schema, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An upgrade blocked by a long read gives up and can be retried; writers continue."""
        monkeypatch.setattr(postgres_schema, "LOCK_SECONDS", 0.1)
        reader = connect(older)
        reader.raw.execute("BEGIN")
        reader.raw.execute("SELECT count(*) FROM session")
        with pytest.raises(JournalError, match=r"holds one of its tables.*Try again.*journal upgrade"):
            prepare(older, expanded)
        with Journal.open(older) as journal:
            journal.write("s", opening())
        reader.close()
        prepare(older, expanded)
        assert inspect(older, expanded) == ("current", NEXT)

    def test_failed_upgrade_is_rolled_back(self, older: PostgresLocation, tmp_path: Path) -> None:
        """A failed upgrade is rolled back completely."""
        schema = schema_with(tmp_path, EXPANDING + '    op.execute("SELECT 1 / 0")\n')
        with reading(older) as connection:
            before = read_revision(connection)
        with pytest.raises(JournalError, match="division by zero"):
            prepare(older, schema)
        assert inspect(older) == ("current", NOW)
        with reading(older) as connection:
            assert read_revision(connection) == before

    def test_is_refused_to_a_role_that_is_not_owner(
        self, older: PostgresLocation, expanded: Schema
    ) -> None:
        """A role that may not change the tables gets an error with the command for their owner."""
        admin = connect(older)
        role = f"{older.schema}_server"
        admin.raw.execute(f"CREATE ROLE {role} LOGIN".encode())
        admin.raw.execute(f"GRANT USAGE ON SCHEMA {older.schema} TO {role}".encode())
        admin.raw.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {older.schema} TO {role}".encode())
        try:
            url = older.url.replace("postgresql://interlock@", f"postgresql://{role}@")
            with pytest.raises(JournalError, match=f"'{role}' may not change.*interlock journal upgrade"):
                prepare(PostgresLocation(url, older.schema), expanded)
        finally:
            admin.raw.execute(f"DROP OWNED BY {role}".encode())
            admin.raw.execute(f"DROP ROLE {role}".encode())
            admin.close()
        assert inspect(older) == ("current", NOW)

    @pytest.mark.slow
    def test_allowed_running_servers_continue(self, older: PostgresLocation, expanded: Schema) -> None:
        """A running server continues through an upgrade that allows it."""
        with Journal.open(older) as journal:
            journal.write("s", opening())
            prepare(older, expanded)
            journal.write("s", decided("c1", "test"))
        assert len(list(open_reader(older).events("s"))) == 2

    @pytest.mark.slow
    def test_is_refused_while_others_run(self, older: PostgresLocation, contracted: Schema) -> None:
        """An upgrade that allows no older servers is refused until those have ended."""
        with Journal.open(older):
            with pytest.raises(JournalError, match=f"servers run that cannot.*schema {NOW}.*End all"):
                prepare(older, contracted)
            assert inspect(older) == ("current", NOW)
        prepare(older, contracted)
        assert inspect(older, contracted) == ("current", LATER)

    @pytest.mark.slow
    def test_killed_server_does_not_block_it(
        self, older: PostgresLocation, contracted: Schema, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A killed server, whose lease expired, does not block the upgrade forever."""
        monkeypatch.setattr(postgres_schema, "SILENT_SECONDS", 0.3)
        admin = connect(older)
        admin.execute(
            "INSERT INTO server (id, name, version, started, lease) VALUES ('dead', 'it', '1', 1, 1)"
        )
        prepare(older, contracted)
        assert admin.execute("SELECT ended IS NOT NULL FROM server").fetchall() == [(True,)]
        admin.close()

    @pytest.mark.slow
    def test_killed_server_with_future_lease_does_not_block_it(
        self, older: PostgresLocation, contracted: Schema, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A killed server with a lease far in the future is ignored, but a server that renews is not."""
        monkeypatch.setattr(postgres_schema, "SILENT_SECONDS", 2.5)
        monkeypatch.setattr(leasing, "LEASE_SECONDS", 2.0)
        with Journal.open(older) as journal:
            with reading(older) as connection:
                connection.execute(
                    "INSERT INTO server (id, name, version, started, lease) "
                    "VALUES ('gone', 'gone', '1', 1, 7200000 + "
                    "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint))"
                )
            with pytest.raises(JournalError, match="End all of them") as refused:
                prepare(older, contracted)
            assert "(gone" not in str(refused.value)
            assert journal.disturbed is None
        prepare(older, contracted)

    def test_killed_upgrade_leaves_tables_unchanged(
        self, older: PostgresLocation, tmp_path: Path
    ) -> None:
        """An upgrade whose connection is killed leaves the tables unchanged for the next attempt."""
        killed = EXPANDING + '    op.execute("SELECT pg_terminate_backend(pg_backend_pid())")\n'
        with pytest.raises(JournalError):
            prepare(older, schema_with(tmp_path / "killed", killed))
        with reading(older) as connection:
            assert read_revision(connection).number == NOW
        Journal.open(older).close()
        prepare(older, schema_with(tmp_path / "next", EXPANDING))
        Journal.open(older).close()

    def test_older_prune_is_refused_after_upgrade(
        self, older: PostgresLocation, contracted: Schema, tmp_path: Path
    ) -> None:
        """An older `prune` that starts before an upgrade is refused after it and changes nothing."""
        looked = maintenance.inspect

        def first(*args: object) -> object:
            found = looked(*args)
            prepare(older, contracted)
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(maintenance, "inspect", first)
            with pytest.raises(JournalError, match="has schema"), maintenance.changing_database(older):
                raise AssertionError("it began")

    @pytest.mark.slow
    def test_is_refused_while_older_version_changes_journal(
        self, older: PostgresLocation, contracted: Schema, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An upgrade is refused while an older version changes the journal."""
        monkeypatch.setattr(postgres_schema, "TURN_SECONDS", 0.3)
        with maintenance.changing_database(older), pytest.raises(JournalError, match="was not upgraded"):
            prepare(older, contracted)
        prepare(older, contracted)

    def test_starting_server_of_older_version_is_refused(
        self, older: PostgresLocation, contracted: Schema
    ) -> None:
        """A server that starts after an upgrade it does not know is refused and not registered."""
        prepare(older, contracted)
        with pytest.raises(JournalError, match=f"has schema {LATER}"):
            ServerLease.take(older)
        with reading(older) as connection:
            assert connection.number("SELECT count(*) FROM server") == 0


class TestTableOfStreams:
    STREAM = 'CREATE TABLE stream (id text COLLATE "C" PRIMARY KEY, server text, positions text NOT NULL)'

    @pytest.mark.parametrize("made", [False, True], ids=["without", "with"])
    def test_upgrade_adds_table_and_keeps_rows(self, postgresql: PostgresLocation, made: bool) -> None:
        """An upgrade adds the table to a first-revision database; an existing one keeps its rows."""
        journal_at(postgresql, CURRENT, "0006")
        sent = {0: SentEvent(3, "ab")}
        admin = connect(postgresql)
        if made:
            admin.execute(self.STREAM)
            kept = "INSERT INTO stream (id, positions) VALUES ('s', ?)"
            admin.execute(kept, (positions_text(sent),))
        admin.close()
        with Journal.open(postgresql) as journal:
            assert isinstance(journal.lock, ServerLease)
            place = PostgresPositions(journal.lock, "s")
            assert place.claim()
            assert place.read() == (sent if made else None)
            place.note(sent)
            assert place.read() == sent


def test_every_revision_has_its_script() -> None:
    """The revisions that this version knows are those of its scripts, in order."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(each.revision for each in scripts)[::-1] == CURRENT.known
