"""`interlock` on a machine whose clock is wrong, as a program: `wrong_clock.py SECONDS -- COMMAND…`."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta, tzinfo
from typing import Self

from interlock.app.cli.history import journal
from interlock.app.cli.main import main
from interlock.engine.core import clock


def program(seconds: int) -> tuple[str, ...]:
    """Return Python's arguments for running commands with a clock that is ahead by so many seconds."""
    return (__file__, str(seconds), "--")


def set_clock(seconds: int) -> None:
    """Make this process read the machine's clock as ahead by so many seconds."""
    read = time.time

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(seconds=seconds)

    time.time = lambda: read() + seconds
    for each in (clock, journal):
        each.datetime = Ahead


if __name__ == "__main__":
    set_clock(int(sys.argv[1]))
    sys.exit(main(sys.argv[3:]))
