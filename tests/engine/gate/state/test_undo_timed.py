"""Calls that never ran in timed nets: their moves are undone with the tokens' arrival times."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.engine import GateManager, NetError, Rejection, Transition, create_gate_manager
from interlock.engine.gate import GateDecision, ToolResult
from interlock.engine.gate.types import ResultRecord
from interlock.engine.net import timed
from interlock.engine.net.net import GateState, SkillNet, define_skill_net
from interlock.engine.net.timed import aged
from tests.support.laws import examples

from ..support.helpers import call, net, result
from ..support.ruled import HOUR, Asker, Clock, approval, gate_of, granting, limit

LIMIT = "limit-bash-2-per-1h"
KEY = "grant-1"

# Tokens in `b` and `c` age: they leave after three and five seconds.
PLACES = ["a", "b", "c", "d"]
arcs = st.lists(st.sampled_from(PLACES), max_size=3)
TIMED = [
    Transition("leave", ["b"], ["a"], after=3.0),
    Transition("fade", ["c"], ["d"], after=5.0),
    Transition("turn", ["b"], ["c"], after=2.0),
]
nets = st.tuples(
    st.lists(st.tuples(arcs, arcs, st.sampled_from([["x"], ["y"], ["x", "y"]])), min_size=1, max_size=3),
    st.lists(st.tuples(arcs.filter(bool), arcs.map(lambda places: places[:1])), max_size=1),
    st.lists(st.sampled_from(TIMED), min_size=1, max_size=2, unique_by=lambda t: t.name),
    st.fixed_dictionaries({place: st.integers(0, 3) for place in PLACES}),
)
histories = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0])),
    min_size=1,
    max_size=6,
)


def hand_built(drawn: Any) -> SkillNet:
    """A net with tools `x` and `y`, structural transitions and timed ones."""
    gated, structural, timed, marking = drawn
    transitions = [Transition(f"t{n}", i, o, tools) for n, (i, o, tools) in enumerate(gated)]
    transitions += [Transition(f"s{n}", i, o) for n, (i, o) in enumerate(structural)]
    return define_skill_net(
        "n", places=PLACES, transitions=[*transitions, *timed], initial_marking=marking
    )


def report_not_run(gate: GateManager, decision: GateDecision) -> ResultRecord:
    made = decision.call
    return gate.handle_tool_result(
        ToolResult(made.tool_call_id, made.tool_name, made.input, True, decision.steps)
    )


def decide_without_waiting(deciding: Coroutine[Any, Any, GateDecision]) -> GateDecision:
    """Return the decision on a call that needs no approval."""
    try:
        deciding.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def undone_names(record: ResultRecord) -> list[str]:
    return [step.transition.name for step in record.undone]


def aged_state(made: SkillNet, state: GateState, now: float) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the marking and arrival times of a net at `now`."""
    then = aged(made, state.marking, state.since, now)
    return then.marking, {place: times for place, times in then.since.items() if times}


