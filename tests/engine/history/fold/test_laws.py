"""Laws: a fold equals the live gate, and each path to a moment leads to the same state."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.gate import GateContext, ToolResult, create_gate_manager
from interlock.engine.gate.types import GateDecision, Step
from interlock.engine.history.fold.fold import apply, fold, new_state
from interlock.engine.history.fold.replay import Replay
from interlock.engine.history.journal.session_index import SessionLine
from interlock.engine.history.model.events import (
    CallResult,
    EventBody,
    FreezeBegan,
    FreezeLifted,
    JournalEvent,
    ModeChanged,
    NetToggled,
    SessionResumed,
    SessionStatus,
)
from interlock.engine.history.model.state import SessionState
from interlock.engine.net.net import SkillNet, ToolCall
from interlock.engine.recording.interrupted_calls import closings
from interlock.engine.recording.records import decision_record, net_record, step_records
from tests.support.clock import NOON
from tests.support.laws import examples

from ..support.recording import (
    approval,
    asks,
    block,
    limit,
    limit_per,
    opening,
    recorded,
    registry,
    sequence,
    washing,
)

NETS = (
    sequence("lint", "test"),
    sequence("test", "deploy"),
    approval("deploy"),
    limit("lint", 2),
    limit_per("push", 2, "test"),
    block("rm"),
    washing("free"),
)
TOOLS = ("lint", "test", "deploy", "push", "rm", "free")
MODES: tuple[Literal["enforce", "shadow"], ...] = ("enforce", "shadow")

Move = tuple[str, object, bool]
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from(TOOLS), st.booleans()),
        st.tuples(st.just("result"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("not run"), st.integers(0, 3), st.just(True)),
        st.tuples(st.just("toggle"), st.sampled_from(NETS), st.booleans()),
        st.tuples(st.just("mode"), st.sampled_from(MODES), st.just(True)),
        st.tuples(st.just("status"), st.sampled_from(("running", "idle", "done")), st.just(True)),
        st.tuples(st.just("resume"), st.sampled_from(NETS), st.booleans()),
        st.tuples(st.just("freeze"), st.just(None), st.booleans()),
    ),
    max_size=40,
)


class Live:
    """A gate that is driven by moves, with the events that it would record."""

    def __init__(self) -> None:
        self.manager = create_gate_manager(registry=registry(*NETS))
        self.bodies: list[EventBody] = [opening(*NETS)]
        self.running: list[ToolCall] = []
        self.steps: dict[str, tuple[Step, ...]] = {}
        self.frozen = False

    async def move(self, what: str, which: object, well: bool) -> None:
        """Make one move; a refused move leaves no event."""
        match what, which:
            case "call", str() as tool:
                await self.call(tool, approved=well)
            case "result", int() as index if self.running:
                self.finish(self.running.pop(index % len(self.running)), failed=not well)
            case "not run", int() as index if self.running:
                call = self.running.pop(index % len(self.running))
                self.finish(call, failed=True, undo=self.steps[call.tool_call_id])
            case "toggle", net:
                name = getattr(net, "name", "")
                done = self.manager.add_net(name) if well else self.manager.remove_net(name)
                if done.ok:
                    self.bodies.append(
                        NetToggled(net=name, active=well, by="maria", message=done.message)
                    )
            case "mode", ("enforce" | "shadow") as mode if mode != self.manager.mode:
                self.manager.mode = mode
                self.bodies.append(ModeChanged(mode=mode, by="maria"))
            case "freeze", _ if well != self.frozen:
                self.frozen = well
                began, over = FreezeBegan(by="maria", since=NOON), FreezeLifted(by="ben")
                self.bodies.append(began if well else over)
            case "status", ("running" | "idle" | "done") as status:
                self.bodies.append(SessionStatus(status=status))
            case "resume", SkillNet() as net:
                self.resume(net, drop=well)
            case _:
                pass

    async def call(self, tool: str, *, approved: bool) -> None:
        call = ToolCall(f"c{len(self.bodies)}", tool)
        self.bodies.append(asks((call.tool_call_id, tool)))
        context = GateContext(confirm=lambda request: approved)
        decision: GateDecision = await self.manager.handle_tool_call(call, context)
        self.bodies.append(decision_record(decision, call.input))
        if not decision.block:
            self.running.append(call)
            self.steps[call.tool_call_id] = decision.steps

    def resume(self, net: SkillNet, *, drop: bool) -> None:
        """Continue the record with another gate in which `net` is fresh or dropped."""
        events = recorded(*self.bodies)
        state = fold(events)
        nets = [n for n in self.manager.nets.values() if not (drop and n is net)]
        nets = nets if drop or net in nets else [*nets, net]
        kept = [n.name for n in nets if n is not net]
        active = [n.name for n in nets if n.name in state.active or n is net]
        self.manager = create_gate_manager(registry=registry(*nets), active=active, mode=state.mode)
        self.manager.restore(markings={key: state.nets[key].marking for key in kept})
        self.bodies += [
            SessionStatus(status="failed", error="died"),
            SessionResumed(
                agent="other",
                model="m",
                mode=state.mode,
                nets=tuple(net_record(n.name, n) for n in nets if n is net),
                dropped=(net.name,) if drop and net.name in state.nets else (),
                active=tuple(active),
            ),
            *closings(state, [], []),
        ]
        self.running.clear()
        self.frozen = False

    def finish(self, call: ToolCall, *, failed: bool, undo: tuple[Step, ...] = ()) -> None:
        told = self.manager.handle_tool_result(
            ToolResult(call.tool_call_id, call.tool_name, call.input, failed, undo)
        )
        self.bodies.append(
            CallResult(
                call_id=call.tool_call_id,
                tool=call.tool_name,
                output="",
                is_error=failed,
                fired=step_records(told.fired),
                dropped=step_records(told.dropped),
                anomaly=told.anomaly,
                undone=step_records(told.undone),
            )
        )


async def played(moves: list[Move]) -> Live:
    live = Live()
    for move in moves:
        await live.move(*move)
    return live


def events_of(moves: list[Move]) -> list[JournalEvent]:
    """Return the record of a session in which these moves were made."""
    return recorded(*asyncio.run(played(moves)).bodies)


class TestFold:
    @settings(max_examples=examples(150), deadline=None)
    @given(MOVES)
    def test_equals_the_live_gate(self, moves: list[Move]) -> None:
        """G-63: markings, pending set, active nets and mode follow exactly from the events."""
        live = asyncio.run(played(moves))
        state = fold(recorded(*live.bodies))
        states = live.manager.states
        assert {key: net.marking for key, net in state.nets.items()} == {
            key: now.marking for key, now in states.items()
        }
        assert tuple(state.active) == live.manager.active
        assert state.mode == live.manager.mode
        assert (state.frozen is not None) == live.frozen
        pending = {
            (call_id, key, p.transition.name, p.tool)
            for key, now in states.items()
            for call_id, waiting in now.pending.items()
            for p in waiting
        }
        assert {(p.call_id, p.step.net, p.step.transition, p.step.tool) for p in state.pending} == pending

    @pytest.mark.slow
    @settings(max_examples=examples(60), deadline=None)
    @given(MOVES)
    def test_one_by_one_equals_folding_each_prefix(self, moves: list[Move]) -> None:
        """Applying events one by one gives the same state as folding each prefix."""
        events = events_of(moves)
        state = new_state("s1")
        for number, event in enumerate(events, start=1):
            apply(state, event)
            assert state == fold(events[:number])

    @pytest.mark.slow
    @settings(max_examples=examples(60), deadline=None)
    @given(MOVES)
    def test_agrees_with_the_session_line(self, moves: list[Move]) -> None:
        """A session's line in the list agrees with its state."""
        events = events_of(moves)
        line, state = SessionLine.of(events).summary(), fold(events)
        assert (line.status, line.mode, line.events, line.waiting, line.error) == (
            state.status,
            state.mode,
            state.seq,
            len(state.approvals),
            state.error,
        )
        assert line.blocked == sum(c.status == "blocked" for c in state.calls.values())
        assert (line.opened, line.updated) == (state.opened, state.updated)
        assert (line.agent, line.model, line.kind) == (state.agent, state.model, state.kind)

    @pytest.mark.slow
    @settings(max_examples=examples(60), deadline=None)
    @given(MOVES)
    def test_survives_json_round_trip(self, moves: list[Move]) -> None:
        """Events and states survive a round trip through JSON."""
        events = events_of(moves)
        assert [JournalEvent.model_validate_json(e.model_dump_json()) for e in events] == events
        state = fold(events)
        assert SessionState.model_validate_json(state.model_dump_json()) == state


class TestReplay:
    @settings(max_examples=examples(60), deadline=None)
    @given(MOVES, st.lists(st.integers(-3, 45), max_size=12))
    def test_any_jumps_equal_a_fresh_fold(self, moves: list[Move], visits: list[int]) -> None:
        """Any sequence of jumps shows the same as a fresh fold, and earlier states stay unchanged."""
        events = events_of(moves)
        replay = Replay(events)
        seen: list[tuple[int, SessionState, SessionState]] = []
        for visit in visits:
            replay.goto(visit)
            seen.append((replay.position, replay.before, replay.state))
            replay.step(-1)
            replay.step(+1)
        for position, before, state in seen:
            assert state == (fold(events[:position]) if position else new_state("s1"))
            assert before == (fold(events[: position - 1]) if position > 1 else new_state("s1"))
