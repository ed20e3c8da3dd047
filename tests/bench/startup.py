"""Time that a user waits for help, and for the console's first paint with short and long queues."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.lists.sessions import WaitingList

from ..app.support.queue_scenes import asking, asks
from ..app.support.scenes import NOW
from ..support.fake_hub import FakeHub
from .interpreter import bare_start
from .terminal import Terminal

REPEATS = 15
QUEUES = 10, 10_000
"""Number of waiting requests when a console starts."""
INTERLOCK = str(Path(sys.executable).with_name("interlock"))


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure `interlock --help` and a bare interpreter in alternation; then a cold first paint."""
    help_times, bare_times = [], []
    for _ in range(REPEATS):
        bare_times.append(bare_start())
        help_times.append(_seconds([INTERLOCK, "--help"]))
    yield "python -c pass", median(bare_times) * 1000, "ms"
    yield "interlock --help", median(help_times) * 1000, "ms"
    yield "interlock --help / python -c pass", median(help_times) / median(bare_times), "ratio (goal ≤ 6)"
    paints = sorted(_first_paint() for _ in range(5))
    yield "console, first paint, median", median(paints) * 1000, "ms (goal ≤ 1200)"
    yield "console, first paint, worst of 5", paints[-1] * 1000, "ms"
    few, many = (min(asyncio.run(_queue_paint(waiting)) for _ in range(3)) for waiting in QUEUES)
    yield f"live screen with {QUEUES[0]} requests", few * 1000, "ms"
    yield f"live screen with {QUEUES[1]:,} requests", many * 1000, "ms"
    yield "more than with few", (many - few) * 1000, "ms (goal ≤ 500)"


def _seconds(command: list[str]) -> float:
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


async def _queue_paint(waiting: int) -> float:
    """Return seconds from a console's start until its queue is on screen, in this process."""
    hub = FakeHub(asking(*(asks(number) for number in range(waiting))), now=NOW)
    app = InterlockConsole(hub, operator="maria", clock=lambda: NOW)
    begun = time.perf_counter()
    async with app.run_test(size=(120, 40)) as pilot:
        live = app.screen_stack[0]
        assert isinstance(live, LiveScreen)
        while not live.query_one(WaitingList).blocks:
            await pilot.pause(0.005)
        return time.perf_counter() - begun


def _first_paint() -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [INTERLOCK, "console", "--db", f"{folder}/bench.db"]
        with Terminal(command) as terminal:
            return terminal.wait_for("Sessions") - terminal.started
