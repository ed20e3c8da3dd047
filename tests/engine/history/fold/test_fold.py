"""Events become a state: markings, pending set, approvals, calls and transcript."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.engine.history.errors import FoldError
from interlock.engine.history.fold.fold import apply, fold, new_state, snapshot
from interlock.engine.history.model.events import (
    ApprovalWithdrawn,
    EventBody,
    MessageAdded,
    ModeChanged,
    NetToggled,
    SessionResumed,
    SessionStatus,
    StepEnded,
)
from interlock.engine.history.model.records import CallRecord
from interlock.engine.history.model.state import SessionState

from ..support.recording import (
    NOON,
    RULE,
    answer,
    approval,
    asks,
    block,
    decided,
    limit,
    limit_per,
    opening,
    recorded,
    request,
    result,
    sequence,
    state_after,
    step,
    tokens,
    washing,
)

TEST_FIRST = sequence("test", "deploy")
ASK = approval("deploy")
TWICE = limit("push", 2)
REFILLED = limit_per("push", 2, "test")
DO_TEST = step(TEST_FIRST, "do-test", "test", deferred=True)
REFILL = step(REFILLED, "refill", "test", deferred=True)
PUSH = step(REFILLED, "do-push", "push")


def marking(state: SessionState, net: object) -> dict[str, int]:
    """Return the places of a net that have tokens."""
    return tokens(state.nets[getattr(net, "name", str(net))].marking)


class TestSharedNets:
    def test_unmoved_net_state_is_shared(self) -> None:
        """Sessions share the state of a net that has not moved, active or not."""
        for active in ((TWICE.name,), ()):
            one, two = (state_after(opening(TWICE, TEST_FIRST, active=active)) for _ in range(2))
            assert all(one.nets[key] is two.nets[key] for key in one.nets)
            assert one.nets[TWICE.name].active == bool(active)

    def test_moved_net_does_not_affect_other_sessions(self) -> None:
        """Moving a net in one session does not affect the same net in others."""
        other = state_after(opening(TWICE, TEST_FIRST))
        before = other.model_dump()
        pushed = decided("c", "push", step(TWICE, "do-push", "push"))
        off = NetToggled(net=TEST_FIRST.name, active=False, message="off", by="maria")
        moved = state_after(opening(TWICE, TEST_FIRST), pushed, off)
        assert moved.nets[TWICE.name].marking != other.nets[TWICE.name].marking
        assert not moved.nets[TEST_FIRST.name].active
        assert other.model_dump() == before == state_after(opening(TWICE, TEST_FIRST)).model_dump()

    def test_different_nets_of_one_name_are_separate(self) -> None:
        """Different nets with the same name have separate initial states, in any order."""
        once = replace(limit("push", 1), name=TWICE.name)
        kept = state_after(opening(TWICE))
        for net, budget in ((once, 1), (TWICE, 2), (once, 1)):
            assert marking(state_after(opening(net)), TWICE)["budget"] == budget
        assert marking(kept, TWICE)["budget"] == 2


class TestMarkings:
    def test_structural_transitions_fire_at_start(self) -> None:
        """A session starts after its structural transitions fired."""
        state = state_after(opening(TEST_FIRST, TWICE, block("rm"), active=[TWICE.name]))
        assert marking(state, TEST_FIRST) == {"ready": 1}
        assert marking(state, TWICE) == {"ready": 1, "budget": 2}
        assert state.active == [TWICE.name]
        assert [net.active for net in state.nets.values()] == [False, True, False]

    def test_deferred_steps_wait_for_their_result(self) -> None:
        """A deferred step is pending until its call succeeds; then the dependent call may fire."""
        called = (opening(TEST_FIRST), decided("c1", "test", DO_TEST))
        waiting = state_after(*called)
        assert marking(waiting, TEST_FIRST) == {"ready": 1}
        assert [(p.call_id, p.step, p.since) for p in waiting.pending] == [
            ("c1", DO_TEST, recorded(*called)[1].at)
        ]
        passed = state_after(*called, result("c1", "test", DO_TEST))
        assert marking(passed, TEST_FIRST) == {"gate": 1}
        assert passed.pending == []
        deploy = decided("c2", "deploy", step(TEST_FIRST, "do-deploy", "deploy"))
        assert marking(state_after(*called, result("c1", "test", DO_TEST), deploy), TEST_FIRST) == {
            "ready": 1
        }

    def test_dropped_steps_change_nothing(self) -> None:
        """A failed call's pending entry is removed, and the marking stays unchanged."""
        state = state_after(
            opening(TEST_FIRST),
            decided("c1", "test", DO_TEST),
            result("c1", "test", is_error=True, dropped=(DO_TEST,)),
        )
        assert state.pending == []
        assert marking(state, TEST_FIRST) == {"ready": 1}
        assert state.calls["c1"].status == "failed"

    def test_budgets_of_failed_calls_stay_spent(self) -> None:
        """G-63: replay fires the recorded steps, so a failed call has spent its use."""
        state = state_after(
            opening(REFILLED), decided("c1", "push", PUSH), result("c1", "push", is_error=True)
        )
        assert marking(state, REFILLED) == {"ready": 1, "budget": 1, "spent": 1}

    def test_a_refill_moves_all_tokens_back(self) -> None:
        """G-55: a successful refill restores the whole budget by its transfer arc."""
        state = state_after(
            opening(REFILLED),
            decided("c1", "push", PUSH),
            decided("c2", "push", PUSH),
            decided("c3", "test", REFILL),
        )
        assert marking(state, REFILLED) == {"ready": 1, "spent": 2}
        apply(state, recorded(*[SessionStatus(status="running")] * 4, result("c3", "test", REFILL))[4])
        assert marking(state, REFILLED) == {"ready": 1, "budget": 2}

    def test_result_resolves_pending_entry_of_inactive_net(self) -> None:
        """G-17: a result also resolves the pending entry of an inactive net."""
        off = NetToggled(
            net=TEST_FIRST.name, active=False, by="maria", message=f"Deactivated '{TEST_FIRST.name}'"
        )
        state = state_after(
            opening(TEST_FIRST), decided("c1", "test", DO_TEST), off, result("c1", "test", DO_TEST)
        )
        assert state.active == []
        assert marking(state, TEST_FIRST) == {"gate": 1}

    def test_one_call_moves_several_nets(self) -> None:
        """The steps of a decision fire in order, even twice in the same net."""
        twice = step(TWICE, "do-push", "push")
        state = state_after(opening(TWICE, REFILLED), decided("c1", "push", twice, PUSH, twice))
        assert marking(state, TWICE) == {"ready": 1}
        assert marking(state, REFILLED) == {"ready": 1, "budget": 1, "spent": 1}

    def test_structural_transitions_fire_after_every_step(self) -> None:
        """G-4: structural transitions fire after each recorded step."""
        plates = washing("cook")
        use = step(plates, "use-cook", "cook")
        state = state_after(opening(plates), decided("c1", "cook", use, use), decided("c2", "cook", use))
        assert marking(state, plates) == {"clean": 1, "washed": 3}

    def test_recorded_manual_transition_fires(self) -> None:
        """A recorded manual transition fires, in shadow mode too (G-57)."""
        approve = step(ASK, "approve", "deploy")
        state = state_after(
            opening(ASK),
            decided("c1", "deploy", approve, outcome="ask", mode="shadow", reason="would ask"),
        )
        assert marking(state, ASK) == {"ready": 1}
        assert (state.calls["c1"].status, state.calls["c1"].outcome) == ("running", "ask")

    def test_reactivated_net_comes_last(self) -> None:
        """G-22: a net that is switched on again comes last."""
        nets = (TEST_FIRST, TWICE)
        switch = [
            NetToggled(net=TEST_FIRST.name, active=on, by="maria", message="said so")
            for on in (False, True)
        ]
        state = state_after(opening(*nets), *switch)
        assert state.active == [TWICE.name, TEST_FIRST.name]
        assert [(e.kind, e.text, e.by) for e in state.transcript] == [
            ("note", "said so (by maria)", "maria")
        ] * 2


