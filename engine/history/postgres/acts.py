"""Acts that operators ask of sessions at other servers: rows that their owners act on, once each.

A row outlives its owner: whoever takes the session over acts on it. Servers need no network between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .connection import NOW
from .pool import reading
from .server import DURABLE, ServerLease

KEPT_MS = 4 * 3600 * 1000
"""Time for which a row is kept once it is answered; longer where its session has a request open."""
MOST_AT_ONCE = 100

_POST = f"""
INSERT INTO act (id, session, method, params, actor, origin, at) VALUES (?, ?, ?, ?, ?, ?, {NOW})
RETURNING {DURABLE}
"""
# A database that lost one of these would have something done twice, or after all.
_TAKE = f"""
WITH pending AS (
    SELECT act.id, act.taken FROM act JOIN owner ON owner.session = act.session
    WHERE owner.server = ? AND act.done IS NULL AND (act.taken IS NULL OR act.taken <> ?)
    ORDER BY act.at, act.id LIMIT ?
), begun AS (
    UPDATE act SET taken = ? FROM pending
    WHERE act.id = pending.id AND act.done IS NULL AND act.taken IS NOT DISTINCT FROM pending.taken
    RETURNING act.at, act.id, act.session, act.method, act.params, act.actor, act.origin, pending.taken,
        {DURABLE}
)
SELECT id, session, method, params, actor, origin, taken FROM begun ORDER BY at, id
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
_THERE = "SELECT id FROM act WHERE id = ANY(?)"


class Act(NamedTuple):
    """A row that this server begins with. `taken` is another one that began with it and has ended."""

    id: str
    session: str
    method: str
    params: str
    actor: str
    origin: str
    taken: str | None


class Acts:
    """The rows as one server sees them. Methods wait for the database, and raise `JournalError`."""

    def __init__(self, lease: ServerLease) -> None:
        self._lease = lease
        self._location = lease.location

    def post(self, act: str, session: str, method: str, params: str, actor: str) -> None:
        """Ask the owner of a session for something; durable when this returns."""
        with reading(self._location) as connection:
            connection.execute(_POST, (act, session, method, params, actor, self._lease.id))

    def take(self) -> list[Act]:
        """Begin with rows for sessions of this server, the oldest first: nobody withdraws them then."""
        with reading(self._location) as connection:
            mine = self._lease.id
            rows = connection.execute(_TAKE, (mine, mine, MOST_AT_ONCE, mine)).fetchall()
        return [Act(*row) for row in rows]

    def answer(self, act: str, result: str) -> None:
        """Note the answer to a row that this server took."""
        with reading(self._location) as connection:
            connection.execute(_ANSWER, (result, act, self._lease.id))

    def result(self, act: str) -> str | None:
        """The answer to a row, once there is one."""
        with reading(self._location) as connection:
            row = connection.execute(_RESULT, (act,)).fetchone()
        return None if row is None else str(row[0])

    def withdraw(self, act: str) -> bool:
        """Take back a row with which nobody has begun; false where somebody has."""
        with reading(self._location) as connection:
            return connection.execute(_WITHDRAW, (act,)).fetchone() is not None

    def lapse(self, act: str) -> None:
        """Note that the token with which somebody acted is no longer in force."""
        with reading(self._location) as connection:
            connection.execute(_LAPSE, (act,))

    def in_force(self, acts: Sequence[str]) -> set[str]:
        """Those of some rows whose token is in force, as their server says, which has to be alive."""
        if not acts:
            return set()
        statement = _IN_FORCE.format(ids=", ".join("?" * len(acts)))
        with reading(self._location) as connection:
            return {str(act) for (act,) in connection.execute(statement, tuple(acts))}

    def forget(self) -> None:
        """Remove rows that were answered long ago, or that nobody ever answered.

        The token of one counts as long as the request is open about which somebody has acted.
        """
        with reading(self._location) as connection:
            connection.execute(_FORGET)

    def there(self, acts: Sequence[str]) -> set[str]:
        """Those of some rows that were not removed."""
        with reading(self._location) as connection:
            return {str(act) for (act,) in connection.execute(_THERE, ([*acts],))}
