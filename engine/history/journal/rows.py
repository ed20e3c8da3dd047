"""Events as rows of the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias, TypeVar, cast, get_args

from pydantic import ValidationError

from ...core.sanitize import visible
from ..database.compiled import SELECT_EVENTS, LinkedRow
from ..database.connection import Connection
from ..database.location import Location
from ..errors import JournalError, SessionNewer
from ..model.events import EventBody, JournalEvent, NewerEvent, event_body
from ..model.fast_models import construct_model
from ..model.times import from_ms
from .schema import name_of

PAGE = 1000
"""Number of rows that are read at a time."""

EventRow: TypeAlias = tuple[int, str, int, int, str, str]
"""cursor, session, seq, at, type, body"""

_READERS: dict[str, type[EventBody]] = {
    kind.model_fields["type"].default: kind for kind in get_args(get_args(EventBody)[0])
}


class EventMaker(Protocol):
    """Builds the event of a row of the journal at a path. Raises `JournalError` if it cannot be read."""

    def __call__(self, row: EventRow, path: Location, /) -> JournalEvent: ...


_Row = TypeVar("_Row", EventRow, LinkedRow)


def session_events(connection: Connection, session: str, path: Location) -> Iterator[JournalEvent]:
    """Yield all events of a session, read in pages. Raises `JournalError` for one that cannot be read."""

    def page(after: float, size: int) -> list[EventRow]:
        return connection.execute(SELECT_EVENTS, (session, after, size)).fetchall()

    return (event_of(row, path) for row in in_pages(page))


def in_pages(page: Callable[[float, int], Sequence[_Row]], after: float = 0) -> Iterator[_Row]:
    """Yield a session's rows after its event number `after`, in pages, so that memory use stays flat.

    `page` returns the rows after a number, at most the given count, in order.
    """
    while True:
        rows = page(after, PAGE)
        yield from rows
        if len(rows) < PAGE:
            return
        after = rows[-1][2]


def _body(kind: str, text: str) -> EventBody:
    """Parse a body like `event_body`, which takes longer to select the class."""
    reader = _READERS.get(kind)
    if reader is not None:
        with suppress(ValidationError):
            body = reader.model_validate_json(text)
            if "type" in body.model_fields_set:
                return body
    return event_body.validate_json(text)


def unknown_part(kind: str, text: str) -> str | None:
    """Name what this version does not know of an event: its type, a field or a value; else `None`."""
    reader = _READERS.get(kind)
    if reader is None or reader is NewerEvent:
        return f"'{visible(kind)}'"
    try:
        reader.model_validate_json(text, extra="forbid")
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False, include_context=False)
        return f"'{kind}' with '{visible('.'.join(map(str, first['loc'])))}'"
    return None


def known_event(row: EventRow, path: Location) -> JournalEvent:
    """Return the event in a row, for callers that act on it: this version knows all of it.

    Raises `SessionNewer` for one that is only partly known, otherwise as `event_of` does.
    """
    *_, session, seq, _, kind, text = row
    reader = _READERS.get(kind)
    if reader is not None and reader is not NewerEvent:
        with suppress(ValidationError):
            return _event(row, path, reader.model_validate_json(text, extra="forbid"))
    if not _is_body(kind, text):
        return event_of(row, path)
    raise SessionNewer(
        f"Session '{visible(session)}' has events that this version does not know: event {seq}, "
        f"{unknown_part(kind, text)}. A newer Interlock recorded them, or somebody changed them. The "
        "session was left as it is; continue it at a server of that version.",
        session=session,
    )


def shown_event(row: EventRow, path: Location) -> JournalEvent:
    """Return the event in a row, for display only: one that cannot be read appears by its type."""
    cursor, session, seq, at, kind, text = row
    try:
        return event_of(row, path)
    except JournalError:
        if not _is_body(kind, text):
            raise
    body = NewerEvent(name=kind)
    return JournalEvent(cursor=cursor, session=session, seq=seq, at=from_ms(at), body=body)


def _is_body(kind: str, text: str) -> bool:
    """Return whether a text is the body of an event of this type, which need not be known here."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError, TypeError):
        return False
    return isinstance(body, dict) and cast("dict[str, object]", body).get("type") == kind


def event_of(row: EventRow, path: Location) -> JournalEvent:
    """Return the event in a row. Raises `JournalError` naming file and event if it cannot be read.

    Fields that this version does not know are ignored.
    """
    return _event(row, path)


def _event(row: EventRow, path: Location, body: EventBody | None = None) -> JournalEvent:
    """See `event_of`; `body` may be parsed already."""
    cursor, session, seq, at, kind, text = row
    try:
        if body is None or "type" not in body.model_fields_set:
            body = _body(kind, text)
        if body.type != kind:
            raise ValueError(f"its type is '{body.type}' in its body and '{kind}' in its column")
        if type(cursor) is not int or type(seq) is not int or type(session) is not str:
            raise ValueError(
                f"its position is {cursor!r}, {session!r}, {seq!r}: not a number, a text, a number"
            )
        fields = {"cursor": cursor, "session": session, "seq": seq, "at": from_ms(at), "body": body}
        return construct_model(JournalEvent, fields)
    except (ValidationError, ValueError, TypeError, OverflowError) as error:
        raise JournalError(
            f"Journal '{name_of(path)}': event {seq} of session '{session}' cannot be read: {error}. "
            "A newer Interlock may have written it, or the file was changed; restore a backup."
        ) from error
