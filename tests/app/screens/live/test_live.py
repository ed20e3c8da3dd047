"""The live screen: its five panes, wide and narrow, and its keys."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.detail import Detail
from interlock.app.screens.live.loosen import Loosen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.live.switch_nets import SwitchNets
from interlock.app.viewmodels.stream import LiveStream
from interlock.app.widgets.lists.transcript import Transcript
from interlock.engine.history.model.events import JournalEvent, MessageAdded, SessionStatus
from interlock.engine.hub.hub import Streaming
from interlock.engine.hub.operator_api import Outcome

from ...support.scenes import NOW, before, deploy_request, docs_writer, entry, nightly_sync, release_bot
from ...support.stage import stage


class TestWide:
    async def test_all_five_panes_are_on_one_screen(self) -> None:
        """Sessions, transcript, nets, pending calls and the queue are shown, with states as symbols."""
        async with stage() as on:
            shown = on.painted()
        for part in (
            "Interlock ── 1 live  2 decisions  3 history  4 rules  5 triage",
            "1 waiting  · as maria · deploy.db",
            "◐ release-bot",
            "● docs-writer",
            "S nightly-sync",
            "✓ cleanup",
            "■ deploy  bash  ./deploy --env prod",
            "deploy requires a successful call to test first.",
            "deploy.rules:4",
            "│ 3 files checked",
            "◐ deploy  bash  ./deploy --env prod",
            "waiting 0:42",
            "[x] require-test-before-deploy    ready ○ → gate ●",
            "◐ deploy needs approval",
            "[ ] require-freeze-before-deploy",
            "off (state kept)",
            "Waiting (1)",
            "No calls in progress.",
        ):
            assert part in shown

    async def test_selected_session_fills_the_panes(self) -> None:
        """Moving in the list shows another session's transcript, nets and pending calls."""
        async with stage() as on:
            await on.press("alt+1", "j")
            await on.settle()
            shown = on.painted()
        assert "Check the handbook's examples." in shown
        assert "Nets of docs-writer" in shown
        assert "test → gate" in shown
        assert "0:08" in shown

    async def test_failed_session_shows_its_error(self) -> None:
        """An agent's error is shown in its session's transcript."""
        state = docs_writer()
        state.status, state.error = "failed", "ModelError: the stream broke"
        async with stage(state) as on:
            assert "✗ ModelError: the stream broke" in on.painted()


class TestNarrow:
    async def test_each_pane_has_a_key(self) -> None:
        """At 80 columns each pane has a key, and the count of waiting requests stays visible."""
        panes = {
            "alt+1": "◐ release-bot",
            "alt+2": "Checks are green, deploying now.",
            "alt+3": "require-test-before-deploy",
            "alt+4": "No calls in progress.",
            "alt+5": "./deploy --env prod --commit 9f31c02",
        }
        async with stage(size=(80, 24)) as on:
            for key, part in panes.items():
                await on.press(key)
                await on.settle()
                assert part in on.painted()
                assert "1 waiting" in on.painted()

    @pytest.mark.slow
    async def test_tab_cycles_through_the_panes(self) -> None:
        """Tab brings the next pane forward, shift+tab the previous one, also hidden ones."""
        async with stage(size=(80, 24)) as on:
            await on.press("tab")
            await on.settle()
            assert "require-test-before-deploy" in on.painted()
            await on.press("shift+tab", "shift+tab")
            await on.settle()
            assert "● docs-writer" in on.painted()

    @pytest.mark.slow
    async def test_tabs_can_be_clicked(self) -> None:
        """The tab of a pane brings it forward."""
        async with stage(size=(80, 24)) as on:
            at = on.painted().splitlines()[1].index("Nets")
            await on.pilot.click("PaneTabs", offset=(at, 0))
            await on.settle()
            assert "require-test-before-deploy" in on.painted()

    @pytest.mark.slow
    async def test_nothing_is_cut_silently(self) -> None:
        """A line that does not fit ends in an ellipsis, and enter shows all of it."""
        async with stage(size=(60, 24)) as on:
            assert "--commi…" in on.painted()
            await on.press("enter")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert "9f31c02" in on.painted()

    @pytest.mark.slow
    async def test_a_tiny_terminal_is_usable(self) -> None:
        """At 40×10 every pane shows something and the count of waiting requests."""
        async with stage(size=(40, 10)) as on:
            for number in "12345":
                await on.press(f"alt+{number}")
                await on.settle()
                lines = on.painted().splitlines()
                assert "1 waiting" in lines[0]
                assert any(line.strip() for line in lines[2:9])
                assert "? help" in lines[9]

    @pytest.mark.slow
    async def test_a_terminal_that_shrinks_and_grows(self) -> None:
        """Resizing to 40×10 and back loses nothing, also with the dialog open."""
        async with stage() as on:
            await on.open_dialog()
            await on.pilot.resize_terminal(40, 10)
            await on.settle()
            assert "effects: deploy" in on.painted()
            assert "a approve" in on.painted()
            await on.pilot.resize_terminal(120, 40)
            await on.settle()
            await on.press("escape")
            await on.settle()
            assert "Nets of release-bot" in on.painted()


