"""Signal that stops a run: set once, observed by everything that has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import TypeVar, cast

from ..errors import AgentError, ModelError
from ..models.base import Chunk, Model, ModelRequest

T = TypeVar("T")

log = logging.getLogger(__name__)

ABORTED_CALL = "Aborted"


class AbortSignal:
    """Signal that stops a run, its model and its tools. Belongs to one event loop.

    `reason` is given by the person who aborted. `call_text` is what the model reads as the result of
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
        """Abort; only the first call has an effect. Every callback runs, even if others raise."""
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
        """Call `callback` on abort, or at once if aborted. Returns a function that unregisters it."""
        if self._aborted:
            callback()
            return _nothing
        self._callbacks.append(callback)

        def forget() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return forget


async def unless_aborted(signal: AbortSignal, work: Coroutine[object, object, T]) -> T | None:
    """Return the result of `work`, or `None` if an abort stopped it first. Raises the error of `work`."""
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


# Streams of a model's reply that an abort can stop between any two chunks.


async def stream_chunks(
    model: Model, request: ModelRequest, abort: AbortSignal
) -> AsyncGenerator[Chunk, None]:
    """Yield the reply's chunks; end early when aborted. Raises the model's errors.

    One task drives the model's generator from start to end, as cancel scopes inside it require. It is
    never more than one chunk ahead of the consumer (A-30).
    """
    chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
    pump = asyncio.ensure_future(_pump(model, request, chunks))
    pump.add_done_callback(lambda _: chunks.put_nowait(None))
    forget = abort.on_abort(pump.cancel)
    try:
        while (chunk := await chunks.get()) is not None and not abort.aborted:
            chunks.task_done()
            yield chunk
        if not abort.aborted:
            if pump.cancelled():
                raise ModelError(f"{model.name}: the reply was cancelled")
            pump.result()
    finally:
        forget()
        pump.cancel()
        await asyncio.wait({pump})
        if not pump.cancelled():
            pump.exception()


async def _pump(model: Model, request: ModelRequest, chunks: asyncio.Queue[Chunk | None]) -> None:
    reply: AsyncIterator[Chunk] = model.stream(request)
    try:
        async for chunk in reply:
            chunks.put_nowait(chunk)
            await chunks.join()
    finally:
        close = cast("Callable[[], Awaitable[None]] | None", getattr(reply, "aclose", None))
        if close is not None:
            await close()
