"""Calls in a session's state, from proposal to result."""

from __future__ import annotations

import pytest

from interlock.engine.history.fold.fold import apply, fold, new_state
from interlock.engine.history.model.events import EventBody, MessageAdded, SessionStatus
from interlock.engine.history.model.state import SessionState

from ..support.recording import (
    RULE,
    answer,
    asks,
    decided,
    opening,
    recorded,
    request,
    result,
    sequence,
    state_after,
    step,
)

TEST_FIRST = sequence("test", "deploy")
DO_TEST = step(TEST_FIRST, "do-test", "test", deferred=True)


class TestCalls:
    def test_from_proposal_to_result(self) -> None:
        """A call is in the transcript once, as the same object as under its id, with all its data."""
        bodies: list[EventBody] = [
            opening(TEST_FIRST),
            asks(("c1", "test")),
            decided("c1", "test", DO_TEST, input={"fast": True}, names=("test", "bash")),
            result("c1", "test", DO_TEST, output="12 passed", seconds=8.4),
            MessageAdded(role="tool", call_id="c1", tool="test"),
        ]
        statuses = []
        state = new_state("s1")
        for event in recorded(*bodies):
            apply(state, event)
            if state.calls:
                statuses.append(state.calls["c1"].status)
                [entry] = state.transcript
                assert entry.call is state.calls["c1"]
        call = state.calls["c1"]
        assert statuses == ["proposed", "running", "done", "done"]
        assert (call.output, call.seconds, call.input) == ("12 passed", 8.4, {"fast": True})
        assert call.names == ("test", "bash")

    def test_blocked(self) -> None:
        """A blocked call keeps reason, net and rule; its output is the text sent to the model."""
        reason = "deploy requires a successful call to test first."
        state = state_after(
            opening(TEST_FIRST),
            asks(("c1", "deploy")),
            decided("c1", "deploy", outcome="block", reason=reason, net=TEST_FIRST.name, rule=RULE),
            MessageAdded(role="tool", call_id="c1", tool="deploy", text=reason, is_error=True),
        )
        call = state.calls["c1"]
        assert (call.status, call.reason, call.net, call.rule) == (
            "blocked",
            reason,
            TEST_FIRST.name,
            RULE,
        )
        assert call.output == reason

    def test_shadow_mode_runs_blocked_calls(self) -> None:
        """G-57: in shadow mode the verdict is kept, and the call runs."""
        state = state_after(
            opening(TEST_FIRST, mode="shadow"),
            decided("c1", "deploy", outcome="block", mode="shadow", reason="no"),
        )
        assert (state.calls["c1"].status, state.calls["c1"].outcome) == ("running", "block")

    def test_skipped_by_tool_message_before_a_decision(self) -> None:
        """The tool message for an undecided call has the reason that it was skipped."""
        text = "Skipped: user sent a new message"
        state = state_after(
            opening(),
            asks(("c1", "test")),
            MessageAdded(role="tool", call_id="c1", tool="test", text=text, is_error=True),
        )
        assert (state.calls["c1"].status, state.calls["c1"].output) == ("skipped", text)

    def test_skipped_when_the_turn_ends(self) -> None:
        """The end of a turn skips its undecided calls; earlier turns and running calls stay unchanged."""
        hello = MessageAdded(role="user", text="go on")
        state = state_after(
            opening(),
            asks(("c1", "test"), ("c2", "test")),
            decided("c2", "test"),
            SessionStatus(status="idle"),
        )
        assert [state.calls[c].status for c in ("c1", "c2")] == ["skipped", "running"]
        again = state_after(opening(), asks(("c1", "test")), hello, SessionStatus(status="idle"))
        assert again.calls["c1"].status == "proposed"

    @pytest.mark.parametrize("end", ["done", "failed"])
    def test_unknown_when_the_session_ends_without_a_result(self, end: str) -> None:
        """An allowed call without a result has an unknown outcome; a late result still settles it."""
        ended = (
            opening(TEST_FIRST),
            asks(("c1", "test"), ("c2", "deploy"), ("c3", "lint")),
            decided("c1", "test", DO_TEST),
            request("a1", "c2", "deploy"),
            SessionStatus.model_validate({"status": end, "error": "it broke"}),
        )
        state = state_after(*ended)
        assert [state.calls[c].status for c in ("c1", "c2", "c3")] == ["unknown", "skipped", "skipped"]
        assert state.status == end
        assert [p.call_id for p in state.pending] == ["c1"]
        late = state_after(*ended, result("c1", "test", DO_TEST))
        assert late.calls["c1"].status == "done"

    def test_unknown_when_cut_short(self) -> None:
        """A running call has an unknown outcome if the model got another message than its result."""
        state = state_after(
            opening(),
            decided("c1", "test"),
            MessageAdded(role="tool", call_id="c1", tool="test", text="Aborted", is_error=True),
        )
        assert (state.calls["c1"].status, state.calls["c1"].output) == ("unknown", "Aborted")

    def test_repeated_ids_keep_separate_entries(self) -> None:
        """For calls with the same id, the latest is under the id; each has its own transcript entry."""
        state = state_after(
            opening(),
            asks(("c", "test")),
            decided("c", "test"),
            result("c", "test", output="first"),
            asks(("c", "deploy")),
            decided("c", "deploy", outcome="block"),
        )
        assert state.calls["c"].tool == "deploy"
        assert [(e.call.tool, e.call.status) for e in state.transcript if e.call] == [
            ("test", "done"),
            ("deploy", "blocked"),
        ]

    def test_blocked_call_reusing_a_running_id(self) -> None:
        """G-53: a blocked call that reuses a running call's id does not take that call's result."""
        state = state_after(
            opening(),
            decided("c", "test"),
            decided("c", "deploy", outcome="block", reason="Tool call id 'c' is already in use."),
            result("c", "test", output="ran"),
        )
        assert [(e.call.tool, e.call.status, e.call.output) for e in state.transcript if e.call] == [
            ("test", "done", "ran"),
            ("deploy", "blocked", None),
        ]

    def test_blocked_call_reusing_a_waiting_id(self) -> None:
        """G-53: the same holds for a call that waits for approval."""
        state = state_after(
            opening(),
            request("a1", "c", "deploy"),
            decided("c", "rm", outcome="block", reason="Tool call id 'c' is already in use."),
            answer("a1", "c"),
            decided("c", "deploy", approved_by=("maria",)),
        )
        assert [(e.call.tool, e.call.status) for e in state.transcript if e.call] == [
            ("deploy", "running"),
            ("rm", "blocked"),
        ]

    def test_anomalies_change_nothing(self) -> None:
        """G-53: a result that names another tool becomes a note; the call still waits for its own."""
        state = state_after(
            opening(TEST_FIRST),
            decided("c1", "test", DO_TEST),
            result("c1", "deploy", anomaly="call 'c1' is a call to test"),
        )
        assert state.calls["c1"].status == "running"
        assert len(state.pending) == 1
        assert state.transcript[-1].text == "anomaly: call 'c1' is a call to test"

    def test_result_of_unknown_call_changes_nothing(self) -> None:
        """G-16: a result of an unknown call changes nothing."""
        before = state_after(opening(TEST_FIRST))
        after = state_after(opening(TEST_FIRST), result("c9", "test"))
        assert (after.calls, after.transcript, after.nets) == (
            before.calls,
            before.transcript,
            before.nets,
        )

    def test_state_from_json_continues_like_original(self) -> None:
        """A state that is restored from JSON continues like the original."""
        events = recorded(
            opening(TEST_FIRST),
            asks(("c1", "test")),
            decided("c1", "test", DO_TEST),
            result("c1", "test", DO_TEST),
        )
        state = fold(events[:2])
        remote = SessionState.model_validate_json(state.model_dump_json())
        for event in events[2:]:
            apply(state, event)
            apply(remote, event)
            assert remote == state
