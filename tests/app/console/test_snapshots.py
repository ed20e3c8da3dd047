"""Snapshots of the console with fixed sessions and a fixed clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timedelta

import pytest
from textual.app import App
from textual.pilot import Pilot

from interlock.app.console.app import InterlockConsole
from interlock.engine.history.model.records import JournalOutage

from ...support.fake_hub import FakeHub
from ..support.scenes import NOW, deploy_request, release_bot
from ..support.stage import everyone

Compare = Callable[..., bool]
SIZES = [(120, 40), (80, 24), (60, 24)]
NAMES = ["120x40", "80x24", "60x24"]


def console(*, long_command: bool = False) -> App[None]:
    states = everyone()
    if long_command:
        command = "\n".join(f"echo step {n}" for n in range(60)) + "\ngit push --force origin main"
        states[0] = release_bot()
        states[0].approvals["ap1"] = deploy_request(input={"command": command, "timeout": 30})
    hub = FakeHub(*states, now=NOW)
    return InterlockConsole(hub, operator="maria", clock=lambda: NOW, monotonic=lambda: 0.0)


def keys(*pressed: str) -> Callable[[Pilot[None]], object]:
    """Press keys and wait for the screen."""

    async def run(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*pressed)
        await pilot.pause(0.05)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", SIZES, ids=NAMES)
class TestLooks:
    @pytest.mark.variants
    def test_live(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The live screen, in full width and in panes."""
        assert snap_compare(console(), terminal_size=size, run_before=keys())

    @pytest.mark.slow
    def test_approval(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The dialog over the live screen, with locked keys and the middle of a long command folded."""
        app = console(long_command=True)
        assert snap_compare(app, terminal_size=size, run_before=keys("a"))

    @pytest.mark.slow
    def test_nets(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The nets with their places, tokens and next transitions."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("alt+3"))


@pytest.mark.slow
def test_outage(snap_compare: Compare) -> None:
    """The two lines at the top of a screen of 80 columns while the journal cannot be written."""
    hub = FakeHub(*everyone(), now=NOW)
    hub.outage = JournalOutage(since=NOW - timedelta(seconds=47), kind="unreachable", reason="no answer")
    app = InterlockConsole(hub, operator="maria", clock=lambda: NOW, monotonic=lambda: 0.0)
    app._outage._zone = UTC
    assert snap_compare(app, terminal_size=(80, 24), run_before=keys())


@pytest.mark.slow
def test_picture_of_a_net(snap_compare: Compare) -> None:
    """A net with places as circles, transitions as bars and enabled transitions bright."""
    assert snap_compare(console(), terminal_size=(80, 24), run_before=keys("alt+3", "down", "enter"))
