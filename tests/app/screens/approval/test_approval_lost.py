"""The approval dialog of a request that another operator decided first."""

from __future__ import annotations

import asyncio

import pytest

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.base.bars import KeyBar

from ...support.scenes import deploy_request, docs_writer, release_bot
from ...support.stage import stage


class TestLosing:
    """Another operator decides while this operator's decision is under way."""

    @pytest.mark.slow
    @pytest.mark.parametrize("told", [True, False])
    async def test_dialog_names_the_other_decider(self, told: bool) -> None:
        """The dialog names the decider, known from an event or from the answer, and decides nothing."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.held = asyncio.Event()
            await on.press("a")
            await on.settle()
            if told:
                on.hub.decided_elsewhere("ap1", approved=False, by="jo")
                await on.settle()
            else:
                on.hub.settle("ap1")
            on.hub.refuse = "Already denied by jo"
            on.hub.held.set()
            await on.settle()
            assert on.app.screen is dialog
            assert "Already denied by jo" in on.painted()
            offered = dialog.query_one(KeyBar).render().plain
            assert "explain" in offered
            assert "nothing left to decide · esc close" in on.painted()
            for name in ("approve", "edit", "grant", "deny", "more", "later"):
                assert name not in offered
            await on.wake()
            await on.press("a", "d", "enter", "g", "e", "s", "enter", "plus")
            await on.settle()
            assert on.app.screen is dialog
            assert [asked[0] for asked in on.hub.asked] == ["decide"]
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)

    async def test_recorded_decision_with_lost_answer_is_reported_as_own(self) -> None:
        """If the answer is lost but the decision is recorded, the dialog reports it as the operator's."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.held = asyncio.Event()
            await on.press("a")
            await on.settle()
            on.hub.decided_elsewhere("ap1", approved=True, by="maria")
            on.hub.refuse = "Not decided: the connection was lost"
            on.hub.held.set()
            await on.settle()
            assert on.app.screen is dialog
            assert "You have approved this: it is recorded" in on.painted()
            assert "Already" not in on.painted()

    @pytest.mark.slow
    async def test_next_request_is_shown_after_closing(self) -> None:
        """A request that arrived in between is shown after the lost one is closed."""
        async with stage() as on:
            await on.open_dialog()
            on.hub.held = asyncio.Event()
            await on.press("a")
            await on.settle()
            on.hub.decided_elsewhere("ap1", approved=True, by="jo")
            on.hub.request(deploy_request(id="ap2", call_id="c9"))
            await on.settle()
            on.hub.refuse = "Already approved by jo"
            on.hub.held.set()
            await on.settle()
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert on.app.screen.request.id == "ap2"

    @pytest.mark.slow
    async def test_n_opens_the_most_urgent_request(self) -> None:
        """If others wait, `n` shows the most urgent of them with sleeping keys."""
        async with stage(release_bot(), docs_writer()) as on:
            state = on.hub.states["docs-writer-77c0"]
            for name, risk in (("ap2", "low"), ("ap3", "high")):
                state.approvals[name] = deploy_request(id=name, session=state.id, call_id=name, risk=risk)
            dialog = await on.open_dialog()
            first = dialog.request.id
            await on.press("n")
            assert dialog.request.id == first
            on.hub.decided_elsewhere(first, approved=True, by="jo")
            await on.settle()
            rest = [name for name in ("ap3", "ap1", "ap2") if name != first]
            assert "n next" in on.painted()
            await on.press("n")
            await on.settle()
            assert dialog.request.id == rest[0]
            assert "1 more waiting" in on.painted()
            assert dialog.active_bindings["escape"].binding.description == "decide later"
            assert "Already approved" not in on.painted()
            await on.press("a")
            await on.settle()
            assert on.decisions() == []
            await on.wake()
            await on.press("a")
            await on.settle()
            assert [asked[1] for asked in on.decisions()] == [rest[0]]

    @pytest.mark.slow
    async def test_request_stays_decidable_after_failed_decision(self) -> None:
        """After a failed decision the request and the keys stay as they were."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.refuse = "Not decided: the connection was lost"
            await on.press("a")
            await on.settle()
            assert on.app.screen is dialog
            assert "approve once" in on.painted()
            assert "nothing left to decide" not in on.painted()
