"""A host that may die while it creates its journal."""

from __future__ import annotations

from pathlib import Path

from interlock.engine.history.journal import Journal
from tests.crash import disk
from tests.crash.busy import database_in


def create(reporting: int, folder: str, death: dict[str, object] | None = None) -> dict[str, object]:
    """Open a journal where there is none, or what is left of one; how many operations that takes."""
    database = database_in(Path(folder))
    disk.arm(database, death)
    Journal.open(database).close()
    return {"operations": disk.operations()}
