"""Events and session lines as rows of the database, and the statements that move them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, TypeVar, get_args

from pydantic import ValidationError

from ..errors import JournalError
from ..model.events import EventBody, JournalEvent, event_body
from ..model.fast_models import construct_model
from ..model.times import from_ms
from .schema import name_of

PAGE = 1000
"""Rows that are read at a time."""

EventRow: TypeAlias = tuple[int, str, int, int, str, str]
"""cursor, session, seq, at, type, body"""

SessionRow: TypeAlias = tuple[
    str,
    str,
    str,
    str,
    str,
    int,
    int,
    int,
    int,
    int,
    int,
    str | None,
    str,
    str | None,
    int | None,
    str | None,
    bool | int,
]
"""The columns of a session's line, in the order of `SESSION_COLUMNS`; `source` is JSON."""

LinkedRow: TypeAlias = tuple[int, str, int, int, str, str, bytes | None, bytes | None, bytes]
"""An event's row with its link of the chain: salt, content, hash."""

_COLUMNS_0001 = "id, agent, model, mode, status, opened, updated, events, calls, blocked, waiting, error"
SESSION_COLUMNS = f"{_COLUMNS_0001}, kind, parent, parent_seq, source, imported"

LINKED_COLUMNS = "cursor, session, seq, at, type, body, salt, content, hash"

INSERT_EVENT = f"INSERT INTO event ({LINKED_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_SESSION = (
    f"INSERT INTO session ({SESSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
)
UPSERT_SESSION = (
    f"{_INSERT_SESSION}"
    "ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, model = excluded.model, "
    "mode = excluded.mode, status = excluded.status, updated = excluded.updated, "
    "events = excluded.events, calls = excluded.calls, blocked = excluded.blocked, "
    "waiting = excluded.waiting, error = excluded.error, source = excluded.source"
)
REPLACE_SESSION = f"{_INSERT_SESSION}ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in SESSION_COLUMNS.split(", ")[1:]
)
"""For a line that may be wrong in every column."""

SELECT_SESSION = f"SELECT {SESSION_COLUMNS} FROM session"
SELECT_OLDER_SESSION = {
    "0001": f"SELECT {_COLUMNS_0001}, 'root', NULL, NULL, NULL, 0 FROM session",
    "0002": f"SELECT {_COLUMNS_0001}, kind, parent, parent_seq, source, 0 FROM session",
}
"""The same of a journal that only older versions have opened for writing, by its schema."""
SELECT_EVENTS = (
    "SELECT cursor, session, seq, at, type, body FROM event "
    "WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
)
SELECT_SINCE = (
    "SELECT cursor, session, seq, at, type, body FROM event WHERE cursor > ? ORDER BY cursor LIMIT ?"
)
SELECT_MESSAGES = (
    "SELECT cursor, session, seq, at, type, body FROM event "
    "WHERE session = ? AND type = 'message' ORDER BY seq"
)
SELECT_LINKED = (
    f"SELECT {LINKED_COLUMNS} FROM event WHERE session = ? AND seq > ? ORDER BY seq, cursor LIMIT ?"
)
LAST_HASH = "SELECT hash FROM event WHERE session = ? ORDER BY seq DESC LIMIT 1"
LAST_OF_SESSION = "SELECT seq, at FROM event WHERE session = ? ORDER BY seq DESC LIMIT 1"
LAST_CURSOR = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0)"


_READERS: dict[str, type[EventBody]] = {
    kind.model_fields["type"].default: kind for kind in get_args(get_args(EventBody)[0])
}

_Row = TypeVar("_Row", EventRow, LinkedRow)


def session_events(connection: sqlite3.Connection, session: str, path: Path) -> Iterator[JournalEvent]:
    """All events of a session, read page by page. Raises `JournalError` for one that cannot be read."""

    def page(after: float, size: int) -> list[EventRow]:
        return connection.execute(SELECT_EVENTS, (session, after, size)).fetchall()

    return (event_of(row, path) for row in in_pages(page))


def in_pages(page: Callable[[float, int], Sequence[_Row]], after: float = 0) -> Iterator[_Row]:
    """A session's rows behind its event number `after`, so many at a time that memory stays flat.

    `page` gives those behind a number, at most the given number, in order.
    """
    while True:
        rows = page(after, PAGE)
        yield from rows
        if len(rows) < PAGE:
            return
        after = rows[-1][2]


def _body(kind: str, text: str) -> EventBody:
    """Read a body as `event_body` does, which takes longer to find out which kind it is."""
    reader = _READERS.get(kind)
    if reader is not None:
        with suppress(ValidationError):
            body = reader.model_validate_json(text)
            if "type" in body.model_fields_set:
                return body
    return event_body.validate_json(text)


def event_of(row: EventRow, path: Path) -> JournalEvent:
    """The event in a row. Raises `JournalError` naming file and event when it cannot be understood."""
    cursor, session, seq, at, kind, text = row
    try:
        body = _body(kind, text)
        if body.type != kind:
            raise ValueError(f"its type is '{body.type}' in one place and '{kind}' in another")
        if type(cursor) is not int or type(seq) is not int or type(session) is not str:
            raise ValueError(
                f"its place is {cursor!r}, {session!r}, {seq!r}: not a number, a text, a number"
            )
        fields = {"cursor": cursor, "session": session, "seq": seq, "at": from_ms(at), "body": body}
        return construct_model(JournalEvent, fields)
    except (ValidationError, ValueError, TypeError, OverflowError) as error:
        raise JournalError(
            f"Journal '{name_of(path)}': event {seq} of session '{session}' cannot be read: {error}. "
            "A newer Interlock may have written it, or the file was changed; restore a backup."
        ) from error
