"""Detection of outages of a journal from the results of its writes and the silence of its database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from ...core.clock import Clock
from ...core.sanitize import visible
from ..batches.writer import Silence
from ..errors import error_text
from ..model.records import JournalOutage, OutageKind

SLOW_SECONDS = 4.0
"""Time after which a write that has not ended counts as an outage."""
PROOF_SECONDS = 2.0
"""Time between two test writes to a journal whose last write failed."""
STUCK = "a write has not ended yet"


class WriteMonitor:
    """Records the results of writes and derives outages from them. Any thread may use it.

    An outage begins with a failed write, a slow write, or a database that does not answer. It ends when
    none of these applies: a failed write counts until another write or test write succeeds. `clock` gives
    the start of an outage.
    """

    def __init__(self, clock: Clock, steady: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._mutex = threading.Lock()
        self._began: float | None = None
        self._failure: tuple[float, str] | None = None
        self._proved = 0.0
        self._outage: JournalOutage | None = None

    def begin(self) -> None:
        """Note that a write begins."""
        self._began = self._steady()

    def end(self, error: Exception | None) -> None:
        """Note that the write failed with `error`, or is durable if there is none."""
        with self._mutex:
            started_at, self._began = self._began, None
            self._proved = self._steady()
            if error is None:
                self._failure = None
            else:
                since = started_at if self._failure is None else self._failure[0]
                self._failure = self._proved if since is None else since, visible(error_text(error))

    @property
    def needs_proof(self) -> bool:
        """True if the last write failed and the next test write is due."""
        return self._failure is not None and self._steady() - self._proved >= PROOF_SECONDS

    @property
    def has_failed(self) -> bool:
        """True if the last write failed."""
        return self._failure is not None

    def outage(self, silence: Silence | None, ended: str | None) -> JournalOutage | None:
        """Return the current outage, with its start and its latest reason; `None` without one.

        `silence` is the silence of the database; `ended` is the reason if the journal accepts no more
        events.
        """
        with self._mutex:
            fault = self._found(silence, ended)
            if fault is None:
                self._outage = None
                return None
            kind, seconds, reason = fault
            if self._outage is None:
                since = self._clock() - timedelta(seconds=seconds)
                self._outage = JournalOutage(since=since, kind=kind, reason=reason)
            elif (self._outage.kind, self._outage.reason) != (kind, reason):
                self._outage = self._outage.model_copy(update={"kind": kind, "reason": reason})
            return self._outage

    def _found(self, silence: Silence | None, ended: str | None) -> tuple[OutageKind, float, str] | None:
        """Return the kind, the age in seconds and the reason of a fault."""
        now = self._steady()
        if ended is not None:
            return "ended", 0.0, visible(ended)
        if silence is not None:
            return "unreachable", silence.seconds, visible(silence.reason)
        if self._failure is not None:
            since, reason = self._failure
            return "unwritable", now - since, reason
        if self._began is not None and (seconds := now - self._began) >= SLOW_SECONDS:
            return "unwritable", seconds, STUCK
        return None
