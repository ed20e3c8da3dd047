"""Pictures of the decisions screen, with fixed data and a fixed clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.support.decisions import usual

from .decisions_world import Desk, recorded_console

Compare = Callable[..., bool]
SIZES = [(120, 40), (80, 24), (60, 24)]
NAMES = ["120x40", "80x24", "60x24"]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return usual(tmp_path_factory.mktemp("looks") / "deploy.db")


def keys(*pressed: str, pasted: str = "", until: str) -> Callable[[Pilot[None]], object]:
    """Open the decisions, press keys after they have loaded, and wait for a text."""

    async def run(pilot: Pilot[None]) -> None:
        on = Desk(pilot.app, pilot)
        await on.press("v")
        await on.until("12 decisions · row 1", "13:31:50", "S Shadow", "11-20 13:31")
        on.screen.query_one("#filter", Input).cursor_blink = False
        await on.press(*pressed)
        if pasted:
            on.screen.query_one("#filter", Input).value = pasted
        await on.until(until)
        await pilot.app.workers.wait_for_complete()
        await pilot.pause(0.05)

    return run


@pytest.mark.parametrize("size", SIZES, ids=NAMES)
class TestLooks:
    @pytest.mark.variants
    def test_list(self, journal: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The list with the chosen decision, the time course and the shadow summary."""
        app = recorded_console(journal)
        assert snap_compare(app, terminal_size=size, run_before=keys("down", "down", until="row 3"))

    @pytest.mark.slow
    def test_groups(self, journal: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Groups by rule, each with counts and a time course."""
        app = recorded_console(journal)
        assert snap_compare(app, terminal_size=size, run_before=keys("g", until="block-rm "))

    @pytest.mark.slow
    def test_decision(self, journal: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
        """A denied call, opened."""
        app = recorded_console(journal)
        pressed = [*["down"] * 8, "enter"]
        assert snap_compare(app, terminal_size=size, run_before=keys(*pressed, until="decided by"))


@pytest.mark.slow
def test_filter_with_a_mistake(journal: Path, snap_compare: Compare) -> None:
    """The list stays, and the filter line shows the error.

    The text arrives at once. Typed letter by letter, each beginning would be a filter, and the list would
    show the last one read.
    """
    run = keys("slash", pasted="verdict:no", until="'no' is not a verdict")
    assert snap_compare(recorded_console(journal), terminal_size=(80, 24), run_before=run)


@pytest.mark.slow
def test_shadow_sessions(journal: Path, snap_compare: Compare) -> None:
    """The effect of enforce mode, session by session."""
    assert snap_compare(
        recorded_console(journal),
        terminal_size=(80, 24),
        run_before=keys("s", until="would block  3"),
    )
