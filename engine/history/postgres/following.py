"""Events of other servers, in the order in which a session's follow each other."""

from __future__ import annotations

from typing import NamedTuple

from ..database import compiled as sql
from ..database.location import PostgresLocation
from ..journal.rows import EventRow, event_of
from ..model.events import JournalEvent
from ..model.positions import Positions
from .connection import PostgresConnection
from .pool import reading

_LANES = "SELECT lane, last FROM lane ORDER BY lane"
_EVENTS = """
SELECT event.cursor, event.session, event.seq, event.at, event.type, event.body FROM event
WHERE event.cursor > ? AND event.cursor <= ? ORDER BY event.cursor LIMIT ?
"""
_LIVE = """
SELECT session.id, server.id, server.name, server.url FROM session
JOIN owner ON owner.session = session.id JOIN server ON server.id = owner.server
WHERE session.status NOT IN ('done', 'failed') AND server.ended IS NULL AND server.id <> ?
ORDER BY session.opened, session.rowid
"""


class PeerSession(NamedTuple):
    """A session that is live at another server: its id, and that server's id, name and URL."""

    session: str
    server: str
    name: str
    url: str | None


def positions(location: PostgresLocation) -> Positions:
    """The last cursor of every lane. Raises `JournalError`."""
    with reading(location) as connection:
        return Positions(_ends(connection).values())


def events_after(
    location: PostgresLocation, after: Positions, limit: int, *, but: int | None = None
) -> list[JournalEvent]:
    """The events after a position, those of lane `but` left out. Raises `JournalError`.

    Of each lane at most `limit`, and each session's in order: what a session has in one lane was
    committed before what it has in the next, so that its own numbers order all that was there at one
    moment. Where a lane has more, only its events are given, and the others wait: then a session that
    moved to this lane can miss some before, which the numbers show.
    """
    with reading(location) as connection:
        rows: list[EventRow] = []
        for lane, end in _ends(connection).items():
            start = after.in_lane(lane)
            if lane == but or end <= start:
                continue
            found: list[EventRow] = connection.execute(_EVENTS, (start, end, limit)).fetchall()
            if len(found) == limit and found[-1][0] < end:
                rows = found
                break
            rows += found
    rows.sort(key=lambda row: (row[3], row[1], row[2]))
    return [event_of(row, location) for row in _in_session_order(rows)]


def _in_session_order(rows: list[EventRow]) -> list[EventRow]:
    """Rows by time, but each session's by their numbers, whatever clocks said."""
    numbers: dict[str, list[EventRow]] = {}
    for row in rows:
        numbers.setdefault(row[1], []).append(row)
    for each in numbers.values():
        each.sort(key=lambda row: -row[2])
    return [numbers[row[1]].pop() for row in rows]


def live_elsewhere(location: PostgresLocation, server: str) -> list[PeerSession]:
    """The sessions that are live at other servers than `server`. Raises `JournalError`."""
    with reading(location) as connection:
        return [PeerSession(*row) for row in connection.execute(_LIVE, (server,))]


def _ends(connection: PostgresConnection) -> dict[int, int]:
    """The last cursor of every lane, by the lane."""
    rows = connection.execute(_LANES).fetchall()
    return {int(lane): (int(lane) << sql.LANE_BITS) + int(last) for lane, last in rows}
