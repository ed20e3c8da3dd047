"""Which markings a net reaches."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.net import Marking, SkillNet, Transition, define_skill_net
from interlock.engine.verify import reachable
from interlock.rules import compile_rules


def walk(net: SkillNet) -> list[Marking]:
    """Every reachable marking, in breadth-first order, the slow and plain way."""
    found: list[Marking] = [{p: net.initial_marking.get(p, 0) for p in net.places}]
    for marking in found:
        for t in net.transitions:
            if any(marking[p] < need for p, need in Counter(t.inputs).items()):
                continue
            after = Counter(marking)
            after.subtract(t.inputs)
            for source, target in t.transfers:
                moved, after[source] = after[source], 0
                after[target] += moved
            after.update(t.outputs)
            if dict(after) not in found:
                found.append(dict(after))
    return found


def budget_net(**changes: object) -> SkillNet:
    """The net of `limit a to 2 per b`, changed."""
    parts: dict[str, object] = {
        "places": ("idle", "ready", "budget", "spent"),
        "initial_marking": {"idle": 1, "budget": 2},
        "transitions": (
            Transition("start", ("idle",), ("ready",)),
            Transition("do-a", ("ready", "budget"), ("ready", "spent"), ("a",)),
            Transition("refill", ("ready",), ("ready",), ("b",), transfers=(("spent", "budget"),)),
        ),
    }
    return define_skill_net("changed", **{**parts, **changes})


class TestStates:
    @pytest.mark.parametrize(
        "rule",
        [
            "require a before b",
            "require human-approval before b",
            "require a before a",
            "block a",
            *(f"limit a to {n} per session" for n in (1, 2, 7)),
            *(f"limit a to {n} per b" for n in (1, 2, 7)),
        ],
    )
    def test_are_those_of_the_firing_graph(self, rule: str) -> None:
        """Count and order of discovery are those of a plain search, also where it is cut short."""
        (net,) = compile_rules(rule)
        expected = walk(net)
        found = reachable(net)
        assert list(found.states) == expected
        assert (found.count, found.complete) == (len(expected), True)

    @pytest.mark.parametrize("scope", ["session", "b"])
    def test_of_a_large_budget_are_computed(self, scope: str) -> None:
        """G-56: a million and two states, of which only those asked for are made."""
        (net,) = compile_rules(f"limit a to 1000000 per {scope}")
        found = reachable(net, limit=10, keep=3)
        assert (found.count, found.complete, len(found.states)) == (1_000_002, True, 3)
        assert found.states[2]["budget"] == 999_999

    @pytest.mark.parametrize(
        "changes",
        [
            {"initial_marking": {"idle": 1, "budget": 2, "spent": 1}},
            {"initial_marking": {"idle": 2, "budget": 2}},
            {"initial_marking": {"ready": 1, "budget": 2}},
            {"initial_marking": {"idle": 1}},
            {"places": ("ready", "idle", "budget", "spent")},
            {"places": ("idle", "ready", "budget", "spent", "more")},
            {
                "transitions": (
                    Transition("start", ("idle",), ("ready",)),
                    Transition("do-a", ("ready", "budget"), ("ready", "spent"), ("a",)),
                    Transition("refill", ("ready", "spent"), ("ready", "budget"), ("b",)),
                )
            },
            {
                "transitions": (
                    Transition("start", ("idle",), ("ready",)),
                    Transition("do-a", ("ready", "budget"), ("idle", "spent"), ("a",)),
                )
            },
            {
                "transitions": (
                    Transition("start", ("idle",), ("ready",), transfers=(("budget", "spent"),)),
                    Transition("do-a", ("ready", "budget"), ("ready", "spent"), ("a",)),
                )
            },
            {
                "transitions": (
                    Transition("start", ("idle",), ("ready",)),
                    Transition("do-a", ("ready", "budget"), ("ready", "spent"), ("a",)),
                    Transition("refill", ("ready",), ("ready",), transfers=(("budget", "spent"),)),
                )
            },
        ],
    )
    def test_of_almost_a_budget_are_searched(self, changes: dict[str, object]) -> None:
        """Nets that only resemble a limit are not counted as one."""
        net = budget_net(**changes)
        expected = walk(net)
        found = reachable(net)
        assert list(found.states) == expected
        assert found.count == len(expected)

    @given(st.data())
    def test_of_any_small_net(self, data: st.DataObject) -> None:
        """Whatever the net, the search finds what the plain one does."""
        places = ("p", "q", "r")
        arcs = st.lists(st.sampled_from(places), min_size=1, max_size=2)
        transitions = []
        for number in range(data.draw(st.integers(1, 4))):
            inputs = data.draw(arcs)
            outputs = data.draw(st.lists(st.sampled_from(places), max_size=len(inputs)))
            transfers = data.draw(
                st.lists(st.tuples(st.sampled_from(places), st.sampled_from(places)), max_size=1)
            )
            transitions.append(
                Transition(f"t{number}", tuple(inputs), tuple(outputs), transfers=tuple(transfers))
            )
        marking = {p: data.draw(st.integers(0, 2)) for p in places}
        net = define_skill_net("any", places=places, transitions=transitions, initial_marking=marking)
        assert list(reachable(net).states) == walk(net)


class TestLimit:
    def test_ends_an_endless_search(self) -> None:
        """A net that makes tokens has no number of states; the answer says that it is cut."""
        grow = Transition("grow", ("p",), ("p", "q"))
        net = define_skill_net(
            "endless", places=("p", "q"), transitions=(grow,), initial_marking={"p": 1}
        )
        found = reachable(net, limit=50, keep=2)
        assert (found.count, found.complete) == (50, False)
        assert found.states == ({"p": 1, "q": 0}, {"p": 1, "q": 1})

    def test_equal_to_the_states_is_enough(self) -> None:
        """A net with as many states as the limit is complete."""
        (net,) = compile_rules("require a before b")
        assert reachable(net, limit=3) == reachable(net)
        assert not reachable(net, limit=2).complete

    def test_keeping_none_still_counts(self) -> None:
        """The number can be had without the states."""
        (net,) = compile_rules("require a before b")
        assert reachable(net, keep=0).count == 3
        assert reachable(net, keep=0).states == ()