class TestSlidingLimit:
    """A use of a sliding limit."""

    async def test_use_returns_at_once(self) -> None:
        """A-40: a call that never ran gives back its use; other uses keep their times."""
        clock = Clock()
        gate = gate_of(limit("bash", 2), clock=clock)
        decide = Asker(gate)
        await decide("bash")
        clock.now += 10
        record = report_not_run(gate, await decide("bash"))
        assert undone_names(record) == ["do-bash"]
        assert record.arrived == {LIMIT: {"spent": (clock.now,)}}
        state = gate.states[LIMIT]
        assert (state.marking["budget"], state.since) == (1, {"spent": (clock.now - 10,)})
        assert not (await decide("bash")).block
        assert (await decide("bash")).block

    async def test_token_of_that_call_is_removed(self) -> None:
        """A-40: the token of that call is removed, not one that came later."""
        clock = Clock()
        gate = gate_of(limit("bash", 3), clock=clock)
        decide = Asker(gate)
        first = await decide("bash")
        clock.now += 10
        await decide("bash")
        assert undone_names(report_not_run(gate, first)) == ["do-bash"]
        assert gate.states["limit-bash-3-per-1h"].since == {"spent": (clock.now,)}

    async def test_use_returned_by_time_is_not_returned_again(self) -> None:
        """A-40: a use that time has already returned is not given back again."""
        clock = Clock()
        gate = gate_of(limit("bash", 2), clock=clock)
        decide = Asker(gate)
        first = await decide("bash")
        clock.now += HOUR - 1
        await decide("bash")
        clock.now += 1
        await decide("bash")
        assert undone_names(report_not_run(gate, first)) == []
        assert (await decide("bash")).block

    async def test_failed_run_stays_charged(self) -> None:
        """G-16: a call that ran and failed stays charged."""
        gate = gate_of(limit("bash", 1), clock=Clock())
        decide = Asker(gate)
        await decide("bash")
        assert gate.handle_tool_result(result("bash", "c1", is_error=True)).undone == ()
        assert (await decide("bash")).block

    @given(
        st.lists(st.sampled_from([0.0, 600.0, 1800.0, 3500.0]), min_size=1, max_size=8),
        st.data(),
    )
    @settings(max_examples=examples(80), deadline=None)
    def test_returned_if_and_only_if_still_spent(self, waits: list[float], data: st.DataObject) -> None:
        """A-40: a use is given back if and only if it is still spent."""

        async def check() -> None:
            clock = Clock()
            gate = gate_of(limit("bash", 2), clock=clock)
            decide = Asker(gate)
            made: list[tuple[GateDecision, float]] = []
            for wait in waits:
                clock.now += wait
                decision = await decide("bash")
                if not decision.block:
                    made.append((decision, clock.now))
            decision, at = data.draw(st.sampled_from(made))
            spent = at in gate.states[LIMIT].since["spent"]
            assert bool(undone_names(report_not_run(gate, decision))) == spent

        asyncio.run(check())


class TestExpiringGrant:
    """A use of a grant that expires."""

    async def grant(self, uses: int) -> tuple[GateManager, Asker, Clock]:
        clock = Clock()
        gate = gate_of(approval(), clock=clock)
        decide = Asker(gate)
        await decide("deploy", granting(uses=uses, seconds=60))
        return gate, decide, clock

    async def test_use_returns_with_its_arrival_time(self) -> None:
        """A-40: the use returns with its original arrival time and expiry."""
        gate, decide, clock = await self.grant(1)
        given_at = clock.now
        clock.now += 20
        decision = await decide("deploy")
        clock.now += 5
        record = report_not_run(gate, decision)
        assert undone_names(record) == ["use", "approve"]
        assert record.arrived == {KEY: {"granted": (given_at,)}}
        assert gate.grant_states[KEY].since == {"granted": (given_at,)}
        clock.now = given_at + 60
        assert (await decide("deploy")).granted == ()

    async def test_use_returned_after_expiry_ends_at_once(self) -> None:
        """A-40: a use that returns after the expiry ends at once."""
        gate, decide, clock = await self.grant(1)
        decision = await decide("deploy")
        clock.now += 61
        report_not_run(gate, decision)
        assert (await decide("deploy")).granted == ()

    async def test_equal_uses_are_undone_in_any_order(self) -> None:
        """A-40: equal uses can be undone in any order."""
        gate, decide, _ = await self.grant(2)
        first, second = await decide("deploy"), await decide("deploy")
        assert undone_names(report_not_run(gate, first)) == ["use", "approve"]
        assert undone_names(report_not_run(gate, second)) == ["use", "approve"]
        assert gate.grant_states[KEY].marking["granted"] == 2


