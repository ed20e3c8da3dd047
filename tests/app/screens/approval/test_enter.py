"""Enter in the approval dialog: the dialog reports where it does nothing."""

from __future__ import annotations

import pytest

from ...support.stage import stage


class TestEnter:
    async def test_enter_before_reason_line_reports_no_denial(self) -> None:
        """`d` and enter typed fast on the live screen open the dialog, which says nothing is denied."""
        async with stage() as on:
            await on.press("d", "enter")
            await on.until("Enter decides nothing here: a approves, d denies")
            assert on.decisions() == []

    @pytest.mark.slow
    async def test_early_enter_in_reason_line_denies_nothing(self) -> None:
        """Enter pressed before the reason line can be read denies nothing; the dialog reports this."""
        async with stage() as on:
            await on.open_dialog()
            await on.press("d", "enter")
            await on.until("Enter came too soon: nothing is denied yet, press it again")
            assert on.decisions() == []
            await on.wake()
            await on.press("enter")
            await on.settle()
            assert [(each[0], each[2]) for each in on.decisions()] == [("decide", False)]


class TestSettled:
    async def test_title_reports_decision_elsewhere(self) -> None:
        """The title of a dialog whose request was decided elsewhere says so."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.decided_elsewhere(dialog.request.id, approved=True, by="ben")
            await on.until("· settled")
            assert "waiting 0:" not in on.painted().split("\n")[0]
