"""The queue in the middle of the live screen while no session is selected."""

from __future__ import annotations

import pytest

from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.triage.pane import TriagePane
from interlock.app.screens.triage.screen import TriageScreen
from interlock.app.widgets.approval.triage_list import TriageList

from ...support.queue_scenes import asking
from ...support.scenes import docs_writer
from ...support.stage import stage
from ...support.triage_scenes import pushes


class TestNoSessionChosen:
    async def test_queue_replaces_the_transcript(self) -> None:
        """Live: without a selected session the queue is in the middle and can be decided there."""
        async with stage(asking(*pushes(3)), docs_writer(), size=(150, 40)) as on:
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            assert isinstance(on.app.focused, TriageList)
            assert on.app.screen.state is None
            assert "git push origin" in on.painted()
            await on.wake()
            await on.settle()
            await on.press("asterisk", "a")
            await on.settle()
            assert len(on.hub.answers) == 3

    @pytest.mark.slow
    async def test_selected_session_shows_transcript_again(self) -> None:
        """Live: selecting a session shows its transcript again, and so does escape in the queue."""
        async with stage(asking(*pushes(3)), docs_writer(), size=(150, 40)) as on:
            for back in (["escape"], ["alt+1", "enter"], ["alt+2"]):
                await on.press("escape")
                await on.settle()
                assert on.app.screen.query_one(TriagePane).display
                await on.press(*back)
                await on.settle()
                await on.until("Ship the current commit")
                assert not on.app.screen.query_one(TriagePane).display
            assert not on.hub.answers

    @pytest.mark.slow
    async def test_new_request_opens_no_dialog(self) -> None:
        """Live: while the queue is in the middle, a new request joins it and opens no dialog."""
        first, *others = pushes(3)
        async with stage(asking(*others), docs_writer(), size=(150, 40)) as on:
            await on.press("escape")
            await on.settle()
            on.hub.request(first)
            await on.until("3 requests")
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_narrow_screen_shows_queue_by_key_only(self) -> None:
        """Live: with one pane at a time escape does not show the queue; a key opens it."""
        async with stage(asking(*pushes(3)), docs_writer(), size=(80, 24)) as on:
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            assert not on.app.screen.shows_queue
            await on.press("Q")
            await on.settle()
            assert isinstance(on.app.screen, TriageScreen)
