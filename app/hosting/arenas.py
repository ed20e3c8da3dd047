"""One arena of the C library's allocator for all threads of a server.

glibc gives each thread that allocates an arena of its own, and what one of them has freed serves no
other. A server's threads do little beside each other, as they share Python's lock; what a few of them
read once, such as the sessions of other servers, would stay 2 to 3 MB of a server that has hundreds.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_M_ARENA_MAX = -8
"""Number of the option in glibc's `malloc.h`."""
VARIABLE = "MALLOC_ARENA_MAX"
"""glibc's own setting, which stands."""


def share_one_arena() -> None:
    """Have the threads that this process starts from now on allocate where its first one does.

    Other C libraries have no arenas to choose the number of, and are left alone.
    """
    if VARIABLE in os.environ:
        return
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
