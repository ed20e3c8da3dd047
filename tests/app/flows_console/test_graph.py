"""The graph of a flow with its live states: among the nets, as a picture, live and in replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

from interlock.app.history_console import HistoryConsole
from interlock.app.history_source import RecordedFile
from interlock.app.screens.flow_panel import FlowPanel
from interlock.app.screens.replay import ReplayScreen
from interlock.app.widgets.blocks import BlockList
from interlock.app.widgets.event_details import fields
from interlock.app.widgets.flow_lines import FLOW, flow_blocks, flow_picture, flow_words, worked
from interlock.engine.history.events import JournalEvent
from interlock.engine.history.flow import FlowStepped
from interlock.engine.history.fold import fold
from interlock.engine.history.queries import open_reader
from interlock.engine.history.state import SessionState
from tests.app.flows_console.flows import flow_state, release, sign_off
from tests.app.flows_console.recorded import ID, KEY, write
from tests.app.replay.journal import Desk, desk
from tests.app.scenes import require
from tests.app.stage import stage


def with_a_net(**more: object) -> SessionState:
    state = release(**more)
    net = require("lint", "test", 3, "gate")
    state.nets[net.key] = net
    state.active.append(net.key)
    return state


def text(blocks: list, width: int = 100) -> str:
    return "\n".join(line.plain for block in blocks for line in block.lines(width))


def masked(database: Path) -> list[JournalEvent]:
    """The events as every screen gets them."""

    return [*asyncio.run(RecordedFile(database).recorded(ID))]


@asynccontextmanager
async def replayed(folder: Path, **more: object) -> AsyncIterator[tuple[Desk, ReplayScreen]]:
    database = await asyncio.to_thread(write, folder / "journal.db")
    events = await RecordedFile(database).recorded(ID)
    app = HistoryConsole(RecordedFile(database), recorded=events, zone=UTC)
    async with desk(app, **more) as on:
        screen = on.app.screen
        assert isinstance(screen, ReplayScreen)
        yield on, screen


def at(screen: ReplayScreen, step: int) -> int:
    """The number of the event that is the flow's step number `step`."""
    return next(
        number
        for number, event in enumerate(screen._recorded, 1)
        if isinstance(event.body, FlowStepped) and event.body.step == step
    )


class TestLines:
    def test_first_among_the_nets(self) -> None:
        """P-55: where the flow stands comes before the nets of its calls, with a token at each state."""
        state = with_a_net()
        said = text(flow_blocks(state))
        assert "flow Release  step 2 · at Notes" in said
        assert "Commit ○ → Notes ● → SignOff ○ → Published ○" in said

    def test_what_it_waits_for(self) -> None:
        """P-55: an answer, an approval, or a call that nobody is asked about yet."""
        assert "waits for an answer to Notes" in flow_words(release()).plain
        plain = release(sign_off(wants=None))
        assert "waits for approval of Notes" in flow_words(plain).plain
        nobody = release(approvals={})
        assert "waits for call Notes#2" in flow_words(nobody).plain
        done = release(flow=flow_state(done=True, live=("Published",), step=4))
        assert flow_words(done).plain == "step 4 · done with Published"

    def test_the_node_that_worked_last(self) -> None:
        """P-55: the picture says which node that was; an agent that has not ended has not worked yet."""
        state = release()
        assert worked(state.flow) == ("work 'Commit'",)
        drawn = text(flow_picture(state))
        assert "work 'Commit'  Δ worked last" in drawn
        assert "suspend 'Notes'  is next" in drawn
        assert "(●) Notes" in drawn
        assert "( ) Commit" in drawn
        stays = flow_state(node="Notes", live=("Notes",), waits=None)
        assert worked(stays) == ()
        assert "Notes is at work" in flow_words(release(flow=stays)).plain
        assert "Commit worked last" in flow_words(state).plain

    def test_states_that_have_no_room_go_below(self) -> None:
        """At any width every state is named."""
        for width in (100, 40, 24):
            rows = [line for block in flow_blocks(release()) for line in block.lines(width)]
            assert all(row.cell_length <= width for row in rows)
            said = "\n".join(row.plain for row in rows)
            assert all(f"{name} " in said for name in ("Commit", "Notes", "SignOff", "Published"))


