"""A folder for files of tests that should not wait for a disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 1 << 30
"""Bytes that must be free in it."""


def in_memory() -> Path | None:
    """Return the folder whose files are in memory, if it has enough space and programs can run there."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return None
    roomy = found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC
    return MEMORY if roomy and os.access(MEMORY, os.W_OK | os.X_OK) else None


@contextmanager
def on_disk() -> Iterator[Path]:
    """Provide a folder that is not in memory, for sandboxes: they have their own `/dev`."""
    with tempfile.TemporaryDirectory(prefix="interlock-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
