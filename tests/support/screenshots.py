"""Pictures of the real console: runs the demo, and draws the screens as SVG and PNG.

`make screenshots`, or `python -m tests.support.screenshots DIRECTORY`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import cairosvg
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.app.console.app import InterlockConsole
from interlock.app.console.history_app import HistoryConsole
from interlock.app.demo.agent import TASK, open_demo
from interlock.app.demo.project import create_project
from interlock.app.demo.release import FLOW
from interlock.app.demo.release_flow import Release
from interlock.app.demo.release_project import SINCE, create_release_project
from interlock.app.demo.release_script import Paced
from interlock.app.flows.builder import prepare_flow
from interlock.app.flows.spec import FlowSpec
from interlock.app.screens.approval.forms.answer_form import AnswerForm
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.history.backtest import BacktestScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.replay.flow_panel import FlowPanel
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.screens.replay.what_if import WhatIfDialog
from interlock.app.screens.replay.what_if_result import JudgedScreen
from interlock.app.screens.triage.screen import TriageScreen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.app.widgets.base.blocks import BlockList
from interlock.app.widgets.lists.decision_table import DecisionTable
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import ApprovalRequested, JournalEvent
from interlock.engine.hub.hub import CallAnswer, Hub, Subscription
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.external import ExternalAgent
from interlock.rules import RuleSet, compile_rules, library_rules

from .decisions import NOW, usual

OPERATOR = "operator"
SESSION = "release-bot-1"
STRICTER = "stricter.rules"
QUEUE_RULES = """\
map bash.command /^git\\s+push/ as git-push
require human-approval before deploy risk high
require human-approval before git-push risk medium
"""
RELEASES = [
    ("deploy", {"env": env, "commit": commit, "region": "eu-west-1"})
    for env, commit in (("prod", "9f31c02"), ("staging", "9f31c02"), ("staging", "1b22d90"))
]
PUSHES = [("bash", {"command": f"git push origin docs/part-{number}"}) for number in range(1, 7)]
PLAN = {
    "title": "Release 1.4",
    "steps": [
        {"tool": "test"},
        {"tool": "deploy", "count": 2, "when": 'input.env = "staging"'},
        {"tool": "push", "when": 'input.branch = "release-1.4"'},
        {"tool": "migrate"},
        {"tool": "delete"},
    ],
}
STEP = timedelta(seconds=1.7)


class Clock:
    """A clock that advances with recorded events, so that pictures taken twice are identical."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 5, 14, 0, tzinfo=UTC)

    def tick(self) -> datetime:
        """Return the journal's time, which advances with every event."""
        self.now += STEP
        return self.now

    def read(self) -> datetime:
        """Return the console's time: a few seconds after the last event."""
        return self.now + timedelta(seconds=42)


async def take(out: Path) -> None:
    """Draw every screen, the dialog and a flow, in a wide terminal and at 80 columns."""
    with tempfile.TemporaryDirectory() as folder:
        for size, suffix in (((120, 40), ""), ((80, 24), "-80x24")):
            place = Path(folder) / f"wide{suffix}"
            place.mkdir()
            await _one_size(out, place, size, suffix)
            await _triage(out, place, size, suffix)
            await _plan(out, place, size, suffix)
            await _decisions(out, place, size, suffix)
            await flow(out, place, size, suffix)


async def _one_size(out: Path, place: Path, size: tuple[int, int], suffix: str) -> None:
    clock = Clock()
    hub = Hub(Journal.open(place / "deploy.db", clock=clock.tick), language=LANGUAGE)
    # The dialog shows the working directory: use a path that reveals nothing about this machine.
    project = Path(tempfile.gettempdir()) / "interlock-shop"
    shutil.rmtree(project, ignore_errors=True)
    create_project(project)
    _write_stricter(project)

    async def start(hub: Hub) -> None:
        session = await open_demo(hub, by=OPERATOR, project=project, session_id=SESSION)
        await hub.send(session, TASK, by=OPERATOR)

    app = InterlockConsole(hub, operator=OPERATOR, start=start, clock=clock.read)
    async with app.run_test(size=size) as pilot:
        await _until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
        await pilot.pause(0.7)
        _draw(app, out, f"dialog{suffix}")
        await pilot.press("escape")
        await _until(pilot, lambda: isinstance(app.screen, LiveScreen))
        await pilot.pause(0.5)
        _draw(app, out, f"live{suffix}")
        await pilot.press("a")
        await _until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
        await pilot.pause(0.7)
        await pilot.press("a")
        await _until(pilot, lambda: isinstance(app.screen, LiveScreen))
        await hub.wait(SESSION)
        await pilot.press("r")
        await _until(pilot, lambda: isinstance(app.screen, ReplayScreen))
        await pilot.press("end", "left_curly_bracket", "left_curly_bracket", "left_curly_bracket")
        await pilot.pause(0.3)
        _draw(app, out, f"replay{suffix}")
        with contextlib.chdir(project):
            await _other_rules(app, pilot, out, suffix)
    await hub.close()


