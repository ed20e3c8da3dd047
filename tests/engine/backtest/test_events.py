"""What became of a call, from the events around its decision."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.backtest import RecordedCall, RecordedOutcome
from interlock.engine.backtest.journal_reader import RecordedItems
from interlock.engine.backtest.recording import RecordedOpening, RecordedResult
from interlock.engine.history.model.events import CallDecided, EventBody
from interlock.engine.history.model.records import RuleRecord
from interlock.engine.history.model.times import to_ms

from ..history.support.recording import RULE, answer, decided, opening, recorded, request, result
from .recorder import items_of


def rejection(**fields: object) -> CallDecided:
    """A block in the name of the net that asked."""
    given = {"outcome": "block", "net": "approve-before-deploy", "reason": "deploy was rejected."}
    return decided("c1", "deploy", **{**given, **fields})


def thens(*bodies: EventBody) -> list[RecordedOutcome]:
    return [i.then for i in items_of(recorded(opening(), *bodies)) if isinstance(i, RecordedCall)]


class TestThen:
    """The verdict then, and whether it ran."""

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({}, RecordedOutcome()),
            ({"mode": "shadow"}, RecordedOutcome(shadow=True)),
            ({"approved_by": ("anna",)}, RecordedOutcome("ask", by=("anna",))),
            (
                {"outcome": "ask", "mode": "shadow", "net": "n"},
                RecordedOutcome("ask", shadow=True, net="n"),
            ),
            (
                {"outcome": "block", "mode": "shadow", "net": "n"},
                RecordedOutcome("block", shadow=True, net="n"),
            ),
            (
                {"outcome": "block", "net": "n", "rule": RULE},
                RecordedOutcome("block", ran=False, net="n", rule=RULE),
            ),
            (
                {"outcome": "block", "reason": "in use"},
                RecordedOutcome("block", ran=False, reason="in use", own=True),
            ),
            (
                {"outcome": "block", "net": "n", "approved_by": ("anna",)},
                RecordedOutcome("block", ran=False, net="n", by=("anna",)),
            ),
        ],
    )
    def test_from_the_decision(self, fields: dict[str, object], expected: RecordedOutcome) -> None:
        """Allowed, asked about and approved, or blocked: by a net, or by the gate itself."""
        assert thens(decided("c1", "deploy", **fields)) == [expected]

    def test_denied(self) -> None:
        """A person said no: it was asked about, and did not run."""
        [then] = thens(request("p1", "c1", "deploy"), answer("p1", "c1", approved=False), rejection())
        assert (then.outcome, then.ran, then.denied, then.by) == ("ask", False, True, ("maria",))
        assert isinstance(then.rule, RuleRecord | None)

    def test_the_rule_that_asked(self) -> None:
        """A decision that a person allowed names no net: it is the first one's that asked, once."""
        found = thens(
            request("p1", "c1", "deploy"),
            request("p2", "c1", "deploy").model_copy(update={"net": "another"}),
            decided("c1", "deploy", approved_by=("anna", "jo")),
            decided("c1", "deploy", approved_by=("anna",)),
            request("p3", "c2", "deploy"),
            decided("c2", "deploy"),
            decided("c2", "deploy", approved_by=("anna",)),
        )
        asked = request("p1", "c1", "deploy")
        assert [(then.net, then.rule) for then in found] == [
            (asked.net, asked.rule),
            (None, None),
            (None, None),
            (None, None),
        ]

    def test_denied_while_its_id_was_taken(self) -> None:
        """The gate's own block of another call of that id is not what the person denied (G-53)."""
        taken = decided("c1", "deploy", outcome="block", reason="Tool call id 'c1' is already in use.")
        found = thens(
            request("p1", "c1", "deploy"), answer("p1", "c1", approved=False), taken, rejection()
        )
        assert [(then.own, then.denied) for then in found] == [(True, False), (False, True)]

    def test_denied_once_and_approved_later(self) -> None:
        """The host died before the denial counted; asked again, another said yes."""
        found = thens(
            request("p1", "c1", "deploy"),
            answer("p1", "c1", approved=False),
            request("p2", "c1", "deploy"),
            decided("c1", "deploy", approved_by=("anna",)),
            rejection(reason="blocked again"),
        )
        assert [(then.outcome, then.by, then.denied) for then in found] == [
            ("ask", ("anna",), False),
            ("block", (), False),
        ]


class TestPeoplesSteps:
    """A step of a flow that a person takes."""

    def test_are_no_calls(self) -> None:
        """No rule is asked about them: neither question, answer nor result is judged, by either way."""
        asked = request("p1", "Notes#3", "Notes").model_copy(update={"wants": {"type": "object"}})
        events = recorded(
            opening(),
            asked,
            answer("p1", "Notes#3"),
            decided("Notes#3", "Notes", approved_by=("maria",)),
            result("Notes#3", "Notes"),
            decided("c1", "deploy"),
            result("c1", "deploy"),
        )
        rows = [(e.seq, to_ms(e.at), e.body.type, e.body.model_dump_json()) for e in events]
        for items in (items_of(events), list(RecordedItems().of_rows("s1", rows, Path("journal.db")))):
            calls = [item for item in items if not isinstance(item, RecordedOpening)]
            assert [type(item) for item in calls] == [RecordedCall, RecordedResult]
            assert {item.call_id for item in calls} == {"c1"}
