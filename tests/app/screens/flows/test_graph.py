"""The graph of a flow with its live states: in the net pane, as a picture, live and in replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

import pytest

from interlock.app.console.history_app import HistoryConsole
from interlock.app.format.calls import call_timeline
from interlock.app.screens.replay.flow_panel import FlowPanel
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.app.viewmodels.stream import LiveStream
from interlock.app.widgets.base.blocks import BlockList
from interlock.app.widgets.lists.transcript import column_of, entry_block
from interlock.app.widgets.nets.flow_graph import flow_picture
from interlock.app.widgets.nets.flow_lines import FLOW, flow_blocks, flow_words, worked
from interlock.app.widgets.replay.event_details import fields
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalDecided, ApprovalRequested, JournalEvent
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.history.model.state import SessionState

from ...support.scenes import NOW, entry, require
from ...support.stage import stage
from ..replay.journal import Desk, desk
from .flows import flow_state, release, sign_off
from .recorded import ID, KEY, write


def flow_with_a_net(**more: object) -> SessionState:
    state = release(**more)
    net = require("lint", "test", 3, "gate")
    state.nets[net.key] = net
    state.active.append(net.key)
    return state


def text(blocks: list, width: int = 100) -> str:
    return "\n".join(line.plain for block in blocks for line in block.lines(width))


def masked(database: Path) -> list[JournalEvent]:
    """The masked events, as every screen gets them."""

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


def number_of_step(screen: ReplayScreen, step: int) -> int:
    """The number of the event that records the flow's step number `step`."""
    return next(
        number
        for number, event in enumerate(screen._recorded, 1)
        if isinstance(event.body, FlowStepped) and event.body.step == step
    )


class TestLines:
    def test_flow_precedes_the_nets(self) -> None:
        """P-55: the flow's state, with a token at each live state, precedes the nets of its calls."""
        state = flow_with_a_net()
        said = text(flow_blocks(state))
        assert "flow Release  step 2 · at Notes" in said
        assert "Commit ○ → Notes ● → SignOff ○ → Published ○" in said

    def test_flow_shows_its_wait(self) -> None:
        """P-55: the flow waits for an answer, an approval, or a call without a request."""
        assert "waits for an answer to Notes" in flow_words(release()).plain
        plain = release(sign_off(wants=None))
        assert "waits for approval of Notes" in flow_words(plain).plain
        nobody = release(approvals={})
        assert "waits for call Notes#2" in flow_words(nobody).plain
        done = release(flow=flow_state(done=True, live=("Published",), step=4))
        assert flow_words(done).plain == "step 4 · done with Published"

    def test_last_working_node_is_named(self) -> None:
        """P-55: the picture names the node that worked last. A running agent has not worked yet."""
        state = release()
        assert worked(state.flow) == ("work 'Commit'",)
        drawn = text(flow_picture(state))
        assert "✓  Commit     work write   Δ worked last" in drawn
        assert "◐  Notes      suspend   waits for an answer" in drawn
        assert "○  SignOff    work publish\n" in drawn
        assert "○  Published  the end" in drawn
        stays = flow_state(node="Notes", live=("Notes",), waits=None)
        assert worked(stays) == ()
        assert flow_words(release(flow=stays)).plain == "step 2 · at Notes · at work"
        assert "●  Notes      suspend   is at work" in text(flow_picture(release(flow=stays)))
        assert "Commit worked last" in flow_words(state).plain

    def test_older_record_shows_node_kinds(self) -> None:
        """P-55: for an older record without names, the picture shows each node's kind."""
        record = flow_state().flow.model_copy(update={"names": {}})
        drawn = text(flow_picture(release(flow=flow_state(flow=record))))
        assert "✓  Commit     work   Δ worked last" in drawn
        assert "○  SignOff    work\n" in drawn

    def test_every_state_is_named_at_any_width(self) -> None:
        """Every state is named at any width."""
        for width in (100, 40, 24):
            rows = [line for block in flow_blocks(release()) for line in block.lines(width)]
            assert all(row.cell_length <= width for row in rows)
            said = "\n".join(row.plain for row in rows)
            assert all(f"{name} " in said for name in ("Commit", "Notes", "SignOff", "Published"))


