"""The time, passed to the code that needs it: the machine's clock, or a test's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Returns the time as an aware datetime."""


def utc_now() -> datetime:
    """Time of the machine's clock."""
    return datetime.now(UTC)
