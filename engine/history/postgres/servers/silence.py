"""Databases that do not answer, as the leases of this process notice: questions do not wait for them.

A statement may take as long as it needs. One that a stopped database has got, and whose connection stays
open, would never end.
"""

from __future__ import annotations

from collections.abc import Callable

from ...database.location import PostgresLocation

LEAST_SECONDS = 3.0
"""Time for which a statement waits also while the database counts as silent."""

_leases: dict[PostgresLocation, Callable[[], bool]] = {}


def watch_silence(location: PostgresLocation, is_silent: Callable[[], bool]) -> None:
    """Go by a lease from now on."""
    _leases[location] = is_silent


def forget_silence(location: PostgresLocation, is_silent: Callable[[], bool]) -> None:
    """Go by it no longer."""
    if _leases.get(location) == is_silent:
        del _leases[location]


def is_silent(location: PostgresLocation) -> bool:
    """Tell whether a lease in this database is not renewed; false where this process has none."""
    found = _leases.get(location)
    return found is not None and found()