class TestTranscript:
    def test_entries_appear_in_order(self) -> None:
        """Messages, calls at their proposal, and notes appear in order."""
        state = state_after(
            opening(),
            MessageAdded(role="user", text="ship it"),
            MessageAdded(
                role="assistant",
                text="checking",
                calls=(CallRecord(call_id="c1", tool="test", input={}),),
            ),
            decided("c1", "test"),
            ModeChanged(mode="shadow", by="maria"),
            MessageAdded(role="user", text="stop", by="maria"),
            result("c1", "test"),
            MessageAdded(role="assistant", text=""),
            SessionStatus(status="failed", error="no more tokens"),
        )
        assert [(e.kind, e.text, e.by) for e in state.transcript] == [
            ("user", "ship it", None),
            ("assistant", "checking", None),
            ("call", None, None),
            ("note", "mode: shadow (by maria)", "maria"),
            ("user", "stop", "maria"),
            ("note", "error: no more tokens", None),
        ]
        assert state.mode == "shadow"
        assert (state.status, state.error) == ("failed", "no more tokens")

    def test_tokens_and_times_are_kept(self) -> None:
        """Tokens are summed up; opened and updated are the times of the first and last event."""
        used = StepEnded(finish_reason="stop", input_tokens=100, output_tokens=7)
        events = recorded(opening(workdir="/srv/app", tools=("test",)), used, used)
        state = fold(events)
        assert (state.input_tokens, state.output_tokens) == (200, 14)
        assert (state.opened, state.updated, state.seq) == (events[0].at, events[2].at, 3)
        assert (state.agent, state.model, state.workdir, state.tools) == (
            "release-bot",
            "a-model",
            "/srv/app",
            ("test",),
        )


