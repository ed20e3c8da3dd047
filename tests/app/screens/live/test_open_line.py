"""Input lines: while one is shown, typed keys go into it and decide nothing."""

from __future__ import annotations

import pytest
from textual import events
from textual.widgets import Input

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.inputs.say_line import SayLine
from tests.support.fake_hub import FakeHub

from ...support.scenes import NOW, deploy_request, docs_writer, release_bot
from ...support.stage import everyone, stage

TEXT = "use staging only"


class TestSayLine:
    async def test_line_keeps_focus_while_opening(self) -> None:
        """A pane that gets the focus while the line opens does not keep it."""
        async with stage() as on:
            live = on.app.screen
            assert isinstance(live, LiveScreen)
            live.query_one("#transcript").focus()
            live.action_interrupt()
            await on.press(*TEXT)
            assert on.app.screen.query_one("#say", Input).value == TEXT
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_typed_key_returns_the_focus(self) -> None:
        """If the line has lost the focus, a typed key gives it back."""
        async with stage() as on:
            await on.press("i")
            on.app.screen.set_focus(None)
            await on.press(*TEXT)
            assert on.app.screen.query_one("#say", Input).value == TEXT
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_another_focus_closes_it(self) -> None:
        """A click elsewhere closes the line. Its text is there when it opens again."""
        async with stage() as on:
            await on.press("i", *TEXT)
            await on.pilot.click("#nets", offset=(5, 1))
            await on.settle()
            assert not on.app.screen.query_one(SayLine).display
            await on.press("i")
            await on.settle()
            assert on.app.screen.query_one("#say", Input).value == TEXT

    @pytest.mark.slow
    async def test_line_for_another_session_is_empty(self) -> None:
        """A line that is opened for another session is empty."""
        async with stage() as on:
            await on.press("i", *TEXT)
            await on.pilot.click("#sessions", offset=(5, 3))
            await on.settle()
            await on.press("i")
            await on.settle()
            assert "To docs-writer" in on.painted()
            assert on.app.screen.query_one("#say", Input).value == ""

    @pytest.mark.slow
    async def test_no_dialog_opens_over_it(self) -> None:
        """Neither a new request nor an explicitly opened one shows its dialog over the line."""
        async with stage(release_bot(waiting=False), docs_writer()) as on:
            await on.press("i")
            on.app.screen.set_focus(None)
            on.hub.request(deploy_request(since=NOW))
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            assert not await on.app.open_request("ap1")
            await on.press(*TEXT, "enter")
            await on.settle()
            assert [asked[0] for asked in on.hub.asked] == ["send"]

    @pytest.mark.slow
    async def test_new_session_does_not_take_the_line(self) -> None:
        """A session that is shown from outside takes neither the line nor its focus."""
        async with stage() as on:
            await on.press("i", *"use ")
            live = on.app.screen
            assert isinstance(live, LiveScreen)
            await live.show_session(docs_writer().id)
            await on.press(*"staging")
            assert on.app.screen.query_one("#say", Input).value == "use staging"
            assert "To release-bot" in on.painted()


class TestReasonLine:
    async def test_typed_letters_go_into_the_line(self) -> None:
        """If the reason line has lost the focus, letters go into it and decide nothing."""
        async with stage() as on:
            dialog = await on.open_dialog()
            await on.press("d")
            dialog.set_focus(dialog.query_one("#request"))
            await on.press(*TEXT)
            assert dialog.query_one("#reason", Input).value == TEXT
            assert "Deny and stop" not in on.painted()
            assert on.decisions() == []


class TestFirstPaint:
    @pytest.mark.variants
    @pytest.mark.parametrize("event", [events.Key("a", "a"), events.Paste("a")])
    async def test_earlier_keys_are_dropped(self, event: events.Event) -> None:
        """Keys pressed before the first paint do nothing, however late they arrive."""
        hub = FakeHub(*everyone(), now=NOW)
        app = InterlockConsole(hub, operator="maria", clock=lambda: NOW)
        app.post_message(event)
        async with app.run_test(size=(120, 40)) as pilot:
            for _ in range(4):
                await pilot.pause(0.01)
            app.post_message(events.Key("i", "i"))
            await pilot.pause()
            late = events.Key("s", "s")
            late.time = 0.0
            app.post_message(late)
            await pilot.pause()
            assert isinstance(app.screen, LiveScreen)
            assert app.screen.query_one("#say", Input).value == ""
            app.post_message(events.Key("s", "s"))
            await pilot.pause()
            assert app.screen.query_one("#say", Input).value == "s"
