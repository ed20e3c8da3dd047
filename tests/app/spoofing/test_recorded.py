"""Every attack in recorded sessions: history, decisions, replay, what if, backtest, rules."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from textual.widgets import Input

from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.engine.history.journal.reader import open_reader

from ...support.decisions import NOW
from ..screens.decisions.decisions_world import Desk
from .attacks import EACH_GROUP, group
from .harmless import assert_harmless
from .hostile import RECORDED
from .recorded import bodies, session_of, write

pytestmark = pytest.mark.thorough


def console(path: Path, session: str | None = None) -> HistoryConsole:
    """A console for a journal, or for the replay of one session."""
    recorded = None if session is None else list(open_reader(path).events(session))
    return HistoryConsole(RecordedFile(path), recorded=recorded, zone=UTC, clock=lambda: NOW)


async def check(on: Desk) -> None:
    """Wait until the results are there, then check the screen."""
    await on.pilot.pause()
    waiting = [worker for worker in on.app.workers if worker.name not in ("hub", "start")]
    if waiting:
        await on.app.workers.wait_for_complete(waiting)
    await on.pilot.pause(0.02)
    assert_harmless(on.app)


class TestLists:
    async def test_each_attack_in_history_and_decisions(self, tmp_path: Path) -> None:
        """Spoofing: history and decisions with a session of every attack."""
        path = write(tmp_path / "j.db", RECORDED.values())
        app = console(path)
        async with app.run_test(size=(100, 30), notifications=True) as pilot:
            on = Desk(app, pilot)
            for _ in range(len(RECORDED) // 2):
                await on.press("down", "down")
                await on.pilot.pause()
                assert_harmless(app)
            await on.press("v")
            await on.when(lambda: isinstance(app.screen, DecisionsScreen))
            await on.until("S Shadow")
            for _ in RECORDED:
                await on.press("down", "down", "down")
                await on.pilot.pause()
                assert_harmless(app)
            for keys in (("g",), ("g",), ("g",), ("f",), ("end",), ("escape",), ("s",), ("end",)):
                await on.press(*keys)
                await check(on)


@pytest.mark.parametrize("name", EACH_GROUP)
class TestPanels:
    async def test_replay_and_its_panels(self, tmp_path: Path, name: str) -> None:
        """Spoofing: every event of a session, its decisions, nets as pictures, what if, backtest."""
        text = group(name)
        path = write(tmp_path / "j.db", [text])
        app = console(path, session_of(0, text))
        async with app.run_test(size=(100, 30), notifications=True) as pilot:
            on = Desk(app, pilot)
            await on.until("session.opened")
            replay = app.screen
            assert isinstance(replay, ReplayScreen)
            for number in range(1, len(bodies(text)) + 1):
                replay.position = number
                await check(on)
            for position, keys in (
                (5, ("o",)),
                (5, ("o", "end")),
                (5, ("alt+2", "enter")),
                (9, ("alt+1", "end", "enter")),
                (6, ("p",)),
                (6, ("alt+3", "end", "enter")),
                (6, ("alt+4",)),
                (4, ("w",)),
                (4, ("g",)),
                (6, ("R",)),
            ):
                replay.position = position
                await on.press(*keys)
                await check(on)
                while app.screen is not replay:
                    await on.press("escape")
                    await on.pilot.pause()

    async def test_backtest(self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Spoofing: the backtest of recorded calls, and each of its results."""
        monkeypatch.chdir(tmp_path)
        text = group(name)
        (tmp_path / "strict.rules").write_text("block deploy\n")
        path = write(tmp_path / "j.db", [text])
        app = console(path, session_of(0, text))
        async with app.run_test(size=(100, 30), notifications=True) as pilot:
            on = Desk(app, pilot)
            await on.until("session.opened")
            await on.press("b")
            await on.pilot.pause()
            app.screen.query_one("#rules", Input).value = "strict.rules"
            await on.press("enter")
            await check(on)
            await on.press("enter")
            await check(on)
            await on.press("end", "enter")
            await check(on)

    async def test_rules(self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Spoofing: a rules file of attacks, and one with attacks in its conditions and comments."""
        monkeypatch.chdir(tmp_path)
        text = group(name)
        flat = " ".join(text.split())
        quoted = flat.replace("\\", "").replace('"', "")
        (tmp_path / "attack.rules").write_text(text)
        (tmp_path / "named.rules").write_text(
            f'# {flat}\nrequire human-approval before deploy when input.env = "{quoted}"  # {flat}\n'
        )
        app = console(write(tmp_path / "j.db", [text]))
        async with app.run_test(size=(100, 30), notifications=True) as pilot:
            on = Desk(app, pilot)
            await on.press("R")
            await check(on)
            for file in ("attack.rules", "named.rules"):
                await on.press("o")
                app.screen.query_one("#named", Input).value = file
                await on.press("enter")
                await check(on)
                await on.press("end", "enter")
                await check(on)
                if app.screen.query(".frame"):
                    await on.press("escape")
                await on.press("home", "down", "enter")
                await check(on)
                if app.screen.query(".frame"):
                    await on.press("escape")
