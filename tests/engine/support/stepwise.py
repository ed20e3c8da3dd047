"""A journal whose commits are the test's: on a real file, in the loop's own thread, when it says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

from interlock.engine.history.journal import journal as journals
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.writer import Writer

BEGINNING = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)


class Clock:
    """The journal's time and, as far as it is moved, the loop's."""

    def __init__(self) -> None:
        self.seconds = 0.0
        loop = asyncio.get_running_loop()
        ticking = loop.time
        loop.time = lambda: ticking() + self.seconds  # type: ignore[method-assign]

    def __call__(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.seconds)


class StepwiseJournal(Journal):
    """Commits in the loop; `refuse` is how many commits fail from now on.

    It commits so many turns after it was given something as its `lags` say, and tells what came of it so
    many turns after that as `delays` say.
    """

    def __init__(self, *args: Any) -> None:
        self.lags: Iterator[int] = cycle([0])
        self.delays: Iterator[int] = cycle([0])
        self.refuse = 0
        self._ticking = False
        self._ending = threading.Event()
        super().__init__(*args)

    def quick(self, lags: Sequence[int], delays: Sequence[int] = ()) -> StepwiseJournal:
        """Nothing here outlives the test, so nothing waits for the disk."""
        if isinstance(self._writer, Writer):
            self._writer._connection.execute("PRAGMA synchronous = OFF")
        self.lags = cycle(lags or [0])
        self.delays = cycle(delays or [0])
        return self

    @property
    def waiting(self) -> bool:
        return self._ticking

    def _hand_over(self, *args: Any, **options: Any) -> Any:
        events = super()._hand_over(*args, **options)
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick, next(self.lags))
        return events

    def _tick(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._tick, turns - 1)
            return
        batch, self._queue = self._queue, []
        try:
            if self.refuse and any(waiter.written for waiter in batch):
                self.refuse -= 1
                raise OSError("the disk is full")
            self._writer.commit([w for waiter in batch for w in waiter.written])
        except Exception as error:
            self._tell(next(self.delays), *self._forget(batch, error))
        else:
            self._tell(next(self.delays), batch, None)

    def _tell(self, turns: int, *told: Any) -> None:
        loop = asyncio.get_running_loop()
        if turns:
            loop.call_soon(self._tell, turns - 1, *told)
            return
        journals._release(*told)
        self._ticking = bool(self._queue)
        if self._ticking:
            loop.call_soon(self._tick, next(self.lags))

    def _run(self) -> None:
        self._ending.wait()
        super()._run()

    def close(self) -> None:
        """See `Journal.close`."""
        self._ending.set()
        super().close()
