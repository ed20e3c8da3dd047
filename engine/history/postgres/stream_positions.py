"""Position of an audit stream in a database, and the server that sends it.

The sending server is named in the stream's row; another one may take the stream over once that server has
ended. A server whose lease is over may send what it had begun a second time, but no longer records a
position.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..audit.stream_positions import (
    SentEvent,
    SentEvents,
    StreamElsewhereError,
    StreamPositions,
    positions_text,
    read_positions,
)
from .pool import reading
from .servers.lease import ServerLease

_ADD = "INSERT INTO stream (id, server, positions) VALUES (?, NULL, '') ON CONFLICT (id) DO NOTHING"
_CLAIM = """
UPDATE stream SET server = ? WHERE id = ? AND (server IS NULL OR server = ? OR EXISTS (
    SELECT FROM server WHERE server.id = stream.server AND server.ended IS NOT NULL))
RETURNING id
"""
_READ = "SELECT positions FROM stream WHERE id = ?"
_NOTE = "UPDATE stream SET positions = ? WHERE id = ? AND server = ? RETURNING id"
_LET_GO = "UPDATE stream SET server = NULL WHERE id = ? AND server = ?"


class PostgresPositions(StreamPositions):
    """Row of one stream, as used by one server."""

    def __init__(self, lease: ServerLease, stream: str) -> None:
        self._lease = lease
        self._stream = stream

    def claim(self) -> bool:
        server = self._lease.id
        with reading(self._lease.location) as connection:
            connection.execute(_ADD, (self._stream,))
            return connection.execute(_CLAIM, (server, self._stream, server)).fetchone() is not None

    def read(self) -> SentEvents | None:
        with reading(self._lease.location) as connection:
            row = connection.execute(_READ, (self._stream,)).fetchone()
        return None if row is None or not row[0] else read_positions(str(row[0]))

    def note(self, sent: Mapping[int, SentEvent]) -> None:
        values = positions_text(sent), self._stream, self._lease.id
        with reading(self._lease.location) as connection:
            if connection.execute(_NOTE, values).fetchone() is None:
                raise StreamElsewhereError("another server sends the stream now")

    def let_go(self) -> None:
        with reading(self._lease.location) as connection:
            connection.execute(_LET_GO, (self._stream, self._lease.id))
