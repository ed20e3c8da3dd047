"""Screens with nothing to show say what can be done now, with the keys that do it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.replay.screen import NO_EVENT
from interlock.app.terminal.appearance import Appearance

from ...support.fake_hub import FakeHub
from ..support.scenes import NOW, docs_writer
from ..support.stage import Stage

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=["80x24", "120x36"])


@asynccontextmanager
async def empty(size: tuple[int, int], **keys: str) -> AsyncIterator[Stage]:
    """A console on a hub where nothing has happened yet, with an operator's own `keys`."""
    hub = FakeHub(now=NOW)
    app = InterlockConsole(
        hub,
        operator="maria",
        clock=lambda: NOW,
        monotonic=lambda: 0.0,
        appearance=Appearance(keys={name.replace("_", "."): key for name, key in keys.items()}),
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        on = Stage(app, hub, pilot)
        await on.settle()
        yield on


@SIZES
class TestEmpty:
    @pytest.mark.variants
    async def test_live(self, size: tuple[int, int]) -> None:
        """Without a session: how one is started, and where past ones are."""
        async with empty(size) as on:
            await on.press("alt+2")
            await on.until("s starts one, h shows past ones.")
            await on.press("alt+1")
            await on.until("s starts one.")
            await on.press("alt+5")
            await on.until("v shows past")

    async def test_own_keys(self, size: tuple[int, int]) -> None:
        """The keys named are the operator's own."""
        async with empty(size, live_start="f9", live_history="f8") as on:
            await on.press("alt+2")
            await on.until("f9 starts one, f8 shows past ones.")

    @pytest.mark.slow
    async def test_history(self, size: tuple[int, int]) -> None:
        """Without recorded sessions: the commands that make some."""
        async with empty(size) as on:
            await on.press("h")
            await on.until("Start an agent with `interlock run`, then press f5.")

    @pytest.mark.slow
    async def test_rules(self, size: tuple[int, int]) -> None:
        """Of a session without rules: where rule files are."""
        async with empty(size) as on:
            state = docs_writer().model_copy(update={"nets": {}, "grants": {}})
            on.hub.states[state.id] = state
            await on.press("alt+3")
            await on.until("No rules: every call runs. R shows rule files.")

    async def test_replay(self, size: tuple[int, int]) -> None:
        """Without an event: the key that goes back."""
        app = HistoryConsole(FakeHub(now=NOW), recorded=[])
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            assert f"{NO_EVENT} esc goes back." in app.export_screenshot().replace("&#160;", " ")
