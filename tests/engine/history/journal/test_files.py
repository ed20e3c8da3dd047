"""Invalid files: a clear message, and no byte changed."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from interlock.engine.history.database.compiled import REVISION
from interlock.engine.history.database.revisions import MIGRATIONS, Schema
from interlock.engine.history.database.tables import JOURNAL
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.schema import CURRENT
from interlock.engine.history.model.events import SessionStatus
from interlock.engine.recording.session_end import end_left_open

from ..support.recording import opening

pytestmark = pytest.mark.sqlite("files that are not what they should be")

NOBODY = 65534
ADD_COLUMN = "op.add_column('event', sa.Column('mark', sa.Text()))"
RUNNING = SessionStatus(status="running")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A closed journal with one session."""
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal:
        journal.write("s1", opening())
    return path


@pytest.fixture
def migrated(tmp_path: Path) -> Path:
    """A journal that was created by all migrations in sequence."""
    scripts = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, scripts)
    path = tmp_path / "migrated.db"
    Journal.open(path, schema=replace(CURRENT, scripts=scripts)).close()
    return path


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of an unprivileged user; the test runs as that user."""
    directory = Path(tempfile.mkdtemp())
    if os.geteuid() != 0:
        yield directory
    else:
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield directory
        finally:
            os.seteuid(0)
    directory.chmod(0o700)
    shutil.rmtree(directory)


def refused(path: Path) -> list[str]:
    """Return the errors of opening for writing and reading, after checking that the file is unchanged."""
    before = path.read_bytes()
    messages: list[str] = []
    for opened in (Journal.open, open_reader):
        with pytest.raises(JournalError) as caught:
            opened(path)
        messages.append(str(caught.value))
    assert path.read_bytes() == before
    assert all(path.name in message for message in messages)
    return messages


def sql(path: Path, *statements: str) -> None:
    """Change a database without the journal."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class TestForeignFiles:
    def test_text_file_is_no_journal(self, tmp_path: Path) -> None:
        """A file that is not a database is named and stays unchanged."""
        path = tmp_path / "notes.txt"
        path.write_text("remember the milk, and more than sixteen bytes")
        assert all("not an SQLite database" in m and "choose another file" in m for m in refused(path))
        assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt"]

    def test_another_programs_database(self, tmp_path: Path) -> None:
        """An SQLite file with other tables is reported as another program's."""
        path = tmp_path / "music.db"
        sql(path, "CREATE TABLE album (id)", "CREATE TABLE song (id)")
        assert all("another program's SQLite file (tables: album, song)" in m for m in refused(path))

    def test_another_programs_migrations(self, tmp_path: Path) -> None:
        """A table `alembic_version` does not make a database a journal."""
        path = tmp_path / "shop.db"
        sql(path, "CREATE TABLE alembic_version (version_num)")
        sql(path, "INSERT INTO alembic_version VALUES ('0001')")
        assert all("another program's" in m for m in refused(path))

    def test_a_directory_is_no_file(self, tmp_path: Path) -> None:
        """A directory is refused."""
        for opened in (Journal.open, open_reader):
            with pytest.raises(JournalError, match="is not a file"):
                opened(tmp_path)

    def test_control_characters_in_names_are_escaped(self, tmp_path: Path) -> None:
        """Control characters in the name of a file or table are escaped."""
        path = tmp_path / "a\x1b[2Jb.db"
        sql(path, 'CREATE TABLE "x\x1b[1m" (id)')
        with pytest.raises(JournalError, match=r"a\\x1b\[2Jb\.db.*x\\x1b\[1m"):
            Journal.open(path)


