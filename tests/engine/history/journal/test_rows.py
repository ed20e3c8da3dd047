"""Rows as events: the quick reader gives the same as the model's validation."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.rows import event_of
from interlock.engine.history.model.events import EventBody, event_body

from .test_encoding import BODIES

FILE = Path("j.db")
AT = 1_790_000_000_123


class TestEventOf:
    @given(BODIES)
    def test_row_is_read_as_the_union_reads_it(self, body: EventBody) -> None:
        """The row of any body is read as the union of all kinds reads it."""
        text = body.model_dump_json()
        event = event_of((1, "s1", 2, AT, body.type, text), FILE)
        assert repr(event.body) == repr(event_body.validate_json(text))
        assert event.body.model_fields_set == event_body.validate_json(text).model_fields_set

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("session.status", '{"status":"idle"}'),
            ("session.status", '{"type":"mode.changed","mode":"shadow","by":"maria"}'),
            ("session.status", '{"type":"session.status","status":"asleep"}'),
            ("session.paused", '{"type":"session.paused"}'),
            ("session.status", '{"type":"session.status"'),
        ],
    )
    def test_body_without_matching_type_is_refused(self, kind: str, text: str) -> None:
        """A body without a type, or with another type than its row, is refused; the file is named."""
        with pytest.raises(JournalError, match=r"'j.db': event 2 of session 's1' cannot be read"):
            event_of((1, "s1", 2, AT, kind, text), FILE)
