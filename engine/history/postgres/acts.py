"""Inbox for acts of operators on sessions that other servers own: one row per act, executed once.

A row outlives its session's owner: the server that takes the session over executes it. Servers need no
network between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..fold.flow_steps import DIED, HANDED_OVER
from .connection import NOW
from .pool import reading
from .servers.lease import DURABLE, ServerLease

KEPT_MS = 4 * 3600 * 1000
"""Time for which an answered row is kept; longer while its session has an open request."""
MOST_AT_ONCE = 100

_POST = f"""
INSERT INTO act (id, session, method, params, actor, origin, at) VALUES (?, ?, ?, ?, ?, ?, {NOW})
RETURNING {DURABLE}
"""
# Durable, as a database that lost one of these would execute an act twice, or after its withdrawal.
_TAKE = f"""
WITH pending AS (
    SELECT act.id, act.taken FROM act JOIN owner ON owner.session = act.session
    LEFT JOIN session ON session.id = act.session
    WHERE owner.server = ? AND act.done IS NULL AND (act.taken IS NULL OR act.taken <> ?)
    AND act.session <> ALL(?)
    AND NOT (act.method = ANY(?) AND session.status = 'failed' AND coalesce(session.error, '') = ANY(?))
    ORDER BY act.at, act.id LIMIT ?
), begun AS (
    UPDATE act SET taken = ? FROM pending
    WHERE act.id = pending.id AND act.done IS NULL AND act.taken IS NOT DISTINCT FROM pending.taken
    RETURNING act.at, act.id, act.session, act.method, act.params, act.actor, act.origin, pending.taken,
        act.lapsed OR NOT EXISTS (SELECT FROM server WHERE id = act.origin AND ended IS NULL) AS lapsed,
        {DURABLE}
)
SELECT id, session, method, params, actor, origin, taken, lapsed FROM begun ORDER BY at, id
"""
_ANSWER = f"""
UPDATE act SET done = {NOW}, result = ? WHERE id = ? AND taken = ? AND done IS NULL RETURNING {DURABLE}
"""
_RESULT = "SELECT result FROM act WHERE id = ? AND done IS NOT NULL"
_WITHDRAW = f"DELETE FROM act WHERE id = ? AND taken IS NULL RETURNING id, {DURABLE}"
_LAPSE = f"UPDATE act SET lapsed = TRUE WHERE id = ? RETURNING {DURABLE}"
_IN_FORCE = """
SELECT act.id FROM act JOIN server ON server.id = act.origin
WHERE NOT act.lapsed AND server.ended IS NULL AND act.id IN ({ids})
"""
_FORGET = f"""
DELETE FROM act WHERE coalesce(done, at + {KEPT_MS}) < {NOW} - {KEPT_MS} AND NOT EXISTS (
    SELECT FROM session WHERE session.id = act.session
    AND session.waiting > 0 AND session.status NOT IN ('done', 'failed'))
"""
CONTINUE = "session.continue"
"""Method of rows that say which sessions of ended servers have yet to go on, and at which server.

