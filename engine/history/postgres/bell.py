"""Notifications between the servers of one database: they report that something is new, never what.

A server that receives one polls at once; without one it polls a moment later. Notifications are sent on a
connection of their own, outside of any transaction that writes, because a commit with a notification
waits for the commits of all others.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ..database.location import PostgresLocation
from ..errors import JournalError
from .connection import PostgresConnection, connect, driver
from .servers.silence import is_silent

SILENCE_SECONDS = 5.0
"""Silence after which a listener notifies itself; it reconnects if it does not receive that."""
SILENT_JOIN = 0.5
"""Seconds that threads which may wait for a silent database get to end."""
_LOOK_SECONDS = 0.25
"""Time between two checks of a listener whether it was closed."""
_PAUSE = 0.005
"""Seconds between two notifications: requests in between are sent as one."""


class Bell:
    """Sender and listener. `on_ring` is called in the listener's thread when another server notifies.

    A notification carries its sender's id, so that a server ignores its own. `deaf` is true if a
    listener does not receive its own notifications although the database answers, as behind a pooler
    that drops them. Close it when done.
    """

    def __init__(self, location: PostgresLocation, on_ring: Callable[[], object]) -> None:
        self._location = location
        self._channel = f"interlock_{location.schema}"
        self._on_ring = on_ring
        self._id = secrets.token_hex(8)
        self._stop = False
        self._wanted = threading.Event()
        self._sent = 0.0
        self.deaf = False
        self._threads = [
            threading.Thread(target=self._listen, name="bell", daemon=True),
            threading.Thread(target=self._ring, name="bell rope", daemon=True),
        ]
        for each in self._threads:
            each.start()

    def ring(self) -> None:
        """Notify all other servers. Any thread may call it; it returns at once."""
        if not self._wanted.is_set():  # takes a tenth of the time of `set`
            self._wanted.set()

    def close(self, *, silent: bool = False) -> None:
        """End both threads. Does not wait long for a database that is known to be `silent`."""
        self._stop = True
        self._wanted.set()
        silent = silent or is_silent(self._location)
        for each in self._threads:
            each.join(SILENT_JOIN if silent else SILENCE_SECONDS)

    def _ring(self) -> None:
        psycopg = driver()
        connection: PostgresConnection | None = None
        is_last = False
        while not is_last:
            self._wanted.wait()
            self._wanted.clear()
            is_last = self._stop
            try:
                if connection is None:
                    connection = self._connect("interlock bell")
                connection.raw.execute(f"NOTIFY {self._channel}, '{self._id}'".encode())
                self._sent = time.monotonic()
            except (psycopg.Error, JournalError):
                _close(connection)
                connection = None
            time.sleep(_PAUSE)
        _close(connection)

    def _listen(self) -> None:
        psycopg = driver()
        while not self._stop:
            connection: PostgresConnection | None = None
            try:
                connection = self._connect("interlock listener")
                connection.raw.execute(f"LISTEN {self._channel}".encode())
                self._on_ring()  # for notifications sent before it listened
                self._hear(connection)
            except (psycopg.Error, JournalError):
                time.sleep(0.2)
            finally:
                _close(connection)

    def _connect(self, name: str) -> PostgresConnection:
        """Open a connection with a short timeout, since a half-open connection never answers."""
        return connect(self._location, name=name, patience=SILENCE_SECONDS)

    def _hear(self, connection: PostgresConnection) -> None:
        """Listen until nothing arrives, not even its own notification. Raises `psycopg.Error`."""
        has_notified, since = False, time.monotonic()
        notified = since
        while not self._stop:
            senders = [
                each.payload for each in connection.raw.notifies(timeout=_LOOK_SECONDS, stop_after=1)
            ]
            if senders:
                has_notified, self.deaf, since = False, False, time.monotonic()
                if any(each != self._id for each in senders):
                    self._on_ring()
                continue
            silent = time.monotonic() - since
            if silent > SILENCE_SECONDS and not has_notified:
                has_notified, notified = True, time.monotonic()
                self.ring()
            elif silent > 2 * SILENCE_SECONDS:
                # A database that stopped has not taken the notification, or does not answer here.
                if self._sent > notified:
                    connection.execute("SELECT 1")
                    self.deaf = time.monotonic() - since < 3 * SILENCE_SECONDS
                return


def _close(connection: PostgresConnection | None) -> None:
    if connection is not None:
        with suppress(driver().Error):
            connection.close()
