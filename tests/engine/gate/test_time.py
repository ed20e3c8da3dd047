"""Nets that time moves: sliding limits and the arrival times of tokens."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from interlock.engine import (
    GateContext,
    GateManager,
    NetError,
    Rejection,
    Transition,
    create_gate,
    create_gate_manager,
    handle_tool_call,
    handle_tool_result,
)
from interlock.engine.gate import classify_nets
from interlock.engine.net.net import initial_state
from interlock.engine.verify import Way

from .support.helpers import call, everything, markings, net, reason, result
from .support.ruled import HOUR, Asker, Clock, approval, block, gate_of, limit, nets_of

LIMIT = "limit-bash-2-per-1h"


def sliding(clock: Clock, *more: Any, **options: Any) -> GateManager:
    """At most two calls of `bash` per hour."""
    return gate_of(limit("bash", 2), *more, clock=clock, **options)


def fresh_place(after: float = 10.0, **parts: Any) -> Any:
    """A net that needs a recent success of `work` for `use`."""
    return net(
        "fresh",
        Transition("work", ["p"], ["p", "fresh"], ["work"], deferred=True),
        Transition("spoil", ["fresh"], ["stale"], after=after),
        Transition("use", ["p", "fresh"], ["p"], ["use"]),
        marking={"p": 1, "fresh": 0, "stale": 0},
        **parts,
    )


class TestSlidingLimit:
    """Uses return one by one."""

    async def test_each_use_returns_after_its_own_window(self) -> None:
        """G-55: each use returns after its own window, not all at once."""
        clock = Clock()
        gate = sliding(clock)
        assert await reason(gate, "bash", "1") is None
        clock.now += 1000
        assert await reason(gate, "bash", "2") is None
        clock.now += HOUR - 1000 - 1
        assert await reason(gate, "bash", "3") == "bash has reached its limit of 2 calls per 1h."
        clock.now += 1
        assert await reason(gate, "bash", "4") is None
        assert await reason(gate, "bash", "5") is not None
        clock.now += 1000
        assert await reason(gate, "bash", "6") is None

    async def test_steps_begin_with_those_fired_by_time(self) -> None:
        """G-63: a decision's steps begin with those that time fired, and it has the time."""
        clock = Clock()
        gate = sliding(clock)
        await reason(gate, "bash", "1")
        clock.now += HOUR
        decision = await gate.handle_tool_call(call("bash", "2"))
        assert [(s.transition.name, s.tool) for s in decision.steps] == [
            ("recover", ""),
            ("do-bash", "bash"),
        ]
        assert decision.clock == clock.now
        assert gate.states[LIMIT].since == {"spent": (clock.now,)}

    async def test_a_blocked_call_ages_nothing(self) -> None:
        """G-11: a blocked call does not age any net."""
        clock = Clock()
        gate = sliding(clock, block("bash"))
        gate.restore(
            markings={LIMIT: {"ready": 1, "spent": 2}}, since={LIMIT: {"spent": (clock.now,) * 2}}
        )
        clock.now += HOUR
        before = everything(gate), dict(gate.states[LIMIT].since)
        decision = await gate.handle_tool_call(call("bash"))
        assert (decision.block, decision.clock) == (True, clock.now)
        assert (everything(gate), gate.states[LIMIT].since) == before

    async def test_validators_see_the_present(self) -> None:
        """G-14: a validator sees the aged marking; a rejection restores the former one."""
        seen: list[dict[str, int]] = []
        clock = Clock()

        def validate(_call: object, _tool: str, _t: object, state: Any) -> Rejection:
            seen.append(dict(state.marking))
            return Rejection("no")

        gate = create_gate_manager([fresh_place(validate_tool_call=validate)], clock=clock)
        gate.restore(
            markings={"fresh": {"p": 1, "fresh": 2}},
            since={"fresh": {"fresh": (clock.now - 10, clock.now)}},
        )
        assert await reason(gate, "use") == "no"
        assert seen == [{"p": 1, "fresh": 1, "stale": 1}]
        assert markings(gate)["fresh"] == {"p": 1, "fresh": 2, "stale": 0}

    async def test_clock_is_read_only_for_timed_nets(self) -> None:
        """G-10: for calls of no timed net, the clock is not read and the decision has no time."""
        clock = Clock()
        gate = sliding(clock, block("format"))
        decision = await gate.handle_tool_call(call("format"))
        gate.handle_tool_result(result("format"))
        assert (clock.reads, decision.clock) == (0, None)

    async def test_call_is_judged_at_time_of_the_answer(self) -> None:
        """G-58: after an answer, the call is judged and counted at that time."""
        clock = Clock()
        gate = sliding(clock, approval("bash"))

        def confirm(_: object) -> bool:
            clock.now += 500
            return True

        decision = await gate.handle_tool_call(call("bash"), GateContext(confirm))
        assert decision.clock == clock.now
        assert gate.states[LIMIT].since == {"spent": (clock.now,)}

    async def test_shadow_mode_returns_and_spends_uses(self) -> None:
        """G-57: in shadow mode uses return and are spent, too."""
        clock = Clock()
        gate = sliding(clock, mode="shadow")
        outcomes: list[str] = []
        for number in range(6):
            outcomes.append((await gate.handle_tool_call(call("bash", str(number)))).outcome)
            clock.now += HOUR if number == 2 else 0
        assert outcomes == ["allow", "allow", "block", "allow", "allow", "block"]


