"""Who decided what of a call, and why."""

from __future__ import annotations

from interlock.app.call_story import decision_at, told
from interlock.engine.history.events import ApprovalDecided, ApprovalWithdrawn
from tests.app.replay.recording import BODIES, decided, recording

RECORDED = recording()


class TestTold:
    """In words, up to a moment."""

    def test_a_block(self) -> None:
        """What was decided, in which rule's name, for what reason."""
        assert (
            told(RECORDED, 5)
            == [
                ("reason", "deploy requires a successful call to test first."),
                ("because", "deploy.rules:4  require test before deploy"),
                ("decided", "blocked"),
            ][::-1]
        )

    def test_nothing_of_later(self) -> None:
        """While a person is asked, the answer is not known yet."""
        assert told(RECORDED, 20) == [
            ("asked because", "deploy.rules:5  require human-approval before deploy")
        ]

    def test_an_approval(self) -> None:
        """A result says who let the call run."""
        assert told(RECORDED, 23) == [
            ("asked because", "deploy.rules:5  require human-approval before deploy"),
            ("person", "approved by maria"),
            ("decided", "allowed, approved by maria"),
        ]

    def test_a_denial(self) -> None:
        """Who said no, and why."""
        no = ApprovalDecided(
            approval_id="a1", call_id="c6", approved=False, by="li", reason="not on a Friday"
        )
        assert told(recording([*BODIES[:20], no]), 21)[-1] == ("person", "denied by li: not on a Friday")

    def test_a_question_withdrawn(self) -> None:
        """Nobody answered."""
        gone = ApprovalWithdrawn(approval_id="a1", call_id="c6", reason="stopped by li")
        assert told(recording([*BODIES[:20], gone]), 21)[-1] == (
            "person",
            "not asked any more: stopped by li",
        )

    def test_shadow(self) -> None:
        """In shadow mode the call ran, whatever enforce would have done."""
        would = decided("c7", "rm", "rm", outcome="block", mode="shadow", net="block-rm")
        assert told(recording([*BODIES[:25], would]), 26)[0] == (
            "decided",
            "would block, in shadow mode: it ran",
        )

    def test_an_id_that_came_again(self) -> None:
        """Only the latest decision counts."""
        again = decided("c7", "rm", "rm -rf dist", approved_by=("li",))
        assert told(recording([*BODIES[:26], again]), 27) == [("decided", "allowed, approved by li")]

    def test_no_call(self) -> None:
        """An event that is about no call has no story."""
        assert told(RECORDED, 2) == []


class TestDecisionAt:
    """The decision that an event belongs to."""

    def test_of_every_event_of_a_call(self) -> None:
        """From the question to the result it is the same decision, with how it ended."""
        for position in (20, 21, 22, 23):
            found = decision_at(RECORDED, position)
            assert found is not None
            decision, event = found
            assert (decision.seq, event.seq, decision.verdict) == (22, 22, "approved")
            assert (decision.by, decision.result, decision.rule) == (
                "maria",
                "done",
                "require human-approval before deploy",
            )

    def test_none(self) -> None:
        """Events of no call have none."""
        assert decision_at(RECORDED, 1) is None
        assert decision_at(RECORDED, 28) is None