class TestApprovals:
    def test_session_waits_until_the_last_answer(self) -> None:
        """A session is waiting while a request is open, and then has its earlier status again."""
        bodies: list[EventBody] = [
            opening(ASK),
            SessionStatus(status="running"),
            asks(("c1", "deploy")),
            request("a1", "c1", "deploy"),
            request("a2", "c1", "deploy"),
            answer("a1", "c1"),
            ApprovalWithdrawn(approval_id="a2", call_id="c1", reason="the agent was interrupted"),
        ]
        events = recorded(*bodies)
        seen = [fold(events[:n]) for n in range(3, 8)]
        assert [s.status for s in seen] == ["running", "waiting", "waiting", "waiting", "running"]
        assert [s.calls["c1"].status for s in seen] == ["proposed", *["waiting"] * 3, "proposed"]
        assert [list(s.approvals) for s in seen] == [[], ["a1"], ["a1", "a2"], ["a2"], []]

    def test_open_request_has_all_queue_data(self) -> None:
        """An open request has all data that the queue shows."""
        events = recorded(opening(ASK), request("a1", "c1", "deploy"))
        asked = fold(events).approvals["a1"]
        assert (asked.session, asked.agent, asked.since) == ("s1", "release-bot", events[1].at)
        assert (asked.tool, asked.input, asked.rule) == ("deploy", {"env": "prod"}, RULE)
        assert asked.message == "Allow 'deploy' via transition 'approve' in net 'approve-before-deploy'?"

    def test_edited_input_replaces_the_proposed_one(self) -> None:
        """An edited input replaces the proposed one, and the call keeps its approver."""
        state = state_after(
            opening(ASK),
            request("a1", "c1", "deploy"),
            answer("a1", "c1"),
            decided("c1", "deploy", input={"env": "test"}, edited=True, approved_by=("maria",)),
        )
        assert (state.calls["c1"].input, state.calls["c1"].approved_by) == ({"env": "test"}, ("maria",))


