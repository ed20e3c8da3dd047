"""The decisions screen on a real hub: new decisions, explanations of calls, the end of shadow mode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from textual.message import Message

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.app.screens.decisions.detail import DecisionDetail
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.widgets.lists.decision_table import DecisionTable
from interlock.app.widgets.replay.transcript import MomentTranscript
from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.journal.journal import Journal
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.decisions import Ticking, call, opened, write_usual

from ...support.stage import stage
from .decisions_world import Desk

RULES = "block rm\nrequire human-approval before deploy"
MODES = ("shadow", "enforce")


@tool
async def rm(ctx: ToolContext, path: str) -> str:
    """Remove."""
    return f"removed {path}"


@tool
async def lint(ctx: ToolContext) -> str:
    """Lint."""
    return "fine"


@dataclass
class Live(Desk):
    """The screen, its hub and the journal under it."""

    hub: Hub
    journal: Journal

    async def work(self, session: str = "night") -> None:
        """Let the agent of a session take its model's next step."""
        await self.hub.send(session, "go on")
        await self.hub.wait(session)


@asynccontextmanager
async def live(path: Path, *, old: int = 0) -> AsyncIterator[Live]:
    """Open the decisions of a hub with two sessions and `old` earlier decisions."""
    clock = Ticking(step=timedelta(seconds=1))
    journal = Journal.open(path, clock=clock)
    write_usual(journal)
    if old:
        journal.write("old", opened("old"))
        journal.write("old", *(call(f"o{n}", "bash", f"echo {n}") for n in range(old)))
    hub = Hub(journal)
    for mode, name in zip(MODES, ("night", "day"), strict=True):
        replies = [C(rm={"path": "cache"}), T("done"), *[C(lint={}), T("done")] * 9]
        agent = Agent(ScriptedModel(replies), name=name, tools=[rm, lint])
        registry = compile_rules(RULES).registry
        await hub.open_session(agent, SessionConfig(registry, mode=mode), session_id=name)
    app = InterlockConsole(hub, operator="maria", clock=lambda: clock.now)
    try:
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            on = Live(app, pilot, hub, journal)
            await on.press("v")
            await on.when(lambda: isinstance(app.screen, DecisionsScreen))
            await on.when(lambda: on.table.current is not None)
            yield on
    finally:
        await hub.close()


def enforces(on: Live) -> bool:
    """Tell whether the key that ends shadow mode is enabled."""
    keys = on.app.screen.active_bindings.values()
    return next(each.enabled for each in keys if each.binding.id == "decisions.enforce")


