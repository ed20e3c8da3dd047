"""The time, given to those who need it: the machine's, unless a test has one of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""The time, as an aware datetime."""


def utc_now() -> datetime:
    """The machine's clock."""
    return datetime.now(UTC)