Such a row is of no session, as of a session that has ended nothing would be taken.
"""
_LEAVE = f"""
INSERT INTO act (id, session, method, params, actor, origin, at) VALUES (?, '', ?, ?, '{{}}', ?, {NOW})
ON CONFLICT (id) DO UPDATE SET origin = excluded.origin, at = excluded.at RETURNING {DURABLE}
"""
_ADOPT = f"""
WITH abandoned AS (
    SELECT act.id, act.origin FROM act WHERE act.method = ? AND act.done IS NULL AND act.origin <> ?
    AND NOT EXISTS (SELECT FROM server WHERE server.id = act.origin AND server.ended IS NULL)
)
UPDATE act SET origin = ? FROM abandoned
WHERE act.id = abandoned.id AND act.origin = abandoned.origin RETURNING act.params, {DURABLE}
"""
_CONTINUED = f"DELETE FROM act WHERE id = ? AND origin = ? RETURNING {DURABLE}"
_THERE = "SELECT id FROM act WHERE id = ANY(?)"


class Act(NamedTuple):
    """A row that this server begins to execute.

    `taken` is the ended server that began with it before, if any. The token of an act that is `lapsed`
    is no longer valid, or the server that would report so has ended.
    """

    id: str
    session: str
    method: str
    params: str
    actor: str
    origin: str
    taken: str | None
    lapsed: bool


class Acts:
    """Inbox as seen by one server. All methods wait for the database and raise `JournalError`."""

    def __init__(self, lease: ServerLease) -> None:
        self._lease = lease
        self._location = lease.location

    def post(self, act: str, session: str, method: str, params: str, actor: str) -> None:
        """Add an act for the owner of a session; it is durable on return."""
        with reading(self._location) as connection:
            connection.execute(_POST, (act, session, method, params, actor, self._lease.id))

    def take(self, live_only: Sequence[str] = (), without: Sequence[str] = ()) -> list[Act]:
        """Begin with rows for sessions of this server, oldest first; none can be withdrawn afterwards.

        Rows with a method in `live_only` wait if their session ended with its server, until it goes on.
        Rows for sessions `without` are left.
        """
        with reading(self._location) as connection:
            mine = self._lease.id
            values = (mine, mine, [*without], [*live_only], [DIED, HANDED_OVER], MOST_AT_ONCE, mine)
            rows = connection.execute(_TAKE, values).fetchall()
        return [Act(*row) for row in rows]

    def answer(self, act: str, result: str) -> None:
        """Record the answer to a row that this server took."""
        with reading(self._location) as connection:
            connection.execute(_ANSWER, (result, act, self._lease.id))

    def result(self, act: str) -> str | None:
        """The answer to a row; `None` before there is one."""
        with reading(self._location) as connection:
            row = connection.execute(_RESULT, (act,)).fetchone()
        return None if row is None else str(row[0])

    def withdraw(self, act: str) -> bool:
        """Delete a row that no server has taken yet; return false if one has."""
        with reading(self._location) as connection:
            return connection.execute(_WITHDRAW, (act,)).fetchone() is not None

    def lapse(self, act: str) -> None:
        """Record that the token used for an act is no longer valid."""
        with reading(self._location) as connection:
            connection.execute(_LAPSE, (act,))

    def in_force(self, acts: Sequence[str]) -> set[str]:
        """The given rows whose token is still valid and whose originating server is alive."""
        if not acts:
            return set()
        statement = _IN_FORCE.format(ids=", ".join("?" * len(acts)))
        with reading(self._location) as connection:
            return {str(act) for (act,) in connection.execute(statement, tuple(acts))}

    def leave(self, session: str, *, here: bool) -> None:
        """Note that a session which is being ended has to go on: `here`, else at whoever adopts it."""
        with reading(self._location) as connection:
            origin = self._lease.id if here else ""
            connection.execute(_LEAVE, (_continuation(session), CONTINUE, session, origin))

    def adopt(self) -> list[str]:
        """Take the sessions over that had to go on at servers which have ended, or anywhere."""
        with reading(self._location) as connection:
            mine = self._lease.id
            return [str(session) for session, _ in connection.execute(_ADOPT, (CONTINUE, mine, mine))]

    def continued(self, session: str) -> None:
        """Note that a session goes on here, or cannot: nobody else need see to it."""
        with reading(self._location) as connection:
            connection.execute(_CONTINUED, (_continuation(session), self._lease.id))

    def forget(self) -> None:
        """Remove rows that were answered long ago or never.

        Rows of a session with open requests stay, because the validity of their tokens still matters.
        """
        with reading(self._location) as connection:
            connection.execute(_FORGET)

    def there(self, acts: Sequence[str]) -> set[str]:
        """The given rows that still exist."""
        with reading(self._location) as connection:
            return {str(act) for (act,) in connection.execute(_THERE, ([*acts],))}


def _continuation(session: str) -> str:
    return f"continue {session}"
