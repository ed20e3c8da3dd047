"""The console with a fake hub, a stopped clock, and its screen as text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from textual import events
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole, Start
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.widgets.approval.reviewed_list import ReviewedList
from interlock.engine.history.model.state import SessionState

from ...support.fake_hub import FakeHub
from .scenes import NOW, cleanup, docs_writer, nightly_sync, release_bot

CHARACTERS = {"space": " ", "question_mark": "?", "enter": "\r"}


@dataclass
class Stage:
    """A running console and the handles a test needs."""

    app: InterlockConsole
    hub: FakeHub
    pilot: Pilot[None]
    seconds: float = 0.0

    def painted(self) -> str:
        """Return every line on the screen, as an operator reads it."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def press(self, *keys: str) -> None:
        """Press keys; unlike the pilot's method it does not wait for an idle processor after each key."""
        for key in keys:
            character = CHARACTERS.get(key, key if len(key) == 1 else None)
            name = "space" if key == " " else key
            self.app.post_message(events.Key(name, character))
            await self.pilot.pause(0)
            while self.app.keys.busy:
                await self.pilot.pause(0)
        await self.pilot.pause(0.001)

    async def settle(self) -> None:
        """Wait until keys, messages, workers and a refresh are processed."""
        for _ in range(4):
            await self.pilot.pause(0.002)
            while self.app.keys.busy:
                await self.pilot.pause(0.002)

    async def until(self, text: str) -> None:
        """Wait until `text` is painted; combined paints happen five times a second."""
        for _ in range(150):
            if text in self.painted():
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"{text!r} was not painted:\n{self.painted()}")

    async def until_gone(self, text: str) -> None:
        """Wait for a paint without `text`."""
        for _ in range(150):
            if text not in self.painted():
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"{text!r} is still painted:\n{self.painted()}")

    async def wake(self) -> None:
        """Advance the clock beyond the time for which decision keys are inactive."""
        await self.settle()
        self.seconds += 1.0

    async def open_dialog(self, *, awake: bool = True) -> ApprovalScreen:
        await self.press("a")
        await self.settle()
        assert isinstance(self.app.screen, ApprovalScreen)
        if awake:
            await self.wake()
        return self.app.screen

    async def read_all(self) -> None:
        """Unfold the request, and mark each of its lines as painted."""
        found = self.app.screen.query_one(ReviewedList)
        if found.guard.folded:
            await self.press("space")
            await self.wake()
        while (row := found.guard.next_row) is not None:
            found.guard.paint(row)
        assert found.guard.complete

    async def read_on(self, key: str = "a") -> int:
        """Press `key` until the whole request was on the screen; return the number of presses."""
        guard = self.app.screen.query_one(ReviewedList).guard
        for pressed in range(200):
            if guard.complete:
                return pressed
            await self.press(key)
            await self.wake()
        raise AssertionError(f"there was always more to see:\n{self.painted()}")

    def decisions(self) -> list[tuple[object, ...]]:
        return [asked for asked in self.hub.asked if asked[0] == "decide"]


def everyone() -> list[SessionState]:
    """Return the four sessions of the snapshots."""
    return [release_bot(), docs_writer(), nightly_sync(), cleanup()]


@asynccontextmanager
async def stage(
    *states: SessionState,
    size: tuple[int, int] = (120, 40),
    start: Start | None = None,
    deny_reasons: Sequence[str] = (),
    quiet: float = 0.0,
) -> AsyncIterator[Stage]:
    """A console of `size` on a fake hub with `states`, or with the four usual sessions."""
    hub = FakeHub(*(states or everyone()), now=NOW)
    stages: list[Stage] = []
    app = InterlockConsole(
        hub,
        operator="maria",
        start=start,
        deny_reasons=deny_reasons,
        quiet=quiet,
        clock=lambda: NOW,
        monotonic=lambda: stages[0].seconds if stages else 0.0,
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        stages.append(Stage(app, hub, pilot))
        await stages[0].settle()
        yield stages[0]
