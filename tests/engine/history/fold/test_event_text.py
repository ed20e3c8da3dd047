"""Events and changes as text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from interlock.engine.history.fold.event_text import changes, dollars, headline, input_head, shortened
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalWithdrawn,
    EventBody,
    LimitRaised,
    LossAccepted,
    MessageAdded,
    ModeChanged,
    NetToggled,
    SessionStatus,
    StepEnded,
)
from interlock.engine.history.model.records import FlowStepped

from ..support.recording import (
    RULE,
    answer,
    approval,
    asks,
    decided,
    limit_per,
    opening,
    recorded,
    request,
    result,
    sequence,
    step,
)

TEST_FIRST = sequence("test", "deploy")
ASK = approval("deploy")
REFILLED = limit_per("push", 2, "test")
DO_TEST = step(TEST_FIRST, "do-test", "test", deferred=True)
REFILL = step(REFILLED, "refill", "test", deferred=True)
TESTED = (opening(TEST_FIRST), decided("c7", "test", DO_TEST), result("c7", "test", DO_TEST))
REASON = "deploy requires a successful call to test first."
LOST = "acknowledged and lost by the database: seen  (by maria)"
NOTICED = datetime(2026, 11, 21, tzinfo=UTC)


def accepted_loss(acknowledged: int, *, kept: int) -> LossAccepted:
    return LossAccepted(
        by="maria",
        reason="seen",
        acknowledged=acknowledged,
        kept=kept,
        noticed=NOTICED,
        noticed_by="host",
    )


def changed(*bodies: EventBody) -> list[str]:
    """Return the changes of the last of these events."""
    events = recorded(*bodies)
    return changes(fold(events[:-1]), events[-1], fold(events))


class TestChanges:
    def test_firing_moves_tokens(self) -> None:
        """The change shows the transition that fired and the places that changed."""
        lines = changed(*TESTED, decided("c8", "deploy", step(TEST_FIRST, "do-deploy", "deploy")))
        assert lines == [
            "require-test-before-deploy: do-deploy fired, ready 0→1, gate 1→0",
            "deploy (call c8): new → running",
        ]

    def test_firing_without_marking_change_is_shown(self) -> None:
        """A transition that does not change the marking is shown as well."""
        lines = changed(opening(ASK), decided("c1", "deploy", step(ASK, "approve", "deploy")))
        assert lines[0] == "approve-before-deploy: approve fired, marking unchanged"

    def test_deferred_step_is_pending_until_its_result(self) -> None:
        """A deferred step is shown as pending once per call, and then as fired or dropped."""
        called = (opening(TEST_FIRST, REFILLED), decided("c7", "test", DO_TEST, REFILL))
        assert changed(*called) == ["test (call c7): new → running", "pending: test (call c7)"]
        assert changed(*called, result("c7", "test", DO_TEST, REFILL)) == [
            "require-test-before-deploy: do-test fired, ready 1→0, gate 0→1",
            "limit-push-2-per-test: refill fired, marking unchanged",
            "test (call c7): running → done",
        ]
        assert changed(*called, result("c7", "test", is_error=True, dropped=(DO_TEST, REFILL))) == [
            "test (call c7): running → failed",
            "require-test-before-deploy: do-test dropped",
            "limit-push-2-per-test: refill dropped",
        ]

    def test_approval_events_name_the_tool(self) -> None:
        """Request, answer and withdrawal name the tool."""
        asked = (opening(ASK), SessionStatus(status="running"), request("a1", "c1", "deploy"))
        assert changed(*asked) == ["approval requested: deploy", "status running → waiting"]
        assert changed(*asked, answer("a1", "c1")) == [
            "approval of deploy: approved by maria",
            "status waiting → running",
        ]
        denied = ApprovalDecided(
            approval_id="a1", call_id="c1", approved=False, by="maria", reason="not on Friday"
        )
        assert changed(*asked, denied)[0] == "approval of deploy: denied by maria: not on Friday"
        withdrawn = ApprovalWithdrawn(approval_id="a1", call_id="c1", reason="interrupted")
        assert changed(*asked, withdrawn)[0] == "approval of deploy withdrawn: interrupted"

    @pytest.mark.parametrize(
        ("body", "lines"),
        [
            (ModeChanged(mode="shadow", by="maria"), ["mode enforce → shadow"]),
            (LimitRaised(max_cost=5, by="maria"), ["cost limit none → $5.00"]),
            (
                NetToggled(net=TEST_FIRST.name, active=False, by="maria", message="off"),
                ["require-test-before-deploy: off"],
            ),
            (
                SessionStatus(status="failed", error="no\nmore"),
                ["status idle → failed", "error: no more"],
            ),
            (
                StepEnded(finish_reason="stop", input_tokens=9, output_tokens=2),
                ["model: 9 tokens in, 2 out"],
            ),
            (
                asks(("c1", "test"), ("c2", "x\x1b")),
                ["proposed: test (call c1)", "proposed: x\\x1b (call c2)"],
            ),
            (result("c9", "x", anomaly="no such call"), ["anomaly, nothing changed: no such call"]),
            (MessageAdded(role="user", text="hello"), []),
        ],
    )
    def test_other_events_are_described(self, body: EventBody, lines: list[str]) -> None:
        """Switches, statuses, tokens and proposals are described; a message changes nothing else."""
        assert changed(opening(TEST_FIRST), body) == lines

    def test_opening_lists_nets_and_markings(self) -> None:
        """The opening lists its nets with their markings."""
        events = recorded(opening(TEST_FIRST, REFILLED, active=[TEST_FIRST.name]))
        before = fold(events).model_copy(update={"seq": 0, "nets": {}})
        assert changes(before, events[0], fold(events)) == [
            "opened: release-bot on a-model, enforce mode",
            "require-test-before-deploy: ready:1",
            "limit-push-2-per-test (off): ready:1, budget:2",
        ]


class TestHeadline:
    @pytest.mark.parametrize(
        ("body", "line"),
        [
            (opening(ASK, opened_by="maria"), "release-bot  on a-model, enforce mode, 1 net  (by maria)"),
            (
                opening(ASK, session_labels=("ci", "nightly"), opened_by="maria"),
                "release-bot  on a-model, enforce mode, 1 net  labels ci, nightly  (by maria)",
            ),
            (SessionStatus(status="failed", error="no key"), "failed  no key"),
            (SessionStatus(status="idle"), "idle"),
            (SessionStatus(status="done", by="maria"), "done  (by maria)"),
            (MessageAdded(role="user", text="ship\n  it", by="maria"), "user (by maria)  ship it"),
            (asks(("c", "test"), text="checking"), "assistant  checking  test"),
            (MessageAdded(role="tool", tool="rm", call_id="c", text="no"), "tool rm  no"),
            (
                StepEnded(finish_reason="stop", input_tokens=9, output_tokens=2),
                "stop  9 tokens in, 2 out",
            ),
            (decided("c", "deploy"), "deploy  allow"),
            (
                decided("c", "deploy", approved_by=("maria", "jo"), edited=True, rule=RULE),
                "deploy  allow (approved by maria, jo) (input edited)",
            ),
            (
                decided("c", "deploy", outcome="block", reason=REASON, rule=RULE),
                f"deploy  block: {REASON} [deploy.rules:4]",
            ),
            (
                decided("c", "deploy", outcome="block", mode="shadow", reason=REASON),
                f"deploy  would block: {REASON}",
            ),
            (decided("c", "deploy", outcome="ask", mode="shadow"), "deploy  would ask"),
            (
                decided("c", "bash", uninspectable="command: eval runs a computed text"),
                "bash  allow (unclear: command: eval runs a computed text)",
            ),
            (decided("c", "Bash", judged_as=("bash",)), "Bash  allow (judged as bash)"),
            (result("c", "test", output="12 passed\n", seconds=8.42), "test  ok 8.4 s  12 passed"),
            (result("c", "test", output="", is_error=True), "test  error 1.5 s"),
            (result("c", "test", anomaly="another tool"), "test  anomaly: another tool"),
            (
                result("c", "test", output="nobody knows", is_error=True, unknown=True),
                "test  outcome unknown  nobody knows",
            ),
            (
                request("a", "c", "deploy"),
                'deploy  {"env": "prod"}  needs approval: approve-before-deploy [deploy.rules:4]',
            ),
            (answer("a", "c"), "call c  approved by maria"),
            (
                ApprovalDecided(approval_id="a", call_id="c", approved=True, by="jo", input={}),
                "call c  approved by jo with edited input",
            ),
            (
                ApprovalWithdrawn(approval_id="a", call_id="c", reason="interrupted"),
                "call c  interrupted",
            ),
            (NetToggled(net="freeze", active=True, by="maria", message="x"), "freeze  on  (by maria)"),
            (ModeChanged(mode="shadow", by="maria"), "shadow  (by maria)"),
            (LimitRaised(max_cost=5, by="maria"), "to $5.00  (by maria)"),
            (
                accepted_loss(7, kept=4),
                f"events 5 to 7 were {LOST}",
            ),
            (accepted_loss(5, kept=4), f"event 5 was {LOST}"),
            (accepted_loss(5, kept=6), f"event 5 was {LOST}"),
            (FlowStepped(step=0, live=("A",), output={}), "begins  A"),
            (FlowStepped(step=2, node="A", live=("B", "C"), output={}), "A  B, C"),
            (FlowStepped(step=2, node="A", live=("A",), waits="c", output={}), "A  A  waits for call c"),
            (FlowStepped(step=2, node="A", live=("Z",), done=True, output={}), "A  Z  done"),
        ],
    )
    def test_is_one_line_with_its_type(self, body: EventBody, line: str) -> None:
        """Every kind of event has one line that begins with its type."""
        [event] = recorded(body)
        assert headline(event) == f"{body.type}  {line}"

    def test_filled_in_answer_is_not_shown_as_edit(self) -> None:
        """P-81: filling in what a request wants is shown as an answer, and its denial as a denial."""
        wants = request("a", "c", "Notes").model_copy(update={"wants": {"type": "object"}})
        filled_in = answer("a", "c").model_copy(update={"input": {"by": "ada"}})
        for wanted, given, line in (
            (wants, filled_in, "answered by maria"),
            (wants, answer("a", "c", approved=False), "denied by maria"),
            (request("a", "c", "Notes"), filled_in, "approved by maria with edited input"),
        ):
            asked = (opening(), asks(("c", "Notes")), wanted)
            assert changed(*asked, given)[0] == f"approval of Notes: {line}"
            wanting = fold(recorded(*asked)).wanting
            assert headline(recorded(*asked, given)[-1], wanting) == f"approval.decided  call c  {line}"

    def test_has_no_control_characters(self) -> None:
        """The line never has control characters, whatever an agent or a tool wrote."""
        evil = "\x1b[2J\r\u202e\nx"
        for body in (
            opening(agent=evil, model=evil),
            decided(evil, evil, outcome="block", reason=evil),
            result(evil, evil, output=evil),
            asks((evil, evil), text=evil),
            NetToggled(net=evil, active=True, by=evil, message=evil),
        ):
            [event] = recorded(body)
            assert headline(event).isprintable()

    def test_long_texts_are_cut(self) -> None:
        """A long output is cut, at a cost that does not depend on its length."""
        [event] = recorded(result("c", "test", output="x" * 100_000))
        assert headline(event).endswith("x…")
        assert len(headline(event)) < 250

    def test_short_texts_stay_complete(self) -> None:
        """Short texts stay complete; an input is shown as JSON with non-ASCII letters kept."""
        assert shortened("a\t b") == "a b"
        assert shortened("abcdef", 4) == "abc…"
        assert input_head({"name": "Größe"}) == '{"name": "Größe"}'
        assert input_head({}) == ""


class TestCosts:
    @pytest.mark.parametrize(
        ("cost", "shown"),
        [
            (0.00001, "<$0.0001"),
            (0.0312, "$0.0312"),
            (0.1, "$0.10"),
            (12.344, "$12.34"),
            (0.0, "$0.0000"),
        ],
    )
    def test_dollars(self, cost: float, shown: str) -> None:
        """Small amounts keep their significant digits, and zero is shown as zero."""
        assert dollars(cost) == shown
