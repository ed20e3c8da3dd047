"""End of a server that is not used: nothing else would end one that a hook has started."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from ...engine.gateway.server.server import Gateway
from ..config.quantities import age

LOOK = 1.0
"""Seconds between two looks whether anybody uses it."""
NEVER = "never"


def idle_time(text: str) -> float | None:
    """`30m`, `12h`: seconds; `None` for `never`. Raises `ValueError`."""
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
    """Return once no session was open and no client connected for so long.

    No hook starts another server at the same socket then until this process has ended.
    """
    loop = asyncio.get_running_loop()
    used = loop.time()
    while True:
        await pause(min(LOOK, seconds))
        left = gateway.left
        if left is None or await gateway.hub.sessions():
            used = loop.time()
        elif loop.time() - max(used, left) >= seconds and _may_end(gateway):
            # Nothing has been waited for since it was looked at.
            return


def _may_end(gateway: Gateway) -> bool:
    """Tell whether no hook is about to use the server: they start one, and look for one, under this lock.

    It is held to the end of the process, as the journal has one writer.
    """
    socket = None if gateway.address is None else gateway.address.path
    if socket is None:
        return True
    try:
        descriptor = os.open(lock_of(socket), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True  # no hook has started it
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    return True


def lock_of(socket: Path) -> Path:
    """The lock that is held to start a server at a socket."""
    return socket.with_suffix(".lock")