async def _triage(out: Path, place: Path, size: tuple[int, int], suffix: str) -> None:
    """Draw nine waiting calls of two agents, with precedents in the journal."""
    clock = Clock()
    hub = Hub(Journal.open(place / "queue.db", clock=clock.tick), language=LANGUAGE)
    rules = compile_rules(QUEUE_RULES, file="release.rules")
    config = SessionConfig(rules.registry)
    events = hub.subscribe()
    for agent, calls in {"release-bot": RELEASES, "docs-writer": PUSHES}.items():
        described = ExternalAgent(name=agent, workdir="~/shop")
        session = await hub.open_external(described, config, session_id=f"{agent}-1")
        for number in range(3):
            asked = hub.submit_call(session, f"before-{number}", *calls[0])
            await _asked(events, 1)
            [request] = await hub.approvals()
            await hub.decide(
                request.id,
                approved=number != 1,
                by=("ada", "ben", "cleo")[number],
                reason="not on Friday" if number == 1 else None,
                digest=request.digest,
            )
            if number != 1:
                await asked
                await hub.result(session, f"before-{number}", output="ok", is_error=False)
    waiting: list[asyncio.Future[CallAnswer]] = []
    for agent, calls in {"release-bot": RELEASES, "docs-writer": PUSHES}.items():
        for number, call in enumerate(calls):
            waiting.append(hub.submit_call(f"{agent}-1", f"c{number}", *call))
        await _asked(events, len(calls))
    app = InterlockConsole(hub, operator=OPERATOR, clock=clock.read)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.5)
        await pilot.press("Q")
        await _until(pilot, lambda: isinstance(app.screen, TriageScreen))
        await pilot.pause(1.0)
        await pilot.press("asterisk")
        await pilot.pause(0.5)
        _draw(app, out, f"triage{suffix}")
    await hub.close()
    await asyncio.gather(*waiting, return_exceptions=True)


async def _plan(out: Path, place: Path, size: tuple[int, int], suffix: str) -> None:
    """Draw an agent's plan, part of which a rule of the library blocks."""
    clock = Clock()
    hub = Hub(Journal.open(place / "plan.db", clock=clock.tick), language=LANGUAGE)
    config = SessionConfig(_library("plans").registry)
    described = ExternalAgent(name="release-bot", workdir="~/shop")
    session = await hub.open_external(described, config, session_id=SESSION)
    events = hub.subscribe()
    planned = hub.submit_call(session, "c1", "plan", PLAN)
    await _asked(events, 1)
    app = InterlockConsole(hub, operator=OPERATOR, clock=clock.read)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.5)
        await pilot.press("a")
        await _until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
        await pilot.pause(0.7)
        _draw(app, out, f"plan{suffix}")
    await hub.close()
    await asyncio.gather(planned, return_exceptions=True)


def _library(name: str) -> RuleSet:
    path = Path(library_rules(name))
    return compile_rules(path.read_text(encoding="utf-8"), file=path.name)


async def _asked(events: Subscription, number: int) -> None:
    """Wait until this number of further requests have been made."""
    async for event in events:
        number -= isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested)
        if number == 0:
            return


def _write_stricter(project: Path) -> None:
    rules = Path(library_rules("deploy")).read_text(encoding="utf-8")
    (project / STRICTER).write_text(f"{rules}\nlimit test to 1 per session\n", encoding="utf-8")


