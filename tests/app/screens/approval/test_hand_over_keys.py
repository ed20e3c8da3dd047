"""The dialog's keys that hand a request over, and the one that takes an approval back."""

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
"""In the dialog; the queue beside it says it, too."""


class TestFuse:
    async def test_u_takes_it_back(self) -> None:
        """An approval that waits says by whom, for how long and which key; nothing else approves."""
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
        """Who took it back is said, where nothing waits any more the key does nothing."""
        async with stage(asking(taken_back="ben")) as on:
            await on.open_dialog()
            assert "ben took the approval back" in on.painted()
            await on.press("u")
            await on.settle()
            assert all(each[0] != "take back" for each in on.hub.asked)

    @pytest.mark.slow
    async def test_in_the_queue(self) -> None:
        """The queue has the same words and the same key."""
        fuse = FuseRecord(by="ben", at=NOW, until=SOON)
        async with stage(asking(fuse=fuse)) as on:
            await on.press("alt+5")
            await on.settle()
            assert "u takes" in on.painted()
            await on.press("u")
            await on.settle()
            assert ("take back", "ap1", "maria") in on.hub.asked


class TestWhileTheDialogStays:
    """Acts of others are in the dialog at once, not only when its ages are counted anew."""

    async def test_in_an_open_dialog(self) -> None:
        """A claim is shown in a dialog that is open."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.until("nobody has decided")
            _claim(on)
            await on.until(SAID)

    async def test_in_one_that_is_opened_again(self) -> None:
        """A claim is shown by a dialog that was open before it."""
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
        """What somebody else has is decided only by pressing again."""
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
        """One key takes it on; where the operator has it, it gives it up, and nothing is asked twice."""
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
        """A line that begins with `@` and a name is a note for that person."""
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
        """What others say is shown, with control characters made visible; so is who reads it."""
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
        """Others learn which request is before the operator, and that it is no longer."""
        async with stage(asking()) as on:
            await on.open_dialog()
            await on.settle()
            assert on.hub.reads == "ap1"
            await on.press("escape")
            await on.settle()
            assert on.hub.reads is None
