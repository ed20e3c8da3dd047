"""What an upgrade has to compute: links for events that were recorded without a chain."""

from __future__ import annotations

import sqlite3

from .chain import Place, link, new_salt

_BATCH = 1000


def link_unlinked(connection: sqlite3.Connection) -> None:
    """Chain every event of the file as it stands now, in the transaction that is open.

    Raises `ValueError` for an event that is no JSON object.
    """
    session, seq, prev = "", 0, None
    while True:
        rows = connection.execute(
            "SELECT cursor, session, seq, at, body FROM event "
            "WHERE (session, seq) > (?, ?) ORDER BY session, seq LIMIT ?",
            (session, seq, _BATCH),
        ).fetchall()
        if not rows:
            return
        links: list[tuple[bytes, bytes, int]] = []
        for cursor, owner, number, at, body in rows:
            salt = new_salt()
            prev = link(Place(owner, number, at), body, salt, prev if owner == session else None)
            links.append((salt, prev, cursor))
            session, seq = owner, number
        connection.executemany("UPDATE event SET salt = ?, hash = ? WHERE cursor = ?", links)
