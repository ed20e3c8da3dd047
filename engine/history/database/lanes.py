"""Continued reading of events: the events of each lane come in the order of their commits.

A file has one lane. Each server of a database assigns cursors in a lane of its own, and events of two
lanes have no order between them. A session's events do, even if another server continued the session. A
reader that continues later keeps a position in each lane.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..decisions.call_pages import CHUNK, fetch_page
from ..postgres.connection import PostgresConnection
from .compiled import LANE_BITS, SELECT_LANES
from .connection import ALL_ROWS, Connection

Row: TypeAlias = tuple[Any, ...]
"""An event: its cursor, its session, its number, and the other columns of a statement."""
LaneCursors: TypeAlias = dict[int, int]
"""The last cursor read in each lane."""

_MOVED = """
SELECT session FROM owner
WHERE epoch > 1 AND session IN (SELECT json_array_elements_text(CAST(? AS json)))
"""
_LAST_BEFORE = f"""
SELECT max(cursor) FROM event WHERE session = ? AND seq < ? GROUP BY cursor >> {LANE_BITS}
"""
"""Select the last event of a session in each lane before an event number."""


def lane_of(cursor: int) -> int:
    """Return the lane of a cursor."""
    return max(cursor, 0) >> LANE_BITS


def positions(connection: Connection) -> LaneCursors:
    """Return the last cursor of each lane."""
    return {int(lane): int(last) for lane, last in connection.execute(SELECT_LANES).fetchall()}


@dataclass(slots=True)
class _Part:
    """Rows of one lane after cursor `begin`, up to `end`.

    With `more`, the lane has further rows before `end`.
    """

    rows: list[Row]
    more: bool
    begin: int
    end: int
    given: int = 0

    @property
    def head(self) -> Row | None:
        """The first row that was not returned yet."""
        return self.rows[self.given] if self.given < len(self.rows) else None

    @property
    def position(self) -> int:
        """The cursor up to which all rows were returned."""
        if self.given < len(self.rows):
            return self.rows[self.given][0] - 1
        if self.more:
            return self.rows[-1][0] if self.rows else self.begin
        return self.end


def rows_behind(
    connection: Connection,
    statement: str,
    behind: Mapping[int, int],
    limit: int,
    values: Sequence[object] = (),
    *,
    column: int = -1,
    chunk: int = CHUNK,
) -> tuple[list[Row], LaneCursors, bool]:
    """Return the rows after a position per lane, the positions after them, and whether more may follow.

    No event is ever skipped, and a session's rows come in order. `statement` takes a cursor to start
    after, the last cursor, `values`, and the maximum number of rows per lane. For `column` and `chunk`
    see `fetch_page`.
    """
    if not isinstance(connection, PostgresConnection):
        begin = behind.get(0, 0)
        rows: list[Row] = []
        results = connection.execute(statement, (begin, ALL_ROWS, *values, limit))
        more = fetch_page(results, rows, limit, column=column, chunk=chunk)
        return rows, {0: rows[-1][0] if rows else begin}, more
    connection.execute("BEGIN")  # a single snapshot of the database, until the connection is returned
    last = positions(connection)
    parts: dict[int, _Part] = {}
    for lane, end in last.items():
        begin = behind.get(lane, lane << LANE_BITS)
        if end > begin:
            rows = []
            results = connection.execute(statement, (begin, end, *values, limit))
            more = fetch_page(results, rows, limit, column=column, chunk=chunk)
            parts[lane] = _Part(rows, more, begin, end)
    merged_rows = _merge(connection, parts)
    after = {lane: parts[lane].position if lane in parts else end for lane, end in last.items()}
    return merged_rows, after, any(part.position < part.end for part in parts.values())


def _merge(connection: PostgresConnection, parts: Mapping[int, _Part]) -> list[Row]:
    """Merge the rows of several lanes so that each session's rows are in order.

    A row waits for the earlier rows of its session in other lanes. If those are after the part of their
    lane that was read, the row is left for the next call.
    """
    moved_sessions = _moved_sessions(connection, parts) if len(parts) > 1 else frozenset[str]()
    earlier_cursors: dict[tuple[str, int], list[int]] = {}
    merged_rows: list[Row] = []

    def is_free(row: Row) -> bool:
        session, seq = row[1], row[2]
        if session not in moved_sessions:
            return True
        if (session, seq) not in earlier_cursors:
            rows = connection.execute(_LAST_BEFORE, (session, seq)).fetchall()
            earlier_cursors[session, seq] = [
                cursor for (cursor,) in rows if lane_of(cursor) != lane_of(row[0])
            ]
        before = earlier_cursors[session, seq]
        return all(
            lane_of(cursor) not in parts or parts[lane_of(cursor)].position >= cursor for cursor in before
        )

    while heads := [part.head for part in parts.values() if part.head is not None]:
        free = [row for row in heads if is_free(row)]
        if not free and merged_rows:
            break
        # In a database that was tampered with, each row may wait for another one.
        row = min(free or heads, key=lambda each: (each[3], each[0]))
        parts[lane_of(row[0])].given += 1
        merged_rows.append(row)
    return merged_rows


def _moved_sessions(connection: PostgresConnection, parts: Mapping[int, _Part]) -> frozenset[str]:
    """The sessions that more than one server may have written."""
    sessions = {row[1] for part in parts.values() for row in part.rows}
    rows = connection.execute(_MOVED, (json.dumps([*sessions]),)).fetchall()
    return frozenset(str(session) for (session,) in rows)