class TestStreaming:
    @pytest.mark.slow
    async def test_streamed_text_is_painted(self) -> None:
        """Streamed text is painted, and replaced by the message when the journal has it."""
        state = release_bot(waiting=False)
        async with stage(state) as on:
            on.hub.stream(Streaming(session=state.id, kind="text", text="Thinking of "))
            on.hub.stream(Streaming(session=state.id, kind="text", text="something"))
            await on.until("Thinking of something▍")
            state.transcript.append(entry("assistant", "Thinking of something else.", 0))
            on.hub.publish(state.id, MessageAdded(role="assistant", text="Thinking of something else."))
            await on.until("Thinking of something else.")
            assert "▍" not in on.painted()

    @pytest.mark.slow
    async def test_a_running_tool_shows_its_last_lines(self) -> None:
        """A running tool shows its last three lines of output and the call's age."""
        state = docs_writer()
        async with stage(state) as on:
            printed = "one of 9\n\ntwo of 9\nthree of 9\nfour of 9\n"
            on.hub.stream(Streaming(session=state.id, kind="output", text=printed, call_id="d4"))
            await on.until("│ four of 9")
            shown = on.painted()
            assert "│ two of 9" in shown
            assert "│ three of 9" in shown
            assert "one of 9" not in shown
            assert "running 0:08" in shown

    @pytest.mark.slow
    async def test_a_call_being_written_shows(self) -> None:
        """Section 9: a call that the model is writing is named, with its length so far."""
        state = docs_writer()
        async with stage(state) as on:
            pieces = (("deploy", 0, 0), ("deploy", 0, 1400), ("deploy", 0, 34), ("", 1, 1))
            for tool, place, size in pieces:
                piece = Streaming(
                    session=state.id, kind="input", text="", tool=tool, place=place, size=size
                )
                on.hub.stream(piece)
            await on.until("· writing deploy▍")
            assert "1,434 characters so far" in on.painted()
            assert "· writing a call▍" in on.painted()
            assert "1 character so far" in on.painted()

    def test_written_call_disappears_when_recorded(self) -> None:
        """Section 9: the call being written disappears when the message is recorded or the turn ends."""
        piece = Streaming(session="s", kind="input", text="", tool="deploy", place=0, size=3)
        for body in (MessageAdded(role="assistant"), SessionStatus(status="failed", error="boom")):
            flow = LiveStream()
            flow.take(piece, NOW)
            flow.take(piece, NOW)
            assert flow.calls == {0: ("deploy", 6)}
            flow.take(JournalEvent(cursor=1, session="s", seq=1, at=NOW, body=body), NOW)
            assert flow.calls == {}

    @pytest.mark.slow
    async def test_a_long_wait_for_the_model_shows(self) -> None:
        """While only the model's answer is missing, the wait and its age are shown."""
        state = release_bot(waiting=False)
        for call in state.calls.values():
            call.status = "done"
        state.status, state.updated = "running", before(12)
        async with stage(state) as on:
            await on.until("· waiting for scripted")
            assert "0:12" in on.painted()
            on.hub.stream(Streaming(session=state.id, kind="text", text="Let me"))
            await on.until("Let me▍")
            assert "waiting for scripted" not in on.painted()

    @pytest.mark.slow
    async def test_short_wait_is_not_shown(self) -> None:
        """A short wait between a result and the next word is not shown."""
        state = release_bot(waiting=False)
        for call in state.calls.values():
            call.status = "done"
        state.status, state.updated = "running", before(1)
        async with stage(state) as on:
            await on.settle()
            assert "waiting for" not in on.painted()

    @pytest.mark.slow
    async def test_tokens_used_are_shown(self) -> None:
        """The tokens that the model read and wrote are shown beside its name."""
        state = release_bot()
        state.input_tokens, state.output_tokens = 12_345, 678
        async with stage(state) as on:
            assert "scripted · 12k in 678 out ─" in on.painted()
        state.cost = 0.0312
        async with stage(state) as on:
            assert "scripted · 12k in 678 out · $0.0312" in on.painted()

    @pytest.mark.slow
    async def test_costs_are_shown_beside_their_limit(self) -> None:
        """Limits: the cost is shown beside its limit, also while it is zero."""
        state = release_bot()
        state.input_tokens, state.output_tokens, state.max_cost = 12_345, 678, 2.0
        async with stage(state) as on:
            assert "$0.0000 of $2.00, $ raises it · 12k in 678 out" in on.painted()
        state.cost = 1.25
        async with stage(state) as on:
            assert "$1.25 of $2.00, $ raises it" in on.painted()

    @pytest.mark.slow
    async def test_the_end_stays_in_view_unless_scrolled_up(self) -> None:
        """At the end of the transcript new entries are followed. A scrolled-up one stays in place."""
        state = docs_writer()
        state.transcript[:0] = [entry("assistant", f"Line {n}.", 90) for n in range(60)]
        async with stage(state) as on:
            transcript = on.app.screen.query_one(Transcript)
            assert transcript.scroll_offset.y == transcript.max_scroll_y
            state.transcript.append(entry("assistant", "The newest one.", 0))
            on.hub.publish(state.id, SessionStatus(status="running"))
            await on.until("The newest one.")
            await on.press("g")
            await on.settle()
            state.transcript.append(entry("assistant", "Even newer.", 0))
            on.hub.publish(state.id, SessionStatus(status="running"))
            await on.pilot.pause(0.3)
            assert "Line 0." in on.painted()
            assert "Even newer." not in on.painted()

    @pytest.mark.slow
    async def test_another_session_is_shown_from_its_end(self) -> None:
        """A long transcript selected after a short one is shown from its end."""
        state = docs_writer()
        state.transcript[:0] = [entry("assistant", f"Line {n}.", 90) for n in range(60)]
        async with stage(nightly_sync(), state) as on:
            await on.press("alt+1", "j")
            await on.until("make check")
            assert "Line 0." not in on.painted()

    @pytest.mark.slow
    async def test_hub_failure_is_reported_and_contents_stay(self) -> None:
        """If the hub stops answering, the screen reports this and keeps its contents."""
        async with stage() as on:

            async def broken() -> list[object]:
                raise ConnectionError("the journal is gone")

            on.hub.sessions = broken
            on.hub.publish("release-bot-1f3a", SessionStatus(status="running"))
            await on.until("The hub does not answer: the journal is gone")
            assert "Checks are green, deploying now." in on.painted()


