"""Time, chains and conditions, compared with an exploration of all states."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.engine.core.rule import ApprovalRule, LimitRule
from interlock.engine.net.firing import passage
from interlock.engine.net.net import (
    SkillNet,
    Transition,
    auto_advance,
    define_skill_net,
    fire,
    is_enabled,
)
from interlock.engine.verify import Effort, Most, Never, Together, Unknown, Vocabulary, Way, reachable

from ...support.laws import examples
from .naive import VALUES, Call, explored, made, seen_by
from .newer import JOINED, PLAIN, TOOLS, by_hand, compiled, endless, hand_built, keyed, sets


def calls_of(nets: dict[str, SkillNet]) -> list[Call]:
    """Return all calls that the nets can distinguish."""
    names = [n for n in TOOLS if any(n in t.tools for net in nets.values() for t in net.transitions)]
    values = VALUES if any(net.condition for net in nets.values()) else VALUES[:1]
    return [Call((n,), value, ok) for n in names for value in values for ok in (True, False)]


def numbers_of(calls: list[Call], name: str) -> set[int]:
    return {number for number, call in enumerate(calls) if name in call.names}


def check_answers(nets: dict[str, SkillNet], *, exactly: bool) -> None:
    """Check that every answer about every name agrees with exploring all states."""
    calls = calls_of(nets)
    found = explored(nets, calls)
    assume(found.complete)
    together = Together(nets)
    for name in dict.fromkeys(call.names[0] for call in calls):
        numbers = numbers_of(calls, name)
        fewest = min((found.fewest[n] for n in numbers if n in found.fewest), default=None)
        match together.way(name):
            case Way(steps, shortest):
                assert steps[-1].names == (name,)
                if exactly:
                    assert shortest
                    # Waiting for several tokens or nets is one step of a way.
                    waited = sum(step.seconds is not None for step in steps)
                    assert len(steps) == fewest or (waited and len(steps) <= (fewest or 0))
            case Never():
                assert fewest is None
            case Unknown():
                raise AssertionError("a small set is never too much")
        check_most(together.most(name), found.most(numbers), exactly=exactly)


def check_most(most: Most, counted: float, *, exactly: bool) -> None:
    if most.unlimited:
        assert counted == float("inf") or not exactly
        return
    assert most.most is None or most.most >= counted
    if exactly:
        assert most.exact
        assert most.least <= counted


class TestAgainstAllStates:
    """Answers equal those of exploring every state by every call, wait and input."""

    @given(by_hand(()))
    @settings(max_examples=examples(150), deadline=None)
    def test_time_and_chains(self, nets: dict[str, SkillNet]) -> None:
        """G-10: with timed and partial transitions, ways are the shortest and `Never` is true."""
        check_answers(nets, exactly=True)

    @pytest.mark.slow
    @given(by_hand(PLAIN))
    @settings(max_examples=examples(150), deadline=None)
    def test_conditions_of_any_nets(self, nets: dict[str, SkillNet]) -> None:
        """G-10: with conditions, calls inside and outside of them are all considered."""
        check_answers(nets, exactly=True)

    @pytest.mark.slow
    @given(sets(PLAIN))
    @settings(max_examples=examples(150), deadline=None)
    def test_rules(self, nets: dict[str, SkillNet]) -> None:
        """G-10: the same for the nets of rules, for which fewer combinations are considered."""
        check_answers(nets, exactly=True)

    @pytest.mark.slow
    @given(st.one_of(sets(JOINED, most=6), by_hand(JOINED)))
    @settings(max_examples=examples(150), deadline=None)
    def test_never_and_bounds_are_true(self, nets: dict[str, SkillNet]) -> None:
        """G-10: for any relation between the conditions, no `Never` and no bound is false."""
        check_answers(nets, exactly=False)

    @pytest.mark.slow
    @given(sets(PLAIN))
    @settings(max_examples=examples(150), deadline=None)
    def test_way_inside_a_condition(self, nets: dict[str, SkillNet]) -> None:
        """G-10: a way to a call for which a rule's condition holds is found exactly if there is one."""
        calls = calls_of(nets)
        found = explored(nets, calls)
        assume(found.complete)
        together = Together(nets)
        for key, net in nets.items():
            if net.condition is None:
                continue
            inside = [n for n, call in enumerate(calls) if {*seen_by(net, call)} & {*net.governs}]
            fewest = min((found.fewest[n] for n in inside if n in found.fewest), default=None)
            match together.way_within(key):
                case Way(steps, shortest):
                    assert shortest
                    waited = sum(step.seconds is not None for step in steps)
                    assert len(steps) == fewest or (waited and len(steps) <= (fewest or 0))
                case Never():
                    assert fewest is None
                case Unknown():
                    raise AssertionError("a small set is never too much")

    @pytest.mark.slow
    @given(sets(PLAIN))
    @settings(max_examples=examples(150), deadline=None)
    def test_redundant(self, nets: dict[str, SkillNet]) -> None:
        """G-10: a redundant net blocks nothing, in any state, that the others do not block."""
        calls = calls_of(nets)
        found = explored(nets, calls)
        assume(found.complete)
        together = Together(nets)
        for place, key in enumerate(nets):
            if not together.redundant(key, Effort(200_000)):
                continue
            for state in found.edges:
                for call in calls:
                    passed = [
                        made(net, dict(zip(net.places, tokens, strict=True)), call) is not None
                        for net, tokens in zip(nets.values(), state, strict=True)
                    ]
                    assert passed[place] or not all(passed[:place] + passed[place + 1 :])


