"""The transitions that a call fires: one, or a chain that begins with partial ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.net.firing import LONGEST, passage
from interlock.engine.net.net import (
    Marking,
    NetError,
    SkillNet,
    Transition,
    auto_advance,
    define_skill_net,
)

from ...support.laws import examples

PLACES = ("p", "q", "r")


def approval(people: int) -> SkillNet:
    """A net in which b needs the approval of so many people."""
    return define_skill_net(
        "approve-before-b",
        places=["idle", "ready", "approval"],
        transitions=[
            Transition("start", ("idle",), ("ready",)),
            Transition("approve", ("ready", *["approval"] * people), ("ready",), ("b",)),
            Transition("person", ("ready",), ("ready", "approval"), ("b",), "manual", partial=True),
        ],
        initial_marking={"idle": 1},
    )


def named(net: SkillNet, marking: Marking, name: str) -> list[str] | None:
    steps = passage(net, marking, name)
    return None if steps is None else [step.name for step in steps]


@st.composite
def nets(draw: st.DrawFn) -> SkillNet:
    """Nets of a few places, some of whose transitions are partial or structural."""
    transitions: list[Transition] = []
    for number in range(draw(st.integers(1, 5))):
        inputs = draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=2))
        outputs = draw(st.lists(st.sampled_from(PLACES), max_size=3))
        tools = draw(st.sampled_from([(), ("a",), ("a",), ("b",), ("a", "b")]))
        if not tools:
            outputs = outputs[: len(inputs) - 1]
        partial = bool(tools) and draw(st.booleans())
        deferred = bool(tools) and not partial and draw(st.booleans())
        transitions.append(
            Transition(f"t{number}", inputs, outputs, tools, deferred=deferred, partial=partial)
        )
    marking = draw(st.fixed_dictionaries({p: st.integers(0, 3) for p in PLACES}))
    return define_skill_net("n", places=PLACES, transitions=transitions, initial_marking=marking)


def naive(net: SkillNet, tokens: list[int], name: str) -> list[str] | None:
    """The same chain, computed by hand on numbered places."""
    held = [list(tokens)]
    fired: list[str] = []
    while len(fired) <= LONGEST:
        now = held[-1]
        found = next((t for t in net.transitions if name in t.tools and _takes(now, t)), None)
        if found is None:
            return None
        fired.append(found.name)
        if not found.partial:
            return fired
        now = _settle(net, _moved(now, found))
        if now in held:
            return None
        held.append(now)
    return None


def _takes(tokens: list[int], transition: Transition) -> bool:
    return all(tokens[n] >= transition.inputs.count(place) for n, place in enumerate(PLACES))


def _moved(tokens: list[int], transition: Transition) -> list[int]:
    return [
        tokens[n] - transition.inputs.count(place) + transition.outputs.count(place)
        for n, place in enumerate(PLACES)
    ]


def _settle(net: SkillNet, tokens: list[int]) -> list[int]:
    while True:
        ready = [t for t in net.transitions if not t.tools and _takes(tokens, t)]
        free = [
            t
            for t in ready
            if all(
                sum(other.inputs.count(p) for other in ready) <= tokens[PLACES.index(p)]
                or all(other is t or p not in other.inputs for other in ready)
                for p in t.inputs
            )
        ]
        if not free:
            return tokens
        for transition in free:
            if _takes(tokens, transition):
                tokens = _moved(tokens, transition)


class TestPassage:
    """The first enabled transition fires, repeatedly while it is partial."""

    @pytest.mark.slow
    @given(nets(), st.sampled_from("ab"))
    @settings(max_examples=examples(400), deadline=None)
    def test_equals_literal_implementation(self, net: SkillNet, name: str) -> None:
        """G-10: the chain equals that of a literal implementation of the rule."""
        marking = dict(net.initial_marking)
        assert named(net, marking, name) == naive(net, [marking[p] for p in PLACES], name)
        assert marking == net.initial_marking

    def test_first_in_definition_order(self) -> None:
        """G-10: the first of several enabled transitions is taken, alone if it is not partial."""
        first = Transition("first", ("p",), (), ("a",))
        net = define_skill_net(
            "n",
            places=["p"],
            transitions=[first, replace(first, name="second")],
            initial_marking={"p": 1},
        )
        assert named(net, {"p": 1}, "a") == ["first"]
        assert named(net, {"p": 0}, "a") is None
        assert named(net, {"p": 1}, "b") is None

    @pytest.mark.parametrize("people", [2, 3, 10])
    def test_several_approvals_fire_as_one_chain(self, people: int) -> None:
        """G-13: a call that needs N approvals fires N approvals and the transition that spends them."""
        net = approval(people)
        assert named(net, {"ready": 1}, "b") == [*["person"] * people, "approve"]
        assert named(net, {"ready": 1, "approval": 1}, "b") == [*["person"] * (people - 1), "approve"]
        assert named(net, {"idle": 1}, "b") is None


class TestNothingPasses:
    """A chain without a final transition blocks, and always ends."""

    @staticmethod
    def alone(outputs: tuple[str, ...], *more: Transition) -> SkillNet:
        again = Transition("again", ("p",), outputs, ("a",), partial=True)
        return SkillNet("n", ("p", "q"), (again, *more), {"p": 1, "q": 0})

    def test_partial_transition_without_change_blocks(self) -> None:
        """G-10: a partial transition that changes nothing blocks the call."""
        assert passage(self.alone(("p",)), {"p": 1}, "a") is None

    def test_endless_token_chain_ends_and_blocks(self) -> None:
        """G-10: a partial transition that makes tokens forever ends after a bound and blocks."""
        assert passage(self.alone(("p", "p")), {"p": 1}, "a") is None

    def test_partial_transition_without_successor_blocks(self) -> None:
        """G-10: if nothing is enabled after a partial transition, the call is blocked."""
        assert passage(self.alone(("q",)), {"p": 1}, "a") is None

    def test_structural_loop_blocks_without_an_error(self) -> None:
        """G-61: if structural transitions never come to rest, the call is blocked without an error."""
        restless = Transition("restless", ("q",), ("q", "q"))
        end = Transition("end", ("q",), (), ("a",))
        net = self.alone(("q",), restless, end)
        assert passage(net, {"p": 1}, "a") is None
        with pytest.raises(NetError):
            auto_advance(net, {"p": 0, "q": 1})
