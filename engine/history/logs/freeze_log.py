"""Log of the freezes of a journal's agents: the last line says whether they are frozen.

A freeze also affects sessions that are not live yet, so it cannot be in a session's record. Each freeze
and each lift is a line of JSON in an append-only log. A line that cannot be read counts as a freeze.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Literal

from pydantic import ValidationError

from ...core.clock import Clock
from ..database.location import Location
from ..model.records import FreezeRecord, Record
from .line_log import line_log

UNREADABLE = "interlock"
"""Author of a freeze that nobody can be named for."""
MOST_READ = 64 * 1024
"""Bytes read from the end of the log; a line is shorter."""


class _Entry(Record):
    """A line of the log."""

    step: Literal["frozen", "lifted"]
    freeze: FreezeRecord


class FreezeLog:
    """The log of a `journal`; `clock` dates a freeze without a known time."""

    def __init__(self, journal: Location, clock: Clock) -> None:
        self.lines = line_log(journal, "freeze")
        self._clock = clock

    def read(self) -> FreezeRecord | None:
        """Return the freeze in force.

        It is by `UNREADABLE` if the log cannot be read or its end is incomplete.
        """
        try:
            entry = self._last()
        except OSError as error:
            return self._unreadable(error.strerror or str(error))
        return entry.freeze if entry is not None and entry.step == "frozen" else None

    def lifted(self) -> FreezeRecord | None:
        """Return the end of the last freeze: by whom, when and why; `None` if a freeze is in force.

        Raises `OSError` if the log cannot be read.
        """
        entry = self._last()
        return entry.freeze if entry is not None and entry.step == "lifted" else None

    def has_any(self, freezes: Collection[FreezeRecord]) -> bool:
        """Return whether one of these freezes is among the last lines. Raises `OSError`."""
        for line in (self.lines.read(MOST_READ) or b"").splitlines():
            with suppress(ValidationError):  # the first one may be cut
                entry = _Entry.model_validate_json(line)
                if entry.step == "frozen" and entry.freeze in freezes:
                    return True
        return False

    def _last(self) -> _Entry | None:
        """Return the last line, or a freeze by `UNREADABLE` if it cannot be parsed. Raises `OSError`."""
        text = self.lines.read(MOST_READ)
        if text is None:
            return None
        last = text[:-1].rpartition(b"\n")[2]
        problem = "its last line is not complete"
        if text.endswith(b"\n"):
            try:
                return _Entry.model_validate_json(last)
            except ValidationError:
                problem = "its last line is not a freeze"
        return _Entry(step="frozen", freeze=self._unreadable(problem))

    def begin(self, freeze: FreezeRecord) -> None:
        """Record a freeze; durable when this returns. Raises `OSError`."""
        self.lines.append(_Entry(step="frozen", freeze=freeze).model_dump_json())

    def lift(self, lift: FreezeRecord) -> None:
        """Record that a freeze was lifted: by whom, when and why. Raises as `begin` does."""
        self.lines.append(_Entry(step="lifted", freeze=lift).model_dump_json())

    def _unreadable(self, why: str) -> FreezeRecord:
        reason = f"the record of freezes '{self.lines.name}' cannot be read: {why}"
        return FreezeRecord(by=UNREADABLE, at=self._clock(), reason=reason)
