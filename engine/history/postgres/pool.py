"""Pool of connections for queries: to open a connection takes longer than most queries."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from ..database.location import PostgresLocation
from ..errors import JournalError
from .connection import PostgresConnection, connect, driver, unreachable

FRESH_SECONDS = 1.0
"""Time after a query during which its connection is used again without a test query."""
POOL_SIZE = 4
"""Largest number of idle connections to one journal; any number can be in use."""


class _Pool:
    """Idle connections of this process to one journal. Any thread may use it."""

    def __init__(self, location: PostgresLocation, limit: float | None) -> None:
        self._location = location
        self._limit = limit
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._idle: list[PostgresConnection] = []

    def take(self) -> PostgresConnection:
        """Take an idle connection or open one. Raises `psycopg.Error`."""
        with self._lock:
            if self._process != os.getpid():  # after a fork the idle connections are the parent's
                self._process, self._idle = os.getpid(), []
            while self._idle:
                connection = self._idle.pop()
                if not connection.raw.closed and not connection.raw.broken:
                    return connection
        return connect(self._location, patience=self._limit, gives_up=True)

    def give_back(self, connection: PostgresConnection) -> bool:
        with self._lock:
            room = len(self._idle) < POOL_SIZE
            if room:
                connection.used = time.monotonic()
                self._idle.append(connection)
            return room

    def clear(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()


_pools: dict[tuple[PostgresLocation, float | None], _Pool] = {}


@contextmanager
def reading(
    location: PostgresLocation, *, limit: float | None = None
) -> Generator[PostgresConnection, None, None]:
    """Borrow a connection for one query. Raises `JournalError` for every error of PostgreSQL.

    `limit` is the time in seconds within which each statement has to be answered. An idle connection
    that the database has closed, as by a restart, is replaced unless it was used within `FRESH_SECONDS`.
    """
    psycopg = driver()
    pool = _pools.setdefault((location, limit), _Pool(location, limit))
    connection: PostgresConnection | None = None
    fit = False
    try:
        connection = _alive(pool)
        yield connection
        fit = True
    except psycopg.Error as error:
        raise unreachable(location, error) from error
    finally:
        if connection is not None and not (fit and _is_idle(connection) and pool.give_back(connection)):
            with suppress(psycopg.Error):
                connection.close()


def close_idle(location: PostgresLocation) -> None:
    """Close the idle connections to a journal."""
    for key in [each for each in _pools if each[0] == location]:
        pool = _pools.pop(key, None)
        if pool is not None:
            with suppress(driver().Error):
                pool.clear()


def _alive(pool: _Pool) -> PostgresConnection:
    """Take a connection that answers a test query. Raises `psycopg.Error`."""
    psycopg = driver()
    while True:
        connection = pool.take()
        if time.monotonic() - connection.used < FRESH_SECONDS:
            return connection
        try:
            connection.execute("SELECT 1")
        except psycopg.OperationalError:
            fresh = connection.raw.closed == 0
            connection.close()
            if fresh:
                raise
        else:
            return connection


def _is_idle(connection: PostgresConnection) -> bool:
    """Roll back an open transaction; return whether the connection can be used again."""
    psycopg = driver()
    try:
        if connection.raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.raw.rollback()
    except (psycopg.Error, JournalError):
        return False
    return not connection.raw.closed