class TestOpening:
    async def test_enter_on_a_call_opens_its_panel(self) -> None:
        """A call's panel has the tool, the result and the output."""
        async with stage() as on:
            await on.press("g", *["j"] * 5, "enter")
            await on.settle()
            assert isinstance(on.app.screen, Detail)
            shown = on.painted()
        for part in ("Call: test", "✗ failed", "expected 12, got 11", "exit code 1"):
            assert part in shown

    @pytest.mark.slow
    async def test_enter_on_a_net_draws_it(self) -> None:
        """Places are circles and transitions bars. Enabled ones are marked by more than colour."""
        async with stage() as on:
            await on.press("alt+3", "j", "enter")
            await on.settle()
            shown = on.painted()
        assert "Net: require-test-before-deploy" in shown
        assert "(●) gate" in shown
        assert "▸ do-deploy  enabled" in shown
        assert "▸ do-test" not in shown
        assert "┃" in shown

    async def test_enter_on_a_pending_call_shows_the_call(self) -> None:
        """A pending transition opens the call that it waits for."""
        async with stage(docs_writer()) as on:
            await on.press("alt+4", "enter")
            await on.settle()
            assert "Call: test" in on.painted()
            assert '"make check"' in on.painted()

    @pytest.mark.slow
    async def test_requests_open_from_anywhere(self) -> None:
        """`a` and `d` only open the dialog, as does enter on the request or on its call."""
        async with stage() as on:
            for keys in (("a",), ("d",), ("alt+5", "enter"), ("alt+2", "G", "enter")):
                await on.press(*keys)
                await on.settle()
                assert isinstance(on.app.screen, ApprovalScreen)
                await on.press("escape")
                await on.settle()
            assert on.decisions() == []

    @pytest.mark.slow
    async def test_without_a_request_there_is_nothing_to_open(self) -> None:
        """`a` on an empty queue opens nothing."""
        async with stage(docs_writer()) as on:
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_moving_in_the_queue_shows_the_requests_session(self) -> None:
        """The session of the request under the cursor is shown, and `a` opens that request."""
        writer = docs_writer()
        writer.approvals["ap2"] = deploy_request(
            id="ap2", session=writer.id, agent="docs-writer", since=NOW
        )
        async with stage(release_bot(), writer) as on:
            await on.press("alt+5", "j")
            await on.settle()
            assert "Nets of docs-writer" in on.painted()
            dialog = await on.open_dialog()
            assert dialog.request.id == "ap2"


