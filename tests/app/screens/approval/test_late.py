"""A late request in dialog, queue and triage: its client is gone; an approval waits for the agent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from interlock.app.viewmodels.triage import must_be_opened
from interlock.app.widgets.approval.progress import fuse_words
from interlock.app.widgets.approval.queue_lines import risk_and_time
from interlock.app.widgets.approval.title import request_title
from interlock.app.widgets.approval.triage_list import flags_of
from interlock.engine.history.model.records import FuseRecord

from ...support.queue_scenes import asks
from ...support.scenes import NOW
from ...support.stage import stage
from .test_approval_keys import asking

UNTIL = NOW + timedelta(minutes=14, seconds=18)
HELD = FuseRecord(by="ben", at=NOW, until=NOW)


class TestSaysSo:
    def test_queue_title_and_triage_show_lost_client(self) -> None:
        """Each shows that the client has disconnected and how long the request stays open."""
        late = asks(1, late=UNTIL)
        words = ["late: client gone", "open 14:18"]
        assert [piece.plain for piece in risk_and_time(late, NOW)][:2] == words
        assert [piece.plain for piece in flags_of(late, NOW)][:2] == words
        assert f" · {', '.join(words)}" in request_title(late, NOW, 90).plain
        assert "late" not in request_title(late, NOW, 90, over=True).plain
        assert "its client is gone" in (must_be_opened(late) or "")

    def test_held_approval_runs_at_agents_next_call(self) -> None:
        """A held approval shows that it runs when the agent calls again, not at a time."""
        held = asks(1, late=UNTIL, fuse=HELD)
        assert fuse_words(held, NOW) == ("approved by ben", "runs when called again", "u takes it back")


class TestDialog:
    async def test_dialog_explains_held_approval(self) -> None:
        """Before the approval the dialog says that it is held for the agent's next such call."""
        async with stage(asking(late=UNTIL), size=(120, 40)) as on:
            await on.open_dialog()
            shown = on.painted()
            assert "late: client gone" in shown
            assert "an approval is held for the agent's next such call" in shown

    @pytest.mark.slow
    async def test_held_approval_can_be_taken_back(self) -> None:
        """A held approval can only be given once, and `u` takes it back."""
        async with stage(asking(late=UNTIL, fuse=HELD), size=(120, 40)) as on:
            await on.open_dialog()
            assert "approved by ben · runs when called again · u takes it back" in on.painted()
            await on.press("a")
            await on.settle()
            assert on.hub.answers == []
            await on.press("u")
            await on.settle()
            assert ("take back", "ap1", "maria") in on.hub.asked
