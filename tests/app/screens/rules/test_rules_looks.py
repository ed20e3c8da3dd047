"""Pictures of the rules screen, with fixed files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from tests.support.fake_hub import FakeHub

from ...support.scenes import NOW
from ...support.stage import Stage
from .folder import opened, sessions

Compare = Callable[..., bool]


def console(folder: Path, *files: str) -> InterlockConsole:
    hub = FakeHub(*sessions(folder, *files), now=NOW)
    return InterlockConsole(hub, operator="maria", clock=lambda: NOW, monotonic=lambda: 0.0)


def keys(*pressed: str) -> Callable[[Pilot[None]], object]:
    """Open the screen, press keys, and wait until it has settled."""

    async def run(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, InterlockConsole)
        on = Stage(pilot.app, FakeHub(now=NOW), pilot)
        await on.until("release-bot")
        await opened(on, "OF SESSIONS")
        await pilot.press(*pressed)
        await pilot.pause(0.1)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
class TestLooks:
    def test_rules(self, folder: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Files, text, nets with their effects, and a warning below its line."""
        app = console(folder, "deploy.rules")
        assert snap_compare(app, terminal_size=size, run_before=keys("n"))

    @pytest.mark.slow
    def test_errors(self, folder: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
        """A file that does not compile."""
        app = console(folder, "faulty.rules")
        assert snap_compare(app, terminal_size=size, run_before=keys())

    @pytest.mark.slow
    def test_detail(self, folder: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
        """A rule's places, transitions and states."""
        app = console(folder, "deploy.rules")
        assert snap_compare(app, terminal_size=size, run_before=keys("n", "enter"))
