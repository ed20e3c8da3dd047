"""End of a call that does not end by itself: by its timeout or by an abort."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Coroutine, Generator
from typing import TypeVar

from ...errors import RuntimeAbortError, RuntimeTimeoutError
from ...turn.abort import AbortSignal

T = TypeVar("T")


def check_call(command: str, timeout: float | None, abort: AbortSignal | None) -> None:
    """Raise before anything runs: `ValueError` for what no shell can take and for a negative or undefined
    timeout, `RuntimeAbortError` when the run was aborted already (A-104, A-105)."""
    if "\0" in command:
        raise ValueError("a command cannot contain a null byte")
    if timeout is not None and (math.isnan(timeout) or timeout < 0):
        raise ValueError(f"timeout must be seconds from 0, got {timeout:g}")
    if abort is not None and abort.aborted:
        raise RuntimeAbortError


@contextlib.contextmanager
def timeout_errors(timer: asyncio.Timeout, timeout: float | None) -> Generator[None]:
    """Around `async with timer`: its end is a `RuntimeTimeoutError`, no other `TimeoutError` is."""
    try:
        yield
    except TimeoutError:
        if timeout and timer.expired():
            raise RuntimeTimeoutError(timeout) from None
        raise


async def wait_bounded(
    work: Coroutine[None, None, T],
    timeout: float | None,  # noqa: ASYNC109 - part of what a command means, not of waiting
    abort: AbortSignal | None,
) -> T:
    """Await `work`, which is cancelled when its time is up or the run is aborted.

    It has ended when this returns or raises. Raises `RuntimeTimeoutError`, `RuntimeAbortError`, or what
    `work` raises.
    """
    task = asyncio.ensure_future(work)
    forget = abort.on_abort(task.cancel) if abort is not None else None
    timer = asyncio.timeout(timeout or None)
    try:
        with timeout_errors(timer, timeout):
            async with timer:
                # Waiting does not pass a cancellation on, so that below it can be told from an abort's.
                await asyncio.wait({task})
    finally:
        if forget is not None:
            forget()
        if not task.cancelling():
            task.cancel()
        await _finished(task)
    if abort is not None and abort.aborted:
        raise RuntimeAbortError
    return task.result()


async def _finished(task: asyncio.Task[T]) -> None:
    """Wait for a cancelled task's end, whatever comes meanwhile; a cancellation is passed on after it."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.cancelled():
        task.exception()
    if cancelled is not None:
        raise cancelled
