"""Reading of events about calls only, for judging many sessions again.

A page is read completely before its first row is returned, and no transaction is open in between. A
caller that takes long over a page therefore does not block the writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TypeAlias, TypeVar

from ..database import compiled as sql
from ..database.connection import Rows
from ..database.location import Location
from ..journal.schema import reading
from ..model.times import to_ms

CallRow: TypeAlias = tuple[int, int, str, str]
"""seq, at, type, body"""

Row = TypeVar("Row", bound=tuple[object, ...])

PAGE = 1_000
"""Maximum number of rows in a page."""

PAGE_TEXT = 4_000_000
"""Number of characters after which a page ends: inputs and outputs can be long."""

CHUNK = 100
"""Number of rows between two checks of their total length."""

SESSIONS = 200


def call_pages(
    path: Location, sessions: Iterable[str], *, after: int = 0, page: int = PAGE, messages: bool = False
) -> Iterator[tuple[str, list[CallRow]]]:
    """Yield events that affect how calls are judged, session by session, after event `after` of each.

    With `messages`, messages are included.

    A long session comes in several pages, a session without such events in none. Raises `JournalError` if
    the file cannot be read.
    """
    statement = sql.SELECT_CALLS_AND_MESSAGES if messages else sql.SELECT_CALLS
    with reading(path) as connection:
        for session in sessions:
            done = after
            more = True
            while more:
                cursor = connection.execute(statement, (session, done, page))
                rows: list[CallRow] = []
                more = fetch_page(cursor, rows, page)
                if rows:
                    yield session, rows
                    done = rows[-1][0]


def fetch_page(cursor: Rows, rows: list[Row], most: int, *, column: int = -1, chunk: int = CHUNK) -> bool:
    """Append a page of `cursor` to `rows`; return whether there may be more.

    `most` is the number of rows that the statement selects. Long texts, in `column`, end the page early;
    their length is checked every `chunk` rows.
    """
    text = 0
    while text < PAGE_TEXT and (page_rows := cursor.fetchmany(chunk)):
        rows += page_rows
        # A column of a file that was changed may hold a number.
        text += sum([len(row[column]) for row in page_rows if isinstance(row[column], str | bytes)])
    cursor.close()
    return len(rows) == most or text >= PAGE_TEXT


def recorded_sessions(path: Location, since: datetime | None = None) -> Iterator[str]:
    """Yield sessions with an event at `since` or later, the first opened first.

    Subagents' sessions are left out: their calls were decided, and are recorded, in the parent session.
    Raises `JournalError` if the file cannot be read.
    """
    last = 0
    while True:
        with reading(path) as connection:
            rows = connection.execute(
                sql.SELECT_TOP_LEVEL_SESSIONS, (_ms(since), last, SESSIONS)
            ).fetchall()
        yield from (str(session) for _, session in rows)
        if len(rows) < SESSIONS:
            return
        last = rows[-1][0]


def count_calls(path: Location, since: datetime | None = None) -> int:
    """Return the number of decided calls in the `recorded_sessions`. Raises `JournalError` as they do."""
    with reading(path) as connection:
        return int(connection.execute(sql.COUNT_CALLS, (_ms(since),)).fetchone()[0])


def _ms(since: datetime | None) -> int:
    return 0 if since is None else to_ms(since)