class TestTranscript:
    def test_text_is_shown_with_its_node(self) -> None:
        """P-55: each text is shown beside the node that produced it; all others are the flow's."""
        names = {"agent 'Notes'": "PublishesNotes", "work 'Commit'": "writes-what-changed"}
        record = flow_state().flow.model_copy(update={"names": names})
        said = [entry("assistant", "Done.", 9, by="PublishesNotes"), entry("assistant", "{}", 8)]
        state = release(flow=flow_state(flow=record), transcript=said)
        column = column_of(state)
        drawn = [
            entry_block("k", each, state.agent, LiveStream(), NOW, column=column).lines(80)[-1].plain
            for each in state.transcript
        ]
        assert drawn == ["PublishesNotes  Done.", "Release         {}"]

    async def test_live_screen_shows_node_beside_text(self) -> None:
        """P-55: the live screen shows the node beside its text."""
        said = entry("assistant", "Shall I?", 9, by="Write")
        async with stage(release(transcript=[said])) as on:
            assert "Write    Shall I?" in on.painted()


class TestLive:
    async def test_flow_is_first_and_enter_opens_its_picture(self) -> None:
        """P-55: the live screen shows the flow first. Enter opens its picture."""
        async with stage(flow_with_a_net()) as on:
            painted = on.painted()
            assert painted.index("flow Release") < painted.index("[x] require-lint-before-test")
            assert "flow Release · step 2 · at Notes" in painted
            await on.press("alt+3", "g", "enter")
            await on.settle()
            assert isinstance(on.app.screen, FlowPanel)
            assert "◐  Notes      suspend   waits for an answer" in on.painted()

    @pytest.mark.slow
    async def test_state_values_come_from_last_step(self, tmp_path: Path) -> None:
        """P-55: the values of the live states come from the record of the last step."""
        database = await asyncio.to_thread(write, tmp_path / "journal.db")
        events = await RecordedFile(database).recorded(ID)
        async with stage(release(), size=(120, 50)) as on:

            async def recorded(_: str) -> list[JournalEvent]:
                return [*events]

            on.hub.recorded = recorded
            await on.press("alt+3", "g", "enter")
            await on.until("state Notes")
            painted = on.painted()
            assert "faster, with" in painted
            assert KEY not in painted

    @pytest.mark.slow
    async def test_queue_names_step_and_question(self) -> None:
        """P-81: the queue names the step of a flow's request and shows the question of an answer."""
        async with stage(release()) as on:
            assert "step 2 of Release" in on.painted()
            assert "answer: Are these" in on.painted()
        asked = sign_off(wants=None, input={"command": "./deploy"}, net="gate", tool="deploy")
        async with stage(release(asked)) as on:
            assert "step 2 of Release" in on.painted()
            assert "answer:" not in on.painted()
            await on.open_dialog()
            assert "step 2 of the flow" in on.painted()

    @pytest.mark.slow
    async def test_resume_confirmation_mentions_steps(self, tmp_path: Path) -> None:
        """P-56: a run continues from a replay; the confirmation mentions steps instead of messages."""
        database = await asyncio.to_thread(write, tmp_path / "journal.db")
        events = await RecordedFile(database).recorded(ID)
        async with stage(release()) as on:

            async def recorded(_: str) -> list[JournalEvent]:
                return [*events]

            on.hub.recorded = recorded
            await on.press("r")
            await on.until("event 1 of")
            await on.press("c")
            await on.until(f"Continue {ID}?")
            assert "otherwise it takes the step after the last" in on.painted()
            assert "message" not in on.painted()

    @pytest.mark.slow
    async def test_flow_accepts_no_messages(self) -> None:
        """`i` and `^k` report that a flow takes no messages, and send nothing."""
        async with stage(release()) as on:
            for number, key in enumerate(("i", "ctrl+k"), 1):
                await on.press(key)
                await on.settle()
                assert len(on.app._notifications) == number
                await on.until("What it asks is answered")
            assert "dollar_sign" not in on.app.screen.active_bindings
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_stop_confirmation_mentions_resuming(self) -> None:
        """The confirmation says that a stopped run can be resumed."""
        async with stage(release()) as on:
            await on.press("ctrl+x")
            await on.settle()
            assert "a waiting request is withdrawn" in on.painted()
            assert "resumed" in on.painted()
            assert "external agent" not in on.painted()


