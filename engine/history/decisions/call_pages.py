"""Reading what happened to calls, and nothing else: for judging many sessions again.

A page is read to its end before its first row is given out. In between no transaction is open, so that
a caller who takes long over a page does not hold up the writer.
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
"""Rows a page has at most."""

PAGE_TEXT = 4_000_000
"""Characters after which a page ends: inputs and outputs can be long."""

CHUNK = 100
"""Rows between two looks at how long they are."""

SESSIONS = 200


def call_pages(
    path: Location, sessions: Iterable[str], *, after: int = 0, page: int = PAGE, messages: bool = False
) -> Iterator[tuple[str, list[CallRow]]]:
    """Events that bear on how calls are judged, session by session, after event `after` of each.

    With `messages` those are among them.

    A long session comes in several pages, one that has none in none. Raises `JournalError` when the file
    cannot be read.
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
    """Append a page of `cursor` to `rows`; tell whether more may come after it.

    `most` is how many it selects. Long texts, in `column`, end the page early; how long they are is
    looked at each `chunk` rows.
    """
    text = 0
    while text < PAGE_TEXT and (found := cursor.fetchmany(chunk)):
        rows += found
        # A column of a file that was changed may hold a number.
        text += sum([len(row[column]) for row in found if isinstance(row[column], str | bytes)])
    cursor.close()
    return len(rows) == most or text >= PAGE_TEXT


def recorded_sessions(path: Location, since: datetime | None = None) -> Iterator[str]:
    """Sessions in which something was recorded at `since` or later, the first opened first.

    Subagents' are left out: their calls were decided, and are recorded, in the session above them.
    Raises `JournalError` when the file cannot be read.
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
    """The number of decided calls in the `recorded_sessions`. Raises `JournalError` as they do."""
    with reading(path) as connection:
        return int(connection.execute(sql.COUNT_CALLS, (_ms(since),)).fetchone()[0])


def _ms(since: datetime | None) -> int:
    return 0 if since is None else to_ms(since)
