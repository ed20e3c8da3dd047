"""The console on a real hub, for tests that start and continue real sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.engine.hub.hub import Hub


@dataclass
class RealConsole:
    """A running console, what it paints, and keys to type."""

    app: InterlockConsole
    pilot: Pilot[None]

    def painted(self) -> str:
        """Return every line on the screen, as an operator reads it."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def until(self, text: str) -> None:
        """Wait until `text` is painted, even if a busy machine first imports litellm."""
        # Painting a whole screen takes time that the awaited side needs.
        for _ in range(1_200):
            if text in self.painted():
                return
            await self.pilot.pause(0.05)
        raise AssertionError(f"{text!r} was not painted:\n{self.painted()}")

    async def type(self, text: str) -> None:
        await self.pilot.press(*text)


@asynccontextmanager
async def real_console(
    database: str = "run.db", size: tuple[int, int] = (120, 40)
) -> AsyncIterator[RealConsole]:
    """A console on its own hub, in the working directory."""
    hub = Hub.open(Path(database))
    app = InterlockConsole(hub, operator="maria")
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            await pilot.pause()
            yield RealConsole(app, pilot)
    finally:
        await hub.close()
