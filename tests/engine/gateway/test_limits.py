"""How much one may ask for: buckets, and refused tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.gateway.limits import Bucket, Failures


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
    def test_never_more_than_its_rate(self, rate: int, asked: list[tuple[float, float]]) -> None:
        """Whoever waits as told gets through at most one rest's worth and then `rate` a second."""
        clock = Clock()
        bucket = Bucket(rate, clock)
        passed, began = 0.0, clock.now
        for pause, weight in asked:
            clock.now += pause
            clock.now += bucket.take(weight)
            passed += weight
            assert passed <= rate + (clock.now - began) * rate + 1e-6

    def test_a_rest_gives_no_more_than_one(self) -> None:
        """Who was silent for a day may send as much at once as who was for a second."""
        clock = Clock()
        bucket = Bucket(10, clock)
        clock.now += 86_400
        assert [bucket.take() for _ in range(11)] == [0.0] * 10 + [0.1]


class TestFailures:
    def test_within_a_minute(self) -> None:
        """The count is of the last minute, and of one address."""
        clock = Clock()
        failures = Failures(3, clock)
        for _ in range(3):
            assert not failures.too_many("a")
            failures.note("a")
        assert failures.too_many("a")
        assert not failures.too_many("b")
        clock.now += 60
        assert not failures.too_many("a")

    def test_addresses_without_end(self) -> None:
        """However many addresses come, only the latest are remembered, and few times of each."""
        failures = Failures(3, Clock())
        for number in range(Failures.KEPT + 50):
            failures.note(str(number))
        for _ in range(100):
            failures.note("same")
        found = failures._found  # type: ignore[reportPrivateUsage]
        assert len(found) == Failures.KEPT
        assert len(found["same"]) == 4
