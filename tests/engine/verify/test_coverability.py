"""Coverability of nets that may never end, compared with Karp–Miller trees and a backward search.

It is also compared with every state that the gate can reach, and with the gate itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.engine import (
    GateContext,
    SkillNet,
    ToolCall,
    ToolResult,
    Transition,
    create_gate_manager,
    define_skill_net,
)
from interlock.engine.net.net import NetError
from interlock.engine.verify import Action, Never, Together, Unknown, Way
from interlock.engine.verify import local_net as local
from interlock.engine.verify import upper_bound as spread

from ...support.laws import examples
from .brute import product
from .generated import anything, growing, one_or_two
from .joined import backwards, joined, karp_miller


def check_way(nets: dict[str, SkillNet], way: Way, name: str) -> None:
    """Check that a real gate allows every call of the way, the last one with `name`."""

    async def follow() -> None:
        gate = create_gate_manager(dict(nets))
        for step in way.calls:
            call = ToolCall("1", step.names[0], {})
            assert not (await gate.handle_tool_call(call, GateContext(confirm=lambda _: True))).block
            gate.handle_tool_result(ToolResult("1", step.names[0], is_error=not step.succeeds))
        assert name in way.calls[-1].names

    asyncio.run(follow())


def names_of(nets: Mapping[str, SkillNet]) -> list[str]:
    return list(dict.fromkeys(tool for net in nets.values() for t in net.transitions for tool in t.tools))


EARNING = define_skill_net(
    "n",
    places=("on", "won", "off"),
    transitions=[
        Transition("earn", ("on",), ("on", "won"), ("earn",)),
        Transition("never", ("off",), ("off",), ("never",)),
        Transition("move", ("on",), ("on",), ("move",), transfers=(("won", "on"),)),
        Transition("spend", ("won",) * 5, (), ("spend",)),
    ],
    initial_marking={"on": 1},
)


class TestEndless:
    """Nets that make tokens forever get an answer."""

    @pytest.mark.slow
    @given(one_or_two(growing("n")))
    @settings(max_examples=examples(150), deadline=None)
    def test_equals_karp_miller_tree(self, nets: dict[str, SkillNet]) -> None:
        """G-2: a call is possible exactly if the Karp–Miller tree of the joined net has it."""
        possible = karp_miller(*joined(nets))
        assume(possible is not None)
        assert possible is not None
        together = Together(nets)
        for name in names_of(nets):
            match together.way(name):
                case Way() as way:
                    assert name in possible
                    check_way(nets, way, name)
                case Never(against):
                    assert name not in possible
                    check_needed(nets, against, name)
                case Unknown():
                    pytest.fail("nets as small as these are decided")

    @pytest.mark.slow
    @given(one_or_two(growing("n", transfers=True)))
    @settings(max_examples=examples(150), deadline=None)
    def test_equals_plain_backward_search(self, nets: dict[str, SkillNet]) -> None:
        """G-2: the same with transfer arcs; ways are the shortest and work in the gate."""
        start, moves = joined(nets)
        together = Together(nets)
        for name in names_of(nets):
            fewest = backwards(start, moves, name)
            if fewest is None:
                continue
            match together.way(name):
                case Way(calls, shortest) as way:
                    assert len(calls) == fewest if shortest else len(calls) >= fewest > 0
                    check_way(nets, way, name)
                case Never(against):
                    assert not fewest
                    check_needed(nets, against, name)
                case Unknown():
                    pytest.fail("nets as small as these are decided")

    @pytest.mark.slow
    @given(one_or_two(anything("n")))
    @settings(max_examples=examples(150), deadline=None)
    def test_answers_hold_for_non_monotone_nets(self, nets: dict[str, SkillNet]) -> None:
        """G-4, G-10: answers about nets that are not monotone hold in the gate."""
        try:
            together = Together(nets, effort=50_000)
        except NetError:
            assume(False)
            return
        names = names_of(nets)
        walked, whole = explored(nets, names, 300)
        for name in names:
            match together.way(name):
                case Way(calls, shortest) as way:
                    check_way(nets, way, name)
                    if name in walked:
                        assert len(calls) == walked[name] if shortest else len(calls) >= walked[name]
                    else:
                        assert not whole
                case Never():
                    assert name not in walked
                case Unknown():
                    pass

    def test_unobtainable_token_forbids_the_call(self) -> None:
        """G-2: a call that needs an unobtainable token is found to be forbidden, at little cost."""
        together = Together({"n": EARNING, "other": spender("earn", "spend")}, effort=20_000)
        assert together.way("never") == Never(("n",))
        assert str(together.way("spend")) == " → ".join(["earn"] * 5 + ["spend"])
        assert (together.most("earn").least, together.most("earn").most) == (11, 11)
        assert Together({"n": EARNING}, effort=20_000).most("earn").unlimited

    def test_mutually_exclusive_nets_are_both_named(self) -> None:
        """G-2: growing nets that allow a call only alternately forbid it together; both are named."""
        once = define_skill_net(
            "once",
            places=("left", "made"),
            transitions=[
                Transition("a", ("left",), ("made", "made"), ("a",)),
                Transition("b", ("made",), ("made", "made"), ("b",)),
            ],
            initial_marking={"left": 1},
        )
        twice = define_skill_net(
            "twice",
            places=("got", "more"),
            transitions=[
                Transition("a", (), ("got",), ("a",)),
                Transition("c", ("got", "got"), ("got", "got", "more"), ("c",)),
                Transition("d", (), ("more",), ("d",)),
            ],
            initial_marking={},
        )
        together = Together({"once": once, "twice": twice, "idle": EARNING})
        assert together.way("c") == Never(("once", "twice"))
        assert isinstance(together.way("b"), Way)


def explored(nets: dict[str, SkillNet], names: list[str], limit: int) -> tuple[dict[str, int], bool]:
    """Return the fewest calls to each name among the gate's first states, and whether these are all."""
    found = product(nets, [ToolCall("1", name, {}) for name in names], limit=limit)
    if found is None:
        return {}, False
    return {names[number]: fewest for number, fewest in found.fewest.items()}, True


