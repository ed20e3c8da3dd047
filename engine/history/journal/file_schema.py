"""Tables of a journal's file: inspection, creation and upgrade.

A file is inspected read-only first. Only a journal that is not newer than this version is ever written.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from ...core.sanitize import visible
from ..database import compiled as sql
from ..database.revisions import VERSION_TABLE, Schema, read_revision, run_migrations
from ..errors import JournalError
from .schema import CURRENT, MAGIC, RETIRED, Age, age_of, name_of

BUSY_SECONDS = 5.0
"""Seconds to wait for another program that has locked the file."""


def inspect_file(path: Path, schema: Schema = CURRENT) -> tuple[Age, str | None]:
    """Return the age of a journal's file, and its revision; see `schema.inspect`. Reads only.

    Raises `JournalError`.
    """
    name = name_of(path)
    try:
        if not path.exists():
            return "fresh", None
        if not path.is_file():
            raise JournalError(f"'{name}' is not a file. Choose a file for the journal.")
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise JournalError(
            f"Cannot read journal '{name}': {error.strerror}. Check its permissions."
        ) from error
    if not magic:
        return "fresh", None
    if magic != MAGIC:
        raise JournalError(
            f"'{name}' is not a journal: it is not an SQLite database. "
            "It was left as it is; choose another file."
        )
    try:
        with closing(connect_readonly(path)) as connection:
            return _age(connection, name, schema)
    except sqlite3.Error as error:
        raise JournalError(damaged(path, error)) from error


def _age(connection: sqlite3.Connection, file_name: str, schema: Schema) -> tuple[Age, str | None]:
    tables = [
        str(name)
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "ORDER BY name"
        )
    ]
    if not tables:
        return "fresh", None
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if application != sql.APPLICATION_ID:
        table_list = visible(", ".join(tables[:5])) + (", …" if len(tables) > 5 else "")
        raise JournalError(
            f"'{file_name}' is another program's SQLite file (tables: {table_list}). "
            "It was left as it is; choose another file for the journal."
        )
    if "alembic_version" not in tables:
        raise JournalError(
            f"Journal '{file_name}' does not say which version wrote it. "
            "It was left as it is; restore a backup, or choose another file."
        )
    revision = read_revision(connection)
    if revision.number in RETIRED:
        raise JournalError(
            f"Journal '{file_name}' has schema {revision.number}, of a version before the first release, "
            "which this version does not read. It was left as it is; use the version that wrote it, or "
            "choose another file."
        )
    age = age_of(revision, file_name, schema)
    if age == "older" and schema.changes_file(revision.number):
        return age, revision.number
    for statement in sql.FIRST_ROWS:
        connection.execute(statement).fetchall()
    return "current", revision.number


def damaged(path: Path, error: sqlite3.Error) -> str:
    """Return the message for a file that SQLite cannot read."""
    if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
        return (
            f"Journal '{name_of(path)}' is locked by another program. Try again when that has finished."
        )
    return (
        f"Cannot read journal '{name_of(path)}': {error}. It was left as it is; restore a backup, "
        "or choose another file."
    )


def connect_readonly(path: Path) -> sqlite3.Connection:
    """Open a read-only connection, usable from any thread. Raises `sqlite3.Error`.

    SQLite keeps an index next to a journal in use, which is impossible on a read-only medium. A file
    without unfinished writes is then read as immutable.
    """
    uri = f"{path.resolve().as_uri()}?mode=ro"
    try:
        return _probe(uri)
    except sqlite3.OperationalError:
        log = path.with_name(f"{path.name}-wal")
        effective = os.access in os.supports_effective_ids
        if os.access(path.parent, os.W_OK, effective_ids=effective) or (
            log.exists() and log.stat().st_size
        ):
            raise
        return _probe(f"{uri}&immutable=1")


def _probe(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(path: Path, schema: Schema = CURRENT) -> None:
    """Create the journal at `path`, or upgrade an older one after copying it to `<file>.<revision>.bak`.

    Only the process that holds the write lock may call this. Raises `JournalError`; the file is then
    unchanged. A file of a newer version that is compatible with this one stays unchanged. For PostgreSQL
    see `postgres.schema.prepare`.
    """
    age, revision = inspect_file(path, schema)
    if age == "current":
        return
    name = name_of(path)
    backup: Path | None = None
    try:
        if age == "older":
            backup = _copy(path, revision or "")
            _migrate(path, schema)
        else:
            _create(path, schema)
        _sync_directory(path.parent)
    except (OSError, sqlite3.Error) as error:
        action = "upgrade" if age == "older" else "create"
        raise JournalError(
            f"Cannot {action} journal '{name}': {_reason(error)}. "
            "Check the permissions of the file and its directory and the free space."
        ) from error
    except JournalError as error:
        copy_note = f" A copy made before the upgrade is in '{name_of(backup)}'." if backup else ""
        raise JournalError(f"{error}{copy_note}") from error


def make_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty database in one transaction.

    Running the migrations instead would take most of the time of a first start. Raises `sqlite3.Error`;
    the database is then still empty.
    """
    version = f"INSERT INTO alembic_version VALUES ('{sql.REVISION}')"
    connection.executescript(
        ";\n".join(("BEGIN IMMEDIATE", VERSION_TABLE, *sql.SCHEMA, version, "COMMIT;"))
    )


def _create(path: Path, schema: Schema) -> None:
    """Create the journal in a temporary file, and rename it once it is complete and on disk.

    A process that dies during this leaves nothing that a later start would take for damage. The
    write-ahead log is switched on here, because doing it later would need a rollback journal as well.
    Nothing has to be durable until the one sync at the end.
    """
    new = path.with_name(f"{path.name}.new")
    for file in (path, new):
        for ending in ("-journal", "-wal", "-shm"):
            file.with_name(f"{file.name}{ending}").unlink(missing_ok=True)
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        with closing(sqlite3.connect(new, isolation_level=None, timeout=BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = MEMORY").fetchone()
            if schema == CURRENT:
                make_tables(connection)
            else:
                _migrate(new, schema)
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        os.fsync(handle)
    finally:
        os.close(handle)
    new.replace(path)


def _reason(error: OSError | sqlite3.Error) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _copy(path: Path, revision: str) -> Path:
    """Make a durable copy next to the file, never over an existing one; return its path."""
    number = 0
    while True:
        suffix = f".{revision}.bak" if not number else f".{revision}.{number}.bak"
        target = path.with_name(path.name + suffix)
        try:
            handle = os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        except FileExistsError:
            number += 1
            continue
        try:
            with closing(connect_readonly(path)) as source, closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
            os.fsync(handle)
        finally:
            os.close(handle)
        return target


def _migrate(path: Path, schema: Schema) -> None:
    """Run alembic in one transaction: the whole upgrade is applied, or none of it."""
    from sqlalchemy import NullPool, create_engine, event
    from sqlalchemy.engine import Connection as EngineConnection
    from sqlalchemy.exc import DBAPIError

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    def begin(connection: EngineConnection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "begin", begin)
    try:
        with engine.begin() as connection:
            run_migrations(connection, schema, name_of(path))
    except DBAPIError as error:
        cause = error.orig
        raise (cause if isinstance(cause, sqlite3.Error) else JournalError(str(error))) from error
    finally:
        engine.dispose()


def _sync_directory(directory: Path) -> None:
    """Make a file's name durable, not only its content."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def reading_file(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Open a read-only connection for one query. Raises `JournalError` for any SQLite error."""
    try:
        with closing(connect_readonly(path)) as file:
            yield file
    except sqlite3.Error as error:
        raise JournalError(damaged(path, error)) from error
