"""Exit of an unused server: nothing else would end a server that a hook has started."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from ...engine.gateway.server.server import Gateway
from ..config.quantities import age

LOOK = 1.0
"""Seconds between two checks for use."""
NEVER = "never"


def idle_time(text: str) -> float | None:
    """Parse `30m` or `12h` to seconds, `never` to `None`. Raises `ValueError`."""
    if text.strip().lower() == NEVER:
        return None
    try:
        seconds = age(text).total_seconds()
    except ValueError as error:
        raise ValueError(f"{error}, or '{NEVER}'") from error
    if seconds <= 0:
        raise ValueError(f"expected a length of time above 0 or '{NEVER}', found '{text}'")
    return seconds


async def wait_until_unused(
    gateway: Gateway, seconds: float, *, pause: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Wait until no session was open and no client connected for `seconds`.

    Afterwards no hook starts another server at the same socket until this process has ended.
    """
    loop = asyncio.get_running_loop()
    used = loop.time()
    while True:
        await pause(min(LOOK, seconds))
        unused_since = gateway.unused_since
        if unused_since is None or await gateway.hub.sessions():
            used = loop.time()
        elif loop.time() - max(used, unused_since) >= seconds and _may_end(gateway):
            # No await since the check above, so its result is still valid.
            return


def _may_end(gateway: Gateway) -> bool:
    """Return whether no hook is about to use the server: hooks find and start servers under this lock.

    The lock is held until the process ends, because the journal has one writer.
    """
    socket = None if gateway.address is None else gateway.address.path
    if socket is None:
        return True
    try:
        descriptor = os.open(lock_of(socket), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True  # no hook has started this server
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    return True


def lock_of(socket: Path) -> Path:
    """Return the lock that is held while a server is started at a socket."""
    return socket.with_suffix(".lock")
