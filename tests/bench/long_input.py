"""A request whose input has 60,000 fields: time to open its dialog, and from a key to its paint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from statistics import median, quantiles

from textual import events

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.terminal.gc import settle_collector

from ..app.support.queue_scenes import asking, asks
from ..app.support.scenes import NOW
from ..support.fake_hub import FakeHub
from .triage import _Console, _ready

FIELDS = 60_000
KEYS = 40


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure processor time in ms until the dialog is painted, and from each key in it to its paint."""
    opened, delays = asyncio.run(_measured())
    name = f"request of {FIELDS:,} fields"
    yield f"{name}, opened, processor", opened, "ms"
    yield f"{name}, key to paint, processor, p50", median(delays), "ms"
    p95 = quantiles(delays, n=20, method="inclusive")[18]
    yield f"{name}, key to paint, processor, p95", p95, "ms (goal ≤ 100)"


async def _measured() -> tuple[float, list[float]]:
    request = asks(1, input={f"field{n}": f"value {n}" for n in range(FIELDS)})
    hub = FakeHub(asking(request), now=NOW)
    app = InterlockConsole(hub, operator="bench", clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        on = _Console(app, hub, pilot)
        await _ready(on)
        settle_collector()  # as a console in a terminal does after its first paint
        painted: list[float] = []
        display = app._display

        def displayed(*args: object) -> None:
            display(*args)  # type: ignore[arg-type]
            painted.append(time.process_time())

        app._display = displayed  # type: ignore[method-assign]
        begun = time.process_time()
        app.post_message(events.Key("a", "a"))
        await on.until(lambda: isinstance(app.screen, ApprovalScreen) and bool(painted))
        await pilot.pause(0.1)
        opened = painted[-1] - begun
        found: list[float] = []
        for number in range(KEYS):
            await pilot.pause(0.02)
            painted.clear()
            begun = time.process_time()
            app.post_message(events.Key(("pagedown", "down", "pageup", "up")[number % 4], None))
            await on.until(lambda: bool(painted))
            found.append((painted[0] - begun) * 1000)
    return opened * 1000, found
