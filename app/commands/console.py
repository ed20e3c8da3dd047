"""`interlock console`: the console on a journal, without starting an agent."""

from __future__ import annotations

import sys
from pathlib import Path

from ...engine.history.journal import JournalError
from ...engine.history.redaction import Redaction
from ..hosting import show
from . import BAD_INPUT


def console(database: Path, operator: str, redaction: Redaction) -> int:
    """Open the console. Returns the exit code."""
    try:
        return show(database, operator, None, redaction)
    except JournalError as error:
        print(f"interlock: {error}", file=sys.stderr)
        return BAD_INPUT
