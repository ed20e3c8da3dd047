"""How a request ended, in the words that every place says it in."""

from __future__ import annotations

import pytest

from interlock.engine.history.fold.approvals import end_of
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalWithdrawn,
    EventBody,
    SessionStatus,
)

BODIES: list[tuple[EventBody, str]] = [
    (
        ApprovalDecided(approval_id="a1", call_id="c1", approved=True, by="maria"),
        "Already approved by maria",
    ),
    (
        ApprovalDecided(approval_id="a1", call_id="c1", approved=False, by="jo", reason="not today"),
        "Already denied by jo: not today",
    ),
    (
        ApprovalExpired(approval_id="a1", call_id="c1", reason="nobody decided"),
        "Too late: nobody decided",
    ),
    (ApprovalWithdrawn(approval_id="a1", call_id="c1", reason="stopped"), "Withdrawn: stopped"),
]


class TestEnds:
    @pytest.mark.parametrize(("body", "sentence"), BODIES)
    def test_say_which_and_how(self, body: EventBody, sentence: str) -> None:
        """The request's id, who decided or what happened, and the reason where one was given."""
        assert end_of(body) == ("a1", sentence)

    def test_nothing_else_ends_a_request(self) -> None:
        """Other events say nothing."""
        assert end_of(SessionStatus(status="running")) is None
