"""Rate limits and counts of refused tokens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.gateway.server.limits import Bucket, Failures, values, weight


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class TestBucket:
    @given(
        st.integers(1, 50),
        st.lists(st.tuples(st.floats(0, 3), st.floats(1, 20)), min_size=1, max_size=60),
    )
    def test_burst_and_rate_are_never_exceeded(self, rate: int, asked: list[tuple[float, float]]) -> None:
        """A client that waits as told sends at most one burst and then `rate` messages a second."""
        clock = Clock()
        bucket = Bucket(rate, clock)
        passed, began = 0.0, clock.now
        for pause, messages in asked:
            clock.now += pause
            clock.now += bucket.take(messages)
            passed += messages
            assert passed <= rate + (clock.now - began) * rate + 1e-6

    def test_pause_does_not_enlarge_the_burst(self) -> None:
        """A pause of a day allows no larger burst than a pause of a second."""
        clock = Clock()
        bucket = Bucket(10, clock)
        clock.now += 86_400
        assert [bucket.take() for _ in range(11)] == [0.0] * 10 + [0.1]


def members(value: object) -> int:
    """Return the number of values in all lists and objects, with an empty one counting as one."""
    if not isinstance(value, dict | list):
        return 0
    parts = list(value.values()) if isinstance(value, dict) else value
    return max(1, len(parts)) + sum(map(members, parts))


class TestWeight:
    @pytest.mark.slow
    @given(
        st.recursive(
            st.none() | st.integers() | st.text('ab\\",[]{}é\n'),
            lambda inner: st.lists(inner) | st.dictionaries(st.text('a\\",['), inner),
        )
    )
    def test_values_are_counted_in_any_spelling(self, value: object) -> None:
        """The values are counted in any spelling, and brackets within strings do not count."""
        message = [value, ",[{" * 30]
        for ascii_only in (True, False):
            assert values(json.dumps(message, ensure_ascii=ascii_only)) == members(message)
        assert values(json.dumps(value)) >= members(value)

    def test_lists_are_weighed_by_values(self) -> None:
        """A frame of lists is weighed by the number of values, a frame of prose by its size."""
        assert weight("[" + ",".join(["[]"] * 10_000) + "]") > 200
        assert weight(json.dumps("def f(x): return [x, {1: 2}]\n" * 1000)) < 10
        assert weight('{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[1,2]}}') < 1.1
        assert weight(b"[" * 4096) == 2


class TestFailures:
    def test_failures_count_per_minute_and_address(self) -> None:
        """Failures count for one minute and for one address."""
        clock = Clock()
        failures = Failures(3, clock)
        for _ in range(3):
            assert not failures.too_many("a")
            failures.note("a")
        assert failures.too_many("a")
        assert not failures.too_many("b")
        clock.now += 60
        assert not failures.too_many("a")

    def test_remembered_addresses_are_bounded(self) -> None:
        """The remembered addresses are bounded, and so are the times of each."""
        failures = Failures(3, Clock())
        for number in range(Failures.KEPT + 50):
            failures.note(str(number))
        for _ in range(100):
            failures.note("same")
        found = failures._times  # type: ignore[reportPrivateUsage]
        assert len(found) == Failures.KEPT
        assert len(found["same"]) == 4
