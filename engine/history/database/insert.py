"""Insertion of many rows with few statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from .connection import Connection

_AT_ONCE = (32, 8, 2, 1)
"""Numbers of rows per statement: few enough for the 999 values that an older SQLite accepts."""


def insert(connection: Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Run an `INSERT … VALUES (…)` for all of `rows`, in order.

    Each execution releases the interpreter lock, and a busy interpreter returns it only after its switch
    interval. The time of a commit therefore grows with the number of executions.
    """
    start = 0
    for number in _AT_ONCE:
        while len(rows) - start >= number:
            values = list(chain.from_iterable(rows[start : start + number]))
            connection.execute(_repeat_row(statement, number), values)
            start += number


@cache
def _repeat_row(statement: str, number: int) -> str:
    """Return the statement for `number` rows."""
    head, rest = statement.split(" VALUES ")
    row, closing, tail = rest.partition(")")
    return f"{head} VALUES {', '.join([row + closing] * number)}{tail}"
