"""The sessions that are live at other servers of a database."""

from __future__ import annotations

from typing import NamedTuple

from ..database.location import PostgresLocation
from .pool import reading

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


def live_elsewhere(location: PostgresLocation, server: str) -> list[PeerSession]:
    """The sessions that are live at other servers than `server`. Raises `JournalError`."""
    with reading(location) as connection:
        return [PeerSession(*row) for row in connection.execute(_LIVE, (server,))]
