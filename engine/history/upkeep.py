"""Changing a journal as a whole while nobody else writes: the frame for import, pruning, rebuilding."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from .errors import JournalError
from .lock import WriteLock
from .schema import inspect, name_of, prepare
from .writer import connect_writing


@contextmanager
def changing(
    path: Path, *, create: bool = False, shrink: bool = False
) -> Generator[sqlite3.Connection, None, None]:
    """A connection in one transaction, which is durable when the context ends and undone when it raises.

    The journal is brought up to date first. With `shrink` the space of what was deleted is given back at
    the end. Raises `JournalError` when there is none (unless `create`), when another process writes it,
    and for whatever SQLite says.
    """
    path = path.absolute()
    shown = name_of(path)
    if inspect(path)[0] == "fresh" and not create:
        raise JournalError(f"There is no journal at '{shown}' yet. Name another: --db FILE")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path.resolve()
    except OSError as error:
        raise JournalError(
            f"Cannot make the directory of journal '{shown}': {error.strerror}. Choose another place."
        ) from error
    lock = WriteLock.acquire(path)
    try:
        prepare(path)
        with closing(connect_writing(path)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            try:
                before = connection.total_changes
                yield connection
                connection.execute("COMMIT")
                if shrink and connection.total_changes > before:
                    with suppress(sqlite3.Error):  # no space: what was deleted is gone all the same
                        connection.execute("VACUUM")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise JournalError(
            f"Journal '{shown}' could not be changed: {error}. Check the free space and the permissions."
        ) from error
    finally:
        lock.release()
