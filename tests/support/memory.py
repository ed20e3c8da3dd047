"""A folder for files of tests that wait for no disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 1 << 30
"""Bytes that must be free there."""


def in_memory() -> Path | None:
    """The folder whose files are in memory, if there is one with room and leave to run programs."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return None
    roomy = found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC
    return MEMORY if roomy and os.access(MEMORY, os.W_OK | os.X_OK) else None


@contextmanager
def on_disk() -> Iterator[Path]:
    """A folder that is not in memory, for sandboxes: they have a `/dev` of their own."""
    with tempfile.TemporaryDirectory(prefix="interlock-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
