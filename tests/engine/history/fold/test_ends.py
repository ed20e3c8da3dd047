"""The text for the end of a request, which is the same everywhere."""

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
    def test_name_request_operator_and_reason(self, body: EventBody, sentence: str) -> None:
        """The text has the request's id, the operator or cause, and the reason if one was given."""
        assert end_of(body) == ("a1", sentence)

    def test_other_events_give_no_text(self) -> None:
        """Other events give no text."""
        assert end_of(SessionStatus(status="running")) is None
