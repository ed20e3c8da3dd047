"""Output of the console: each paint of the live screen writes only the changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.app.console.attention import Terminal
from interlock.app.screens.live.screen import LiveScreen
from interlock.engine.history.model.state import SessionState

from ...support.fake_hub import FakeHub
from ..support.queue_scenes import asking, asks
from ..support.scenes import NOW
from ..support.stage import everyone

SECONDS = 10
IDLE, BUSY = 1_000, 3_000
"""Limits in bytes per second: without activity, and with 30 waiting requests."""


class WrittenDriver(HeadlessDriver):
    """A driver that records its terminal output."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.written = ""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.written += data


@dataclass
class Counted:
    """A console whose clock advances only through the test."""

    pilot: Pilot[None]
    app: InterlockConsole
    times: list[datetime] = field(default_factory=list[datetime])

    async def bytes_of(self, seconds: int) -> int:
        """Return the bytes written in a number of seconds, with five paints in each."""
        driver = self.app._driver
        assert isinstance(driver, WrittenDriver)
        live = self.app.screen
        assert isinstance(live, LiveScreen)
        driver.written = ""
        for _ in range(seconds):
            self.times[0] += timedelta(seconds=1)
            for _ in range(5):
                await live.paint()
                await self.pilot.pause(0.002)
        return len(driver.written.encode())


@asynccontextmanager
async def counted(monkeypatch: pytest.MonkeyPatch, *states: SessionState) -> AsyncIterator[Counted]:
    monkeypatch.setattr("interlock.app.console.app.settle_collector", lambda: None)
    times = [NOW]
    terminal = Terminal(
        write=lambda _: None,
        run=lambda _: None,
        focused=lambda: True,
        later=lambda *_: None,
        monotonic=lambda: 0.0,
    )
    app = InterlockConsole(
        FakeHub(*states, now=NOW), operator="maria", clock=lambda: times[0], terminal=terminal
    )
    app.driver_class = WrittenDriver
    async with app.run_test(headless=False, size=(120, 40)) as pilot:
        while not app.was_painted:
            await pilot.pause(0.01)
        one = Counted(pilot, app, times)
        await one.bytes_of(2)
        yield one


class TestTraffic:
    async def test_finished_session_causes_little_output(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A finished session causes almost no output, even with many paints."""
        [done] = [state for state in everyone() if state.status == "done"]
        async with counted(monkeypatch, done) as console:
            assert await console.bytes_of(SECONDS) <= IDLE * SECONDS

    @pytest.mark.slow
    async def test_output_for_30_requests_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For 30 requests whose age and deadline change each second, the output stays below the limit."""
        waiting = [asks(n, expires=NOW + timedelta(minutes=9)) for n in range(30)]
        async with counted(monkeypatch, asking(*waiting)) as console:
            written = await console.bytes_of(SECONDS)
        assert 0 < written <= BUSY * SECONDS

    @pytest.mark.slow
    async def test_returned_terminal_is_fully_repainted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After another program has used the terminal, the console writes the whole screen again."""
        async with counted(monkeypatch, *everyone()) as console:
            driver = console.app._driver
            assert isinstance(driver, WrittenDriver)
            driver.written = ""
            console.app._resume_signal()
            console.app.refresh(layout=True)
            for _ in range(100):
                await console.pilot.pause(0.01)
                if "Sessions" in driver.written:
                    break
            assert "Sessions" in driver.written
