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
    async def test_u_takes_it_back(self) -> None:
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
    async def test_is_said_when_it_is_gone(self) -> None:
        """The dialog names the operator who took the approval back, and `u` does nothing."""
        async with stage(asking(taken_back="ben")) as on:
            await on.open_dialog()
            assert "ben took the approval back" in on.painted()
            await on.press("u")
            await on.settle()
            assert all(each[0] != "take back" for each in on.hub.asked)

    @pytest.mark.slow
    async def test_in_the_queue(self) -> None:
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

    async def test_in_an_open_dialog(self) -> None:
        """An open dialog shows a claim."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.until("nobody has decided")
            _claim(on)
            await on.until(SAID)

    async def test_in_one_that_is_opened_again(self) -> None:
        """A dialog that was closed before the claim shows it when it opens again."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.until("nobody has decided")
            await on.press("escape")
            await on.settle()
            _claim(on)
            await on.settle()
            await on.open_dialog()
            await on.until(SAID)


def _claim(on: Stage) -> None:
    request = on.hub._change("ap1", claim=ClaimRecord(by="ben", at=NOW, until=SOON))
    claimed = ApprovalClaimed(approval_id="ap1", call_id=request.call_id, by="ben", until=SOON)
    on.hub.publish(request.session, claimed)


class TestClaim:
    async def test_of_another_is_asked_once_more(self) -> None:
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
    async def test_c_claims_and_gives_up(self) -> None:
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
    async def test_with_a_name_asks_that_person(self) -> None:
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
    async def test_is_told_while_the_dialog_is_open(self) -> None:
        """The hub learns which request the operator reads, and that the operator no longer reads it."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.settle()
            assert on.hub.reads == "ap1"
            await on.press("escape")
            await on.settle()
            assert on.hub.reads is None
