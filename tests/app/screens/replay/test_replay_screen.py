"""The replay screen: stepping, jumping, and the display at each moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta

import pytest
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input, Static

from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.common.detail import Detail
from interlock.app.screens.decisions.detail import DecisionDetail
from interlock.app.screens.replay.goto import GoToScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.sources.messages import ReplayChosen
from interlock.app.widgets.base.blocks import BlockList
from interlock.app.widgets.base.title_bar import ScreenBar
from interlock.app.widgets.replay.scrubber import Scrubber
from interlock.app.widgets.replay.transcript import LONGEST
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import (
    ApprovalDecided,
    CallResult,
    JournalEvent,
    MessageAdded,
    SessionStatus,
)
from interlock.engine.net.net import format_marking

from ..history.sessions import SESSIONS, Source
from .recording import BODIES, recording

RECORDED = recording()
TOTAL = len(RECORDED)


def console(recorded: Sequence[JournalEvent] = RECORDED) -> HistoryConsole:
    return HistoryConsole(Source(SESSIONS), recorded=recorded, zone=UTC)


async def ready(pilot: Pilot[None]) -> ReplayScreen:
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, ReplayScreen)
    return screen


def lines_of(screen: ReplayScreen, pane: str, width: int = 100) -> list[str]:
    return [line.plain for b in screen.query_one(f"#{pane}", BlockList).blocks for line in b.lines(width)]


def text_in(panel: object) -> list[str]:
    """Every line of a panel."""
    assert isinstance(panel, Detail)
    return [line.plain for block in panel.query_one(BlockList).blocks for line in block.lines(110)]


def frames_of(panel: object) -> list[Widget]:
    assert isinstance(panel, Detail)
    return list(panel.query(".frame"))


def text_of(screen: ReplayScreen, name: str) -> str:
    return str(screen.query_one(f"#{name}", Static).content)


def title_text(screen: ReplayScreen) -> str:
    return screen.query_one(ScreenBar).render().plain


class TestStepping:
    """Forward and back, event by event."""

    async def test_starts_at_the_first_event(self) -> None:
        """A replay starts at the opening of the session."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            assert screen.position == 1
            assert f"event 1 of {TOTAL} · 14:00:00" in title_text(screen)
            assert "session.opened" in text_of(screen, "what")

    @pytest.mark.slow
    async def test_every_moment_is_the_fold_of_its_events(self) -> None:
        """G-63: at each step, forward and then back, the state is the fold of the events up to it."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            for by in [1] * (TOTAL - 1) + [-1] * (TOTAL - 1):
                assert screen.state == fold(RECORDED[: screen.position])
                screen.action_step(by)
            assert screen.position == 1

    @pytest.mark.slow
    async def test_arrows_home_and_end_move(self) -> None:
        """Arrows step. Home and end go to the first and the last event; arrows stop there."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("left")
            assert screen.position == 1
            await pilot.press("right_square_bracket", "right", "left_square_bracket", "right", "left")
            assert screen.position == 2
            await pilot.press("end", "right")
            assert screen.position == TOTAL
            await pilot.press("home")
            assert screen.position == 1

    @pytest.mark.slow
    async def test_braces_jump_between_decisions(self) -> None:
        """`}` and `{` go to the next and the previous block, approval or rule switched off."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            found: list[int] = []
            for key in ["right_curly_bracket"] * 4 + ["left_curly_bracket"] * 3:
                await pilot.press(key)
                found.append(screen.position)
            assert found == [5, 22, 26, 27, 26, 22, 5]

    @pytest.mark.slow
    async def test_click_on_scrubber_moves_and_keys_move_scrubber(self) -> None:
        """A click on the scrubber goes to that event; a key moves the scrubber's position."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            scrubber = screen.query_one(Scrubber)
            await pilot.click(Scrubber, offset=(1 + scrubber.column(12, scrubber.size.width), 0))
            assert screen.position == 12
            await pilot.press("end")
            assert scrubber.position == TOTAL


