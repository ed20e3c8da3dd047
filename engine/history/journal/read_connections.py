"""Read-only connections to a journal that this process writes, kept for later queries.

Opening one takes longer than most queries. As root, it also sets the owner of the log, after which the
writer must check the whole file; see `footprint.disturbance`.
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
"""Maximum number of idle connections; any number can be in use."""


class Connections:
    """Pool of read-only connections to one journal. Any thread may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """Open a connection for one query. Raises `JournalError` for any SQLite error."""
        connection: sqlite3.Connection | None = None
        is_reusable = False
        try:
            connection = self._idle_connection() or connect_readonly(self._path)
            yield connection
            is_reusable = True
        except sqlite3.Error as error:
            raise JournalError(damaged(self._path, error)) from error
        finally:
            if connection is not None and not (is_reusable and self._put_back(connection)):
                connection.close()

    def _idle_connection(self) -> sqlite3.Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _put_back(self, connection: sqlite3.Connection) -> bool:
        with self._lock:
            has_room = not self._closed and len(self._idle) < POOL_SIZE
            if has_room:
                self._idle.append(connection)
            return has_room

    def close(self) -> None:
        """Keep no idle connections from now on; queries are still possible."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
