"""A request whose rule requires a passkey: the terminal can deny it, the phone page can approve it."""

from __future__ import annotations

import pytest
from textual.app import App

from interlock.app.viewmodels.batch import too_much
from interlock.app.viewmodels.grant_terms import no_grant_reason
from interlock.app.viewmodels.triage import must_be_opened
from interlock.engine.core.approvers import Approvers
from interlock.engine.history.model.state import SessionState

from ...support.scenes import deploy_request, release_bot
from ...support.stage import stage
from .test_approval_looks import Compare, console, keys

PAGE = "https://laptop.example:8738"


def asking(**more: object) -> SessionState:
    state = release_bot()
    given = {"digest": "shown", "approvers": Approvers(passkey=True), **more}
    state.approvals["ap1"] = deploy_request(**given)
    return state


class TestDialog:
    @pytest.mark.slow
    async def test_approve_is_greyed_and_link_is_offered(self) -> None:
        """Nothing is sent. One key shows the link and its QR code."""
        async with stage(asking()) as on:
            on.hub.page = PAGE
            await on.open_dialog()
            await on.press("a")
            await on.settle()
            assert on.decisions() == []
            await on.until("Its rule asks for a passkey: w shows the link to approve with it")
            await on.until("needs 1 person with passkey")
            await on.press("w")
            await on.settle()
            await on.until(f"{PAGE}/m/a/ap1")
            await on.until("█")

    @pytest.mark.slow
    async def test_console_without_page_address_names_the_command(self) -> None:
        """A console that hosts its agents itself knows no page address."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.press("a")
            await on.settle()
            assert on.decisions() == []
            await on.until("no page for phones is known here: run `interlock web`")

    @pytest.mark.slow
    async def test_it_can_be_denied(self) -> None:
        """A denial requires no passkey."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.press("d")
            await on.wake()
            await on.press("enter")
            await on.settle()
            [decision] = on.decisions()
            assert not decision[2]

    @pytest.mark.slow
    async def test_link_key_does_nothing_for_other_requests(self) -> None:
        """`w` opens nothing for other requests."""
        async with stage(asking(approvers=None)) as on:
            await on.open_dialog()
            screen = on.app.screen
            await on.press("w")
            await on.settle()
            assert on.app.screen is screen


class TestOtherWays:
    def test_batch_triage_and_grants_cannot_approve(self) -> None:
        """Batch, triage and grants do not approve it."""
        request = asking().approvals["ap1"]
        assert "passkey" in (too_much(request) or "")
        assert "passkey" in (must_be_opened(request) or "")
        assert no_grant_reason(request.model_copy(update={"may_grant": False})) == (
            "No grants: the rule asks for a passkey, each time"
        )


class TestLooks:
    @pytest.mark.slow
    def test_the_link(self, snap_compare: Compare) -> None:
        """The QR code on white, complete in a terminal of 40 lines."""
        app: App[None] = console(approvers=Approvers(passkey=True))
        app.hub.page = PAGE  # type: ignore[attr-defined]
        assert snap_compare(app, terminal_size=(120, 40), run_before=keys("a", "w"))
