"""`interlock history`: the recorded sessions as a table."""

from __future__ import annotations

import shutil
from datetime import tzinfo
from pathlib import Path
from typing import TextIO

from ....engine.core.sanitize import visible
from ....engine.history.errors import JournalError
from ....engine.history.journal.reader import open_reader
from ...config.arguments import BAD_INPUT
from ...format.sessions import columns, heading, row

WIDTH = 80
EMPTY = "No sessions are recorded yet in {database}. Start one with: interlock demo"


def list_sessions(
    database: Path, *, limit: int, out: TextIO, err: TextIO, zone: tzinfo | None = None
) -> int:
    """Print the latest `limit` sessions, the most recent first. Returns the exit code.

    No journal yet is not an error; a file that cannot be read as one is.
    """
    if not database.exists():
        print(EMPTY.format(database=visible(str(database))), file=out)
        return 0
    try:
        sessions = open_reader(database).sessions(limit=limit)
    except JournalError as error:
        print(f"interlock history: {visible(str(error), keep_newlines=True)}", file=err)
        return BAD_INPUT
    if not sessions:
        print(EMPTY.format(database=visible(str(database))), file=out)
        return 0
    chosen = columns(sessions, _width(out), zone=zone, shorten_ids=False)
    print(heading(chosen).rstrip(), file=out)
    for session in sessions:
        print("  ".join(row(chosen, session)).rstrip(), file=out)
    return 0


def _width(out: TextIO) -> int:
    """Width for the table: the terminal's, or 80 cells where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if out.isatty() else WIDTH
