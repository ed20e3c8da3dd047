"""Enter in the approval dialog: where it does nothing, that is said."""

from __future__ import annotations

import pytest

from ...support.stage import stage


class TestEnter:
    async def test_before_a_reason_is_asked_for(self) -> None:
        """`d` and enter typed fast on the live screen open the dialog; that nothing is denied is said."""
        async with stage() as on:
            await on.press("d", "enter")
            await on.until("Enter decides nothing here: a approves, d denies")
            assert on.decisions() == []

    @pytest.mark.slow
    async def test_right_after_d(self) -> None:
        """Enter that comes before the reason can have been read denies nothing yet, and says so."""
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
    async def test_in_the_title(self) -> None:
        """A dialog about a request that somebody else decided says so above."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.decided_elsewhere(dialog.request.id, approved=True, by="ben")
            await on.until("· settled")
            assert "waiting 0:" not in on.painted().split("\n")[0]
