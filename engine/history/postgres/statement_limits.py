"""Classes of connections whose statements end if no answer is to be expected, or not in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ..database.location import PostgresLocation
from .servers.silence import LEAST_SECONDS, NO_ANSWER, silence_check

if TYPE_CHECKING:
    from .connection import PostgresConnection

QUIET_SECONDS = 10.0
"""Time without bytes from the database after which it is asked whether it still executes a statement."""
LONGEST_PAUSE = 60.0
"""Longest time between two such questions; each pause is twice as long as the one before."""
LOST = "the answer was lost on its way over a connection that stays open"

Fault: TypeAlias = Callable[[float, float], str | None]
"""Function that returns the error of a statement, or `None`.

Its arguments are the seconds since the statement began and since the last bytes of an answer.
"""

# The first condition holds if this database lists what it executes; not all compatible ones do. A
# statement of which a part has not arrived is active, and waits for its client.
_IS_DONE = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = pg_backend_pid() AND state = 'active')
AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ? AND (
    state IS NULL
    OR (state NOT IN ('idle', 'idle in transaction', 'idle in transaction (aborted)')
        AND wait_event IS DISTINCT FROM 'ClientRead')
    OR state_change > clock_timestamp() - CAST(? AS float8) * interval '1 second'))
"""


def bounded_by(limit: Callable[[float], str | None]) -> Any:
    """Return a class of connections whose statements end with the error that `limit` returns.

    Its argument is the time in seconds since the statement began.
    """
    return _checking(lambda connection: lambda waited, quiet: limit(waited))


@cache
def bounded(seconds: float) -> Any:
    """Return the class of connections whose statements have to be answered within so many seconds."""
    return bounded_by(lambda waited: f"no answer within {seconds:g} s" if waited > seconds else None)


def watchful(location: PostgresLocation, connect: Callable[[], PostgresConnection]) -> Any:
    """Return a class of connections whose statements take as long as the database executes them.

    They end once the lease that they began under does, which is so while the database does not answer
    and after the lease was released; and once the database, asked over a connection that `connect`
    opens, has nothing left to do for them: a proxy can lose one connection without closing it.
    """

    def begin(connection: Any) -> Fault:
        is_silent = silence_check(location)
        pause = QUIET_SECONDS

        def fault(waited: float, quiet: float) -> str | None:
            nonlocal pause
            if waited > LEAST_SECONDS and is_silent is not None and is_silent():
                return NO_ANSWER
            if quiet <= pause or location.pooler is not None:  # its processes are not the database's
                return None
            pause = quiet + min(pause, LONGEST_PAUSE)
            return LOST if _is_lost(connection, connect) else None

        return fault

    return _checking(begin)


def _is_lost(connection: Any, connect: Callable[[], PostgresConnection]) -> bool:
    """Return true if the database waits for the next statement of a connection, or does not know it.

    False if the database cannot be asked, or does not say what it executes.
    """
    import psycopg

    try:
        other = connect()
    except psycopg.Error:
        return False
    try:
        if (other.raw.info.host, other.raw.info.port) != (connection.info.host, connection.info.port):
            return False
        values = connection.info.backend_pid, QUIET_SECONDS / 2
        return other.execute(_IS_DONE, values).fetchone() == (True,)
    except psycopg.Error:
        return False
    finally:
        other.close()


def _checking(begin: Callable[[Any], Fault]) -> Any:
    """Return a class of connections; `begin` is called with one of them for each of its statements."""
    import psycopg

    def checked(steps: Generator[Any, Any, Any], fault: Fault) -> Generator[Any, Any, Any]:
        since = heard = time.monotonic()
        try:
            ready = yield next(steps)
            while True:
                step = steps.send(ready)
                at = time.monotonic()
                if ready:
                    heard = at
                if (problem := fault(at - since, at - heard)) is not None:
                    raise psycopg.OperationalError(problem)
                ready = yield step
        except StopIteration as ended:
            return ended.value

    class Checking(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
            parent: Any = super()
            return parent.wait(checked(gen, begin(self)), *args, **options)

    return Checking
