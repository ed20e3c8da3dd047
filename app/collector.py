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


class _Loads:
    """The loads that are under way, and whether the collector was on before the first."""

    lock = threading.Lock()
    count = 0
    was_on = False


def settle_collector() -> None:
    """What is loaded by now stays; collections come rarely from here on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def bulk_load() -> Generator[None, None, None]:
    """No collection while much is loaded, nor of that afterwards; several threads may load at once.

    The last load to end switches the collector on again if it was on before the first, whatever happened.
    """
    with _Loads.lock:
        if _Loads.count == 0:
            _Loads.was_on = gc.isenabled()
            gc.collect(1)
            gc.disable()
        _Loads.count += 1
    try:
        yield
    finally:
        with _Loads.lock:
            _Loads.count -= 1
            if _Loads.count == 0 and _Loads.was_on:
                gc.freeze()
                gc.enable()