class TestResults:
    """A result moves tokens at the time of its arrival."""

    async def test_token_age_counts_from_the_result(self) -> None:
        """G-16: the age of a token that a result produced counts from the result, not the call."""
        clock = Clock()
        gate = create_gate_manager([fresh_place()], clock=clock)
        await gate.handle_tool_call(call("work", "1"))
        clock.now += 100
        record = gate.handle_tool_result(result("work", "1"))
        assert (record.clock, len(record.fired)) == (clock.now, 1)
        clock.now += 9
        assert [v.kind for v in gate.classify(call("use"))] == ["gated"]
        clock.now += 1
        assert [v.kind for v in gate.classify(call("use"))] == ["blocked"]

    async def test_due_transitions_fire_before_the_result(self) -> None:
        """G-16: transitions that were due before a result fire first and are reported."""
        clock = Clock()
        gate = create_gate_manager([fresh_place()], clock=clock)
        for number in "12":
            await gate.handle_tool_call(call("work", number))
        gate.handle_tool_result(result("work", "1"))
        clock.now += 10
        record = gate.handle_tool_result(result("work", "2"))
        assert [(s.transition.name, s.tool) for s in record.fired] == [("spoil", ""), ("work", "work")]
        assert gate.states["fresh"].since == {"fresh": (clock.now,)}
        assert gate.states["fresh"].marking == {"p": 1, "fresh": 1, "stale": 1}

    async def test_expired_token_drops_deferred_transition(self) -> None:
        """G-16: a deferred transition whose token has expired is dropped."""
        clock = Clock()
        late = net(
            "late",
            Transition("do", ["fresh"], ["done"], ["do"], deferred=True),
            Transition("spoil", ["fresh"], ["stale"], after=10),
            marking={"fresh": 1, "done": 0, "stale": 0},
        )
        gate = create_gate_manager([late], clock=clock)
        await gate.handle_tool_call(call("do"))
        clock.now += 10
        record = gate.handle_tool_result(result("do"))
        assert ([s.transition.name for s in record.dropped], record.fired) == (["do"], ())
        assert markings(gate)["late"] == {"fresh": 1, "done": 0, "stale": 0}

    async def test_a_broken_clock_unlocks_nothing(self) -> None:
        """G-59: without a valid time, a result fires nothing in a timed net."""
        clock = Clock()
        gate = create_gate_manager([fresh_place()], clock=clock)
        await gate.handle_tool_call(call("work"))
        clock.now = nan
        assert [s.tool for s in gate.handle_tool_result(result("work")).dropped] == ["work"]


class TestClock:
    """The time comes from outside and may be invalid."""

    @pytest.mark.parametrize("time", [nan, inf, -inf, None, "now"])
    async def test_invalid_time_blocks_timed_calls(self, time: Any) -> None:
        """G-59: an invalid time blocks calls that depend on it, and no others."""
        clock = Clock()
        gate = sliding(clock)
        clock.now = time
        assert await reason(gate, "bash") == (
            f"{LIMIT}: clock failed: it says {time!r}, expected seconds since 1970"
        )
        assert await reason(gate, "ls") is None

    async def test_raising_clock_blocks_timed_calls(self) -> None:
        """G-59: a clock that raises also blocks them."""

        def broken() -> float:
            raise OSError("no clock")

        gate = gate_of(limit("bash", 2), clock=broken)
        assert await reason(gate, "bash") == f"{LIMIT}: clock failed: no clock"

    async def test_clock_set_back_has_no_effect(self) -> None:
        """G-55: a clock that was set back neither frees uses nor changes their order."""
        clock = Clock()
        gate = sliding(clock)
        start = clock.now
        await reason(gate, "bash", "1")
        clock.now -= 5000
        decision = await gate.handle_tool_call(call("bash", "2"))
        assert decision.clock == start
        assert gate.states[LIMIT].since == {"spent": (start, start)}