async def _other_rules(app: InterlockConsole, pilot: Pilot[None], out: Path, suffix: str) -> None:
    """Draw the session judged by stricter rules: in the replay from its beginning, then in a backtest."""
    await pilot.press("home", "w")
    await _until(pilot, lambda: isinstance(app.screen, WhatIfDialog))
    app.screen.query_one(Input).value = STRICTER
    await pilot.press("ctrl+s")
    await _until(pilot, lambda: isinstance(app.screen, JudgedScreen))
    await _until(pilot, lambda: app.screen.query_one("#calls", BlockList).current is not None)
    await pilot.pause(0.3)
    _draw(app, out, f"what-if{suffix}")
    await pilot.press("escape", "b")
    await _until(pilot, lambda: isinstance(app.screen, BacktestScreen))
    app.screen.query_one("#rules", Input).value = STRICTER
    await pilot.press("f5")
    await _until(pilot, lambda: app.screen.query_one("#report", BlockList).current is not None)
    await pilot.pause(0.3)
    _draw(app, out, f"backtest{suffix}")


async def _decisions(out: Path, place: Path, size: tuple[int, int], suffix: str) -> None:
    """Draw three sessions with recorded decisions, one of them in shadow mode."""
    path = usual(place / "decisions.db")
    app = HistoryConsole(RecordedFile(path), zone=UTC, clock=lambda: NOW)
    async with app.run_test(size=size) as pilot:
        await pilot.press("v")
        await _until(pilot, lambda: isinstance(app.screen, DecisionsScreen))
        table = app.screen.query_one(DecisionTable)
        await _until(pilot, lambda: table.current is not None)
        await pilot.press(*["down"] * 5)
        await pilot.pause(0.5)
        _draw(app, out, f"decisions{suffix}")


async def flow(out: Path, place: Path, size: tuple[int, int], suffix: str) -> None:
    """Draw the release flow that needs a person's sign-off: its graph, and the filled-in form."""
    clock = Clock()
    hub = Hub(Journal.open(place / "flow.db", clock=clock.tick), language=LANGUAGE)
    project = Path(tempfile.gettempdir()) / "interlock-shop"
    shutil.rmtree(project, ignore_errors=True)
    create_release_project(project)
    prepared = prepare_flow(
        FlowSpec(flow=FLOW, rules=(library_rules("deploy"),), workdir=project, commands=("git",))
    )

    async def start(hub: Hub) -> None:
        await hub.open_flow(
            prepared.flow,
            Release(version="1.1", since=SINCE),
            SessionConfig(prepared.rules.registry, by=OPERATOR),
            session_id="release-1",
            context=prepared.context,
            factory=Paced(0.0),
        )

    app = InterlockConsole(hub, operator=OPERATOR, start=start, clock=clock.read)
    async with app.run_test(size=size) as pilot:
        await _until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
        await pilot.press("escape")
        await _until(pilot, lambda: isinstance(app.screen, LiveScreen))
        await pilot.press("alt+3", "g", "enter")
        await _until(pilot, lambda: isinstance(app.screen, FlowPanel))
        await pilot.pause(0.7)
        _draw(app, out, f"flow{suffix}")
        await pilot.press("escape", "a")
        await _until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
        await pilot.pause(0.7)
        await pilot.press("a")
        await _until(pilot, lambda: isinstance(app.screen, AnswerForm))
        await pilot.press("1", "tab", *"Going back is rehearsed.")
        await pilot.pause(0.7)
        _draw(app, out, f"answer{suffix}")
    await hub.close()


async def _until(pilot: Pilot[None], reached: Callable[[], bool]) -> None:
    for _ in range(600):
        if reached():
            return
        await pilot.pause(0.05)
    raise TimeoutError("the console did not come to the next picture within 30 s")


def _draw(app: App[None], out: Path, name: str) -> None:
    svg = app.export_screenshot(title="Interlock")
    (out / f"{name}.svg").write_text(svg, encoding="utf-8")
    # Use an installed font instead of one from a server.
    local = svg.replace("Fira Code", "DejaVu Sans Mono")
    cairosvg.svg2png(local.encode(), write_to=str(out / f"{name}.png"), scale=1.0)


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(exist_ok=True)
    asyncio.run(take(folder))