class TestGoTo:
    """`g`: a number or a time."""

    @pytest.mark.variants
    @pytest.mark.parametrize(("typed", "position"), [("22", 22), ("14:01:45", 22), ("+1m", 13)])
    async def test_moves_to_the_entered_event(self, typed: str, position: int) -> None:
        """The replay goes to the entered event."""
        async with console().run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)
            await pilot.press("g")
            await pilot.pause()
            pilot.app.screen.query_one(Input).value = typed
            await pilot.press("enter")
            assert (await ready(pilot)).position == position
            assert screen.position == position

    @pytest.mark.slow
    async def test_invalid_input_can_be_corrected_and_escape_stays(self) -> None:
        """An input that selects no event is reported and can be corrected. Escape goes nowhere."""
        async with console().run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)
            await pilot.press("right", "g")
            await pilot.pause()
            await pilot.press(*"[x]", "enter")
            asking = pilot.app.screen
            assert isinstance(asking, GoToScreen)
            assert "'[x]' is neither" in str(asking.query_one(Static).content)
            await pilot.press("escape")
            assert (await ready(pilot)).position == 2
            assert screen.position == 2


class TestMoment:
    """The display of a moment."""

    @pytest.mark.slow
    async def test_headline_shows_event_and_rule(self) -> None:
        """The headline shows the event, its symbol, its content and the rule."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("right_curly_bracket")
            what = text_of(screen, "what")
            assert what.startswith("■ call.decided  deploy  block: deploy requires")
            assert "[deploy.rules:4]" in what

    @pytest.mark.slow
    async def test_the_transcript_ends_at_the_moment(self) -> None:
        """Entries after the moment are not shown, forward and back."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("right_curly_bracket")
            early = lines_of(screen, "transcript")
            assert any("I will deploy at once." in line for line in early)
            assert not any("The checks come first" in line for line in early)
            await pilot.press("end")
            assert any("The commit is live." in line for line in lines_of(screen, "transcript"))
            await pilot.press("home", "right_curly_bracket")
            assert lines_of(screen, "transcript") == early

    @pytest.mark.slow
    async def test_omitted_entries_of_long_transcript_are_counted(self) -> None:
        """For a long session the latest entries before the moment are shown, the others are counted."""
        bodies = [BODIES[0], *(MessageAdded(role="user", text=f"line {n}") for n in range(LONGEST + 7))]
        async with console(recording(bodies)).run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("end")
            lines = [line.strip() for line in lines_of(screen, "transcript") if line.strip()]
            assert "7 earlier entries" in lines[0]
            assert lines[1].endswith("line 7")
            assert lines[-1].endswith(f"line {LONGEST + 6}")
            screen.position = 3
            assert "line 1" in lines_of(screen, "transcript")[-1]

    @pytest.mark.slow
    async def test_cursor_is_on_the_call_of_the_event(self) -> None:
        """The transcript's cursor is on the event's call, which is in view."""
        async with console().run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)
            await pilot.press("right_curly_bracket", "right_curly_bracket")
            await pilot.pause()
            transcript = screen.query_one("#transcript", BlockList)
            assert transcript.current is not None
            assert screen.state is not None
            call = screen.state.transcript[int(transcript.current)].call
            assert call is not None
            assert call.call_id == "c6"
            assert transcript.scroll_offset.y == transcript.max_scroll_y > 0

    @pytest.mark.slow
    async def test_markings_before_and_after(self) -> None:
        """Nets that the event changed show a mark and both markings, the others their current one."""
        async with console().run_test(size=(160, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("right_curly_bracket", "right_curly_bracket")
            lines = lines_of(screen, "nets", 140)
            moved = next(line for line in lines if "require-test-before-deploy" in line)
            still = next(line for line in lines if "require-lint-before-test" in line)
            assert " ".join(moved.split()).endswith("ready ○ → gate ● ready ● → gate ○")
            assert moved.startswith("[x] Δ ")
            assert " ".join(still.split()).endswith("require-lint-before-test · ready ○ → gate ●")

    @pytest.mark.slow
    async def test_every_net_s_marking_at_every_moment(self) -> None:
        """Every net is listed at every moment, inactive ones as off."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            for _ in range(TOTAL):
                assert screen.state is not None
                shown = lines_of(screen, "nets", 140)[1:]
                assert [line.startswith("[x]") for line in shown] == [
                    net.active for net in screen.state.nets.values()
                ]
                screen.action_step(1)

    @pytest.mark.slow
    async def test_event_pane_shows_changes_in_words(self) -> None:
        """The event's pane shows its changes in words, then all its fields."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("right_curly_bracket", "right_curly_bracket")
            details = "\n".join(lines_of(screen, "details"))
            assert "Δ limit-deploy-2: do-deploy fired, budget 2→1" in details
            assert "./deploy prod" in details
            assert "maria" in details

    @pytest.mark.slow
    async def test_approved_field_of_a_denial_is_no(self) -> None:
        """The field `approved` of a denial is shown as no."""
        bodies = [*BODIES[:20], ApprovalDecided(approval_id="a1", call_id="c6", approved=False, by="li")]
        async with console(recording(bodies)).run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("end")
            details = [" ".join(line.split()) for line in lines_of(screen, "details")]
            assert "approved no" in details
            assert "by li" in details

    @pytest.mark.slow
    async def test_pending_and_requests_are_those_of_the_moment(self) -> None:
        """Pending transitions and open requests are those of the moment."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            screen.position = 11
            assert any("test → gate" in line for line in lines_of(screen, "pending"))
            screen.position = 12
            assert lines_of(screen, "pending") == []
            screen.position = 20
            assert any("deploy" in line for line in lines_of(screen, "waiting"))
            screen.position = 21
            assert lines_of(screen, "waiting") == []

    @pytest.mark.slow
    async def test_heading_shows_mode(self) -> None:
        """The heading shows the mode at that moment."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            assert "enforce" in title_text(screen)
            await pilot.press("end")
            assert "shadow" in title_text(screen)

    @pytest.mark.slow
    async def test_mode_and_days_fit_in_80_columns(self) -> None:
        """With a usual id the mode is not cut. Both ends of the scrubber show their day."""
        name, later = "release-bot-a75a451c101b", timedelta(days=3)
        events = [e.model_copy(update={"session": name}) for e in RECORDED]
        events[-1] = events[-1].model_copy(update={"at": events[-1].at + later})
        async with console(events).run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)
            await pilot.press("end")
            await pilot.pause()
            top, _, _, ends = (strip.text for strip in screen._compositor.render_strips()[:4])
            assert name in top
            assert f"event {TOTAL} of {TOTAL} · 14:02:20 · shadow" in top
            assert "…" not in top
            assert "11-20 14:00" in ends
            assert "11-23 14:02" in ends
            await pilot.press("alt+4")
            await pilot.pause()
            painted = "\n".join(strip.text for strip in screen._compositor.render_strips())
            assert "Nobody was being asked." in painted


class TestClosely:
    """Details in full."""

    @pytest.mark.slow
    async def test_enter_opens_the_whole_event(self) -> None:
        """Enter in the event's pane shows all of it, including the middle of a long output."""
        output = "a" * 30_000 + " MIDDLE " + "b" * 30_000
        result = CallResult(call_id="c1", tool="bash", output=output, is_error=False)
        bodies = [*BODIES[:4], BODIES[7].model_copy(update={"call_id": "c1", "steps": ()}), result]
        async with console(recording(bodies)).run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("end")
            assert "MIDDLE" not in "".join(lines_of(screen, "details"))
            assert "characters left out" in "".join(lines_of(screen, "details"))
            await pilot.press("alt+2", "enter")
            await pilot.pause()
            detail = pilot.app.screen
            assert isinstance(detail, Detail)
            blocks = detail.query_one(BlockList).blocks
            assert "MIDDLE" in "".join(line.plain for block in blocks for line in block.lines(100))

    @pytest.mark.slow
    async def test_enter_opens_a_call_or_a_net(self) -> None:
        """Enter opens a transcript entry, or the picture of a net."""
        async with console().run_test(size=(120, 40)) as pilot:
            await ready(pilot)
            await pilot.press("right_curly_bracket", "enter")
            await pilot.pause()
            assert isinstance(pilot.app.screen, Detail)
            await pilot.press("escape")
            await ready(pilot)
            await pilot.press("alt+3", "enter")
            await pilot.pause()
            assert isinstance(pilot.app.screen, Detail)

    @pytest.mark.slow
    async def test_o_opens_the_decision(self) -> None:
        """`o` opens the decision on the call: verdict, operator, rule, and each net's verdict then."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            screen.position = 23
            await pilot.press("o")
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()
            panel = pilot.app.screen
            assert isinstance(panel, DecisionDetail)
            text = "\n".join(text_in(panel))
            assert "approved by maria" in text
            assert "event 22" in text
            assert "RULES AT THAT TIME" in text
            assert "then    ◐ needed approval" in text
            assert "◐ approve-before-deploy  needed approval" in text
            assert "ready:1, budget:2" in text
            await pilot.press("r", "escape")
            assert (await ready(pilot)).position == 23

    @pytest.mark.slow
    async def test_decision_on_blocked_call_has_reason_and_rule(self) -> None:
        """The decision on a blocked call has the recorded reason and the rule of the blocking net."""
        async with console().run_test(size=(120, 40)) as pilot:
            await ready(pilot)
            await pilot.press("right_curly_bracket", "o")
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()
            text = "\n".join(text_in(pilot.app.screen))
            assert "■ blocked: deploy requires a successful call to test first." in text
            assert "deploy.rules:4  require test before deploy" in text

    @pytest.mark.slow
    async def test_o_opens_event_without_decision(self) -> None:
        """`o` on an event without a decision opens the event."""
        async with console().run_test(size=(120, 40)) as pilot:
            await ready(pilot)
            await pilot.press("right", "o")
            await pilot.pause()
            assert isinstance(pilot.app.screen, Detail)
            assert not isinstance(pilot.app.screen, DecisionDetail)
            assert any(
                "session.status" in str(frame.border_title) for frame in frames_of(pilot.app.screen)
            )

    @pytest.mark.slow
    async def test_result_pane_shows_approver_and_reason(self) -> None:
        """The pane of a result shows who approved the call and why approval was needed."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            screen.position = 23
            details = [" ".join(line.split()) for line in lines_of(screen, "details")]
            assert "asked because deploy.rules:5 require human-approval before deploy" in details
            assert "person approved by maria" in details
            assert "decided allowed, approved by maria" in details

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(120, 40), (80, 24)])
    async def test_picture_follows_the_steps(self, size: tuple[int, int]) -> None:
        """`p` shows the selected net's picture with its tokens of the moment; the net stays selected."""
        async with console().run_test(size=size) as pilot:
            screen = await ready(pilot)
            screen.position = 21
            await pilot.press("alt+3", "down", "p")
            await pilot.pause()
            picture = screen.query_one("#picture", BlockList)
            assert picture.region.area > 0
            assert str(picture.border_title) == "Net: require-test-before-deploy"
            assert "( ) idle   ( ) ready   (●) gate" in lines_of(screen, "picture")
            await pilot.press("right_square_bracket")
            assert "( ) idle   (●) ready   ( ) gate" in lines_of(screen, "picture")
            assert "  do-deploy  Δ fired  deploy" in lines_of(screen, "picture")
            await pilot.press("right_square_bracket")
            assert not any("fired" in line for line in lines_of(screen, "picture"))
            await pilot.press("p")
            await pilot.pause()
            assert not picture.region.area
            assert screen.query_one("#details").region.area > 0

    @pytest.mark.slow
    async def test_selected_net_changes_the_picture(self) -> None:
        """Moving in the list of nets, also with the mouse, changes the picture."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            await pilot.press("p", "alt+3", "G")
            await pilot.pause()
            picture = screen.query_one("#picture", BlockList)
            assert str(picture.border_title) == "Net: block-deploy"
            await pilot.click("#nets", offset=(6, 5))
            await pilot.pause()
            assert str(picture.border_title) == "Net: limit-deploy-2"
            assert "(2) budget" in " ".join(lines_of(screen, "picture"))


@pytest.mark.slow
class TestSpoofing:
    """Hostile text in a record."""

    async def test_hostile_text_is_shown_as_text(self) -> None:
        """Markup, escape sequences, bidi marks and a line of a megabyte are shown as text."""
        evil = "[@click=app.quit]x[/] [/nope] \x1b[2J\x9b31m \u202egnp\u2066 \ue000"
        said = MessageAdded(role="assistant", text=evil)
        long = MessageAdded(role="user", text="x" * 1_000_000, by=evil)
        bodies = [
            BODIES[0].model_copy(update={"agent": evil, "model": evil}),
            said,
            long,
            SessionStatus(status="failed", error=evil),
        ]
        async with console(recording(bodies)).run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            for number in range(1, 5):
                screen.position = number
                await pilot.pause()
                svg = pilot.app.export_screenshot()
                assert not {"\x1b", "\x9b", "\u202e", "\u2066", "\ue000"} & set(svg)
                assert "@click" in svg


class TestTrouble:
    """Records that cannot be replayed, or only in part."""

    async def test_no_events(self) -> None:
        """A session without events is reported as such, and its keys do no harm."""
        async with console([]).run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)
            await pilot.press("right", "end", "right_curly_bracket", "g", "o", "alt+3")
            assert (await ready(pilot)) is screen
            assert "no events" in text_of(screen, "trouble")

    @pytest.mark.slow
    async def test_an_impossible_event(self) -> None:
        """Events before an impossible one are replayed, and the screen names it."""
        bodies = [*BODIES[:6], ApprovalDecided(approval_id="a9", call_id="c9", approved=True, by="x")]
        async with console(recording(bodies)).run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)
            await pilot.press("end")
            assert screen.position == 6
            trouble = text_of(screen, "trouble")
            assert "event 7" in trouble
            assert "Shown are the 6 events before it." in trouble

    @pytest.mark.slow
    async def test_an_impossible_event_found_later(self) -> None:
        """A session is shown before it is fully checked. Events from an impossible one on are removed."""
        bodies = [*BODIES[:6], ApprovalDecided(approval_id="a9", call_id="c9", approved=True, by="x")]

        class Broken(Source):
            async def recorded(self, session_id: str) -> list[JournalEvent]:
                return recording(bodies)

        async with HistoryConsole(Broken(SESSIONS), zone=UTC).run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            pilot.app.post_message(ReplayChosen("broken-1", at=3))
            await pilot.pause()
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()
            screen = await ready(pilot)
            assert "Shown are the 6 events before it." in text_of(screen, "trouble")
            assert screen.query_one("#trouble").region.area > 0
            assert screen.position == 3
            assert f"event 3 of {6}" in title_text(screen)
            await pilot.press("end")
            assert (screen.position, screen.query_one(Scrubber).position) == (6, 6)

    async def test_impossible_first_event(self) -> None:
        """If the first event is impossible, the screen says so."""
        async with console(recording(BODIES[1:])).run_test(size=(80, 24)) as pilot:
            assert "Nothing can be shown" in text_of(await ready(pilot), "trouble")


class TestEverywhere:
    """Sizes, panes and keys."""

    @pytest.mark.variants
    @pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
    async def test_panes_of_a_narrow_terminal(self, number: int) -> None:
        """At 80×24, alt with 1 to 5 shows that pane only."""
        panes = {1: "transcript", 2: "details", 3: "nets", 4: "queues", 5: "picture"}
        async with console().run_test(size=(80, 24)) as pilot:
            screen = await ready(pilot)
            await pilot.press(f"alt+{number}")
            await pilot.pause()
            shown = [n for n, name in panes.items() if screen.query_one(f"#{name}").region.area]
            assert shown == [number]

    @pytest.mark.slow
    async def test_all_panes_of_a_wide_terminal(self) -> None:
        """At 120×40 all panes are on the screen at once."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            for name in ("transcript", "details", "nets", "pending", "waiting"):
                assert screen.query_one(f"#{name}").region.area > 0

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(40, 10), (8, 3)])
    async def test_any_size(self, size: tuple[int, int]) -> None:
        """The replay works at every terminal size and can be resized at any time."""
        async with console().run_test(size=size) as pilot:
            screen = await ready(pilot)
            await pilot.press("end", "alt+2", "left", "alt+3", "home", "alt+4", "g")
            await pilot.pause()
            await pilot.resize_terminal(100, 30)
            await pilot.press("escape")
            assert (await ready(pilot)) is screen
            await pilot.resize_terminal(40, 10)
            await pilot.press("alt+1", "right")
            assert screen.position == 2

    async def test_keys_are_bindings_with_id_tooltip_and_command(self) -> None:
        """Every key of the screen has an id and a tooltip and is in the command palette."""
        async with console().run_test(size=(120, 40)) as pilot:
            screen = await ready(pilot)
            own = [binding for binding in ReplayScreen.BINDINGS if isinstance(binding, Binding)]
            assert all(binding.id and binding.tooltip for binding in own)
            assert len({binding.id for binding in own}) == len(own)
            titles = {command.title for command in pilot.app.get_system_commands(screen)}
            assert {"Step", "Next decision", "Go to", "Last"} <= titles
            assert not {"Back", "First", "Previous decision"} & titles  # this is the first event
            screen.position = 3
            titles = {command.title for command in pilot.app.get_system_commands(screen)}
            assert {"Back", "First"} <= titles
            assert {"What if", "Open decision", "Picture"} <= titles

    @pytest.mark.slow
    async def test_keys_at_the_ends_report_no_further_event(self) -> None:
        """Before the first event and after the last one, keys report that there is no further event."""
        async with console().run_test(size=(120, 40), notifications=True) as pilot:
            screen = await ready(pilot)
            await pilot.press("left_square_bracket", "left_curly_bracket")
            await pilot.press("end", "right_square_bracket", "right_curly_bracket")
            assert screen.position == screen.event_count
            assert [each.message for each in pilot.app._notifications] == [
                "This is the first event.",
                "There is no block or approval before this event.",
                "This is the last event.",
                "There is no block or approval after this event.",
            ]

    @pytest.mark.slow
    async def test_help_names_the_keys(self) -> None:
        """`?` shows what the keys do on this screen."""
        async with console().run_test(size=(120, 60)) as pilot:
            await ready(pilot)
            await pilot.press("question_mark")
            await pilot.pause()
            assert "On to the next block" in pilot.app.export_screenshot().replace("&#160;", " ")

    @pytest.mark.slow
    async def test_escape_closes(self) -> None:
        """Escape closes the replay and the console that was opened for it."""
        async with console().run_test() as pilot:
            await ready(pilot)
            await pilot.press("escape")
            await pilot.pause()
            assert not pilot.app.is_running


class TestFidelity:
    """The recording used here is a possible one."""

    def test_final_markings_of_the_recording(self) -> None:
        """The fold of the recording has the expected markings at the end."""
        state = fold(RECORDED)
        assert {key: format_marking(net.marking) for key, net in state.nets.items()} == {
            "require-lint-before-test": "gate:1",
            "require-test-before-deploy": "ready:1",
            "approve-before-deploy": "ready:1",
            "limit-deploy-2": "ready:1, budget:1",
            "block-rm": "ready:1",
            "block-deploy": "ready:1",
        }