class TestDamage:
    def test_garbage_after_the_header(self, tmp_path: Path) -> None:
        """A file that only starts like a database cannot be read."""
        path = tmp_path / "journal.db"
        path.write_bytes(b"SQLite format 3\x00" + bytes(range(256)) * 40)
        assert all("restore a backup" in m for m in refused(path))

    def test_a_file_cut_short(self, database: Path) -> None:
        """A truncated journal is refused on opening."""
        database.write_bytes(database.read_bytes()[:8192])
        assert all("malformed" in m for m in refused(database))

    def test_missing_tables(self, database: Path) -> None:
        """A journal without its tables, or without its version, is refused."""
        sql(database, "DROP TABLE event")
        assert all("no such table: event" in m for m in refused(database))
        sql(database, "DROP TABLE alembic_version")
        assert all("does not say which version" in m for m in refused(database))

    @pytest.mark.parametrize("body", ["{", "{}", '{"type": "from.the.future"}', '{"type": "step"}'])
    def test_unreadable_event_is_reported(self, database: Path, body: str) -> None:
        """A changed body or an unknown type is reported with session and number."""
        sql(database, f"UPDATE event SET body = '{body}'")
        with pytest.raises(JournalError, match="event 1 of session 's1' cannot be read"):
            list(open_reader(database).events("s1"))

    def test_body_type_must_equal_type_column(self, database: Path) -> None:
        """The type in the body must equal the type column."""
        sql(database, "UPDATE event SET type = 'step'")
        with pytest.raises(JournalError, match=r"'session\.opened' in its body and 'step' in its column"):
            list(open_reader(database).events("s1"))

    def test_session_line_with_invalid_time_is_reported(self, database: Path) -> None:
        """A session's line with an invalid time is reported."""
        sql(database, "UPDATE session SET opened = 'noon'")
        with pytest.raises(JournalError, match="the line of session 's1' cannot be read"):
            open_reader(database).sessions()

    @pytest.mark.parametrize(
        ("column", "shown"), [("status", "idle"), ("mode", "enforce"), ("kind", "root")]
    )
    def test_newer_value_does_not_break_the_list(self, database: Path, column: str, shown: str) -> None:
        """A value that only a newer version knows does not break the list; its line is marked."""
        Journal.open(database).close()
        sql(database, f"UPDATE session SET {column} = 'asleep'")
        [line] = open_reader(database).sessions()
        assert (line.newer, getattr(line, column)) == (True, shown)
        # A starting host does not end it, unlike other sessions that were left open.
        with Journal.open(database) as journal:
            end_left_open(journal)
            assert len(list(journal.reader().events("s1"))) == 1


