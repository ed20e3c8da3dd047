"""Empty screens name the next possible actions and their keys."""

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
    """A console on an empty hub, with the operator's own `keys`."""
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
        """Without a session the screen says how to start one and how to see past ones."""
        async with empty(size) as on:
            await on.press("alt+2")
            await on.until("s starts one, h shows past ones.")
            await on.press("alt+1")
            await on.until("s starts one.")
            await on.press("alt+5")
            await on.until("v shows past")

    async def test_configured_keys_are_named(self, size: tuple[int, int]) -> None:
        """The text names the keys that the operator has configured."""
        async with empty(size, live_start="f9", live_history="f8") as on:
            await on.press("alt+2")
            await on.until("f9 starts one, f8 shows past ones.")

    @pytest.mark.slow
    async def test_history(self, size: tuple[int, int]) -> None:
        """Without recorded sessions the history names the command that creates one."""
        async with empty(size) as on:
            await on.press("h")
            await on.until("Start an agent with `interlock run`, then press f5.")

    @pytest.mark.slow
    async def test_rules(self, size: tuple[int, int]) -> None:
        """For a session without rules the pane says how to show the rule files."""
        async with empty(size) as on:
            state = docs_writer().model_copy(update={"nets": {}, "grants": {}})
            on.hub.states[state.id] = state
            await on.press("alt+3")
            await on.until("No rules: every call runs. R shows rule files.")

    async def test_replay(self, size: tuple[int, int]) -> None:
        """Without an event the replay names the key that leads back."""
        app = HistoryConsole(FakeHub(now=NOW), recorded=[])
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            assert f"{NO_EVENT} esc goes back." in app.export_screenshot().replace("&#160;", " ")