class TestComingIn:
    async def test_new_decisions_appear_on_top(self, tmp_path: Path) -> None:
        """If the cursor is on the newest decision, a new one replaces it. Its result follows."""
        async with live(tmp_path / "run.db") as on:
            total = on.table.total
            await on.work()
            await on.when(lambda: on.table.total == total + 1)
            await on.when(lambda: on.table.current is not None and on.table.current.session == "night")
            assert on.table.row == 0
            await on.until("S would block", "night")
            await on.when(lambda: on.table.current is not None and on.table.current.result == "done")

    @pytest.mark.slow
    async def test_outdated_part_does_not_hide_the_result(self, tmp_path: Path) -> None:
        """A part that was being read when its call ended does not hide the result."""
        async with live(tmp_path / "run.db") as on:
            await on.work()
            await on.when(lambda: on.table.current is not None and on.table.current.result == "done")
            part, table = on.table._parts[0], on.table
            new = [decision for n in range(part.count) if (decision := table.decision(n)) is not None]
            old = [new[0].model_copy(update={"result": None}), *new[1:]]
            table.outdate()
            assert table.current == new[0]  # requests the part
            table.outdate()
            table.renew([part], [new])
            table.fill(part, old)
            assert table.current == new[0]

    @pytest.mark.slow
    async def test_part_outdated_while_read_is_requested_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A part that is outdated while it is read is requested again."""
        asked: list[Message] = []
        async with live(tmp_path / "run.db") as on:
            await on.work()
            await on.when(lambda: on.table.current is not None and on.table.current.result == "done")
            part, table = on.table._parts[0], on.table
            new = [decision for n in range(part.count) if (decision := table.decision(n)) is not None]
            table.outdate()
            assert table.current == new[0]
            table.outdate()
            monkeypatch.setattr(table, "post_message", asked.append)
            table.fill(part, [new[0].model_copy(update={"result": None}), *new[1:]])
            assert table.current != new[0]
            monkeypatch.undo()
            assert DecisionTable.PartNeeded(part) in asked

    @pytest.mark.slow
    async def test_new_decisions_do_not_move_the_cursor_row(self, tmp_path: Path) -> None:
        """Rows further down stay in place, with the cursor on its decision."""
        async with live(tmp_path / "run.db", old=300) as on:
            await on.press("pagedown", "pagedown", "down")
            await on.when(lambda: on.table.current is not None)
            rows, chosen = on.rows(), on.table.current
            for _ in range(3):
                await on.work("day")
            await on.until("↑ 3 newer")
            assert on.rows() == rows
            assert on.table.current == chosen
            await on.press("home")
            await on.when(lambda: on.table.current is not None and on.table.current.agent == "day")
            await on.until("row 1", gone="newer")

    @pytest.mark.slow
    async def test_filter_applies_to_new_decisions(self, tmp_path: Path) -> None:
        """New decisions that do not match the filter are not shown."""
        async with live(tmp_path / "run.db") as on:
            await on.filter("tool:rm session:day")
            await on.until("0 decisions match")
            await on.work("night")
            await on.work("day")
            await on.until("1 decision match", "■ block")

    @pytest.mark.slow
    async def test_many_new_decisions_all_appear(self, tmp_path: Path) -> None:
        """More new decisions than fit into one part all appear."""
        async with live(tmp_path / "run.db", old=30) as on:
            total = on.table.total
            await on.hub._journal.append("old", *(call(f"n{n}", "bash", f"ls {n}") for n in range(700)))
            await on.work("day")
            await on.when(lambda: on.table.total == total + 701)
            await on.press("end")
            await on.when(lambda: on.table.current is not None and on.table.row == total + 700)
            await on.when(lambda: None not in {on.table.decision(n) for n in range(40)})
            calls = [d.call_id for n in range(1, 40) if (d := on.table.decision(n)) is not None]
            assert calls == [f"n{n}" for n in range(699, 660, -1)]


class TestExplaining:
    @pytest.mark.slow
    async def test_live_call_shows_verdicts_then_and_now(self, tmp_path: Path) -> None:
        """G-15: a call's panel shows each net's verdict at that time, then the verdict now."""
        async with live(tmp_path / "run.db") as on:
            await on.work("day")
            await on.filter("session:day")
            await on.until("1 decision match")
            await on.press("enter")
            await on.when(lambda: isinstance(on.app.screen, DecisionDetail))
            painted = await on.until(
                "rm is blocked and cannot be called",
                "RULES AT THAT TIME",
                "block-rm  blocked it",
                "RULES NOW",
                "block-rm  blocks it",
            )
            assert (
                painted.index("AT THAT TIME") < painted.index("blocked it") < painted.index("RULES NOW")
            )

    @pytest.mark.slow
    async def test_recorded_call_shows_only_verdicts_then(self, tmp_path: Path) -> None:
        """G-15: for a call of a recorded session only the verdicts at that time are shown."""
        async with live(tmp_path / "run.db") as on:
            await on.filter("tool:deploy verdict:block session:release-bot")
            await on.until("1 decision match")
            await on.press("enter")
            await on.until(
                "deploy requires a successful call to test first",
                "RULES AT THAT TIME",
                "require-test-before-deploy  blocked it",
                gone="RULES NOW",
            )


@pytest.mark.slow
class TestReplayOfASessionThatGoesOn:
    async def test_new_events_extend_it_and_the_moment_stays(self, tmp_path: Path) -> None:
        """New events extend the replay, while its position and transcript cursor stay."""
        async with live(tmp_path / "run.db") as on:
            await on.work("night")
            await on.filter("session:night")
            await on.until("1 decision match")
            await on.press("r")
            await on.when(lambda: isinstance(on.app.screen, ReplayScreen))
            replay = on.app.screen
            assert isinstance(replay, ReplayScreen)
            at, before = replay.position, replay.event_count
            await on.until(f"event {at} of {before}", "S 1 would block")
            transcript = replay.query_one(MomentTranscript)
            transcript.action_edge(0)
            await on.work("day")
            await on.work("night")
            total = len(await on.hub.recorded("night"))
            assert total > before
            painted = await on.until(f"event {at} of {total}", "S 1 would block")
            assert "lint" not in painted
            assert transcript.current == transcript.blocks[0].key
            await on.press("end")
            await on.until(f"event {total} of {total}", "✓ lint")
            await on.press("f5")
            await on.until("Nothing was recorded since")


@pytest.mark.slow
class TestEnforcing:
    async def test_e_asks_before_it_enforces(self, tmp_path: Path) -> None:
        """G-26: `e` on a shadow decision of a live session asks, and `y` switches the session."""
        async with live(tmp_path / "run.db") as on:
            await on.work("night")
            await on.filter("session:night")
            await on.until("1 decision match")
            await on.press("e")
            await on.when(lambda: isinstance(on.app.screen, Confirm))
            await on.until("Enforce the rules in night?", "blocked 1 (block-rm 1)")
            await on.press("enter", "n")
            assert (await on.hub.session("night")).mode == "shadow"
            await on.press("e")
            await on.when(lambda: isinstance(on.app.screen, Confirm))
            await asyncio.sleep(ASLEEP + 0.1)
            await on.press("y")
            await on.until("night is now in enforce mode")
            assert (await on.hub.session("night")).mode == "enforce"

    async def test_e_enforces_from_the_session_list(self, tmp_path: Path) -> None:
        """`s`, then `e` on a session."""
        async with live(tmp_path / "run.db") as on:
            await on.work("night")
            await on.until("2 sessions")
            await on.press("s", "end", "e")
            await on.until("Enforce the rules in night?")
            await on.press("escape")

    async def test_only_live_shadow_sessions_can_be_switched(self, tmp_path: Path) -> None:
        """A recorded session cannot be switched. For an enforcing one the key is greyed with a reason."""
        async with live(tmp_path / "run.db") as on:
            await on.filter("session:nightly-sync")
            await on.until("5 decisions match")
            await on.press("e")
            await on.until("nightly-sync-02 is not live")
            await on.filter("verdict:denied")
            await on.until("1 decision match")
            await on.when(lambda: not enforces(on))
            await on.press("e")
            await on.until("No call in view was made in shadow mode.")
            await on.filter("tool:deploy")
            await on.until("4 decisions match")
            await on.when(lambda: enforces(on))
            await on.press("end")
            await on.when(lambda: not enforces(on))
            await on.press("e")
            await on.until("Choose a decision that was made", "e enforce")
            assert isinstance(on.app.screen, DecisionsScreen)


class TestNavigation:
    @pytest.mark.slow
    async def test_from_the_live_screen_by_key_and_mouse(self, tmp_path: Path) -> None:
        """`v`, or a click on its name, opens the decisions. Escape goes back."""
        async with live(tmp_path / "run.db") as on:
            await on.press("escape")
            assert isinstance(on.app.screen, LiveScreen)
            title = on.painted().split("\n")[0]
            await on.pilot.click("TitleBar", offset=(title.index("decisions") + 1, 0))
            await on.when(lambda: isinstance(on.app.screen, DecisionsScreen))

    @pytest.mark.slow
    async def test_hub_journal_error_is_shown(self) -> None:
        """The screen shows the journal's error, and the console continues."""
        async with stage() as on:
            await on.press("v")
            await on.until("Cannot read journal")
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
