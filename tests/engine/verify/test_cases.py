"""The nets that can apply to a call: answers about conditions compared with actual calls."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.core.condition import And, Compare, Condition, Not, Or, holds
from interlock.engine.core.rule import BlockRule
from interlock.engine.net.net import SkillNet
from interlock.engine.verify.condition_cases import MAX_COMBINED, Cases
from interlock.engine.verify.local_net import Action
from interlock.rules.nets import build_net

from ...support.laws import examples

DEPLOY = Action(("deploy",))
MISSING = object()
VALUES: tuple[object, ...] = (MISSING, "a", "b", "c", "other", 1, 1.0, True, None, 2)
scalars = st.sampled_from(["a", "b", "c", 1, True, None])
fields = st.sampled_from(["env", "ref"])
atoms = st.one_of(
    st.builds(lambda f, o, v: Compare((f,), o, v), fields, st.sampled_from(["=", "!="]), scalars),
    st.builds(
        lambda f, v: Compare((f,), "in", tuple(v)), fields, st.lists(scalars, min_size=1, max_size=3)
    ),
)
choices = atoms | atoms.map(Not)
any_conditions = st.recursive(
    choices | st.builds(lambda f: Compare((f,), "<", 2), fields),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=2).map(lambda p: And(tuple(p)))
        | st.lists(inner, min_size=1, max_size=2).map(lambda p: Or(tuple(p)))
    ),
    max_leaves=3,
)


def nets_of(conditions: list[Condition]) -> dict[str, SkillNet]:
    """Return a net that blocks `deploy` for each condition."""
    return {f"n{n}": build_net(BlockRule("deploy", when=when)) for n, when in enumerate(conditions)}


def inside(nets: dict[str, SkillNet], action: Any) -> frozenset[str]:
    return frozenset(nets) - frozenset(action.outside)


def real(nets: dict[str, SkillNet]) -> set[frozenset[str]]:
    """Return the sets of nets that apply to a call, for all calls with a few values."""
    found: set[frozenset[str]] = set()
    for env, ref in product(VALUES, VALUES):
        value = {k: v for k, v in (("env", env), ("ref", ref)) if v is not MISSING}
        conditions = ((key, net.condition) for key, net in nets.items())
        found.add(frozenset(k for k, c in conditions if c and holds(c, value) is not False))
    return found


class TestFields:
    """Conditions that compare one field with values."""

    @given(st.lists(choices, min_size=1, max_size=4))
    @settings(max_examples=examples(200), deadline=None)
    def test_only_combinations_of_actual_calls(self, conditions: list[Condition]) -> None:
        """G-10: only combinations of actual calls are considered, and no most permissive is missed."""
        nets = nets_of(conditions)
        cases, calls = Cases(nets), real(nets)
        free = {inside(nets, action) for action in cases.free([DEPLOY])}
        each = {inside(nets, action) for action in cases.each([DEPLOY])[0]}
        assert cases.complete
        assert free <= calls
        assert each <= calls
        assert all(any(found <= applied for found in free) for applied in calls)
        for applied in calls:
            for key in applied:
                assert any(key in found and found <= applied for found in each), (key, applied)

    @pytest.mark.slow
    @given(st.lists(any_conditions, min_size=1, max_size=MAX_COMBINED))
    @settings(max_examples=examples(200), deadline=None)
    def test_no_combination_is_missed(self, conditions: list[Condition]) -> None:
        """G-10: with other conditions, too, no call allows more than the considered combinations."""
        nets = nets_of(conditions)
        cases = Cases(nets)
        free = {inside(nets, action) for action in cases.free([DEPLOY])}
        if cases.complete:
            assert all(any(found <= applied for found in free) for applied in real(nets))


class TestManyValues:
    """Many rules about one field."""

    @pytest.mark.variants
    @pytest.mark.parametrize("operator", ["=", "!="])
    def test_values_are_distinguished(self, operator: Any) -> None:
        """G-10: hundreds of values of one field are told apart."""
        nets = nets_of([Compare(("env",), operator, str(n)) for n in range(300)])
        cases = Cases(nets)
        sizes = {len(inside(nets, action)) for action in cases.free([DEPLOY])}
        assert sizes == ({0} if operator == "=" else {299})
