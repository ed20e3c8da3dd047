"""Waiting for other processes."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Wait until a condition holds; `what` describes it."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"it did not happen: {what}"
        time.sleep(0.02)
