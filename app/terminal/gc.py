"""Keeping the garbage collector from stalling the screen.

A collection looks at every object there is, a journal's hundred thousand events too, and holds up the
screen meanwhile. None of them can be garbage that only a collection would find: they are frozen values
without cycles.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager


class _Pause:
    """Pauses of the collector: their number, how many are loads, and its state before the first."""

    lock = threading.Lock()
    count = 0
    loads = 0
    was_on = False


def _hold() -> None:
    if _Pause.count == 0:
        _Pause.was_on = gc.isenabled()
        gc.disable()
    _Pause.count += 1


def _release() -> None:
    _Pause.count -= 1
    if _Pause.count == 0 and _Pause.was_on:
        gc.enable()


def settle_collector() -> None:
    """Freeze what is loaded by now, and make later collections rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def bulk_load() -> Generator[None, None, None]:
    """No collection while much is loaded, nor of that afterwards; several threads may load at once.

    The last pause to end switches the collector on again if it was on before the first, also after an
    error.
    """
    with _Pause.lock:
        if _Pause.loads == 0:
            gc.collect(1)
        _Pause.loads += 1
        _hold()
    try:
        yield
    finally:
        with _Pause.lock:
            _Pause.loads -= 1
            if _Pause.loads == 0 and _Pause.was_on:
                gc.freeze()
            _release()


class PaintFirst:
    """No collection from a request to its dialog's paint: the youngest alone take 30 to 80 ms.

    What a console has held it lets go by itself only in `end`.
    """

    def __init__(self) -> None:
        self._held = False

    def begin(self) -> None:
        """Hold the collector, unless it is held already."""
        if not self._held:
            self._held = True
            with _Pause.lock:
                _hold()

    def end(self) -> None:
        """Release the collector, if it was held."""
        if self._held:
            self._held = False
            with _Pause.lock:
                _release()
