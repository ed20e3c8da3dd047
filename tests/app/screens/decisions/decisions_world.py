"""The decisions screen on a journal, and its painted lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.app.widgets.lists.decision_table import DecisionTable
from tests.support.decisions import NOW


def recorded_console(path: Path) -> HistoryConsole:
    """A console for a journal without a writer, with a clock that stands still."""
    return HistoryConsole(RecordedFile(path), zone=UTC, clock=lambda: NOW)


@dataclass
class Desk:
    """A running console and the handles a test needs."""

    app: App[None]
    pilot: Pilot[None]

    @property
    def screen(self) -> DecisionsScreen:
        found = [screen for screen in self.app.screen_stack if isinstance(screen, DecisionsScreen)]
        assert found, self.app.screen_stack
        return found[0]

    @property
    def table(self) -> DecisionTable:
        return self.screen.query_one(DecisionTable)

    def painted(self) -> str:
        """Every painted line, as an operator reads it."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    def rows(self) -> list[str]:
        """The painted lines of the list, without its scrollbar."""
        region = self.table.region
        bar = region.width - 1
        lines = [line[:bar].rstrip() for line in self.painted().split("\n")[region.y : region.bottom]]
        return [line for line in lines if line]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def filter(self, text: str) -> None:
        """Type a filter and go back to the list."""
        await self.press("slash")
        self.screen.query_one("#filter", Input).value = text
        await self.press("enter")

    async def until(self, *texts: str, gone: str = "") -> str:
        """Wait for a paint that shows all `texts` and not `gone`."""
        return await self.when(
            lambda: all(t in self.painted() for t in texts) and (not gone or gone not in self.painted()),
            f"{texts} without {gone!r}",
        )

    async def when(self, holds: Callable[[], bool], what: str = "it") -> str:
        for _ in range(1000):
            if holds():
                return self.painted()
            await self.pilot.pause(0.01)
        raise AssertionError(f"{what} did not happen:\n{self.painted()}")


@asynccontextmanager
async def desk(path: Path, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Desk]:
    """Open the decisions of a journal file on screen."""
    app = recorded_console(path)
    async with app.run_test(size=size, notifications=True) as pilot:
        on = Desk(app, pilot)
        await on.press("v")
        await on.when(lambda: isinstance(app.screen, DecisionsScreen))
        await on.when(lambda: on.table.total == 0 or on.table.current is not None)
        yield on
