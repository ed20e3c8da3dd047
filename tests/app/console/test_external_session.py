"""The console with a session whose loop runs elsewhere, on every screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.history.backtest import BacktestScreen
from interlock.app.screens.history.screen import HistoryScreen
from interlock.app.screens.live.loosen import Loosen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.live.switch_nets import SwitchNets
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.engine.history.model.events import CallDecided
from interlock.engine.hub.hub import CallAnswer, Hub

from ...engine.support.external_agent import opened, ran, recorded


class Console:
    """A console on a hub with the session of an external agent whose deploy waits."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.seconds = 0.0
        self.app = InterlockConsole(
            hub, operator="mia", start=self._start, monotonic=lambda: self.seconds
        )
        self.pilot: Pilot[None]
        self.deploy: asyncio.Task[CallAnswer]
        self.asked = asyncio.Event()

    async def _start(self, hub: Hub) -> None:
        await opened(hub, labels=("ci", "nightly"))
        await hub.record_message("robin-1", "user", "Ship it.")
        await hub.record_message("robin-1", "assistant", "Testing, then deploying.")
        await ran(hub, "robin-1", "t1", "test")
        self.deploy = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))
        self.asked.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(1500):
            if holds():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"it did not happen:\n{self.painted()}")

    async def shows(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.painted() for text in texts))

    async def at(self, screen: type) -> None:
        await self.until(lambda: isinstance(self.app.screen, screen))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause(0.01)

    async def dialog(self) -> None:
        """Wait for the request's dialog and for its keys to unlock."""
        await self.at(ApprovalScreen)
        screen = self.app.screen
        assert isinstance(screen, ApprovalScreen)
        await self.until(lambda: screen.sleeps_for() < 1 and screen._shown_at is not None)
        self.seconds += 1.0

    async def confirm(self) -> None:
        """Confirm the question once its keys are unlocked."""
        await self.at(Confirm)
        self.seconds += 2 * ASLEEP
        await self.pilot.pause(0.05)
        self.seconds += 2 * ASLEEP
        await self.press("y")
        await self.until(lambda: not isinstance(self.app.screen, Confirm))

    async def answer(self) -> CallAnswer:
        """Return the answer that the agent gets."""
        return await asyncio.wait_for(self.deploy, 10)

    def painted(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())


@asynccontextmanager
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    hub = Hub.open(tmp_path / "console.db")
    made = Console(hub)
    try:
        async with made.app.run_test(size=(120, 40), notifications=True) as pilot:
            made.pilot = pilot
            await asyncio.wait_for(made.asked.wait(), 15)
            yield made
    finally:
        made.deploy.cancel()
        await hub.close()


class TestLive:
    async def test_dialog_shows_session_and_decides(self, tmp_path: Path) -> None:
        """The dialog shows the agent's last message and labels; its decision is the agent's answer."""
        async with console(tmp_path) as on:
            await on.dialog()
            await on.shows("Testing, then deploying.", "prod", "labels ci, nightly")
            await on.press("a")
            assert (await on.answer()).outcome == "allow"
            await on.at(LiveScreen)
            await on.shows(
                "robin", "external agent · ci, nightly", "Ship it.", "approved by mia", "enforce"
            )

    @pytest.mark.slow
    async def test_message_keys_report_an_external_loop(self, tmp_path: Path) -> None:
        """`i` and `ctrl+k` only report that they do not work for an external loop."""
        async with console(tmp_path) as on:
            await on.dialog()
            await on.press("escape")
            await on.at(LiveScreen)
            for key in ("i", "ctrl+k"):
                await on.press(key)
                await on.shows("Not from here")
                on.app.clear_notifications()
                await on.until(lambda: "Not from here" not in on.painted())

    @pytest.mark.slow
    async def test_stopping_denies_waiting_requests(self, tmp_path: Path) -> None:
        """`ctrl+x` announces that it denies waiting requests, and then denies the call."""
        async with console(tmp_path) as on:
            await on.dialog()
            await on.press("escape")
            await on.at(LiveScreen)
            await on.press("ctrl+x")
            await on.at(Confirm)
            await on.shows("waiting requests are denied")
            await on.confirm()
            answer = await on.answer()
            assert (answer.outcome, "stopped by mia" in (answer.reason or "")) == ("block", True)

    @pytest.mark.slow
    async def test_nets_and_mode_can_be_switched(self, tmp_path: Path) -> None:
        """`n` opens the session's nets and `m` its mode, as for any session."""
        async with console(tmp_path) as on:
            await on.dialog()
            await on.press("escape")
            await on.at(LiveScreen)
            await on.press("n")
            await on.at(SwitchNets)
            await on.press("escape")
            await on.at(LiveScreen)
            await on.press("m")
            await on.at(Loosen)
            await on.press("o", "k", "enter")
            await on.shows("shadow", "1 waiting")
            assert not on.deploy.done()


class TestRecord:
    @pytest.mark.slow
    async def test_replay_steps_through_its_events(self, tmp_path: Path) -> None:
        """`r` steps through the session's events, from the opening to the request."""
        async with console(tmp_path) as on:
            await on.dialog()
            await on.press("escape", "r")
            await on.at(ReplayScreen)
            await on.shows("event 1 of", "robin")
            await on.press("end")
            await on.shows("approval.requested")

    @pytest.mark.slow
    async def test_history_marks_it_and_refuses_to_continue(self, tmp_path: Path) -> None:
        """The history marks the session as external; the console reports that it cannot continue it."""
        async with console(tmp_path) as on:
            await on.dialog()
            await on.press("escape")
            await on.at(LiveScreen)
            await on.press("h")
            await on.at(HistoryScreen)
            await on.shows("robin-1", "external agent", "external")
            await on.press("c")
            await on.confirm()
            await on.shows("Cannot continue")

    @pytest.mark.slow
    async def test_decisions_list_and_backtest_include_it(self, tmp_path: Path) -> None:
        """The decisions list has the session's calls, and a backtest can judge the session."""
        async with console(tmp_path) as on:
            await on.dialog()
            await on.press("escape", "v")
            await on.at(DecisionsScreen)
            await on.shows("test")
            await on.press("escape")
            await on.at(LiveScreen)
            await on.press("b")
            await on.at(BacktestScreen)
            await on.shows("robin-1")
            assert [d.tool for d in recorded(on.hub.database, CallDecided)] == ["test"]