class TestReplay:
    async def test_step_shows_states_before_and_after(self, tmp_path: Path) -> None:
        """P-55: a step shows the flow's state before and after it."""
        async with replayed(tmp_path) as (on, screen):
            screen.position = number_of_step(screen, 1)
            await on.until("step 1 · at Draft")
            assert "was at Commit" in on.painted()
            assert "Commit ○ → Draft ●" in on.painted()

    @pytest.mark.slow
    async def test_p_draws_graph_of_the_moment(self, tmp_path: Path) -> None:
        """P-55: `p` draws the graph with the states of that moment."""
        async with replayed(tmp_path) as (on, screen):
            screen.position = number_of_step(screen, 1)
            await on.press("p")
            await on.until(
                "✓  Commit    work collect   Δ worked last", "●  Draft     agent Write   is next"
            )
            await on.until("flow Release")

    @pytest.mark.slow
    async def test_queue_names_the_waiting_step(self, tmp_path: Path) -> None:
        """P-81: at a moment when a step waits, the queue names it."""
        async with replayed(tmp_path, size=(80, 24)) as (on, screen):
            asked = (type(event.body) is ApprovalRequested for event in screen._recorded)
            screen.position = 1 + [*asked].index(True)
            await on.press("alt+4")
            await on.until("step 4 of Release", "answer: Notes waits for an answer.")

    @pytest.mark.slow
    async def test_inspector_shows_states_with_masked_keys(self, tmp_path: Path) -> None:
        """P-55: a step's details have its states' values and texts, with keys masked."""
        async with replayed(tmp_path, size=(120, 60)) as (on, screen):
            screen.position = number_of_step(screen, 3)
            await on.press("alt+2")
            await on.until("state Notes", "faster, with", "Draft called submit")
            assert KEY not in on.painted()
            await on.press("enter")
            await on.until("Event")
            panel = on.app.screen.query_one(BlockList)
            said = "\n".join(row.plain for block in panel.blocks for row in block.lines(100))
            assert "STATE NOTES" in said
            assert KEY not in said

    @pytest.mark.slow
    async def test_enter_shows_values_of_the_moment(self, tmp_path: Path) -> None:
        """P-55: enter on the flow shows the values of that moment, not of the end."""
        async with replayed(tmp_path, size=(120, 60)) as (on, screen):
            screen.position = number_of_step(screen, 1)
            await on.press("alt+3")
            screen.query_one("#nets", BlockList).select(FLOW)
            await on.press("enter")
            await on.until("state Draft", '"abc"', "files: 2")
            assert "faster" not in on.painted()


class TestRecord:
    def test_inspector_shows_values_waits_and_texts(self, tmp_path: Path) -> None:
        """P-90: the inspector shows each step's values, waits and texts under unique labels."""
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
        assert said["waits for"] == ["an answer to Notes"]
        assert "asked with" not in said  # The state already shows it.
        assert said["waits"] == [last.waits]

    def test_inspector_shows_approver_and_answer(self, tmp_path: Path) -> None:
        """P-81: the inspector shows the step and flow of the request, its approver, and the answer."""
        events = masked(write(tmp_path / "journal.db"))
        [asked] = [n for n, e in enumerate(events, 1) if isinstance(e.body, ApprovalRequested)]
        request = events[asked - 1].body
        assert isinstance(request, ApprovalRequested)
        [step] = [e.body for e in events if isinstance(e.body, FlowStepped) and e.body.waits]
        because = "asked because", f"step {step.step} of flow Release waits for an answer"
        assert call_timeline(events, asked) == [because]
        answer = ApprovalDecided(
            approval_id=request.approval_id,
            call_id=request.call_id,
            approved=True,
            by="ada",
            input={"by": "ada"},
        )
        answered = [*events[:asked], events[asked - 1].model_copy(update={"body": answer})]
        assert call_timeline(answered, asked + 1) == [
            because,
            ("person", 'answered by ada: {"by": "ada"}'),
        ]

    def test_transcript_notes_name_the_next_node(self, tmp_path: Path) -> None:
        """The transcript notes where each node led."""
        state = fold(open_reader(write(tmp_path / "journal.db")).events(ID))
        notes = [e.text for e in state.transcript if e.kind == "note"]
        assert notes[:3] == ["Commit → Draft", "Draft continues", "Draft → Notes"]
