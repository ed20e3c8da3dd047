"""Registry of databases that do not answer, judged by the leases of this process.

Reads have no time limit while the database answers. A read that was sent to a stopped database over a
connection that stays open would never end, so it is given up once the lease is not renewed.
"""

from __future__ import annotations

from collections.abc import Callable

from ...database.location import PostgresLocation

NO_ANSWER = "the database does not answer"
LEAST_SECONDS = 3.0
"""Minimum time that a statement waits, even if the database counts as silent."""

_leases: dict[PostgresLocation, Callable[[], bool]] = {}


def watch_silence(location: PostgresLocation, is_silent: Callable[[], bool]) -> None:
    """Register the function that reports whether the lease in a database is not renewed."""
    _leases[location] = is_silent


def forget_silence(location: PostgresLocation, is_silent: Callable[[], bool]) -> None:
    """Remove the function, unless another lease has replaced it."""
    if _leases.get(location) == is_silent:
        del _leases[location]


def silence_check(location: PostgresLocation) -> Callable[[], bool] | None:
    """Return the function that reports whether this process's lease is not renewed, if it has a lease.

    It also reports so once the lease is released: a statement that began under it ends with it.
    """
    return _leases.get(location)


def is_silent(location: PostgresLocation) -> bool:
    """Return true if this process has a lease in the database and it is not renewed."""
    check = silence_check(location)
    return check is not None and check()
