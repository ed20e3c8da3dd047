"""One allocator arena of the C library for all threads of a server.

glibc gives each allocating thread its own arena, and memory freed in one arena is not reused in another.
A server's threads rarely run in parallel, because they share Python's lock. Data that some of them read
once, such as the sessions of other servers, would keep 2 to 3 MB occupied in a server that itself needs
hundreds.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_M_ARENA_MAX = -8
"""Number of the `M_ARENA_MAX` option in glibc's `malloc.h`."""
VARIABLE = "MALLOC_ARENA_MAX"
"""glibc's own setting; it takes precedence."""


def share_one_arena() -> None:
    """Make all threads that this process starts later share the arena of the main thread.

    C libraries without this option are left unchanged.
    """
    if VARIABLE in os.environ:
        return
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
