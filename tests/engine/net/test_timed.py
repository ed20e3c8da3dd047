"""Tokens that age, and transitions that fire after a time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.net.net import (
    Marking,
    NetError,
    Since,
    SkillNet,
    Transition,
    define_skill_net,
    fire,
    initial_state,
    is_enabled,
)
from interlock.engine.net.timed import aged, arrivals, next_due, timed_places
from interlock.rules import compile_rules

HOUR = 3600.0


def limit(count: int) -> SkillNet:
    (net,) = compile_rules(f"limit a to {count} per 1h")
    return net


def state_after_uses(net: SkillNet, times: list[float]) -> tuple[Marking, Since]:
    """Return a limit's state after calls at these times, without recovery between them."""
    marking, since = initial_state(net).marking, {}
    use = next(t for t in net.transitions if t.tools)
    for time in times:
        if is_enabled(marking, use):
            after = fire(marking, use)
            since = arrivals(net, since, marking, after, time)
            marking = after
    return marking, since


class TestSlidingLimit:
    """`limit A to N per 1h`: each use recovers an hour after it was made."""

    def test_uses_recover_one_by_one(self) -> None:
        """Three uses, ten minutes apart, recover ten minutes apart."""
        net = limit(3)
        marking, since = state_after_uses(net, [0, 600, 1200])
        assert (marking["budget"], marking["spent"]) == (0, 3)
        for now, left in [(3599.9, 0), (3600, 1), (4199, 1), (4200, 2), (4800, 3), (1e9, 3)]:
            assert aged(net, marking, since, now).marking["budget"] == left

    def test_next_firing_time_is_returned(self) -> None:
        """The next firing is returned with its time; without uses there is none."""
        net = limit(3)
        recover = net.timed[0]
        marking, since = state_after_uses(net, [100, 600])
        assert next_due(net, marking, since, 700) == (3700, recover)
        assert next_due(net, marking, since, 1e6) == (3700, recover)
        later = aged(net, marking, since, 3700)
        assert later.fired == (recover,)
        assert next_due(net, later.marking, later.since, 3700) == (4200, recover)
        assert next_due(net, *state_after_uses(net, []), 0) is None

    def test_only_needed_arrivals_are_kept(self) -> None:
        """Arrivals are kept only for places that a timed transition empties, one per token."""
        net = limit(3)
        assert list(timed_places(net)) == ["spent"]
        marking, since = state_after_uses(net, [1, 2])
        assert since == {"spent": (1, 2)}
        assert aged(net, marking, since, HOUR + 1).since == {"spent": (2,)}

    def test_token_of_unknown_arrival_counts_from_now(self) -> None:
        """A token with an unknown arrival counts from now."""
        net = limit(2)
        marking = {"idle": 0, "ready": 1, "budget": 0, "spent": 2}
        assert next_due(net, marking, {}, 50) == (50 + HOUR, net.timed[0])
        assert aged(net, marking, {"spent": (0,)}, HOUR).fired == (net.timed[0],)

    @pytest.mark.slow
    def test_hundred_thousand_uses_recover_in_one_pass(self) -> None:
        """A hundred thousand uses recover in one pass."""
        net = limit(100_000)
        marking = {"idle": 0, "ready": 1, "budget": 0, "spent": 100_000}
        found = aged(net, marking, {"spent": tuple(float(n) for n in range(100_000))}, HOUR + 99_998)
        assert len(found.fired) == 99_999
        assert found.since == {"spent": (99_999.0,)}

    @given(
        st.integers(1, 5),
        st.lists(st.floats(0, 1e5), max_size=8).map(sorted),
        st.floats(0, 2e5),
        st.floats(0, 2e5),
    )
    def test_aging_in_two_steps_equals_one(
        self, count: int, times: list[float], one: float, other: float
    ) -> None:
        """Aging in two steps equals aging in one."""
        net = limit(count)
        marking, since = state_after_uses(net, times)
        first, second = sorted((one, other))
        halfway = aged(net, marking, since, first)
        after = aged(net, halfway.marking, halfway.since, second)
        at_once = aged(net, marking, since, second)
        assert (*halfway.fired, *after.fired) == at_once.fired
        assert (after.marking, after.since) == (at_once.marking, at_once.since)

    @pytest.mark.slow
    @given(st.integers(1, 5), st.lists(st.floats(0, 1e5), max_size=8).map(sorted), st.floats(0, 3e5))
    def test_budget_and_spent_tokens_add_up(self, count: int, times: list[float], now: float) -> None:
        """Budget and spent tokens add up to N, and each spent token has its time."""
        net = limit(count)
        marking, since = state_after_uses(net, times)
        found = aged(net, marking, since, now)
        assert found.marking["budget"] + found.marking["spent"] == count
        assert len(found.since.get("spent", ())) == found.marking["spent"]
        assert all(then > now - HOUR for then in found.since.get("spent", ()))

    @pytest.mark.slow
    @given(st.integers(1, 4), st.lists(st.floats(0, 5 * HOUR), max_size=25).map(sorted))
    def test_no_window_exceeds_the_limit(self, count: int, times: list[float]) -> None:
        """No window of an hour has more than N calls, and only calls beyond N are refused."""
        net = limit(count)
        use = next(t for t in net.transitions if t.tools)
        marking, since = initial_state(net).marking, {}
        allowed: list[float] = []
        for time in times:
            now = aged(net, marking, since, time)
            marking, since = now.marking, now.since
            if is_enabled(marking, use):
                after = fire(marking, use)
                since = arrivals(net, since, marking, after, time)
                marking = after
                allowed.append(time)
            else:
                assert sum(time - HOUR < then for then in allowed) == count
        for first, last in zip(allowed, allowed[count:], strict=False):
            assert last >= first + HOUR


