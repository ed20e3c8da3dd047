"""The live screen: the request that its keys open."""

from __future__ import annotations

import pytest

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.engine.history.model.state import SessionState

from ...support.scenes import before, deploy_request, docs_writer, entry, release_bot
from ...support.stage import Stage, stage


def two_waiting_sessions() -> tuple[SessionState, SessionState]:
    """Two waiting sessions, the first with the more urgent request. Both calls have the same id."""
    first, second = release_bot(), docs_writer()
    first.approvals["ap1"] = deploy_request(risk="high")
    second.approvals["ap2"] = deploy_request(
        id="ap2", session=second.id, agent=second.agent, since=before(5), input={"command": "make docs"}
    )
    waiting = first.transcript[-1].model_copy(deep=True)
    second.transcript.append(waiting)
    return first, second


async def opened(on: Stage) -> str | None:
    """The request whose dialog is open."""
    await on.settle()
    return on.app.screen.request.id if isinstance(on.app.screen, ApprovalScreen) else None


class TestRequestAtHand:
    @pytest.mark.variants
    @pytest.mark.parametrize("key", ["a", "d"])
    @pytest.mark.parametrize("pane", ["alt+1", "alt+2", "alt+3", "alt+4"])
    async def test_keys_open_request_of_shown_session(self, key: str, pane: str) -> None:
        """The keys open the request of the session on screen, not the one under the hidden cursor."""
        async with stage(*two_waiting_sessions()) as on:
            await on.press("alt+1", "j", pane, key)
            assert await opened(on) == "ap2"

    @pytest.mark.slow
    async def test_focused_queue_opens_request_under_cursor(self) -> None:
        """In the queue the keys open the request under the cursor, whose session is shown."""
        async with stage(*two_waiting_sessions()) as on:
            await on.press("alt+5", "a")
            assert await opened(on) == "ap1"
            await on.press("escape")
            await on.settle()
            await on.press("j", "a")
            assert await opened(on) == "ap2"

    @pytest.mark.slow
    async def test_focused_transcript_opens_request_of_call_under_cursor(self) -> None:
        """In the transcript the keys open the waiting call under the cursor, if there are several."""
        state = release_bot()
        call = state.transcript[-1].call
        assert call is not None
        state.transcript.append(
            entry("call", "", 1).model_copy(
                update={"call": call.model_copy(update={"call_id": "c10", "input": {"command": "later"}})}
            )
        )
        state.approvals["ap10"] = deploy_request(id="ap10", call_id="c10", risk="low")
        async with stage(state) as on:
            await on.press("alt+2", "G", "a")
            assert await opened(on) == "ap10"
            await on.press("escape")
            await on.settle()
            await on.press("k", "a")
            assert await opened(on) == "ap1"

    @pytest.mark.slow
    async def test_duplicate_call_id_opens_request_of_shown_session(self) -> None:
        """If calls of two sessions have the same id, enter opens the request of the session on screen."""
        async with stage(*two_waiting_sessions()) as on:
            await on.press("alt+1", "j", "alt+2", "G", "enter")
            assert await opened(on) == "ap2"

    @pytest.mark.slow
    async def test_subagent_session_opens_its_request(self) -> None:
        """A subagent's session opens the request that its call waits for."""
        parent, child = release_bot(), docs_writer()
        child.kind, child.parent = "child", parent.id
        parent.approvals["ap1"] = deploy_request(via=child.id)
        async with stage(parent, child) as on:
            await on.press("alt+1", "j", "a")
            assert await opened(on) == "ap1"

    @pytest.mark.slow
    async def test_session_without_request_opens_nothing(self) -> None:
        """Nothing opens, and a notice says where the requests are."""
        async with stage(release_bot(), docs_writer()) as on:
            await on.press("alt+1", "j", "a")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            await on.until("docs-writer is not waiting")
            assert "5 goes to the queue" in on.painted()
