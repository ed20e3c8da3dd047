"""Signals that end a host in order: its agents end, and their last events are recorded."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager


@contextmanager
def on_signals(end: Callable[[int], None]) -> Generator[None]:
    """Make SIGHUP and SIGTERM call `end` with the shell's exit code for the signal, each time one
    arrives.

    A signal that is ignored, as under `nohup`, stays ignored. Needs a running event loop.
    """
    loop = asyncio.get_running_loop()
    signals = [s for s in (signal.SIGHUP, signal.SIGTERM) if signal.getsignal(s) is not signal.SIG_IGN]
    for each in signals:
        loop.add_signal_handler(each, end, 128 + each)
    try:
        yield
    finally:
        for each in signals:
            loop.remove_signal_handler(each)


async def until_signal(work: Coroutine[object, object, int]) -> int:
    """Return the exit code of `work`; the first SIGHUP or SIGTERM cancels it and determines the code.

    Only the main thread receives signals; in another one `work` just runs.
    """
    if threading.current_thread() is not threading.main_thread():
        return await work
    task, codes = asyncio.ensure_future(work), list[int]()

    def end(code: int) -> None:
        codes.append(code)
        if len(codes) == 1:
            task.cancel()

    with on_signals(end):
        try:
            return await task
        except asyncio.CancelledError:
            if not codes:
                raise
            return codes[0]
