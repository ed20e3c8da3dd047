"""Many rows in few statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from .connection import Connection

_AT_ONCE = 32
"""Rows of one statement: few enough for the 999 values that an older SQLite takes."""


def insert(connection: Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Run an `INSERT … VALUES (…)` for all of `rows`, in order.

    Each run of a statement lets go of the interpreter and has to get it back: many rows in one run save a
    tenth of a busy journal's time.
    """
    whole = len(rows) - len(rows) % _AT_ONCE
    for start in range(0, whole, _AT_ONCE):
        values = list(chain.from_iterable(rows[start : start + _AT_ONCE]))
        connection.execute(_repeated(statement), values)
    connection.executemany(statement, rows[whole:])


@cache
def _repeated(statement: str) -> str:
    """The same for as many rows as go at once."""
    head, rest = statement.split(" VALUES ")
    row, closing, tail = rest.partition(")")
    return f"{head} VALUES {', '.join([row + closing] * _AT_ONCE)}{tail}"
