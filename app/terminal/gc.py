"""Control of the garbage collector, so that collections do not stall the screen.

A collection visits every object, including a journal's hundred thousand events, and blocks the screen for
that time. None of these objects can be garbage that only a collection would find, since they are frozen
values without cycles.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager


class _Pause:
    """State of the pauses: their number, the bulk loads among them, and the collector's state before."""

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
    """Freeze what is loaded, and make later collections rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def bulk_load() -> Generator[None, None, None]:
    """Pause collections during a bulk load, and freeze what was loaded. Several threads may load at once.

    When the last pause ends, even with an error, the collector is switched on again if it was on before
    the first.
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
    """Pauses the collector from a request until its dialog is painted; young collections alone take 30 to
    80 ms.

    The pause ends only with `end`.
    """

    def __init__(self) -> None:
        self._held = False

    def begin(self) -> None:
        """Pause the collector unless this object has paused it already."""
        if not self._held:
            self._held = True
            with _Pause.lock:
                _hold()

    def end(self) -> None:
        """End the pause, if any."""
        if self._held:
            self._held = False
            with _Pause.lock:
                _release()