class TestWithoutEnd:
    """Nets that may make tokens forever, which are searched backwards."""

    @pytest.mark.slow
    @given(st.lists(endless(), min_size=1, max_size=2).map(keyed))
    @settings(max_examples=examples(100), deadline=None)
    def test_no_possible_call_is_reported_impossible(self, nets: dict[str, SkillNet]) -> None:
        """G-2: no call that is possible within some hundred states is reported as impossible."""
        calls = calls_of(nets)
        found = explored(nets, calls, limit=150)
        together = Together(nets, effort=40_000)
        for name in dict.fromkeys(call.names[0] for call in calls):
            numbers = numbers_of(calls, name)
            fewest = min((found.fewest[n] for n in numbers if n in found.fewest), default=None)
            match together.way(name):
                case Way(steps, shortest):
                    waited = any(step.seconds is not None for step in steps)
                    assert fewest is not None or not found.complete
                    assert not shortest or waited or fewest is None or len(steps) <= fewest
                case Never():
                    assert fewest is None
                case Unknown():
                    pass

    def test_distant_approval_chain_is_found(self) -> None:
        """G-2: a distant chain of approvals in an endless net is found."""
        net = define_skill_net(
            "n",
            places=["p", "q", "r"],
            transitions=[
                Transition("grow", ("p",), ("p", "p"), ("grow",)),
                Transition("pass", ("q", "q", "q"), (), ("b",)),
                Transition("person", ("p",), ("q",), ("b",), "manual", partial=True),
                Transition("noise", ("r",), ("r", "r"), ("noise",)),
            ],
            initial_marking={"p": 1, "r": 1},
        )
        assert str(Together({"n": net}).way("b")) == "grow → grow → b (3 people approve)"
        stuck = replace(net, initial_marking={"p": 0, "q": 2, "r": 1})
        assert Together({"n": stuck}).way("b") == Never(("n",))


class TestReachable:
    """The states of one net with timed and partial transitions."""

    @given(hand_built("n", ()))
    @settings(max_examples=examples(150), deadline=None)
    def test_equals_plain_exploration(self, net: SkillNet) -> None:
        """G-56: the states are exactly those that single transitions and complete chains lead to."""
        chained = {name for t in net.transitions if t.partial for name in t.tools}
        alone = [t for t in net.transitions if not t.tools or {*t.tools} - chained]
        found = [dict(net.initial_marking)]
        for marking in found:
            after = [fire(marking, t) for t in alone if is_enabled(marking, t)]
            for name in chained:
                steps = passage(net, marking, name)
                if steps is not None:
                    through = marking
                    for step in steps[:-1]:
                        through = auto_advance(net, fire(through, step))
                    after.append(fire(through, steps[-1]))
            found += [m for n, m in enumerate(after) if m not in found and m not in after[:n]]
        claimed = reachable(net)
        assert claimed.complete
        assert claimed.count == len(found)
        assert all(marking in found for marking in claimed.states)

    def test_sliding_limit_states_are_counted_at_once(self) -> None:
        """G-56: the states of a sliding limit of a million are counted at once."""
        net = compiled(LimitRule("a", 1_000_000, "1h", window=3600))
        reached = reachable(net, keep=3)
        assert (reached.count, reached.complete) == (1_000_002, True)
        assert reached.states[2] == {"idle": 0, "ready": 1, "budget": 999_999, "spent": 1}
        small = compiled(LimitRule("a", 3, "1h", window=3600))
        walked = replace(small, transitions=(*small.transitions, Transition("no", ("idle",) * 2, ())))
        assert reachable(walked).count == reachable(small).count == 5
        assert reachable(walked).states == reachable(small).states

    def test_approval_by_many_has_two_states(self) -> None:
        """G-56: an approval by ten people has two states, like an approval by one."""
        reached = reachable(compiled(ApprovalRule("a", people=10)))
        assert (reached.count, reached.complete) == (2, True)


class TestSeveralNames:
    """Calls with mapped names besides the tool's own, and conditions on each of these."""

    @pytest.mark.slow
    @given(sets(PLAIN, most=5))
    @settings(max_examples=examples(150), deadline=None)
    def test_no_answer_is_wrong(self, nets: dict[str, SkillNet]) -> None:
        """G-50: for any names of a call, inside or outside of conditions, no answer is wrong."""
        gated = [n for n in TOOLS if any(n in t.tools for net in nets.values() for t in net.transitions)]
        known = [n for n in gated if n != "c"]
        some = dict.fromkeys([("c",), *((*names, "c") for names in (*zip(known), known, known[::-1]))])
        calls = [Call(names, value, ok) for names in some for value in VALUES for ok in (True, False)]
        found = explored(nets, calls)
        assume(found.complete)
        together = Together(nets, words=Vocabulary(dict.fromkeys(known, ("c",))))
        for name in gated:
            numbers = numbers_of(calls, name)
            fewest = min((found.fewest[n] for n in numbers if n in found.fewest), default=None)
            match together.way(name):
                case Way(steps):
                    waited = sum(step.seconds is not None for step in steps)
                    assert fewest is not None
                    assert waited or len(steps) >= fewest
                case Never():
                    assert fewest is None
                case Unknown():
                    pass
            check_most(together.most(name), found.most(numbers), exactly=False)