class TestRestoring:
    """Restoring the arrival times of tokens from a record."""

    async def test_restores_markings_and_arrival_times(self) -> None:
        """G-63: a restored gate has the same markings and arrival times as the first one."""
        clock = Clock()
        first = sliding(clock)
        for number in range(2):
            await reason(first, "bash", str(number))
            clock.now += 1000
        second = sliding(Clock(clock.now))
        second.restore(
            markings={key: state.marking for key, state in first.states.items()},
            since={key: state.since for key, state in first.states.items()},
        )
        assert second.states == first.states

    async def test_unknown_times_count_from_now(self) -> None:
        """G-63: uses with unknown times return only after the complete window."""
        clock = Clock()
        gate = sliding(clock)
        gate.restore(markings={LIMIT: {"ready": 1, "spent": 2}})
        clock.now += HOUR - 1
        assert await reason(gate, "bash", "1") is not None
        clock.now += 1
        assert await reason(gate, "bash", "2") is None

    @pytest.mark.parametrize(
        "since",
        [{"nowhere": {"spent": (1.0,)}}, {LIMIT: {"nowhere": (1.0,)}}, {LIMIT: {"spent": (nan,)}}],
    )
    async def test_invalid_times_are_refused(self, since: Any) -> None:
        """G-63: invalid times, or times of unknown nets or places, are refused and change nothing."""
        gate = sliding(Clock())
        before = everything(gate)
        with pytest.raises(NetError):
            gate.restore(markings={LIMIT: {"spent": 2}}, since=since)
        assert everything(gate) == before

    async def test_initial_tokens_are_as_old_as_the_gate(self) -> None:
        """G-63: the initial tokens of a net are as old as the gate."""
        clock = Clock()
        starts = net(
            "starts",
            Transition("use", ["p"], ["p"], ["x"]),
            Transition("end", ["p"], ["q"], after=10),
            marking={"p": 1, "q": 0},
        )
        gate = create_gate_manager([starts], clock=clock)
        clock.now += 9
        assert await reason(gate, "x", "1") is None
        clock.now += 1
        assert await reason(gate, "x", "2") is not None


class TestElsewhere:
    """Every other function that judges calls considers time."""

    async def test_status_and_prompt_show_aged_marking(self) -> None:
        """G-20, G-24: the status line and the prompt show the aged marking."""
        clock = Clock()
        gate = sliding(clock)
        for number in "12":
            await reason(gate, "bash", number)
        assert gate.format_status() == f"{LIMIT}: ready:1, spent:2"
        assert "Available gated tools: none" in gate.format_system_prompt()
        clock.now += HOUR
        assert gate.format_status() == f"{LIMIT}: ready:1, budget:2"
        assert "Available gated tools: bash" in gate.format_system_prompt()

    async def test_replayed_calls_count_as_made_now(self) -> None:
        """G-25: a history has no times: its calls count as made now."""
        clock = Clock()
        gate = sliding(clock)
        gate.replay(["bash"] * 5)
        assert gate.states[LIMIT].marking["spent"] == 2
        assert gate.states[LIMIT].since == {"spent": (clock.now,) * 2}

    async def test_explanation_shows_aged_markings(self) -> None:
        """G-60: an explanation shows the aged markings and moves nothing."""
        clock = Clock()
        gate = sliding(clock, block("other"))
        for number in "12":
            await reason(gate, "bash", number)
        assert gate.explain(call("bash")).nets[0].marking["spent"] == 2
        clock.now += HOUR
        explained = gate.explain(call("bash"))
        assert (explained.outcome, explained.nets[0].marking["spent"]) == ("allow", 0)
        assert gate.states[LIMIT].marking["spent"] == 2

    async def test_way_starts_from_aged_markings(self) -> None:
        """G-60: the proved way starts from the aged markings."""
        clock = Clock()
        gate = gate_of(limit("go", 1), sequence_before_use(), clock=clock)
        await reason(gate, "go", "1")
        gate.handle_tool_result(result("go", "1", is_error=True))
        clock.now += HOUR
        way = gate.explain(call("use")).way
        assert isinstance(way, Way)
        assert [made.names for made in way.calls] == [("go",), ("use",)]

    async def test_single_net_ages_by_the_clock(self) -> None:
        """G-12: a single net ages by the given clock."""
        (one,) = nets_of(limit("bash", 1))
        clock, state = Clock(), initial_state(one)

        async def blocked() -> bool:
            decision = await handle_tool_call(call("bash"), GateContext(), one, state, clock=clock)
            return decision.block

        assert [await blocked(), await blocked()] == [False, True]
        clock.now += HOUR
        assert classify_nets([one], [state], call("bash"), clock=clock)[0].kind == "gated"
        assert [await blocked(), await blocked()] == [False, True]

    async def test_single_nets_result_uses_the_clock(self) -> None:
        """G-12, G-16: the result of a single net uses the clock, too."""
        one, clock = fresh_place(), Clock()
        state = initial_state(one)
        await handle_tool_call(call("work"), GateContext(), one, state, clock=clock)
        record = handle_tool_result(result("work"), one, state, clock=clock)
        assert record.clock == clock.now
        assert state.since == {"fresh": (clock.now,)}

    async def test_create_gate_accepts_a_clock(self) -> None:
        """G-30: `create_gate` accepts a clock."""
        clock = Clock()
        session = create_gate(nets_of(limit("f", 1)), clock=clock).wrap_tools({"f": lambda: 1})
        assert session.tools["f"]() == 1
        clock.now += HOUR
        assert session.tools["f"]() == 1


def sequence_before_use() -> Any:
    from .support.ruled import sequence

    return sequence("go", "use")


async def test_undo_of_a_timed_use() -> None:
    """A-40: a use that was given back is not also returned by time."""
    from interlock.engine import ToolResult

    clock = Clock()
    gate = sliding(clock)
    decide = Asker(gate)
    decision = await decide("bash")
    gate.handle_tool_result(ToolResult("c1", "bash", {}, True, decision.steps))
    clock.now += HOUR
    await decide("bash")
    await decide("bash")
    assert (await decide("bash")).block
