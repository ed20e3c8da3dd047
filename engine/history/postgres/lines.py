"""Logs of numbered lines in a database, to which several servers append."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from ..database.location import PostgresLocation
from ..errors import JournalError
from ..logs.line_log import LineLog, LogName
from .connection import PostgresConnection, driver
from .pool import reading
from .servers.lease import DURABLE
from .servers.silence import NO_ANSWER, is_silent

_LAST_LINES = """
SELECT text FROM (
    SELECT number, text, sum(octet_length(text) + 1) OVER (ORDER BY number DESC) AS size
    FROM line WHERE log = ?
) AS sized WHERE size <= ? ORDER BY number
"""
_COUNT = "SELECT coalesce(max(number), 0) FROM line WHERE log = ?"
_APPEND = f"""
INSERT INTO line (log, number, text) SELECT ?, ?, ? WHERE ? = (
    SELECT coalesce(max(number), 0) FROM line WHERE log = ?
) ON CONFLICT (log, number) DO NOTHING RETURNING number, {DURABLE}
"""


_LIMITS: Mapping[LogName, float] = {"keys": 3.0}
"""Time limits in seconds of statements on logs whose readers cannot wait."""


class PostgresLines(LineLog):
    """One log in the schema of a journal.

    The log of keys is read and written in the event loop of a server, as a decision rests on what it
    says at that moment: no statement on it waits long, and none is sent to a database that is silent.
    """

    def __init__(self, location: PostgresLocation, log: LogName) -> None:
        self._location = location
        self._log: LogName = log

    @property
    def name(self) -> str:
        return f"{self._location} ({self._log})"

    def read(self, most: int) -> bytes | None:
        with self._asking() as connection:
            try:
                rows = connection.execute(_LAST_LINES, (self._log, most)).fetchall()
            except driver().errors.UndefinedTable:  # no journal yet
                return None
        return "".join(f"{text}\n" for (text,) in rows).encode() if rows else None

    def append(self, line: str) -> None:
        while not self.append_to(self._count(), line):
            pass

    def append_to(self, lines: int, line: str) -> bool:
        with self._asking() as connection:
            values = (self._log, lines + 1, line, lines, self._log)
            return connection.execute(_APPEND, values).fetchone() is not None

    def has_grown(self, lines: int) -> bool:
        return self._count() != lines

    def _count(self) -> int:
        with self._asking() as connection:
            return connection.number(_COUNT, (self._log,))

    @contextmanager
    def _asking(self) -> Generator[PostgresConnection, None, None]:
        limit = _LIMITS.get(self._log)
        if limit is not None and is_silent(self._location):
            raise OSError(NO_ANSWER)
        try:
            with reading(self._location, limit=limit) as connection:
                yield connection
        except JournalError as error:
            raise OSError(str(error)) from error
