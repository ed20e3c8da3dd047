"""The dialog's keys that hand a request over, and the key that takes an approval back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from interlock.engine.history.model.events import ApprovalClaimed
from interlock.engine.history.model.records import ClaimRecord, CommentRecord, FuseRecord

from ...support.scenes import NOW
from ...support.stage import Stage, stage
from .test_approval_keys import asking

SOON = NOW + timedelta(seconds=4)
SAID = "SO FAR             ben has this"
"""The claim as the dialog shows it. The queue beside it shows it, too."""


class TestFuse:
    async def test_u_takes_a_waiting_approval_back(self) -> None:
        """A waiting approval shows the approver, the remaining time and the key. `a` approves nothing."""
        fuse = FuseRecord(by="ben", at=NOW, until=SOON)
        async with stage(asking(fuse=fuse)) as on:
            await on.open_dialog()
            assert "approved by ben · runs in 4 s · u takes it back" in on.painted()
            await on.press("a")
            await on.settle()
            assert on.hub.answers == []
            await on.press("u")
            await on.settle()
            assert ("take back", "ap1", "maria") in on.hub.asked

    @pytest.mark.slow
    async def test_dialog_names_operator_who_took_approval_back(self) -> None:
        """The dialog names the operator who took the approval back, and `u` does nothing."""
        async with stage(asking(taken_back="ben")) as on:
            await on.open_dialog()
            assert "ben took the approval back" in on.painted()
            await on.press("u")
            await on.settle()
            assert all(each[0] != "take back" for each in on.hub.asked)

    @pytest.mark.slow
    async def test_queue_offers_the_take_back_key(self) -> None:
        """The queue offers the same key."""
        fuse = FuseRecord(by="ben", at=NOW, until=SOON)
        async with stage(asking(fuse=fuse)) as on:
            await on.press("alt+5")
            await on.settle()
            assert "u takes" in on.painted()
            await on.press("u")
            await on.settle()
            assert ("take back", "ap1", "maria") in on.hub.asked


class TestWhileTheDialogStays:
    """The dialog shows other operators' actions at once, not only at its next tick."""

    async def test_claim_is_shown_in_open_dialog(self) -> None:
        """An open dialog shows a claim."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.until("nobody has decided")
            _claim_by_ben(on)
            await on.until(SAID)

    async def test_claim_is_shown_in_reopened_dialog(self) -> None:
        """A dialog that was closed before the claim shows it when it opens again."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.until("nobody has decided")
            await on.press("escape")
            await on.settle()
            _claim_by_ben(on)
            await on.settle()
            await on.open_dialog()
            await on.until(SAID)


def _claim_by_ben(on: Stage) -> None:
    request = on.hub._change("ap1", claim=ClaimRecord(by="ben", at=NOW, until=SOON))
    claimed = ApprovalClaimed(approval_id="ap1", call_id=request.call_id, by="ben", until=SOON)
    on.hub.publish(request.session, claimed)


class TestClaim:
    async def test_deciding_over_another_claim_requires_second_key(self) -> None:
        """A request that another operator claimed is decided only after a second key press."""
        claim = ClaimRecord(by="ben", at=NOW, until=SOON)
        async with stage(asking(claim=claim)) as on:
            await on.open_dialog()
            assert "ben has this" in on.painted()
            await on.press("a")
            await on.settle()
            assert "press it again" in on.painted()
            assert on.hub.answers == []
            await on.wake()
            await on.press("a")
            await on.settle()
            assert [each.approved for each in on.hub.answers] == [True]

    @pytest.mark.slow
    async def test_c_claims_and_releases(self) -> None:
        """`c` claims a request, or releases the operator's own claim. Nothing else is asked."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.press("c")
            await on.settle()
            assert ("claim", "ap1", "maria") in on.hub.asked
        claim = ClaimRecord(by="maria", at=NOW, until=SOON)
        async with stage(asking(claim=claim)) as on:
            await on.open_dialog()
            assert "you have this" in on.painted()
            await on.press("c")
            await on.settle()
            assert ("unclaim", "ap1", "maria") in on.hub.asked


class TestComment:
    async def test_mention_addresses_that_operator(self) -> None:
        """A line that begins with `@` and a name is a comment for that operator."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.press("at")
            await on.settle()
            await on.press(*"@ben yours")
            await on.press("enter")
            await on.settle()
            assert ("comment", "ap1", "yours", "maria", "ben") in on.hub.asked
            assert on.hub.answers == []

    @pytest.mark.slow
    async def test_is_shown_as_text(self) -> None:
        """Comments are shown as text with control characters visible. The readers are listed."""
        said = CommentRecord(by="ben", at=NOW, text="look\x1b[2J at [b]this[/b]", to="maria")
        async with stage(asking(comments=(said,), readers=("ben", "maria"))) as on:
            await on.open_dialog()
            painted = on.painted()
            assert "ben to @maria: look" in painted
            assert "[b]this[/b]" in painted
            assert "\x1b" not in painted
            assert "ben is reading this" in painted


class TestReading:
    async def test_hub_learns_which_request_is_read(self) -> None:
        """The hub learns which request the operator reads, and that the operator no longer reads it."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.settle()
            assert on.hub.reads == "ap1"
            await on.press("escape")
            await on.settle()
            assert on.hub.reads is None
