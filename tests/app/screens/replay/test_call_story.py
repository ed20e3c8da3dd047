"""The timeline of a call: decisions, their authors and their reasons."""

from __future__ import annotations

from interlock.app.format.calls import asked_input, call_timeline, decision_at
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    ModeChanged,
)

from .recording import BODIES, decided, recording, says

RECORDED = recording()


class TestTold:
    """The timeline in words, up to a moment."""

    def test_block_has_verdict_rule_and_reason(self) -> None:
        """A blocked call has its verdict, its rule and its reason."""
        assert (
            call_timeline(RECORDED, 5)
            == [
                ("reason", "deploy requires a successful call to test first."),
                ("because", "deploy.rules:4  require test before deploy"),
                ("decided", "blocked"),
            ][::-1]
        )

    def test_later_answer_is_not_shown(self) -> None:
        """While an approver is asked, the answer is not shown."""
        assert call_timeline(RECORDED, 20) == [
            ("asked because", "deploy.rules:5  require human-approval before deploy")
        ]

    def test_approval_names_the_operator(self) -> None:
        """A result shows who approved the call."""
        assert call_timeline(RECORDED, 23) == [
            ("asked because", "deploy.rules:5  require human-approval before deploy"),
            ("person", "approved by maria"),
            ("decided", "allowed, approved by maria"),
        ]

    def test_denial_has_operator_and_reason(self) -> None:
        """A denial has the operator and the reason."""
        no = ApprovalDecided(
            approval_id="a1", call_id="c6", approved=False, by="li", reason="not on a Friday"
        )
        assert call_timeline(recording([*BODIES[:20], no]), 21)[-1] == (
            "person",
            "denied by li: not on a Friday",
        )

    def test_withdrawn_request_has_its_reason(self) -> None:
        """A withdrawn request has its reason."""
        gone = ApprovalWithdrawn(approval_id="a1", call_id="c6", reason="stopped by li")
        assert call_timeline(recording([*BODIES[:20], gone]), 21)[-1] == (
            "person",
            "no longer asked: stopped by li",
        )

    def test_shadow_call_ran_despite_block(self) -> None:
        """In shadow mode the timeline says that a would-be-blocked call ran."""
        would = decided("c7", "rm", "rm", outcome="block", mode="shadow", net="block-rm")
        assert call_timeline(recording([*BODIES[:25], would]), 26)[0] == (
            "decided",
            "would block, in shadow mode: it ran",
        )

    def test_unclear_call_has_its_reason(self) -> None:
        """G-64, G-66: an unclear call has the reason, and the rule names by which it was judged."""
        why = "command: eval runs a computed text"
        unread = decided("c7", "bash", 'eval "$x"', uninspectable=why, judged_as=("deploy",))
        events = recording([*BODIES[:25], unread])
        assert call_timeline(events, 26) == [
            ("decided", "allowed"),
            ("unclear", f"cannot be fully analysed: {why}"),
            ("judged as", "deploy"),
        ]
        found = decision_at(events, 26)
        assert found is not None
        assert found[0].unclear
        earlier = decision_at(events, 5)
        assert earlier is not None
        assert not earlier[0].unclear

    def test_edit_has_editor_and_original_input(self) -> None:
        """G-75: an edited call has its editor and the agent's original input."""
        asked = says("c7", "bash", "./deploy prod")
        again = ApprovalRequested(
            approval_id="a2",
            call_id="c7",
            tool="deploy",
            called="bash",
            input={"command": "./deploy staging"},
            names=("deploy", "bash"),
            net="approve-before-deploy",
            transition="approve",
            title="",
            message="",
            marking={},
            edited=True,
            edited_by="ada",
            beyond="grant-1 does not cover this call: the command runs another program",
        )
        yes = ApprovalDecided(approval_id="a2", call_id="c7", approved=True, by="ben")
        ran = decided(
            "c7", "deploy", "./deploy staging", approved_by=("ben",), edited=True, edited_by="ada"
        )
        events = recording([*BODIES[:25], asked, again, yes, ran])
        assert call_timeline(events, 29) == [
            ("although", "grant-1 does not cover this call: the command runs another program"),
            ("asked because", "net approve-before-deploy, about the input that ada chose"),
            ("person", "approved by ben"),
            ("decided", "allowed, approved by ben"),
            ("edited", 'by ada: changed command from "./deploy prod" to "./deploy staging"'),
        ]
        assert asked_input(events, 29) == {"command": "./deploy prod"}
        assert asked_input(events, 25) != {"command": "./deploy prod"}

    def test_subagent_edit_has_input_of_first_request(self) -> None:
        """The original input of a subagent's call is known only from its first request."""
        ran = decided("r/c1", "deploy", "./deploy staging", edited=True, edited_by="ada")
        assert call_timeline(recording([*BODIES[:25], ran]), 26)[1:] == [("edited", "by ada")]
        first = BODIES[19]
        assert isinstance(first, ApprovalRequested)
        request = first.model_copy(update={"call_id": "r/c1", "input": {"command": "./deploy prod"}})
        events = recording([*BODIES[:25], request, ran])
        assert (
            "edited",
            'by ada: changed command from "./deploy prod" to "./deploy staging"',
        ) in call_timeline(events, 27)

    def test_shadow_call_names_who_switched_and_why(self) -> None:
        """A call that ran in shadow mode shows who switched to it and why."""
        switched = ModeChanged(mode="shadow", by="ben", others=("ada",), reason="noise")
        would = decided("c7", "rm", "rm", outcome="block", mode="shadow", net="block-rm")
        said = call_timeline(recording([*BODIES[:25], switched, would]), 27)
        assert said[-1] == ("was off", "shadow mode, switched to by ada, ben: noise")

    def test_reused_call_id_shows_latest_decision(self) -> None:
        """If a call id is used again, only the latest decision is shown."""
        again = decided("c7", "rm", "rm -rf dist", approved_by=("li",))
        assert call_timeline(recording([*BODIES[:26], again]), 27) == [
            ("decided", "allowed, approved by li")
        ]

    def test_event_without_call_has_no_timeline(self) -> None:
        """An event without a call has no timeline."""
        assert call_timeline(RECORDED, 2) == []


class TestDecisionAt:
    """The decision to which an event belongs."""

    def test_all_events_of_a_call_have_its_decision(self) -> None:
        """All events of a call, from the request to the result, have one decision with its result."""
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

    def test_event_without_call_has_no_decision(self) -> None:
        """Events without a call have no decision."""
        assert decision_at(RECORDED, 1) is None
        assert decision_at(RECORDED, 28) is None
