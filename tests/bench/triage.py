"""The queue as a table: from a key to its paint, and thirty-one requests decided there and one by one.

Both ways decide the same requests in the same console. Seconds are those of the console's own clocks: the
0.4 s during which keys are inert, and processor time. Reading is not included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from statistics import median, quantiles

from textual import events
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.triage.pane import TriagePane
from interlock.app.screens.triage.screen import TriageScreen
from interlock.app.terminal.gc import settle_collector
from interlock.app.widgets.approval.preview import RequestPreview
from interlock.app.widgets.approval.triage_list import TriageList
from interlock.app.widgets.lists.sessions import WaitingList

from ..app.support.queue_scenes import asking
from ..app.support.scenes import NOW
from ..app.support.triage_scenes import pushes, thirty_one
from ..support.fake_hub import FakeHub

MANY = 1_000
KEYS = 60
WIDE, SMALL = (200, 50), (80, 24)
LONGEST = 60.0
"""Seconds after which a console without progress is abandoned."""


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure a long queue, then thirty-one requests by the dialog and by the table."""
    for size in (WIDE, SMALL):
        lines, previews = asyncio.run(_key_to_paint(size))
        name = f"triage, {MANY:,} requests, {size[0]}×{size[1]}"
        for painted, found in (("paint", lines), ("preview", previews)):
            for kind, delays in zip(("processor", "clock"), zip(*found, strict=True), strict=True):
                yield f"{name}, key to {painted}, {kind}, p50", median(delays), "ms (goal ≤ 50)"
                p95 = quantiles(delays, n=20, method="inclusive")[18]
                yield f"{name}, key to {painted}, {kind}, p95", p95, "ms"
    ways = {"one by one in dialogs": _by_dialog, "in the table": _by_table}
    for name, way in ways.items():
        keys, seconds = asyncio.run(_decided(way))
        yield f"31 requests {name}", keys, "keys"
        yield f"31 requests {name}", seconds, "s"


class _Console:
    """A console that types keys and counts them."""

    def __init__(self, app: InterlockConsole, hub: FakeHub, pilot: Pilot[None]) -> None:
        self.app = app
        self.hub = hub
        self.pilot = pilot
        self.keys = 0

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.keys += 1
            await self.pilot.press(key)

    async def until(self, test: Callable[[], bool]) -> None:
        begun = time.monotonic()
        while not test():
            assert time.monotonic() - begun < LONGEST, "the console does not get on"
            await self.pilot.pause(0.01)


Delays = list[tuple[float, float]]
"""Milliseconds of processor time, and of elapsed time, which is meaningful only on an idle machine."""


async def _key_to_paint(size: tuple[int, int]) -> tuple[Delays, Delays]:
    """Return delays from each key that moves the cursor or marks to its paint, and to its preview's.

    The second list covers the keys with a preview of the request under the cursor.
    """
    hub = FakeHub(asking(*pushes(MANY)), now=NOW)
    app = InterlockConsole(hub, operator="bench", clock=lambda: NOW)
    lines: Delays = []
    previews: Delays = []
    async with app.run_test(size=size) as pilot:
        on = _Console(app, hub, pilot)
        await _ready(on)
        await on.press("Q")
        await on.until(lambda: isinstance(app.screen, TriageScreen))
        listed, preview = app.screen.query_one(TriageList), app.screen.query_one(RequestPreview)
        await on.until(lambda: len(listed.blocks) > MANY)
        settle_collector()  # as a console in a terminal does after its first paint
        painted: asyncio.Queue[tuple[float, float, bool]] = asyncio.Queue()
        display = app._display

        def displayed(*args: object) -> None:
            display(*args)  # type: ignore[arg-type]
            asked = preview.request
            previewed = not preview.display or (asked is not None and asked.id == listed.current)
            painted.put_nowait((time.process_time(), time.perf_counter(), previewed))

        app._display = displayed  # type: ignore[method-assign]
        for number in range(KEYS):
            key = ("j", "j", "x", "pagedown", "k")[number % 5]
            await pilot.pause(0.02)
            while not painted.empty():
                painted.get_nowait()
            begun = time.process_time(), time.perf_counter()
            app.post_message(events.Key(key, None))
            # Not with the pilot: its waiting queries every widget, and would be counted.
            paints: Delays = []
            previewed = False
            while not previewed:
                *ended, previewed = await asyncio.wait_for(painted.get(), LONGEST)
                cost, delay = (end - start for start, end in zip(begun, ended, strict=True))
                paints.append((cost * 1000, delay * 1000))
            lines.append(paints[0])
            previews.append(paints[-1])
    return lines, previews


async def _decided(way: Callable[[_Console], Awaitable[None]]) -> tuple[float, float]:
    """Return keys and seconds until thirty-one requests are approved."""
    hub = FakeHub(asking(*thirty_one()), now=NOW)
    app = InterlockConsole(hub, operator="bench", clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        on = _Console(app, hub, pilot)
        await _ready(on)
        begun = time.monotonic()
        await way(on)
        seconds = time.monotonic() - begun
    assert len({each.approval_id for each in hub.answers if each.approved}) == 31
    return float(on.keys), seconds


async def _ready(on: _Console) -> None:
    """Wait until something on screen accepts keys."""
    await on.until(lambda: on.app.was_painted and bool(on.app.screen.query_one(WaitingList).blocks))


async def _by_dialog(on: _Console) -> None:
    """Open the most urgent request with `a`, and approve it with `a` once its keys are active."""
    await on.press("alt+5")
    while await on.hub.approvals():
        await on.press("a")
        await on.until(lambda: isinstance(on.app.screen, ApprovalScreen))
        dialog = on.app.screen
        assert isinstance(dialog, ApprovalScreen)
        await _awake(on, dialog)
        while not dialog._frame.guard.complete:
            await on.press("a")
            await _awake(on, dialog)
        await on.press("a")
        await on.until(lambda: not isinstance(on.app.screen, ApprovalScreen))


async def _awake(on: _Console, dialog: ApprovalScreen) -> None:
    await on.until(lambda: dialog.sleeps_for() == 0)


async def _by_table(on: _Console) -> None:
    """For each kind, mark identical requests with `*` and approve them with `a`; open the others."""
    await on.press("Q")
    await on.until(lambda: isinstance(on.app.screen, TriageScreen))
    pane = on.app.screen.query_one(TriagePane)
    while waiting := len(await on.hub.approvals()):
        await on.until(lambda: pane.sleeps_for() == 0 and len(pane._listed) == waiting)
        alike = len(pane.query_one(TriageList).blocks) > 2
        await on.press(*(["asterisk"] if alike else []), "a")
        await on.until(lambda before=waiting: len(pane._listed) < before and not pane._sending)
