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
        self._append(_Entry(step="frozen", freeze=freeze))

    def lift(self, lift: FreezeRecord) -> None:
        """Note that a freeze was lifted: by whom, when and why. Raises as `begin`."""
        self._append(_Entry(step="lifted", freeze=lift))

    def _append(self, entry: _Entry) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self.path, flags, 0o600)
        try:
            size = os.fstat(handle).st_size
            # After a line that was cut short by a crash another one begins.
            cut = size and os.pread(handle, 1, size - 1) != b"\n"
            line = ("\n" if cut else "") + entry.model_dump_json() + "\n"
            data = line.encode()
            if os.write(handle, data) != len(data):
                raise OSError(f"only a part of a line was written to '{name_of(self.path)}'")
            os.fsync(handle)
        finally:
            os.close(handle)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _unreadable(self, why: str) -> FreezeRecord:
        reason = f"the record of freezes '{name_of(self.path)}' cannot be read: {why}"
        return FreezeRecord(by=UNREADABLE, at=self._clock(), reason=reason)
