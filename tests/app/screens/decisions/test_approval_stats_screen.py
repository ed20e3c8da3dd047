"""The panel of approval statistics: its words, the way to it, and its pictures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

import pytest
from textual.pilot import Pilot

from interlock.app.console.history_app import HistoryConsole
from interlock.app.format.approval_stats import percent, saved_lines, seconds
from interlock.app.screens.decisions.approval_stats import FatigueScreen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.engine.backtest.answers import Saved
from interlock.engine.history.decisions.approval_stats import RuleFatigue, Tally
from interlock.engine.history.model.records import RuleRecord
from tests.support.approvals import tired
from tests.support.decisions import NOW, usual

from .decisions_world import recorded_console

Compare = Callable[..., bool]
SIZES = [(120, 40), (80, 24)]
NAMES = ["120x40", "80x24"]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tired(tmp_path_factory.mktemp("fatigue") / "deploy.db")


def painted(app: HistoryConsole) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


async def until(app: HistoryConsole, pilot: Pilot[None], text: str) -> None:
    for _ in range(1000):
        if text in painted(app):
            return
        await pilot.pause(0.02)
    raise AssertionError(f"{text!r} was not painted:\n{painted(app)}")


async def opened(pilot: Pilot[None]) -> None:
    """Go from the history over the decisions to the panel, and wait for its results."""
    app = pilot.app
    assert isinstance(app, HistoryConsole)
    await pilot.press("v")
    await until(app, pilot, "decisions")
    await pilot.press("f")
    await until(app, pilot, "60 requests")
    for _ in range(1000):
        screen = app.screen
        assert isinstance(screen, FatigueScreen)
        if not screen._looking:
            break
        await pilot.pause(0.02)
    await app.workers.wait_for_complete()
    await pilot.pause(0.05)


@asynccontextmanager
async def panel(
    path: Path, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[HistoryConsole, Pilot[None]]]:
    app = HistoryConsole(RecordedFile(path), zone=UTC, clock=lambda: NOW)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        yield app, pilot


class TestPanel:
    @pytest.mark.slow
    async def test_panel_shows_rules_operators_and_saving_changes(self, journal: Path) -> None:
        """The panel shows rules, operators, and changes that would have saved requests."""
        async with panel(journal) as (app, _):
            text = painted(app)
            assert "require human-approval before deploy" in text
            assert "risk high" in text
            assert "always" in text
            assert "In this history all 30 answers were unchanged approvals" in text
            assert "does not make them harmless" in text

    @pytest.mark.slow
    async def test_key_selects_another_period(self, journal: Path) -> None:
        """A key selects another period. Escape goes back."""
        async with panel(journal) as (app, pilot):
            await pilot.press("t")
            await until(app, pilot, "all · 60 requests")
            await pilot.press("t")
            await until(app, pilot, "last 24 h · ")
            await pilot.press("escape")
            await until(app, pilot, "/ filter")

    async def test_period_without_requests(self, tmp_path: Path) -> None:
        """For a period without requests the panel says so."""
        app = HistoryConsole(RecordedFile(usual(tmp_path / "deploy.db")), zone=UTC, clock=lambda: NOW)
        async with app.run_test(size=(80, 24)) as pilot:
            screen = FatigueScreen(
                RecordedFile(tmp_path / "deploy.db"), clock=lambda: NOW.replace(year=2030)
            )
            app.push_screen(screen)
            await until(app, pilot, "Nobody was asked in this period.")

    async def test_unreadable_journal(self, tmp_path: Path) -> None:
        """If the journal cannot be read, the panel shows the error."""
        app = HistoryConsole(RecordedFile(usual(tmp_path / "deploy.db")), zone=UTC, clock=lambda: NOW)
        async with app.run_test(size=(80, 24)) as pilot:
            app.push_screen(FatigueScreen(RecordedFile(tmp_path / "no.db"), clock=lambda: NOW))
            await until(app, pilot, "✗")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=NAMES)
def test_looks(journal: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
    """The panel in a wide and in a small terminal."""
    assert snap_compare(recorded_console(journal), terminal_size=size, run_before=opened)


class TestWords:
    def test_almost_all_is_not_shown_as_100_percent(self) -> None:
        """A share of 99.9 percent is not shown as 100."""
        assert percent(0.999, 1) == "99 %"
        assert percent(1.0, 0) == "100 %"
        assert percent(None, 0) == "–"

    @pytest.mark.parametrize(
        ("value", "text"),
        [(None, "–"), (1.42, "1.4 s"), (9.96, "10 s"), (89.6, "1 min"), (5_500, "1.5 h")],
    )
    def test_times_are_rounded(self, value: float | None, text: str) -> None:
        """Times are rounded to a useful precision."""
        assert seconds(value) == text

    def test_control_characters_are_not_passed_to_the_terminal(self) -> None:
        """Control characters in operators' names and recorded values are not passed to the terminal."""
        rule = RuleFatigue(
            net="n",
            rule=RuleRecord(file="a.rules", line=1, text="x when input.a = 1"),
            tally=Tally(requests=20, approved=20, seconds=1.0),
            by=("ma\x1bria",),
        )
        what = Saved(sessions=1, asked=20, alone=20, when='input.a != "\u202e"', by_condition=3)
        text = "\n".join(saved_lines(rule, what))
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "With `and input.a" in text

    def test_number_of_judged_sessions_is_shown(self) -> None:
        """If only the latest sessions were judged again, the text reports how many of how many."""
        rule = RuleFatigue(
            net="n", rule=None, tally=Tally(requests=900, approved=900), all_sessions=1_500
        )
        what = Saved(sessions=200, asked=300, alone=300, uses=3, by_grant=9)
        assert "9 of 300 requests in the latest 200 of 1,500 sessions." in "\n".join(
            saved_lines(rule, what)
        )
