"""Log of the freezes of a journal's agents, beside it: the last line says whether they are frozen.

A freeze also concerns sessions that are not live yet, so that no session's record can hold it. Each
freeze and each lift is a line of JSON, only ever appended. What cannot be read counts as frozen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ...core.clock import Clock
from ..model.records import FreezeRecord, Record
from .line_log import append_line
from .schema import name_of

UNREADABLE = "interlock"
"""Name under which agents are frozen where nobody can be named."""
MOST_READ = 64 * 1024
"""Bytes of the log's end that are read; a line is shorter."""


class _Entry(Record):
    """A line of the log."""

    step: Literal["frozen", "lifted"]
    freeze: FreezeRecord


class FreezeLog:
    """The log beside the journal at `database`; `clock` dates what nobody can date."""

    def __init__(self, database: Path, clock: Clock) -> None:
        self.path = database.with_name(f"{database.name}.freeze")
        self._clock = clock

    def read(self) -> FreezeRecord | None:
        """The freeze in force; one by nobody where the log cannot be read or ends within a line."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_READ))
                text = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._unreadable(error.strerror or str(error))
        last = text[:-1].rpartition(b"\n")[2]
        if not text.endswith(b"\n"):
            return self._unreadable("its last line is not complete")
        try:
            entry = _Entry.model_validate_json(last)
        except ValidationError:
            return self._unreadable("its last line is none of a freeze")
        return entry.freeze if entry.step == "frozen" else None

    def begin(self, freeze: FreezeRecord) -> None:
        """Note a freeze; durable when this returns. Raises `OSError`."""
        append_line(self.path, _Entry(step="frozen", freeze=freeze).model_dump_json())

    def lift(self, lift: FreezeRecord) -> None:
        """Note that a freeze was lifted: by whom, when and why. Raises as `begin`."""
        append_line(self.path, _Entry(step="lifted", freeze=lift).model_dump_json())

    def _unreadable(self, why: str) -> FreezeRecord:
        reason = f"the record of freezes '{name_of(self.path)}' cannot be read: {why}"
        return FreezeRecord(by=UNREADABLE, at=self._clock(), reason=reason)
