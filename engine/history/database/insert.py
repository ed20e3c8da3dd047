"""Many rows in few statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from .connection import Connection

_AT_ONCE = (32, 8, 2, 1)
"""Rows of one statement, at most: few enough for the 999 values that an older SQLite takes."""


def insert(connection: Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Run an `INSERT … VALUES (…)` for all of `rows`, in order.

    Each run of a statement lets go of the interpreter, and a busy one is given back only after its switch
    interval: a commit takes as long as its runs are many.
    """
    start = 0
    for number in _AT_ONCE:
        while len(rows) - start >= number:
            values = list(chain.from_iterable(rows[start : start + number]))
            connection.execute(_repeated(statement, number), values)
            start += number


@cache
def _repeated(statement: str, number: int) -> str:
    """The same for as many rows."""
    head, rest = statement.split(" VALUES ")
    row, closing, tail = rest.partition(")")
    return f"{head} VALUES {', '.join([row + closing] * number)}{tail}"