class TestActing:
    @pytest.mark.slow
    async def test_i_sends_a_message_to_the_named_session(self) -> None:
        """The line names the session. Enter sends the text to it as the operator, to steer it."""
        async with stage() as on:
            await on.press("i")
            await on.settle()
            assert "To release-bot ▸" in on.painted()
            await on.press(*"wait, a moment", "enter")
            await on.settle()
            assert on.hub.asked == [("send", "release-bot-1f3a", "wait, a moment", "maria", "steer")]
            assert "To release-bot" not in on.painted()

    @pytest.mark.slow
    async def test_tab_queues_instead_of_interrupting(self) -> None:
        """Tab in the line switches to a message that is read after the agent's turn; the line says so."""
        async with stage() as on:
            await on.press("i", *"later", "tab")
            await on.settle()
            assert "After its turn, to release-bot ▸" in on.painted()
            await on.press("enter")
            await on.settle()
            await on.press("i", *"now", "tab", "tab", "enter")
            await on.settle()
        assert [asked[-1] for asked in on.hub.asked] == ["queue", "steer"]
        assert [asked[2] for asked in on.hub.asked] == ["later", "now"]

    @pytest.mark.slow
    async def test_escape_sends_nothing(self) -> None:
        """Leaving the line drops the text and returns the focus."""
        async with stage() as on:
            await on.press("i", *"stop", "escape")
            await on.settle()
            assert on.hub.asked == []
            assert not isinstance(on.app.focused, Input)
            await on.press("i", "enter")
            await on.settle()
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_failed_send_is_reported(self) -> None:
        """An exception of the hub becomes a notice."""
        async with stage() as on:

            async def closed(*_: object, **__: object) -> None:
                raise RuntimeError("this session is closed")

            on.hub.send = closed
            await on.press("i", *"hi", "enter")
            await on.until("this session is closed")

    @pytest.mark.slow
    async def test_n_switches_nets(self) -> None:
        """G-67: switching off needs a reason and may have a time. Switching on happens at once."""
        async with stage() as on:
            await on.press("n")
            await on.settle()
            assert isinstance(on.app.screen, SwitchNets)
            await on.press("space")
            await on.until("Turn off require-lint-before-test")
            assert isinstance(on.app.screen, Loosen)
            await on.press("enter")
            await on.until("Type a reason")
            assert on.hub.asked == []
            await on.press("h", "i", "tab", "9", "x", "enter")
            await on.until("Expected a time")
            await on.press("backspace", "m", "enter")
            await on.until("turned off require-lint-before-test")
            await on.press("G", "enter")
            await on.settle()
            assert "turned on require-freeze-before-deploy" in on.painted()
        assert on.hub.asked == [
            ("toggle", "release-bot-1f3a", "require-lint-before-test", False, "maria", "hi", 540),
            ("toggle", "release-bot-1f3a", "require-freeze-before-deploy", True, "maria"),
        ]

    @pytest.mark.slow
    async def test_n_asks_for_required_reason(self) -> None:
        """G-66: if the hub requires a reason to switch a rule on, a form asks for it, without a time."""
        async with stage() as on:
            given: list[str | None] = []

            async def toggle(
                session: str, net: str, active: bool, *, by: str, reason: str | None = None
            ) -> Outcome:
                given.append(reason)
                if reason is None:
                    return Outcome(ok=False, message="the default needs it", needs_reason=True)
                return Outcome(ok=True, message=f"Proposed: turn on {net} ({active}, {by})")

            on.hub.toggle_net = toggle
            await on.press("n", "G", "space")
            await on.until("Turn on require-freeze-before-deploy")
            assert "the default needs it" in on.painted()
            assert "for how long" not in on.painted()
            await on.press("enter")
            await on.until("Type a reason")
            await on.press("h", "i", "enter")
            await on.until("Proposed: turn on require-freeze-before-deploy (True, maria)")
            await on.press("space")
            await on.until("Turn on require-freeze-before-deploy")
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, SwitchNets)
        assert given == [None, "hi", None]

    @pytest.mark.slow
    async def test_shadow_takes_a_reason_and_enforce_does_not(self) -> None:
        """G-67: leaving enforce mode requires a reason, and the form mentions waiting requests."""
        async with stage() as on:
            await on.press("m")
            await on.until("Shadow mode: stop blocking")
            assert isinstance(on.app.screen, Loosen)
            assert "keep waiting" in on.painted()
            await on.press("enter")
            assert on.hub.asked == []
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            await on.press("m")
            await on.settle()
            await on.press("o", "k", "enter")
            await on.settle()
            assert on.hub.asked == [("mode", "release-bot-1f3a", "shadow", "maria", "ok", None)]
            on.hub.states["release-bot-1f3a"].mode = "shadow"
            on.hub.publish("release-bot-1f3a", SessionStatus(status="running"))
            await on.until("shadow")
            await on.pilot.pause(0.25)
            await on.press("m")
            await on.settle()
        assert on.hub.asked[-1] == ("mode", "release-bot-1f3a", "enforce", "maria")

    @pytest.mark.slow
    async def test_stopping_the_agent_is_confirmed(self) -> None:
        """`ctrl+x` asks before it stops the agent."""
        async with stage() as on:
            await on.press("ctrl+x")
            await on.settle()
            await on.press("escape")
            assert on.hub.asked == []
            await on.press("ctrl+x")
            await on.wake()
            await on.press("y")
            await on.settle()
        assert on.hub.asked == [("abort", "release-bot-1f3a", "maria")]

    @pytest.mark.slow
    async def test_compacting_from_the_palette(self) -> None:
        """Section 9: the palette offers compaction by name. Its result is reported."""
        async with stage() as on:
            await on.press("ctrl+p")
            await on.settle()
            await on.pilot.press(*"compact the")
            await on.pilot.pause(0.3)
            await on.pilot.press("enter")
            await on.until("the last 4 messages")
            assert on.hub.asked == [("compact", "release-bot-1f3a", "maria")]

    @pytest.mark.slow
    async def test_failed_compaction_is_reported(self) -> None:
        """Section 9: compaction has a key that the bar does not show. A refusal is shown as an error."""
        async with stage() as on:
            assert "compact" not in on.painted()
            on.hub.refuse = "Session 'release-bot-1f3a' is busy; compact it when it is idle"
            await on.press("ctrl+k")
            await on.until("it when it is idle")

    @pytest.mark.slow
    async def test_summary_is_shown_in_the_transcript(self) -> None:
        """Section 9: a summary is part of the transcript. Enter shows all of it and who requested it."""
        bot = docs_writer()
        bot.transcript.append(entry("summary", "It was checked.", 1, by="maria"))
        async with stage(bot) as on:
            assert "summary" in on.painted()
            assert "It was checked." in on.painted()
            await on.press("alt+2", "G", "enter")
            await on.settle()
            assert "summary, requested by maria" in on.painted()

    @pytest.mark.slow
    async def test_an_empty_console_survives_every_key(self) -> None:
        """Without any session, keys report this or do nothing."""
        async with stage(release_bot()) as on:
            on.hub.states.clear()
            on.hub.publish("release-bot-1f3a", SessionStatus(status="done"))
            await on.until("No sessions running. s starts one, h shows past ones.")
            await on.press("a", "d", "i", "n", "m", "r", "ctrl+x", "ctrl+k", "enter", "j", "k", "g", "G")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            assert on.hub.asked == []
