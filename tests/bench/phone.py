"""The page for phones over a slow connection: from a tapped link to a painted request, and its bytes.

Chromium's throttling simulates the connection: 150 ms round trip, 1.6 Mbit/s down and 0.75 Mbit/s up,
which Lighthouse calls slow 4G; the processor is this machine's. The phone is logged in, as after a
notification. The server permits no caching, so each visit loads everything.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from playwright.async_api import Page

from ..app.web.fronts import browsing
from ..app.web.phone.phones import Phones, agent, deploy, enter, phone, phones

TIMES = 7
LATENCY = 150
DOWN, UP = 1_600_000 / 8, 750_000 / 8
"""Bytes per second."""

PAINTED = """() => new Promise(found => {
    const shown = () => document.querySelector("article[data-view=request]")
        ? requestAnimationFrame(() => setTimeout(() => found(performance.now()), 0))
        : requestAnimationFrame(shown);
    shown();
})"""
"""Milliseconds from the navigation to the frame after the one that shows the request."""


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure seconds to a painted request, and the bytes loaded for it."""
    seconds, kilobytes = zip(*asyncio.run(_looks()), strict=True)
    yield "phone, slow 4G, link to painted request", median(seconds), "s (goal ≤ 1)"
    yield "phone, loaded for it", median(kilobytes), "kB (goal ≤ 60)"


async def _looks() -> list[tuple[float, float]]:
    with tempfile.TemporaryDirectory() as directory:
        async with (
            browsing() as browser,
            phones(Path(directory)) as of,
            agent(of) as gate,
            phone(browser) as page,
        ):
            await enter(page, of)
            of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            return [await _look(page, of, request.id) for _ in range(TIMES)]


async def _look(page: Page, of: Phones, request: str) -> tuple[float, float]:
    """Return seconds and kilobytes of one visit to a request."""
    await page.goto("about:blank")
    session = await page.context.new_cdp_session(page)
    await session.send("Network.enable")
    loaded: list[float] = []
    session.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
    throttle = {"offline": False, "latency": LATENCY, "downloadThroughput": DOWN, "uploadThroughput": UP}
    await session.send("Network.emulateNetworkConditions", throttle)
    try:
        await page.goto(f"{of.front.url}/m/a/{request}", wait_until="commit")
        painted = await page.evaluate(PAINTED)
    finally:
        await session.detach()
    return painted / 1000, sum(loaded) / 1000
