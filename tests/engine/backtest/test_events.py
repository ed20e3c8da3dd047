"""The recorded outcome of a call, from the events around its decision."""

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
    """Return a block by the net that asked."""
    given = {"outcome": "block", "net": "approve-before-deploy", "reason": "deploy was rejected."}
    return decided("c1", "deploy", **{**given, **fields})


def recorded_outcomes(*bodies: EventBody) -> list[RecordedOutcome]:
    return [i.then for i in items_of(recorded(opening(), *bodies)) if isinstance(i, RecordedCall)]


class TestThen:
    """The recorded verdict, and whether the call ran."""

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
    def test_outcome_follows_the_decision(
        self, fields: dict[str, object], expected: RecordedOutcome
    ) -> None:
        """The outcome follows from the decision: allowed, approved, or blocked by a net or the gate."""
        assert recorded_outcomes(decided("c1", "deploy", **fields)) == [expected]

    def test_denied_call_counts_as_not_run(self) -> None:
        """A denied call counts as asked about and not run."""
        [then] = recorded_outcomes(
            request("p1", "c1", "deploy"), answer("p1", "c1", approved=False), rejection()
        )
        assert (then.outcome, then.ran, then.denied, then.by) == ("ask", False, True, ("maria",))
        assert isinstance(then.rule, RuleRecord | None)

    def test_rule_is_taken_from_the_first_asking_net(self) -> None:
        """The rule of an approved call is taken once, from the first net that asked."""
        found = recorded_outcomes(
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

    def test_block_of_another_call_with_the_id_is_ignored(self) -> None:
        """The gate's block of another call with the same id does not count as the denial (G-53)."""
        taken = decided("c1", "deploy", outcome="block", reason="Tool call id 'c1' is already in use.")
        found = recorded_outcomes(
            request("p1", "c1", "deploy"), answer("p1", "c1", approved=False), taken, rejection()
        )
        assert [(then.own, then.denied) for then in found] == [(True, False), (False, True)]

    def test_denial_before_a_later_approval_is_ignored(self) -> None:
        """A denial before the host died does not count if a new request was approved."""
        found = recorded_outcomes(
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
    """Steps of a flow that operators take."""

    def test_steps_are_not_judged(self) -> None:
        """Requests, answers and results of such steps are not judged, in either way of reading."""
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
