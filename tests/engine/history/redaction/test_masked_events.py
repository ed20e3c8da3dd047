"""Events for display, masked on access; models constructed without validation."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from interlock.engine.history.model.events import JournalEvent, MessageAdded
from interlock.engine.history.model.fast_models import construct_model, copy_with
from interlock.engine.history.model.state import CallState
from interlock.engine.history.redaction.masked_events import MaskedEvents
from interlock.engine.history.redaction.redaction import Redaction
from interlock.engine.history.redaction.spans import holds_mask

from ..support.recording import decided, opening, recorded

SECRET = "password: correct-horse-battery"
EVENTS = recorded(
    opening(), MessageAdded(role="user", text=SECRET), decided("c1", "ls"), MessageAdded(role="user")
)
AT = datetime(2026, 11, 20, tzinfo=UTC)


class TestMaskedEvents:
    """A sequence that behaves like a list."""

    def test_every_access_gives_masked_events(self) -> None:
        """Access by index, from the end, by slice and by iteration gives the masked events."""
        redaction = Redaction()
        shown = MaskedEvents(iter(EVENTS), redaction)
        at_once = [redaction.event(event) for event in EVENTS]
        assert list(shown) == [shown[n] for n in range(4)] == shown[:] == at_once
        assert (shown[-1], shown[1:3], len(shown)) == (at_once[-1], at_once[1:3], 4)
        assert holds_mask(str(shown[1].body))
        assert list(shown.unmasked) == EVENTS
        with pytest.raises(IndexError):
            _ = shown[4]

    def test_second_access_returns_same_object(self) -> None:
        """A second access returns the same object."""
        shown = MaskedEvents(EVENTS, Redaction())
        assert shown[1] is shown[1]
        assert shown[2] is EVENTS[2]


class TestQuick:
    """Results equal those of pydantic."""

    def test_update_equals_model_copy(self) -> None:
        """It equals `model_copy` in value and JSON, with all fields set; the original is unchanged."""
        call = CallState(call_id="c1", tool="bash", input={"command": "ls"}, at=AT)
        update = {"status": "done", "output": "ok", "seconds": 1.5}
        quick, slow = copy_with(call, update), call.model_copy(update=update)
        assert quick == slow
        assert quick.model_fields_set == CallState.model_fields.keys()
        assert quick.model_dump_json() == slow.model_dump_json()
        assert quick.model_copy(deep=True) == slow
        assert (call.status, call.output) == ("proposed", None)

    def test_construction_equals_the_constructor(self) -> None:
        """It equals the result of the model's constructor."""
        [event, *_] = EVENTS
        fields = {name: getattr(event, name) for name in JournalEvent.model_fields}
        quick = construct_model(JournalEvent, fields)
        fields["seq"] = 7
        assert quick == event
        assert repr(quick) == repr(event)
        assert JournalEvent.model_validate_json(quick.model_dump_json()) == event
        with pytest.raises(ValueError, match="frozen"):
            quick.seq = 2  # pyright: ignore[reportAttributeAccessIssue]
