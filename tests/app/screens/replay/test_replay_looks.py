"""Pictures of the what-if dialog, its answer, the backtest and the net picture, with fixed data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from interlock.app.screens.replay.screen import ReplayScreen

from .journal import replay_of

SnapCompare = Callable[..., bool]


def keys(*pressed: str, at: int = 1, rules: str = "") -> Callable[[Pilot[None]], object]:
    """Go to an event and press keys; `*` types `rules`, `.` waits for threads."""

    async def run(pilot: Pilot[None]) -> None:
        await pilot.pause()
        replay = pilot.app.screen
        assert isinstance(replay, ReplayScreen)
        replay.position = at
        for key in pressed:
            if key == "*":
                pilot.app.screen.query_one("#rules", Input).value = rules
            elif key == ".":
                await pilot.pause(0.05)
                await pilot.app.workers.wait_for_complete()
                await pilot.pause()
            else:
                await pilot.press(key)
        await pilot.pause(0.05)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)], ids=["120x40", "80x24", "60x20"])
class TestLooks:
    """Pictures at the three widths."""

    @pytest.mark.variants
    def test_dialog(self, snap_compare: SnapCompare, database: Path, size: tuple[int, int]) -> None:
        """The session's own nets to switch, and the assumptions."""
        run = keys("w", "down", "space", at=4)
        assert snap_compare(replay_of(database), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_problem(self, snap_compare: SnapCompare, database: Path, size: tuple[int, int]) -> None:
        """Rules that do not compile."""
        run = keys("w", "*", "ctrl+s", ".", at=4, rules="faulty.rules")
        assert snap_compare(replay_of(database), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_answer(self, snap_compare: SnapCompare, database: Path, size: tuple[int, int]) -> None:
        """Old and new verdicts, the first divergence, and the dimmed hypothetical rest."""
        run = keys("w", "*", "ctrl+s", ".", ".", at=1, rules="strict.rules")
        assert snap_compare(replay_of(database), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_backtest(self, snap_compare: SnapCompare, database: Path, size: tuple[int, int]) -> None:
        """Totals, results by rule, and the session that diverges."""
        run = keys("b", "*", "enter", ".", rules="strict.rules")
        assert snap_compare(replay_of(database), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_decision(self, snap_compare: SnapCompare, database: Path, size: tuple[int, int]) -> None:
        """A decision with each net's verdict at that time."""
        run = keys("o", ".", at=8)
        assert snap_compare(replay_of(database), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_picture(self, snap_compare: SnapCompare, database: Path, size: tuple[int, int]) -> None:
        """The picture of the net that an approved deploy changed."""
        run = keys("p", at=7)
        assert snap_compare(replay_of(database), terminal_size=size, run_before=run)