def chain(**marking: int) -> SkillNet:
    """Tokens move from `a` to `b` after 10 s, and on to `c` after 5 s."""
    return define_skill_net(
        "chain",
        places=["a", "b", "c"],
        transitions=[
            Transition("go", ["a"], ["b"], after=10),
            Transition("on", ["b"], ["c"], after=5),
            Transition("touch", ["a"], ["a"], ["touch"]),
        ],
        initial_marking=marking,
    )


class TestChains:
    """Hand-built nets with several timed transitions."""

    def test_returned_token_keeps_its_age(self) -> None:
        """A call that takes and returns a token does not change its arrival."""
        net = chain(a=2)
        since = arrivals(net, {}, {"a": 0}, net.initial_marking, 3)
        touch = next(t for t in net.transitions if t.name == "touch")
        after = fire(net.initial_marking, touch)
        assert arrivals(net, since, net.initial_marking, after, 9)["a"] == since["a"] == (3, 3)

    def test_each_fires_at_its_own_time(self) -> None:
        """A delayed firing counts from its due time, and so does the next one."""
        net = chain(a=2)
        start = dict(net.initial_marking)
        found = aged(net, start, {"a": (0, 7)}, 1000)
        assert [t.name for t in found.fired] == ["go", "on", "go", "on"]
        assert found.marking == {"a": 0, "b": 0, "c": 2}
        assert aged(net, start, {"a": (0, 7)}, 14.9).marking == {"a": 1, "b": 1, "c": 0}
        assert aged(net, start, {"a": (0, 7)}, 15).marking == {"a": 1, "b": 0, "c": 1}

    def test_late_token_is_sorted_by_its_time(self) -> None:
        """A token that arrives later with an earlier time is sorted by its time."""
        net = chain(a=1, b=1)
        found = aged(net, dict(net.initial_marking), {"a": (0,), "b": (12,)}, 12)
        assert found.since == {"a": (), "b": (10, 12)}

    def test_endless_timed_loop_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Timed transitions in an endless loop give an error with the net's name."""
        monkeypatch.setattr("interlock.engine.net.timed.MOST_FIRINGS", 1000)
        net = define_skill_net(
            "spins",
            places=["a", "b"],
            transitions=[
                Transition("to", ["a"], ["b"], after=1e-3),
                Transition("fro", ["b"], ["a"], after=1e-3),
            ],
            initial_marking={"a": 1},
        )
        with pytest.raises(NetError, match="'spins': timed transitions do not come to rest"):
            aged(net, {"a": 1, "b": 0}, {"a": (0,)}, 1e9)

    @given(
        st.lists(st.floats(0, 100), max_size=5).map(sorted),
        st.lists(st.floats(0, 100), max_size=5).map(sorted),
        st.lists(st.floats(100, 200), min_size=1, max_size=4).map(sorted),
    )
    def test_aging_steps_do_not_change_firings(
        self, a: list[float], b: list[float], looks: list[float]
    ) -> None:
        """The number of aging steps does not change firings and marking."""
        net = chain(a=len(a), b=len(b))
        marking, since = dict(net.initial_marking), {"a": tuple(a), "b": tuple(b)}
        at_once = aged(net, marking, since, looks[-1])
        fired: tuple[Transition, ...] = ()
        for now in looks:
            step = aged(net, marking, since, now)
            marking, since = step.marking, step.since
            fired += step.fired
        assert (fired, marking, since) == (at_once.fired, at_once.marking, at_once.since)
        assert sum(marking.values()) == len(a) + len(b)
        assert all(first <= then for place in since.values() for first, then in pairwise(place))
