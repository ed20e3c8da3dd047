"""What an operator decides at: a hub, their name, and the clocks that times and keys go by."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from .door import Door
from .screens.wakeful import QUIET
from .text import utc_now


@dataclass(frozen=True, slots=True)
class Desk:
    """Whatever screen decides is given one.

    `clock` gives the times that ages are counted to, `monotonic` the seconds that keys sleep; see
    `Wakeful` for `quiet`.
    """

    hub: Door
    operator: str
    clock: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    quiet: float = QUIET