def spender(first: str, then: str) -> SkillNet:
    """A budget of nine that starts empty; `first` fills it and `then` uses it."""
    return define_skill_net(
        "spender",
        places=("room", "made"),
        transitions=[
            Transition("fill", ("room",), ("made",), (first,)),
            Transition("use", ("made",), ("room",), (then,)),
        ],
        initial_marking={"room": 9},
    )


def check_needed(nets: dict[str, SkillNet], against: tuple[str, ...], name: str) -> None:
    """Check that exactly these nets forbid the call, and that each of them is needed."""
    for left_out in (None, *against):
        start, moves = joined({key: nets[key] for key in against if key != left_out})
        if not any(move.name == name for move in moves):
            assert left_out is not None
            continue
        fewest = backwards(start, moves, name)
        if fewest is not None:
            assert bool(fewest) == (left_out is not None)


@pytest.mark.slow
class TestTakenForEndless:
    """Nets with few states get the same answers if they are treated as endless."""

    @given(one_or_two(anything("n")))
    @settings(max_examples=examples(150), deadline=None)
    def test_against_the_product(self, nets: dict[str, SkillNet]) -> None:
        """G-2, G-10: shortest ways and forbidden calls are the same by either method."""
        names = names_of(nets)
        try:
            walked, whole = explored(nets, names, 60)
        except NetError:
            assume(False)
            return
        assume(whole and names)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local, "MAX_LOCAL_STATES", 1)
            patch.setattr(local, "MAX_COMPARED_STATES", 1)
            patch.setattr(spread, "WALKED", 1)
            together = Together(nets)
            for name in names:
                match together.way(name):
                    case Way(calls, shortest) as way:
                        assert len(calls) == walked[name] if shortest else len(calls) >= walked[name]
                        check_way(nets, way, name)
                    case Never():
                        assert name not in walked
                    case Unknown():
                        assert not all(one.monotone for one in together.certain.locals)


class TestSeveralNames:
    """Calls that a net matches by two names."""

    @pytest.mark.slow
    @pytest.mark.parametrize("endless", [False, True])
    @given(nets=one_or_two(anything("n")))
    @settings(max_examples=examples(150), deadline=None)
    def test_against_the_product(self, nets: dict[str, SkillNet], endless: bool) -> None:
        """G-50: a deferred transition may be disabled by the call's other name before its end."""
        # Each letter of the tool is a name of the call.
        named = {
            key: replace(net, call_names=lambda call: tuple(call.tool_name)) for key, net in nets.items()
        }
        calls = [ToolCall("1", tool, {}) for tool in ("a", "b", "c", "ab")]
        try:
            walked = product(named, calls, limit=80)
        except NetError:
            assume(False)
            return
        assume(walked is not None)
        assert walked is not None
        with pytest.MonkeyPatch.context() as patch:
            if endless:
                patch.setattr(local, "MAX_LOCAL_STATES", 1)
                patch.setattr(local, "MAX_COMPARED_STATES", 1)
                patch.setattr(spread, "WALKED", 1)
            together = Together(named, extra=[Action(("a", "b"))])
            match together.way_to_extra():
                case Way(made, shortest):
                    fewest = walked.fewest[3]
                    assert len(made) == fewest if shortest else len(made) >= fewest
                case Never():
                    assert 3 not in walked.fewest
                case Unknown():
                    assert not all(one.monotone for one in together.certain.locals)


class TestMonotone:
    """A state with more tokens is no worse if more tokens never allow less."""

    @pytest.mark.slow
    @given(anything("n"), st.data())
    @settings(max_examples=examples(200), deadline=None)
    def test_larger_markings_allow_at_least_as_much(self, net: SkillNet, data: st.DataObject) -> None:
        """G-2: in a monotone net, calls that are allowed from a marking are allowed from larger ones."""
        try:
            whole = Together({"n": net}).certain
        except NetError:
            assume(False)
            return
        assume(whole.locals and whole.locals[0].monotone)
        one = whole.locals[0]
        state = one.start
        actions = st.lists(st.sampled_from(one.actions), max_size=6)
        for action in data.draw(actions):
            after = one.step(state, action)
            state = state if after == local.BLOCKED else after
        names = [name for action in one.actions for name in one.names(action)]
        bounds = one.machine.alive(one.tokens(one.start), names)[1]
        more = dict(one.marking(state))
        for place, bound in zip(one.machine.places, bounds, strict=True):
            more[place] += data.draw(st.integers(0, 3)) if bound == inf else 0
        larger = one.state(more)
        for action in data.draw(actions):
            after, further = one.step(state, action), one.step(larger, action)
            if after == local.BLOCKED:
                continue
            assert further != local.BLOCKED
            state, larger = after, further
            assert all(a >= b for a, b in zip(one.tokens(larger), one.tokens(state), strict=True))
