"""A journal of two sessions and a subagent's, rules files beside it, and a console for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path

from textual.app import App
from textual.pilot import Pilot

from interlock.app.console.history_app import HistoryConsole
from interlock.app.sources.recorded_file import RecordedFile
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import SessionStatus
from interlock.rules import compile_rules
from tests.engine.backtest.recorder import Recorder
from tests.engine.history.support.recording import decided, opening
from tests.support.copies import copied

from .recording import START

SESSION = "release-bot-1"
QUIET = "quiet-bot-1"
EVENTS = 13
NOW = START + timedelta(hours=1)
RECORDED_UNDER = """\
require test before deploy
require human-approval before deploy
limit deploy to 2 per session
block rm
block push
"""
STRICT = """\
require lint before test
require human-approval before push
block deploy
"""
FREE = "block never-called\n"
FAULTY = "require lint after test\n"


async def release(recorder: Recorder) -> None:
    """A session of five calls: one blocked, one run, one approved, one run, one blocked."""
    await recorder.call("c1", "deploy", env="prod")
    await recorder.call("c2", "test")
    recorder.result("c2")
    await recorder.call("c3", "deploy", env="prod")
    await recorder.answer("c3", True)
    recorder.result("c3")
    await recorder.call("c4", "push", branch="main")
    recorder.result("c4")
    recorder.toggle("block-push", True)
    await recorder.call("c5", "rm", path="build")


def write(folder: Path) -> Path:
    """Write the journal and `strict.rules`, `free.rules`, `faulty.rules` beside it; return its path."""
    for name, text in (("strict", STRICT), ("free", FREE), ("faulty", FAULTY)):
        (folder / f"{name}.rules").write_text(text)
    return copied(_write, folder / "journal.db")


def _write(database: Path) -> None:
    nets = compile_rules(RECORDED_UNDER, file="deploy.rules").registry
    recorder = Recorder(nets, active=[key for key in nets if key != "block-push"])
    asyncio.run(release(recorder))
    ticks = iter(range(10_000))
    with Journal.open(database, clock=lambda: START + timedelta(seconds=5 * next(ticks))) as journal:
        for body in (*recorder.bodies, SessionStatus(status="done")):
            journal.write(SESSION, body)
        journal.write(QUIET, opening(), decided("c1", "look"))
        journal.write("below-1", opening(kind="child", parent=SESSION), decided("c9", "rm"))


def replay_of(database: Path, session: str = SESSION) -> HistoryConsole:
    """A console that shows the replay of a session."""
    recorded = list(open_reader(database).events(session))
    return HistoryConsole(RecordedFile(database), recorded=recorded, zone=UTC, clock=lambda: NOW)


@dataclass
class Desk:
    """A running console and the handles a test needs."""

    app: App[None]
    pilot: Pilot[None]

    def painted(self) -> str:
        """Every painted line, as an operator reads it."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def write(self, text: str) -> None:
        """Type a text, letter by letter."""
        await self.pilot.press(*text)

    async def until(self, *texts: str) -> str:
        """Wait for a paint that shows all `texts`."""
        return await self.when(lambda: all(text in self.painted() for text in texts), str(texts))

    async def when(self, holds: Callable[[], bool], what: str = "it") -> str:
        for _ in range(1000):
            if holds():
                return self.painted()
            await self.pilot.pause(0.01)
        raise AssertionError(f"{what} did not happen:\n{self.painted()}")


@asynccontextmanager
async def desk(app: App[None], size: tuple[int, int] = (120, 40)) -> AsyncIterator[Desk]:
    """A running console."""
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield Desk(app, pilot)
