"""Rereading of a recorded session that grows during its replay."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer

from ...engine.history.model.events import JournalEvent
from ...engine.hub.api import HistoryApi
from .playback import Playable, open_recorded

PAUSE = 0.5
"""Minimum seconds between an event and the read that finds it."""

SHARE = 20
"""Minimum ratio of the pause to the last read's duration, since reading a long session takes time."""


@dataclass
class SessionRead(Message):
    """The session as recorded now; `by_key` if the operator requested the read."""

    ready: Playable
    by_key: bool


@dataclass
class ReadFailed(Message):
    """The recording could not be read again."""

    error: str


class ReplayFeed:
    """Reads `session` of `source` again for `screen`, one read at a time, prepared for event `at`."""

    def __init__(
        self, source: HistoryApi, session: str, screen: Screen[None], at: Callable[[], int]
    ) -> None:
        self._source = source
        self._session = session
        self._screen = screen
        self._at = at
        self._due: Timer | None = None
        self._pause = PAUSE

    def has_new(self, events: Sequence[object], count: int) -> bool:
        """Return whether one of `events` belongs to this session and follows its first `count` events."""
        return any(
            isinstance(e, JournalEvent) and e.session == self._session and e.seq > count for e in events
        )

    def read_soon(self) -> None:
        """Read after a pause, so that further events share the read."""
        if self._due is None:
            self._due = self._screen.set_timer(self._pause, lambda: self.read_now(by_key=False))

    def read_now(self, *, by_key: bool) -> None:
        """Read at once."""
        if self._due is not None:
            self._due.stop()
            self._due = None
        self._screen.run_worker(
            self._read(by_key), group="replay-again", exclusive=True, exit_on_error=False
        )

    async def _read(self, by_key: bool) -> None:
        start = time.monotonic()
        try:
            ready = await open_recorded(self._source, self._session, self._at())
        except Exception as error:
            self._screen.post_message(ReadFailed(str(error) or type(error).__name__))
            return
        self._pause = max(PAUSE, SHARE * (time.monotonic() - start))
        self._screen.post_message(SessionRead(ready, by_key))
