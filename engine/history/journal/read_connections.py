"""Read-only connections to a journal that this process writes, kept for the next question.

To open one takes longer than most questions. And where root does, SQLite sets the owner of the log, which
has the writer read the whole file through; see `footprint.disturbance`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..errors import JournalError
from .file_schema import connect_readonly, damaged

POOL_SIZE = 4
"""Connections that wait for a question at most; any number can be in use."""


class Connections:
    """Pool of read-only connections to one journal. Any thread may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """A connection for one question. Raises `JournalError` for whatever SQLite says."""
        connection: sqlite3.Connection | None = None
        fit = False
        try:
            connection = self._idle_connection() or connect_readonly(self._path)
            yield connection
            fit = True
        except sqlite3.Error as error:
            raise JournalError(damaged(self._path, error)) from error
        finally:
            if connection is not None and not (fit and self._returned(connection)):
                connection.close()

    def _idle_connection(self) -> sqlite3.Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _returned(self, connection: sqlite3.Connection) -> bool:
        with self._lock:
            room = not self._closed and len(self._idle) < POOL_SIZE
            if room:
                self._idle.append(connection)
            return room

    def close(self) -> None:
        """Keep none from now on; questions can still be asked."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
