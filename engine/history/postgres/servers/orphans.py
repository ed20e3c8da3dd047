"""Sessions of servers that have ended: taken by one that knows their records whole, else left alone.

What a newer version recorded can change what everything after it means. So a server reads a session's
record before it takes it, and leaves one that it does not know whole to a server that does.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ....core.sanitize import visible
from ...database.compiled import SELECT_EVENTS, SELECT_SESSION
from ...journal.rows import in_pages, unknown_part
from ...journal.session_index import SessionLine
from ..connection import PostgresConnection
from .lease import Orphan, Ownership, ServerLease, orphans


class NewerSession(NamedTuple):
    """A session that is left to a newer server: its first event that this version does not know.

    `seq` is 0 where that is a value of the session's line.
    """

    session: str
    seq: int
    part: str

    @property
    def reason(self) -> str:
        """The reason in words, to follow the session's name."""
        where = f"event {self.seq}, {self.part}," if self.seq else f"its {visible(self.part)}"
        return (
            f"{where} is not known to this version, so that a server of a newer one has to go on with it"
        )


class Orphans:
    """The orphans as one server sees them. `newer` are those it does not take, by their ids."""

    def __init__(self, lease: ServerLease) -> None:
        self._lease = lease
        self._seen: dict[Orphan, NewerSession] = {}
        self._unanswered: list[Orphan] = []
        self.newer: dict[str, NewerSession] = {}

    def claim(
        self, connection: PostgresConnection, limit: int, diverged: Collection[str] = ()
    ) -> dict[str, Ownership]:
        """Claim at most `limit` sessions, and their subagents', whose records this version can read.

        Sessions in `diverged` are not claimed, nor the other sessions of the same tree. Those that an
        earlier claim took without an answer are returned, too: nobody else takes them.
        """
        claims, undecided = self._lease.claimed(connection, self._unanswered)
        # Those that stay come up in each look, and must not keep the others from it.
        listed = orphans(connection, self._lease.id, limit + len(self.newer) + len(diverged))
        stopped = {each.root for each in listed if each.session in diverged}
        listed = [each for each in listed if each.root not in stopped]
        newer_sessions = {each: self._seen.get(each) or newer_part(connection, each) for each in listed}
        self._seen = {each: newer for each, newer in newer_sessions.items() if newer is not None}
        families = {each.root: newer for each, newer in self._seen.items()}
        self.newer = {each.session: families[each.root] for each in listed if each.root in families}
        readable = [each for each in listed if each.root not in families]
        roots = [*dict.fromkeys(each.root for each in readable)][:limit]
        wanted = [each for each in readable if each.root in roots]
        self._unanswered = [*dict.fromkeys([*self._unanswered, *wanted])]
        claims |= self._lease.claim_orphans(connection, wanted)
        self._unanswered = [each for each in undecided if each.session not in claims]
        return claims


def newer_part(connection: PostgresConnection, orphan: Orphan) -> NewerSession | None:
    """The first of a session that this version does not know; `None` where it knows all."""
    row = connection.execute(SELECT_SESSION, (orphan.session,)).fetchone()
    unknown = None if row is None else SessionLine.of_row(row).unknown
    if unknown is not None:
        return NewerSession(orphan.session, 0, unknown)

    def page(after: float, size: int) -> list[tuple[int, str, int, int, str, str]]:
        return connection.execute(SELECT_EVENTS, (orphan.session, after, size)).fetchall()

    for _, _, seq, _, kind, text in in_pages(page):
        part = unknown_part(kind, text)
        if part is not None:
            return NewerSession(orphan.session, seq, part)
    return None
