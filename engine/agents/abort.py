"""A signal that stops a run: set once, seen by everyone who holds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TypeVar

from .errors import AgentError

T = TypeVar("T")

log = logging.getLogger(__name__)

ABORTED_CALL = "Aborted"


class AbortSignal:
    """Tells a run, its model and its tools to stop. Belongs to one event loop.

    `reason` is what the person who aborted said; `call_text` is what the model reads as the result of
    calls that were not started (A-96).
    """

    def __init__(self) -> None:
        self._aborted = False
        self._callbacks: list[Callable[[], object]] = []
        self.reason = ""
        self.call_text = ABORTED_CALL

    @property
    def aborted(self) -> bool:
        return self._aborted

    def abort(self, reason: str = "", *, call_text: str = ABORTED_CALL) -> None:
        """Abort; only the first call counts. Every callback runs, whatever others raise."""
        if self._aborted:
            return
        self._aborted = True
        self.reason = reason
        self.call_text = call_text
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception("A callback of an abort signal failed")

    def on_abort(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` on abort, at once if it has happened. Returns a function that takes it back."""
        if self._aborted:
            callback()
            return _nothing
        self._callbacks.append(callback)

        def forget() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return forget


async def unless_aborted(signal: AbortSignal, work: Coroutine[object, object, T]) -> T | None:
    """What `work` returns, or `None` when an abort came first and stopped it. Raises what it raises."""
    task = asyncio.ensure_future(work)
    forget = signal.on_abort(task.cancel)
    try:
        await asyncio.wait({task})
    finally:
        forget()
        if not task.done():
            task.cancel()
    if not task.cancelled():
        return task.result()
    if signal.aborted:
        return None
    raise AgentError("The work was cancelled from within")


def _nothing() -> None:
    pass
