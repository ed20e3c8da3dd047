"""Nets prepared for many steps, compared with the nets themselves."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.engine import SkillNet, Transition, define_skill_net
from interlock.engine.net.net import NetError, auto_advance
from interlock.engine.verify.budget import Effort
from interlock.engine.verify.machine import Machine

from ...support.laws import examples
from .generated import PLACES, anything


class TestMachine:
    """A prepared net moves as the net itself does."""

    @given(anything("n"))
    @settings(max_examples=examples(200), deadline=None)
    @example(define_skill_net("n", places=PLACES, transitions=[], initial_marking={"p": 1}))
    def test_structural_transitions_fire_as_in_the_net(self, net: SkillNet) -> None:
        """G-4, G-61: structural transitions fire in the same rounds, with the same end or none."""
        machine = Machine(net, net.initial_marking)
        rested = machine.settle([net.initial_marking[p] for p in machine.places], Effort())
        try:
            expected = auto_advance(net, net.initial_marking)
        except NetError:
            assert rested is None
            return
        assert rested is not None
        assert dict(zip(machine.places, rested, strict=True)) == expected

    @pytest.mark.slow
    @given(
        st.lists(st.tuples(*[st.lists(st.sampled_from(PLACES), max_size=3)] * 2), max_size=4), st.data()
    )
    @settings(max_examples=examples(300), deadline=None)
    def test_conflicts_are_resolved_as_in_the_net(
        self, arcs: list[tuple[list[str], list[str]]], data: st.DataObject
    ) -> None:
        """G-4, G-61: the same holds if many structural transitions compete."""
        structural = [Transition(f"s{i}", a, b[: len(a)]) for i, (a, b) in enumerate(arcs) if a]
        marking = data.draw(st.fixed_dictionaries({p: st.integers(0, 4) for p in PLACES}))
        net = define_skill_net("n", places=PLACES, transitions=structural, initial_marking=marking)
        machine = Machine(net, marking)
        rested = machine.settle([marking[p] for p in machine.places], Effort())
        assert rested is not None
        assert dict(zip(machine.places, rested, strict=True)) == auto_advance(net, marking)