class TestLive:
    async def test_among_the_nets_and_as_a_picture(self) -> None:
        """P-55: the live screen shows it first; enter draws it."""
        async with stage(with_a_net()) as on:
            painted = on.painted()
            assert painted.index("flow Release") < painted.index("[x] require-lint-before-test")
            assert "flow Release · step 2 · at Notes" in painted
            await on.press("3", "g", "enter")
            await on.settle()
            assert isinstance(on.app.screen, FlowPanel)
            assert "suspend 'Notes'  is next" in on.painted()

    async def test_the_values_of_its_states(self, tmp_path: Path) -> None:
        """P-55: what the flow holds now is read from the record of its last step."""
        database = await asyncio.to_thread(write, tmp_path / "journal.db")
        events = await RecordedFile(database).recorded(ID)
        async with stage(release(), size=(120, 50)) as on:

            async def recorded(_: str) -> list[JournalEvent]:
                return [*events]

            on.hub.recorded = recorded
            await on.press("3", "g", "enter")
            await on.until("state Notes")
            painted = on.painted()
            assert "faster, with" in painted
            assert KEY not in painted

    async def test_it_cannot_be_told_anything(self) -> None:
        """`i` and compacting say why; nothing is sent."""
        async with stage(release()) as on:
            for number, key in enumerate(("i", "ctrl+k"), 1):
                await on.press(key)
                await on.settle()
                assert len(on.app._notifications) == number
                await on.until("What it asks is answered")
            assert "dollar_sign" not in on.app.screen.active_bindings
            assert on.hub.asked == []

    async def test_stopping_it_says_what_stays(self) -> None:
        """A run is stopped where it is, and can be gone on with."""
        async with stage(release()) as on:
            await on.press("ctrl+x")
            await on.settle()
            assert "a waiting request is withdrawn" in on.painted()
            assert "resumed" in on.painted()
            assert "loop runs elsewhere" not in on.painted()


class TestReplay:
    async def test_before_and_after(self, tmp_path: Path) -> None:
        """P-55: a step shows where the flow was and is."""
        async with replayed(tmp_path) as (on, screen):
            screen.position = at(screen, 1)
            await on.until("step 1 · at Draft")
            assert "was at Commit" in on.painted()
            assert "Commit ○ → Draft ●" in on.painted()

    async def test_as_a_picture(self, tmp_path: Path) -> None:
        """P-55: `p` draws the graph with the states of the moment."""
        async with replayed(tmp_path) as (on, screen):
            screen.position = at(screen, 1)
            await on.press("p")
            await on.until("work 'Commit'  Δ worked last", "agent 'Draft'  is next", "flow Release")

    async def test_inspector(self, tmp_path: Path) -> None:
        """P-55: a step's details have its states' values and what was said, with keys masked."""
        async with replayed(tmp_path, size=(120, 60)) as (on, screen):
            screen.position = at(screen, 3)
            await on.press("2")
            await on.until("state Notes", "faster, with", "Draft called submit")
            assert KEY not in on.painted()
            await on.press("enter")
            await on.until("Event")
            panel = on.app.screen.query_one(BlockList)
            said = "\n".join(row.plain for block in panel.blocks for row in block.lines(100))
            assert "STATE NOTES" in said
            assert KEY not in said

    async def test_in_a_panel(self, tmp_path: Path) -> None:
        """P-55: enter on the flow shows the values of the moment, not of the end."""
        async with replayed(tmp_path, size=(120, 60)) as (on, screen):
            screen.position = at(screen, 1)
            await on.press("3")
            screen.query_one("#nets", BlockList).select(FLOW)
            await on.press("enter")
            await on.until("state Draft", '"abc"', "files: 2")
            assert "faster" not in on.painted()


class TestRecord:
    def test_everything_a_step_holds(self, tmp_path: Path) -> None:
        """P-90: the inspector shows values, what waits and what was said of every step, by labels of
        its own, none twice.
        """
        for event in masked(write(tmp_path / "journal.db")):
            if isinstance(event.body, FlowStepped):
                labels = [label for label, _ in fields(event.body)]
                assert len(labels) == len(set(labels))
                assert "output" not in labels
                assert [f"state {key}" in labels for key in event.body.live] == [True] * len(
                    event.body.live
                )
        [*_, last] = [e.body for e in masked(tmp_path / "journal.db") if isinstance(e.body, FlowStepped)]
        said = dict(fields(last))
        assert said["waits for"] == ["Notes (input)"]
        assert said["waits"] == [last.waits]

    def test_notes_read_well(self, tmp_path: Path) -> None:
        """The transcript tells what each node led to, of all that is live."""
        state = fold(open_reader(write(tmp_path / "journal.db")).events(ID))
        notes = [e.text for e in state.transcript if e.kind == "note"]
        assert notes[:3] == ["Commit → Draft", "Draft goes on", "Draft → Notes"]
