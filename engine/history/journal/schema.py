"""Identity and age of a journal, and connections that read it, whichever database it is in.

The parts for a file are in `file_schema`, those for PostgreSQL in `postgres.schema`: each is imported,
with the library of its database, where there is such a journal.
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
    """A journal's location as messages show it, without a password."""
    return visible(str(path))


def inspect(path: Location, schema: Schema = CURRENT) -> tuple[Age, str | None]:
    """Find the age of a journal, `fresh` (nothing yet), `older` or `current`, and its revision.

    One of a newer revision that lets this version go on beside it is `current`. Reads only. Raises
    `JournalError` for a file that is not a database, not a journal, damaged, written by a newer version
    that does not let this one go on, or unreadable.
    """
    path = absolute(path)
    if not isinstance(path, Path):
        from ..postgres.schema import inspect as inspect_schema

        return inspect_schema(path, schema)
    from .file_schema import inspect_file

    return inspect_file(path, schema)


def age_of(found: Revision, shown: str, schema: Schema) -> Literal["older", "current"]:
    """The age of a journal of a recorded revision. Raises `JournalError` where it is not known."""
    if found.number == schema.newest or schema.newest in found.compatible:
        return "current"
    if found.number in schema.known:
        return "older"
    beside = f" It lets servers of schema {' and '.join(found.compatible)} go on beside it."
    raise JournalError(
        f"Journal '{shown}' has schema {visible(found.number) or 'none'}; this version knows "
        f"schemas up to {schema.newest}.{visible(beside) if found.compatible else ''} "
        "It was left as it is; use the newer Interlock that wrote it."
    )


def time_of(path: Location) -> datetime:
    """The time by which a journal's events are dated. Raises `JournalError`."""
    if isinstance(path, Path):
        return utc_now()
    from ..postgres.clock import time_of as time_of_database

    return time_of_database(path)


@contextmanager
def reading(path: Location) -> Generator[Connection, None, None]:
    """A read-only connection for one question. Raises `JournalError` for whatever the database says."""
    path = absolute(path)
    if not isinstance(path, Path):
        from ..postgres.pool import reading as reading_database

        with reading_database(path) as connection:
            yield connection
        return
    from .file_schema import reading_file

    with reading_file(path) as file:
        yield file