class TestLockedFiles:
    def test_locked_journal_is_not_reported_as_damaged(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A journal that another program has locked is not reported as damaged."""
        monkeypatch.setattr("interlock.engine.history.journal.file_schema.BUSY_SECONDS", 0.01)
        with closing(sqlite3.connect(database)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            assert all("is locked by another program. Try again" in m for m in refused(database))


class TestVersions:
    def test_a_newer_journal_is_left_alone(self, database: Path) -> None:
        """A newer schema is refused with the version found and the newest known one."""
        sql(database, "UPDATE alembic_version SET version_num = '0099'")
        for message in refused(database):
            assert f"schema 0099; this version knows schemas up to {CURRENT.newest}" in message
            assert "use the newer Interlock" in message

    def test_an_older_journal_is_upgraded_after_a_copy(self, database: Path, tmp_path: Path) -> None:
        """An upgrade keeps the record and leaves a copy; opening for reading does not upgrade."""
        schema = with_revision(tmp_path / "scripts", ADD_COLUMN)
        with pytest.raises(JournalError, match=f"older schema {CURRENT.newest}"):
            open_reader(database, schema)
        with Journal.open(database, schema=schema) as journal:
            assert [e.body for e in journal.reader().events("s1")] == [opening()]
        assert [e.body for e in open_reader(database, schema).events("s1")] == [opening()]
        copy = database.with_name(f"journal.db.{CURRENT.newest}.bak")
        assert [e.body for e in open_reader(copy).events("s1")] == [opening()]

    def test_a_failed_upgrade_changes_nothing(self, database: Path, tmp_path: Path) -> None:
        """A failed upgrade is rolled back, and its copies are not overwritten by a second attempt."""
        schema = with_revision(tmp_path / "scripts", f"{ADD_COLUMN}; op.drop_table('none')")
        copy, again = (f"journal.db.{CURRENT.newest}{nth}.bak" for nth in ("", ".1"))
        for copies in ([copy], [again, copy]):
            with pytest.raises(JournalError, match=r"Cannot upgrade journal .*journal\.db"):
                Journal.open(database, schema=schema)
            assert sorted(p.name for p in tmp_path.glob("*.bak")) == copies
        with Journal.open(database) as journal:
            assert journal.reader().count("s1") == 1
        with closing(sqlite3.connect(database)) as connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(event)")]
        assert "mark" not in columns

    def test_the_migrations_make_the_tables(self, migrated: Path) -> None:
        """The declared tables and known revisions equal those of the migrations."""
        engine = create_engine(f"sqlite:///{migrated}")
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, JOURNAL) == []
        engine.dispose()
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        scripts = list(ScriptDirectory.from_config(config).walk_revisions())
        assert tuple(s.revision for s in reversed(scripts)) == CURRENT.known
        assert CURRENT.newest == REVISION

    def test_a_new_journal_is_a_migrated_one(self, migrated: Path, tmp_path: Path) -> None:
        """Tables of a new journal equal those of the migrations, including indexes and order."""
        at_once = tmp_path / "at_once.db"
        Journal.open(at_once).close()
        assert journal_content(at_once) == journal_content(migrated)

    @pytest.mark.slow
    @pytest.mark.parametrize("new", [False, True])
    def test_a_journal_opens_without_alembic(self, database: Path, new: bool) -> None:
        """Opening a journal without a pending migration does not import alembic or SQLAlchemy."""
        code = (
            "import sys; from interlock.engine.history.journal.journal import Journal; "
            "Journal.open(sys.argv[1]).close(); "
            "print({'alembic', 'sqlalchemy', 'sqlmodel'} & set(sys.modules))"
        )
        path = database.with_name("new.db") if new else database
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
        assert done.stdout == "set()\n"


def journal_content(path: Path) -> list[tuple[object, ...]]:
    """Return all content of a journal but its sessions, with spaces in statements normalized.

    Older compatible revisions are left out, because they are recorded only after a migration.
    """
    with closing(sqlite3.connect(path)) as connection:
        schema = connection.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master")
        tables = [(*rest, re.sub(r"\s*([(),])\s*|\s+", r"\1 ", text or "")) for *rest, text in schema]
        names = ("application_id", "user_version", "encoding", "page_size", "auto_vacuum", "journal_mode")
        settings = [connection.execute(f"PRAGMA {name}").fetchone() for name in names]
        tables = [(*rest, str(text).replace(" compatible TEXT,", "")) for *rest, text in tables]
        rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        counts = connection.execute("SELECT * FROM sqlite_sequence").fetchall()
        return [*tables, *settings, *rows, *counts]


def with_revision(scripts: Path, upgrade: str) -> Schema:
    """Return the packaged migrations and one more."""
    shutil.copytree(MIGRATIONS, scripts)
    (scripts / "versions" / "9998_more.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n\n"
        f"revision = '9998'\ndown_revision = '{CURRENT.newest}'\n\n\ndef upgrade():\n    {upgrade}\n"
    )
    return Schema(known=(*CURRENT.known, "9998"), scripts=scripts)


class TestNewFiles:
    def test_directories_are_created(self, tmp_path: Path) -> None:
        """A new journal creates its directories, even with unusual characters in the path."""
        path = tmp_path / "50% off?" / "a #1.db"
        with Journal.open(path) as journal:
            journal.write("s1", opening())
        assert open_reader(path).count("s1") == 1

    def test_only_owner_can_read_the_file(self, database: Path) -> None:
        """Only the owner can read the file, because it has inputs of tools."""
        assert database.stat().st_mode & 0o077 == 0

    @pytest.mark.parametrize("empty", ["nothing", "no tables"])
    def test_empty_file_becomes_a_journal(self, tmp_path: Path, empty: str) -> None:
        """An empty file, or an SQLite file without tables, becomes a journal."""
        path = tmp_path / "journal.db"
        path.touch()
        if empty == "no tables":
            sql(path, "CREATE TABLE t (x)", "DROP TABLE t")
        with pytest.raises(JournalError, match="There is no journal"):
            open_reader(path)
        with Journal.open(path) as journal:
            journal.write("s1", opening())
        assert open_reader(path).count("s1") == 1

    def test_reading_a_missing_file_gives_advice(self, tmp_path: Path) -> None:
        """Reading a missing file gives an error with advice and does not create it."""
        with pytest.raises(JournalError, match=r"no journal at '.*absent\.db' yet\. Run an agent"):
            open_reader(tmp_path / "absent.db")
        assert list(tmp_path.iterdir()) == []


class TestPermissions:
    def test_a_directory_that_cannot_be_written(self, unprivileged: Path) -> None:
        """The error names the file and the reason."""
        unprivileged.chmod(0o500)
        with pytest.raises(JournalError, match=r"Cannot write journal '.*j\.db'.*Permission denied"):
            Journal.open(unprivileged / "j.db")
        with pytest.raises(JournalError, match=r"Cannot make the directory of journal '.*j\.db'"):
            Journal.open(unprivileged / "below" / "j.db")

    def test_a_file_that_cannot_be_written(self, unprivileged: Path) -> None:
        """A read-only journal can be read; opening it for writing fails at once."""
        path = unprivileged / "j.db"
        with Journal.open(path) as journal:
            journal.write("s1", opening())
        path.chmod(0o400)
        with pytest.raises(JournalError, match=r"Cannot write journal '.*j\.db': .*readonly database"):
            Journal.open(path)
        assert open_reader(path).count("s1") == 1

    def test_a_file_that_cannot_be_read(self, unprivileged: Path) -> None:
        """An unreadable journal is refused with the reason."""
        path = unprivileged / "j.db"
        path.write_bytes(b"SQLite format 3\x00")
        path.chmod(0)
        for opened in (Journal.open, open_reader):
            with pytest.raises(JournalError, match=r"Cannot read journal '.*j\.db': Permission denied"):
                opened(path)

    def test_an_archive_in_a_read_only_directory(self, unprivileged: Path) -> None:
        """A closed journal can be read in a read-only directory."""
        path = unprivileged / "j.db"
        with Journal.open(path) as journal:
            journal.write("s1", opening())
        path.chmod(0o400)
        unprivileged.chmod(0o500)
        assert [e.body for e in open_reader(path).events("s1")] == [opening()]


class TestOneWriter:
    @pytest.mark.slow
    def test_error_names_the_writing_process(self, database: Path) -> None:
        """The error names the process that writes, and the file stays unchanged."""
        with Journal.open(database) as journal:
            code = (
                "import sys; from interlock.engine.history.journal.journal import Journal; "
                "Journal.open(sys.argv[1])"
            )
            done = subprocess.run(
                [sys.executable, "-c", code, str(database)], capture_output=True, text=True, check=False
            )
            assert done.returncode == 1
            assert f"is in use by process {os.getpid()} (" in done.stderr
            journal.write("s1", RUNNING)

    def test_error_names_command_to_connect(self, database: Path) -> None:
        """The error names the command that connects to the server instead of advising to end it."""
        with Journal.open(database) as journal:
            with pytest.raises(JournalError, match=r"Look at it with `interlock console --read-only`"):
                Journal.open(database)
            journal.name_server("ws://127.0.0.1:8737")
            with pytest.raises(JournalError) as taken:
                Journal.open(database)
        said = str(taken.value)
        assert f"is in use by process {os.getpid()} (" in said
        assert "), a server on ws://127.0.0.1:8737." in said
        assert "`interlock console --connect ws://127.0.0.1:8737`" in said
        assert "`interlock console --read-only`" in said
        assert "Stop that process" not in said

    def test_control_characters_in_lock_file_are_escaped(self, database: Path) -> None:
        """Control characters in the lock file's text are escaped."""
        with Journal.open(database) as journal:
            journal.name_server("ws://\x1b[2J")
            with pytest.raises(JournalError) as taken:
                Journal.open(database)
        assert "\x1b" not in str(taken.value)

    def test_symbolic_link_leads_to_same_lock(self, database: Path, tmp_path: Path) -> None:
        """A symbolic link leads to the same lock, even within one process."""
        link = tmp_path / "link.db"
        link.symlink_to(database)
        with Journal.open(database), pytest.raises(JournalError, match="is in use by process"):
            Journal.open(link)

    def test_the_lock_ends_with_the_journal(self, database: Path) -> None:
        """A journal can be reopened at once after it was closed or refused."""
        Journal.open(database).close()
        sql(database, "UPDATE alembic_version SET version_num = '0099'")
        with pytest.raises(JournalError, match="schema 0099"):
            Journal.open(database)
        sql(database, f"UPDATE alembic_version SET version_num = '{CURRENT.newest}'")
        Journal.open(database).close()

    @pytest.mark.slow
    def test_readers_need_no_lock(self, database: Path) -> None:
        """Reading works beside the writer, even in another process."""
        with Journal.open(database) as journal:
            journal.write("s1", RUNNING)
            code = (
                "import sys; from interlock.engine.history.journal.reader import open_reader; "
                "print(open_reader(sys.argv[1]).count('s1'))"
            )
            done = subprocess.run(
                [sys.executable, "-c", code, str(database)], capture_output=True, text=True, check=True
            )
        assert done.stdout == "2\n"
