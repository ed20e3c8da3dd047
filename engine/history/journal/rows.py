"""Events as rows of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar, get_args

from pydantic import ValidationError

from ..database.compiled import SELECT_EVENTS, LinkedRow
from ..database.connection import Connection
from ..database.location import Location
from ..errors import JournalError
from ..model.events import EventBody, JournalEvent, event_body
from ..model.fast_models import construct_model
from ..model.times import from_ms
from .schema import name_of

PAGE = 1000
"""Rows that are read at a time."""

EventRow: TypeAlias = tuple[int, str, int, int, str, str]
"""cursor, session, seq, at, type, body"""

_READERS: dict[str, type[EventBody]] = {
    kind.model_fields["type"].default: kind for kind in get_args(get_args(EventBody)[0])
}

_Row = TypeVar("_Row", EventRow, LinkedRow)


def session_events(connection: Connection, session: str, path: Location) -> Iterator[JournalEvent]:
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


def event_of(row: EventRow, path: Location) -> JournalEvent:
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
