"""A session of thousands of events from a journal: every moment is reachable from the first key on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.common.detail import Detail
from interlock.app.screens.decisions.detail import DecisionDetail
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.sources.messages import ReplayChosen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.app.viewmodels.marks import marks_of
from interlock.app.viewmodels.playback import open_recorded
from interlock.app.widgets.base.blocks import BlockList
from interlock.app.widgets.replay.transcript import LONGEST, MomentTranscript
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import EventBody, MessageAdded
from interlock.engine.history.redaction.redaction import MASK
from tests.engine.history.support.recording import answer, asks, decided, opening, request, result

CALLS = 500
ASKED = 250
SECRET = "correct-horse-battery"


def bodies() -> Iterator[EventBody]:
    """Five events and two entries for each call; one call is asked about, one is blocked."""
    yield opening()
    for number in range(CALLS):
        call_id = f"call-{number}"
        yield asks((call_id, "deploy"), text=f"number {number}, password: {SECRET}")
        if number == ASKED:
            yield request("a1", call_id, "deploy")
            yield answer("a1", call_id)
        if number == ASKED + 7:
            yield decided(call_id, "deploy", outcome="block", reason="not now")
            continue
        yield decided(call_id, "deploy", approved_by=("maria",) if number == ASKED else ())
        yield result(call_id, "deploy", output=f"token: {SECRET}-{number}")
        yield MessageAdded(role="tool", call_id=call_id)


TOTAL = sum(1 for _ in bodies())


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "long.db"
    with Journal.open(path) as journal:
        journal.write("long", *bodies())
    return path


async def opened(pilot: Pilot[None], at: int = 1) -> ReplayScreen:
    pilot.app.post_message(ReplayChosen("long", at=at))
    while not isinstance(pilot.app.screen, ReplayScreen):
        await pilot.pause()
    await pilot.pause()
    return pilot.app.screen


def console(database: Path) -> HistoryConsole:
    return HistoryConsole(RecordedFile(database), zone=UTC)


def transcript(screen: ReplayScreen) -> list[str]:
    return [line.plain for b in screen.query_one(MomentTranscript).blocks for line in b.lines(100)]


class TestJumps:
    """Jumps to the other end and back."""

    @pytest.mark.slow
    async def test_first_key_jumps_to_the_end(self, database: Path) -> None:
        """The first jump works at once and folds only the events around the moment."""
        async with console(database).run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot)
            await pilot.press("end")
            state = fold(open_reader(database).events("long"))
            assert screen.position == TOTAL
            assert len(screen.state.transcript if screen.state else ()) < len(state.transcript)
            shown = transcript(screen)
            assert shown[0].startswith(f"… {len(state.transcript) - LONGEST:,} earlier entries")
            assert any(f"number {CALLS - 1}," in line for line in shown)
            assert not list(pilot.app.workers)

    @pytest.mark.slow
    async def test_every_moment_shows_its_entries(self, database: Path) -> None:
        """At every moment the shown entries are the fold's last ones, and the others are counted."""
        async with console(database).run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot, at=900)
            recorded = list(open_reader(database).events("long"))
            for place in (2000, 3, 1500, 1499, 1500, TOTAL - 1, 1290, 600):
                screen.position = place
                full = fold(recorded[:place]).transcript
                left = max(0, len(full) - LONGEST)
                blocks = screen.query_one(MomentTranscript).blocks
                keys = [block.key for block in blocks if block.selectable]
                assert keys == [str(n) for n in range(left, len(full))]
                said = [line for line in transcript(screen) if line.startswith("…")]
                expected = f"… {left:,} earlier entries; go back to an earlier event to read them"
                assert said == ([expected] if left else [])

    @pytest.mark.slow
    async def test_enter_opens_the_entry_under_the_cursor(self, database: Path) -> None:
        """`enter` shows the entry under the cursor, also after many that are left out."""
        async with console(database).run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot)
            await pilot.press("end", "alt+1", "up", "enter")
            panel = pilot.app.screen
            assert isinstance(panel, Detail)
            text = "\n".join(
                line.plain for b in panel.query_one(BlockList).blocks for line in b.lines(90)
            )
            assert f"number {CALLS - 1}," in text
            assert SECRET not in text
            assert screen.position == TOTAL

    @pytest.mark.slow
    async def test_nothing_is_shown_unmasked(self, database: Path) -> None:
        """Text shown after a jump is redacted, as after steps."""
        async with console(database).run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot)
            for place in (TOTAL, 1300, 1301, 4):
                screen.position = place
                assert SECRET not in "\n".join(transcript(screen))
                assert SECRET not in str(screen.state)
                assert MASK[:-1] in "\n".join(transcript(screen))

    @pytest.mark.slow
    async def test_marks_cover_all_events_and_decision_is_found(self, database: Path) -> None:
        """The marks cover all events, and the decision on a call is found."""
        ready = await open_recorded(RecordedFile(database), "long")
        assert ready.complete
        assert dict(ready.marks) == marks_of(list(open_reader(database).events("long")))
        assert list(ready.marks.values()) == ["approval", "block"]
        async with console(database).run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot)
            await pilot.press("right_curly_bracket")
            assert screen.position == next(iter(ready.marks))
            await pilot.press("o")
            assert isinstance(pilot.app.screen, DecisionDetail)


@pytest.mark.slow
class TestGrowing:
    """Another process appends to the session."""

    async def test_f5_loads_new_events(self, database: Path) -> None:
        """F5 loads new events, which can be selected. The moment stays."""
        async with console(database).run_test(size=(120, 40), notifications=True) as pilot:
            screen = await opened(pilot, at=510)
            with Journal.open(database) as journal:
                journal.write("long", MessageAdded(role="user", text="one thing more"))
            await pilot.press("f5")
            for _ in range(300):
                await pilot.pause(0.01)
                if screen.event_count == TOTAL + 1:
                    break
            assert (screen.position, screen.event_count) == (510, TOTAL + 1)
            await pilot.press("end")
            await pilot.pause()
            assert "one thing more" in transcript(screen)[-1]
            assert screen.position == TOTAL + 1


class TestTrouble:
    """Events that cannot be read."""

    async def test_invalid_value_does_not_end_the_record(self, database: Path) -> None:
        """An event with an invalid value is shown as not readable, and the events after it are shown."""
        with closing(sqlite3.connect(database)) as connection:
            connection.execute(
                "UPDATE event SET body = replace(body, '\"is_error\":false', "
                "'\"is_error\":[]') WHERE seq = 500"
            )
            connection.commit()
        async with console(database).run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot)
            await pilot.press("end")
            screen.position = 510
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()
            assert screen.position == 510
            assert not screen.query_one("#trouble", Static).display
            screen.position = 500
            await pilot.pause()
            shown = "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
            assert "not shown" in shown
