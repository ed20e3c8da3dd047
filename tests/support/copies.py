"""Journals that many tests start from: written once per process, and copied for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from interlock.engine.history.database.location import absolute

_WRITTEN: dict[Callable[[Path], object], bytes] = {}


def copied(write: Callable[[Path], object], database: Path) -> Path:
    """Copy to `database` a journal that `write` creates at a path.

    `write` has to create the same journal at every call, and close it.
    """
    if not isinstance(absolute(database), Path):
        write(database)
        return database
    content = _WRITTEN.get(write)
    if content is None:
        write(database)
        beside = [f"{database.name}{end}" for end in ("-wal", "-shm")]
        assert not any(database.with_name(name).exists() for name in beside), "the journal is open"
        _WRITTEN[write] = database.read_bytes()
    else:
        database.write_bytes(content)
    return database
