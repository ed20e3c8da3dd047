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
    """Check a call before anything runs (A-104, A-105).

    Raises `ValueError` for a command that no shell accepts and for a negative or undefined timeout, and
    `RuntimeAbortError` if the run is already aborted.
    """
    if "\0" in command:
        raise ValueError("a command cannot contain a null byte")
    if timeout is not None and (math.isnan(timeout) or timeout < 0):
        raise ValueError(f"timeout must be seconds from 0, got {timeout:g}")
    if abort is not None and abort.aborted:
        raise RuntimeAbortError


@contextlib.contextmanager
def timeout_errors(timer: asyncio.Timeout, timeout: float | None) -> Generator[None]:
    """Wrap `async with timer`: only its expiry is raised as `RuntimeTimeoutError`."""
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
    """Await `work`, and cancel it at the timeout or when the run is aborted.

    `work` has ended when this returns or raises. Raises `RuntimeTimeoutError`, `RuntimeAbortError`, or
    the error of `work`.
    """
    task = asyncio.ensure_future(work)
    forget = abort.on_abort(task.cancel) if abort is not None else None
    timer = asyncio.timeout(timeout or None)
    try:
        with timeout_errors(timer, timeout):
            async with timer:
                # `wait` does not forward a cancellation, so it can be distinguished from the abort's
                # below.
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
    """Wait for a cancelled task's end, even if cancelled; the cancellation is raised afterwards."""
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancellation = error
    if not task.cancelled():
        task.exception()
    if cancellation is not None:
        raise cancellation