OPEN = opening(TEST_FIRST, TWICE)
RESUMED = SessionResumed(agent="a", model="m", mode="enforce")
IMPOSSIBLE: dict[str, tuple[tuple[EventBody, ...], str]] = {
    "nothing opened": ((asks(("c", "t")),), "opened once, by its first event"),
    "opened twice": ((OPEN, OPEN), "opened once, by its first event"),
    "a net twice": ((opening(TWICE, TWICE),), "'limit-push-2' is listed twice"),
    "unknown active net": ((opening(active=["x"]),), "active net 'x' is not among its nets"),
    "unknown net": (
        (OPEN, decided("c", "t", step(ASK, "approve", "t"))),
        "no net 'approve-before-deploy'",
    ),
    "unknown transition": ((OPEN, decided("c", "t", step(TWICE, "x", "t"))), "has no transition 'x'"),
    "unknown deferred": (
        (OPEN, decided("c", "t", step(TWICE, "x", "t", deferred=True))),
        "has no transition 'x'",
    ),
    "not enabled": (
        (OPEN, decided("c", "t", step(TEST_FIRST, "do-deploy", "t"))),
        "'do-deploy' is not enabled",
    ),
    "more than the budget": (
        (OPEN, decided("c", "t", *[step(TWICE, "do-push", "push")] * 3)),
        "'do-push' is not enabled",
    ),
    "a blocked call fires": (
        (OPEN, decided("c", "t", step(TWICE, "do-push", "push"), outcome="block")),
        "a blocked call fires nothing",
    ),
    "nothing pending": (
        (OPEN, result("c", "test", DO_TEST)),
        "'do-test' of net .* is not pending for call 'c'",
    ),
    "dropped twice": (
        (OPEN, decided("c", "test", DO_TEST), result("c", "test", dropped=(DO_TEST, DO_TEST))),
        "is not pending for call 'c'",
    ),
    "asked twice": (
        (OPEN, request("a", "c", "t"), request("a", "c", "t")),
        "approval 'a' is open already",
    ),
    "answered twice": (
        (OPEN, request("a", "c", "t"), answer("a", "c"), answer("a", "c")),
        "approval 'a' is not open",
    ),
    "unknown switch": (
        (OPEN, NetToggled(net="x", active=True, by="m", message="")),
        "the session has no net 'x'",
    ),
    "switched on twice": (
        (OPEN, NetToggled(net=TWICE.name, active=True, by="m", message="")),
        "is already active",
    ),
    "dropping a net that is not there": (
        (OPEN, RESUMED.model_copy(update={"dropped": ("x",)})),
        "the session has no net 'x' to drop",
    ),
    "going on under a net that was dropped": (
        (OPEN, RESUMED.model_copy(update={"dropped": (TWICE.name,), "active": (TWICE.name,)})),
        f"active net '{TWICE.name}' is not among its nets",
    ),
    "a net that starts fresh twice": (
        (OPEN, RESUMED.model_copy(update={"nets": (OPEN.nets[0], OPEN.nets[0])})),
        "is listed twice",
    ),
    "resuming what was not opened": ((RESUMED,), "a session is opened once, by its first event"),
}


class TestImpossibleEvents:
    @pytest.mark.parametrize("case", IMPOSSIBLE)
    def test_are_refused_and_change_nothing(self, case: str) -> None:
        """An impossible event is refused with its number and reason; the state stays unchanged."""
        bodies, why = IMPOSSIBLE[case]
        events = recorded(*bodies)
        state = new_state("s1")
        for event in events[:-1]:
            apply(state, event)
        before = snapshot(state)
        with pytest.raises(FoldError, match=rf"session 's1', event {len(events)} \(.*\): .*{why}"):
            apply(state, events[-1])
        assert state == before

    def test_numbers_and_sessions_must_match(self) -> None:
        """A missing or repeated event, or one of another session, is refused."""
        events = recorded(OPEN, SessionStatus(status="running"), SessionStatus(status="idle"))
        for wrong in ([events[0], events[2]], [events[0], events[0]], events[1:]):
            with pytest.raises(FoldError, match="was expected"):
                fold(wrong)
        with pytest.raises(FoldError, match="not of session 's1'"):
            fold([events[0], events[1].model_copy(update={"session": "s2"})])
        with pytest.raises(FoldError, match="no events"):
            fold([])

    def test_invalid_recorded_net_is_refused(self) -> None:
        """A recorded net with an unknown place is refused."""
        body = OPEN.model_copy(
            update={
                "nets": (OPEN.nets[0].model_copy(update={"initial_marking": {"nowhere": 1}}),),
                "active": (),
            }
        )
        with pytest.raises(FoldError, match="unknown place 'nowhere'"):
            fold(recorded(body))

    def test_times_are_taken_from_events(self) -> None:
        """The fold takes all times from the events."""
        [event] = recorded(OPEN)
        assert fold([event.model_copy(update={"at": NOON})]).updated == NOON
