"""The markings that a net reaches."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from interlock.engine.net.net import Marking, NetError, SkillNet, Transition, define_skill_net
from interlock.engine.verify import Reachability, reachable
from interlock.engine.verify.reachability import StateCounts, budget_of
from interlock.rules import compile_rules

from ...support.laws import examples

PLACES = ("p", "q", "r", "s")
TOKENS = st.one_of(st.integers(0, 4), st.sampled_from([10**6, 2**30 - 1, 2**30, 2**60 + 1, 10**40]))
ARCS = st.lists(st.sampled_from(PLACES), max_size=4)
TRANSFERS = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)), max_size=2)


def plain_search(net: SkillNet, limit: int) -> tuple[list[Marking], bool]:
    """Return up to `limit` reachable markings, breadth first and slowly, and whether these are all."""
    found: list[Marking] = [{p: net.initial_marking.get(p, 0) for p in net.places}]
    seen = {tuple(found[0].values())}
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
            key = tuple(after[p] for p in net.places)
            if key in seen:
                continue
            if len(found) == limit:
                return found, False
            seen.add(key)
            found.append({p: after[p] for p in net.places})
    return found, True


def walk(net: SkillNet) -> list[Marking]:
    """Return all reachable markings, breadth first."""
    found, complete = plain_search(net, 100_000)
    assert complete
    return found


def net_of(marking: dict[str, int], *transitions: Transition) -> SkillNet:
    """Return a net with the places of `marking`."""
    return define_skill_net(
        "any", places=tuple(marking), transitions=transitions, initial_marking=marking
    )


def counters(count: int, tokens: int) -> SkillNet:
    """Return a net whose places are emptied one token at a time, independently of each other."""
    places = [f"c{i}" for i in range(count)]
    takes = [Transition(f"take-{place}", (place,), (), (place,)) for place in places]
    return net_of(dict.fromkeys(places, tokens), *takes)


@st.composite
def nets(draw: st.DrawFn) -> SkillNet:
    """Nets of all kinds: weighted arcs, chained transfers, tokens from nothing, many or no tokens."""
    transitions = [
        Transition(f"t{number}", draw(ARCS), draw(ARCS), transfers=draw(TRANSFERS))
        for number in range(draw(st.integers(0, 4)))
    ]
    net = net_of({place: draw(TOKENS) for place in PLACES}, *transitions)
    assume(budget_of(net) is None)
    return net


def budget_net(**changes: object) -> SkillNet:
    """Return the net of `limit a to 2 per b` with changes."""
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
    def test_equal_a_plain_search_in_order(self, rule: str) -> None:
        """Count and order of the states equal those of a plain search."""
        (net,) = compile_rules(rule)
        expected = walk(net)
        found = reachable(net)
        assert list(found.states) == expected
        assert (found.count, found.complete) == (len(expected), True)

    @pytest.mark.parametrize("scope", ["session", "b"])
    def test_large_budget_is_counted_without_search(self, scope: str) -> None:
        """G-56: a million and two states are counted, but only the requested ones are made."""
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
    def test_similar_nets_are_not_counted_as_a_limit(self, changes: dict[str, object]) -> None:
        """Nets that only resemble a limit are not counted as one."""
        net = budget_net(**changes)
        expected = walk(net)
        found = reachable(net)
        assert list(found.states) == expected
        assert found.count == len(expected)

    @pytest.mark.slow
    @settings(max_examples=examples(500))
    @given(nets(), st.integers(1, 60), st.integers(0, 70))
    @example(net_of(dict.fromkeys(PLACES, 0)), 1, 1)
    @example(net_of({"p": 0, "q": 0}, Transition("make", (), ("p",))), 30, 30)
    @example(net_of({"p": 1}, Transition("double", ("p",), ("p", "p"))), 60, 70)
    def test_any_net_equals_the_plain_search(self, net: SkillNet, limit: int, keep: int) -> None:
        """For any net and any limit the search equals the plain one."""
        found, complete = plain_search(net, limit)
        assert reachable(net, limit=limit, keep=keep) == Reachability(
            len(found), complete, tuple(found[:keep])
        )

    def test_independent_counters_give_all_combinations(self) -> None:
        """All combinations are found, and in the last one every place is empty."""
        net = counters(4, 5)
        found = reachable(net, keep=2_000)
        assert list(found.states) == walk(net)
        assert found.count == 6**4
        assert set(found.states[-1].values()) == {0}

    @pytest.mark.parametrize("tokens", [*range(10), 2**30 - 1, 2**30, 10**6, 10**40])
    @pytest.mark.parametrize("more", [-1, 0, 1])
    def test_transfer_enables_with_exactly_enough_tokens(self, tokens: int, more: int) -> None:
        """A transfer enables a transition exactly when it brings enough tokens."""
        gather = Transition("gather", (), (), ("gather",), transfers=(("left", "here"),))
        use = Transition("use", ("here",) * 5, ("used",), ("use",))
        net = net_of({"left": tokens, "here": max(0, 5 - tokens + more), "used": 0}, gather, use)
        found, complete = plain_search(net, 20)
        assert reachable(net, limit=20) == Reachability(len(found), complete, tuple(found))

    @pytest.mark.parametrize("tokens", range(20))
    def test_weight_enables_with_exactly_enough_tokens(self, tokens: int) -> None:
        """A transition that needs many tokens is enabled with exactly that many, not with one less."""
        for need in range(1, 20):
            use = Transition("use", ("p",) * need, (), ("use",))
            assert reachable(net_of({"o": 3, "p": tokens, "q": 3}, use)).count == 1 + tokens // need

    def test_negative_initial_marking_is_refused(self) -> None:
        """A net with a negative initial marking is refused."""
        net = SkillNet("indebted", ("p",), (), {"p": -1})
        with pytest.raises(NetError, match="net 'indebted': place 'p' starts with -1"):
            reachable(net)


class TestLimit:
    def test_endless_net_is_incomplete(self) -> None:
        """The result for an endless net is marked as incomplete."""
        grow = Transition("grow", ("p",), ("p", "q"))
        net = define_skill_net(
            "endless", places=("p", "q"), transitions=(grow,), initial_marking={"p": 1}
        )
        found = reachable(net, limit=50, keep=2)
        assert (found.count, found.complete) == (50, False)
        assert found.states == ({"p": 1, "q": 0}, {"p": 1, "q": 1})

    def test_limit_equal_to_the_states_is_complete(self) -> None:
        """A net with as many states as the limit is complete."""
        (net,) = compile_rules("require a before b")
        assert reachable(net, limit=3) == reachable(net)
        assert not reachable(net, limit=2).complete

    @given(nets())
    def test_one_less_is_incomplete_one_more_changes_nothing(self, net: SkillNet) -> None:
        """A limit of one state less gives an incomplete result, one of a state more the same result."""
        whole = reachable(net, limit=40)
        assume(whole.complete)
        assert reachable(net, limit=whole.count) == reachable(net, limit=whole.count + 1) == whole
        if whole.count > 1:
            less = whole.count - 1
            assert reachable(net, limit=less) == Reachability(less, False, whole.states[:less])

    def test_states_are_counted_without_being_kept(self) -> None:
        """The states can be counted without being kept."""
        (net,) = compile_rules("require a before b")
        assert reachable(net, keep=0).count == 3
        assert reachable(net, keep=0).states == ()


class TestStateCounts:
    @pytest.mark.slow
    @given(several=st.lists(nets(), min_size=1, max_size=6))
    @settings(max_examples=examples(300, usual=10), deadline=None)
    def test_counts_do_not_depend_on_earlier_nets(self, several: list[SkillNet]) -> None:
        """Counts do not depend on nets counted before, even if places and names are the same."""
        counts = StateCounts()
        for net in [*several, *several]:
            assert counts.count(net) == reachable(net).count

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("limit a to 2 per session", "limit a to 3 per session"),
            ("limit a to 2 per 1h", "limit a to 2 per b"),
            ("require a before b", "require a before a"),
            ("require 2 human-approvals before a", "require 3 human-approvals before a"),
            ("block a", "require human-approval before a"),
        ],
    )
    def test_similar_nets_are_distinguished(self, one: str, other: str) -> None:
        """Different budgets, one tool in two places and partial transitions are told apart."""
        found = compile_rules([one, other, one]).verification
        alone = [reachable(net).count for net in compile_rules([one, other, one])]
        assert [each.reachable_states for each in found] == alone