class TestAsIfItHadNeverBeen:
    """The law: the gate is in the same state as one that never saw the call."""

    @pytest.mark.slow
    @given(nets, histories, st.data())
    @settings(max_examples=examples(400), deadline=None)
    def test_marking_and_times_equal_those_without_the_call(
        self, drawn: Any, history: list[tuple[str, float]], data: st.DataObject
    ) -> None:
        """A-40: despite time and calls in between, marking and times equal those without the call."""
        try:
            with mock.patch.object(timed, "MOST_FIRINGS", 200):
                self.check(hand_built(drawn), history, data)
        except NetError:
            assume(False)

    def check(self, made: SkillNet, history: list[tuple[str, float]], data: st.DataObject) -> None:
        def play(without: int | None) -> tuple[GateManager, Clock, dict[int, GateDecision]]:
            clock = Clock()
            gate = create_gate_manager([made], clock=clock)
            passed: dict[int, GateDecision] = {}
            for number, (name, wait) in enumerate(history):
                clock.now += wait
                if number == without or (allowed is not None and number not in allowed):
                    continue
                decision = decide_without_waiting(gate.handle_tool_call(call(name, str(number))))
                if not decision.block:
                    passed[number] = decision
            return gate, clock, passed

        allowed: dict[int, GateDecision] | None = None
        gate, clock, passed = play(None)
        if not passed:
            return
        dropped = data.draw(st.sampled_from(sorted(passed)))
        clock.now += data.draw(st.sampled_from([0.0, 1.0, 4.0]))
        if not undone_names(report_not_run(gate, passed[dropped])):
            return
        allowed = passed
        other, _, _ = play(dropped)
        assert aged_state(made, gate.states["n"], clock.now) == aged_state(
            made, other.states["n"], clock.now
        )


class TestStaysSpent:
    """Cases in which the other course cannot be determined."""

    async def test_tool_with_another_transition(self) -> None:
        """A-40: if the tool has another transition, a later call might have used that."""
        made = net(
            "n",
            Transition("two", ["a", "a"], ["d"], ["x"]),
            Transition("one", ["a"], ["b"], ["x"]),
            Transition("back", ["b"], ["a"], after=10.0),
            marking={"a": 1, "b": 1, "d": 0},
        )
        clock = Clock()
        gate = create_gate_manager([made], clock=clock)
        decide = Asker(gate)
        clock.now += 5
        first = await decide("x")
        clock.now += 5
        second = await decide("x")
        assert undone_names(report_not_run(gate, first)) == []
        assert undone_names(report_not_run(gate, second)) == ["one"]

    async def test_tokens_with_other_arrival_times(self) -> None:
        """A-40: tokens with other arrival times might have been used instead."""
        made = net(
            "n",
            Transition("make", ["p"], ["p", "b"], ["make"]),
            Transition("use", ["b"], ["d"], ["use"]),
            Transition("end", ["b"], ["e"], after=10.0),
            marking={"p": 1, "b": 0, "d": 0, "e": 0},
        )
        clock = Clock()
        gate = create_gate_manager([made], clock=clock)
        decide = Asker(gate)
        await decide("make")
        clock.now += 1
        await decide("make")
        first = await decide("use")
        await decide("use")
        assert undone_names(report_not_run(gate, first)) == []

    async def test_net_with_a_validator(self) -> None:
        """A-40: the effect of a validator is unknown, so nothing is undone."""

        def check(*_: object) -> Rejection | None:
            return None

        made = net(
            "n",
            Transition("do", ["a"], ["b"], ["x"]),
            Transition("back", ["b"], ["a"], after=10.0),
            marking={"a": 1, "b": 0},
            validate_tool_call=check,
        )
        gate = create_gate_manager([made], clock=Clock())
        assert undone_names(report_not_run(gate, await Asker(gate)("x"))) == []

    @pytest.mark.parametrize("mode", ["enforce", "shadow"])
    async def test_shadow_mode_undoes_moves(self, mode: Any) -> None:
        """G-57: shadow mode undoes its moves, too."""
        gate = gate_of(limit("bash", 2), clock=Clock(), mode=mode)
        assert undone_names(report_not_run(gate, await Asker(gate)("bash"))) == ["do-bash"]
