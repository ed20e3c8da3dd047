"""Pictures of the history and replay screens, with fixed data."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

import pytest
from textual.app import App
from textual.pilot import Pilot

from interlock.app.console.history_app import HistoryConsole

from ..replay.recording import recording
from .sessions import FAMILY, SESSIONS, Source

SnapCompare = Callable[..., bool]


async def settled(pilot: Pilot[None]) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def select_the_branch(pilot: Pilot[None]) -> None:
    await settled(pilot)
    await pilot.press("end", "up")
    await pilot.pause()


def replay() -> App[None]:
    return HistoryConsole(Source(SESSIONS), recorded=recording(), zone=UTC)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)], ids=["120x40", "80x24", "60x20"])
class TestLooks:
    """Pictures at the three widths."""

    @pytest.mark.variants
    def test_history(self, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
        """The table of sessions."""
        app = HistoryConsole(Source(SESSIONS), zone=UTC)
        assert snap_compare(app, terminal_size=size, run_before=settled)

    @pytest.mark.slow
    def test_replay(self, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
        """An approved deploy, with its nets."""
        keys = ["right_curly_bracket", "right_curly_bracket"]
        assert snap_compare(replay(), terminal_size=size, press=keys)

    @pytest.mark.slow
    def test_replay_nets(self, snap_compare: SnapCompare, size: tuple[int, int]) -> None:
        """The same moment with the net pane in front."""
        keys = ["right_curly_bracket", "right_curly_bracket", "3"]
        assert snap_compare(replay(), terminal_size=size, press=keys)


def test_empty_history(snap_compare: SnapCompare) -> None:
    """A history without sessions."""
    app = HistoryConsole(Source([]), zone=UTC)
    assert snap_compare(app, terminal_size=(80, 24), run_before=settled)


@pytest.mark.slow
def test_family(snap_compare: SnapCompare) -> None:
    """A branch under the cursor, and a subagent's session, at 80×24."""
    app = HistoryConsole(Source(FAMILY), zone=UTC)
    assert snap_compare(app, terminal_size=(80, 24), run_before=select_the_branch)


@pytest.mark.slow
def test_event_in_a_narrow_terminal(snap_compare: SnapCompare) -> None:
    """A blocked call in full at 80×24."""
    assert snap_compare(replay(), terminal_size=(80, 24), press=["right_curly_bracket", "2"])
