"""The servers of a database, and the sessions that are live at others than one of them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from sys import intern
from typing import NamedTuple

from ...database.location import PostgresLocation
from ..connection import NOW
from ..pool import reading
from .lease import orphans
from .orphans import NewerSession, newer_part

_OLDEST_LISTED_MS = 24 * 3600 * 1000
_SERVERS = f"""
SELECT server.id, server.name, server.url, server.version, server.started, server.lease - {NOW},
    server.ended, (SELECT count(*) FROM owner JOIN session ON session.id = owner.session
        WHERE owner.server = server.id AND session.status NOT IN ('done', 'failed'))
FROM server WHERE server.ended IS NULL OR server.ended > {NOW} - ? ORDER BY server.started, server.id
"""
_LIVE_AMONG = """
SELECT session.id, server.id, server.name, server.url FROM session
JOIN owner ON owner.session = session.id JOIN server ON server.id = owner.server
WHERE session.status NOT IN ('done', 'failed') AND server.ended IS NULL AND server.id <> ? {among}
ORDER BY session.opened, session.rowid
"""
_LIVE = _LIVE_AMONG.format(among="")
_LIVE_OF = _LIVE_AMONG.format(among="AND session.id = ANY(?)")


class ServerLine(NamedTuple):
    """A server as it is listed. `lease` is what is left of its lease, in milliseconds; times are UTC."""

    id: str
    name: str
    url: str | None
    version: str
    started: int
    lease: int
    ended: int | None
    sessions: int


class PeerSession(NamedTuple):
    """A session that is live at another server: its id, and that server's id, name and URL."""

    session: str
    server: str
    name: str
    url: str | None


def list_servers(location: PostgresLocation) -> list[ServerLine]:
    """The servers that write a database, and those that ended within a day. Raises `JournalError`."""
    with reading(location) as connection:
        return [ServerLine(*row) for row in connection.execute(_SERVERS, (_OLDEST_LISTED_MS,))]


def newer_sessions(location: PostgresLocation, limit: int = 1000) -> list[NewerSession]:
    """Sessions without a server that one of this version would not take. Raises `JournalError`."""
    with reading(location) as connection:
        parts = (newer_part(connection, each) for each in orphans(connection, "", limit))
        return [each for each in parts if each is not None]


def last_events(location: PostgresLocation, sessions: Sequence[str]) -> dict[str, int]:
    """The numbers of the last recorded events of sessions. Raises `JournalError`."""
    with reading(location) as connection:
        rows = connection.execute("SELECT session, seq FROM owner WHERE session = ANY(?)", ([*sessions],))
        return {str(session): int(seq) for session, seq in rows}


def live_elsewhere(
    location: PostgresLocation, server: str, among: Set[str] | None = None
) -> list[PeerSession]:
    """The sessions, of all or `among` some, that are live at other servers than `server`.

    Raises `JournalError`.
    """
    with reading(location) as connection:
        if among is None:
            cursor = connection.execute(_LIVE, (server,))
        else:
            cursor = connection.execute(_LIVE_OF, (server, [*among]))
        rows = cursor.fetchall()
    # The servers are few, and their sessions hundreds.
    return [
        PeerSession(session, intern(id_), intern(name), None if url is None else intern(url))
        for session, id_, name, url in rows
    ]
