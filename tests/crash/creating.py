"""A host that may die while it creates its journal, and files whose renames a power loss may undo."""

from __future__ import annotations

import os
from pathlib import Path

from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import SessionOpened

from . import disk
from .busy import database_in


def create(
    reporting: int, folder: str, death: dict[str, object] | None = None, used: bool = False
) -> dict[str, object]:
    """Open a journal where there is none or an unfinished one; return the number of disk operations.

    With `used` it is also written to, so that a death may follow its creation.
    """
    database = database_in(Path(folder))
    disk.arm(database, death)
    with Journal.open(database) as journal:
        operations = disk.operations()
        if used:
            journal.write("one", SessionOpened(agent="a", model="m", mode="enforce"))
    return {"operations": operations}


def rename(reporting: int, folder: str, death: dict[str, object], synced: bool) -> None:
    """Create a file, rename it, remove another, and optionally sync the directory; then write."""
    here = Path(folder)
    disk.arm(here / "file", death)
    handle = os.open(here / "file-made", os.O_CREAT | os.O_RDWR, 0o600)
    (here / "file-made").rename(here / "file-moved")
    (here / "file-old").unlink()
    if synced:
        directory = os.open(here, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
    os.write(handle, b"end")
