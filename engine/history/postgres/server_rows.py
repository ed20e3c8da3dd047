"""Rows of a batch, as a server that may own their sessions makes them."""

from __future__ import annotations

from typing import Any

from ...core.sanitize import visible
from ..batches.rows import BatchRowsMaker, SessionEnd
from ..database import compiled as sql
from ..database.connection import Connection
from ..errors import SessionElsewhere, SessionNewer, SessionRefused
from ..journal.session_index import SessionLine
from ..model.events import JournalEvent, LossAccepted, SessionOpened
from .connection import PostgresConnection
from .divergence import divergence_of
from .servers.lease import Ownership, ServerLease, owner_of


class ServerRows(BatchRowsMaker):
    """Makes rows after the last events that the database has, and claims sessions without an owner.

    `claimed` are sessions that this server has claimed and not written to yet.
    """

    def __init__(self, lease: ServerLease) -> None:
        super().__init__()
        self._lease = lease
        self.claimed: dict[str, Ownership] = {}

    def read_end(self, connection: Connection, event: JournalEvent) -> SessionEnd | None:
        assert isinstance(connection, PostgresConnection)
        session = event.session
        owned = self.claimed.pop(session, None)
        if owned is None or owned.seq != event.seq - 1:
            # A session that was claimed while this server was writing to it has later events.
            accepting = isinstance(event.body, LossAccepted)
            owned = self._lease.claim(connection, session, diverged=accepting)
        if owned is None:
            if (divergence := divergence_of(connection, session)) is not None:
                raise divergence.error()
            if connection.execute(sql.SELECT_KIND, (session,)).fetchone() is not None:
                raise elsewhere(connection, session)
            if isinstance(event.body, SessionOpened):
                return None
            raise SessionRefused(
                f"Session '{session}' is not in the journal any more. Nothing was recorded.",
                session=session,
            )
        if owned.seq != event.seq - 1:
            raise SessionElsewhere(
                f"Session '{session}' went on at another server: event {event.seq} cannot "
                f"follow event {owned.seq}. Nothing was recorded; resume the session.",
                session=session,
            )
        head: Any = connection.execute(sql.SELECT_SESSION, (session,)).fetchone()
        line = SessionLine.of_row(head)
        if (unknown := line.unknown) is not None:
            self._lease.let_go(connection, session)
            raise SessionNewer(
                f"Session '{visible(session)}' has a {visible(unknown)}, which this version does not "
                "know. Nothing was recorded; go on with it at a server of the newer one.",
                session=session,
            )
        return SessionEnd(line, owned.hash, epoch=owned.epoch)


def elsewhere(connection: PostgresConnection, session: str) -> SessionElsewhere:
    """Return the error for a session that another server owns."""
    owner = owner_of(connection, session)
    if owner is None:
        return taken_over(session)
    where = owner.url or owner.name
    message = f"Session '{session}' is at another server: {where}. Nothing was recorded; go on there."
    return SessionElsewhere(message, session=session, url=owner.url)


def taken_over(session: str) -> SessionElsewhere:
    """Return the error for a session whose new server is not known."""
    return SessionElsewhere(
        f"Session '{session}' went to another server meanwhile. Nothing was recorded; resume it.",
        session=session,
    )
