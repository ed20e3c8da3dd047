"""Identity and age of a journal, and connections that read it, in either database.

The parts for a file are in `file_schema`, those for PostgreSQL in `postgres.schema`. Each is imported
only when such a journal is used, together with its database's library.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from ...core.clock import utc_now
from ...core.sanitize import visible
from ..database.connection import Connection
from ..database.location import Location, absolute
from ..database.revisions import Revision, Schema
from ..errors import JournalError

RETIRED = ("0001", "0002", "0003", "0004", "0005")
"""Revisions from before the first release, which are not upgraded."""

MAGIC = b"SQLite format 3\x00"

CURRENT = Schema()

Age: TypeAlias = Literal["fresh", "older", "current"]


def name_of(path: Location) -> str:
    """Return a journal's location for messages, without a password."""
    return visible(str(path))


def inspect(path: Location, schema: Schema = CURRENT) -> tuple[Age, str | None]:
    """Return the age of a journal, `fresh` (nothing yet), `older` or `current`, and its revision.

    One of a newer revision that is compatible with this version is `current`. Reads only. Raises
    `JournalError` for a file that is not a database, not a journal, damaged, unreadable, or written by a
    newer version that is not compatible with this one.
    """
    path = absolute(path)
    if not isinstance(path, Path):
        from ..postgres.schema import inspect as inspect_schema

        return inspect_schema(path, schema)
    from .file_schema import inspect_file

    return inspect_file(path, schema)


def age_of(found: Revision, shown: str, schema: Schema) -> Literal["older", "current"]:
    """Return the age of a journal with revision `found`. Raises `JournalError` if it is unknown."""
    if found.number == schema.newest or schema.newest in found.compatible:
        return "current"
    if found.number in schema.known:
        return "older"
    hint = f" Servers of schema {' and '.join(found.compatible)} may continue beside it."
    raise JournalError(
        f"Journal '{shown}' has schema {visible(found.number) or 'none'}; this version knows "
        f"schemas up to {schema.newest}.{visible(hint) if found.compatible else ''} "
        "It was left as it is; use the newer Interlock that wrote it."
    )


def time_of(path: Location) -> datetime:
    """Return the current time of the clock that dates a journal's events. Raises `JournalError`."""
    if isinstance(path, Path):
        return utc_now()
    from ..postgres.servers.clock import time_of as time_of_database

    return time_of_database(path)


@contextmanager
def reading(path: Location) -> Generator[Connection, None, None]:
    """Open a read-only connection for one query. Raises `JournalError` for any database error."""
    path = absolute(path)
    if not isinstance(path, Path):
        from ..postgres.pool import reading as reading_database

        with reading_database(path) as connection:
            yield connection
        return
    from .file_schema import reading_file

    with reading_file(path) as file:
        yield file
