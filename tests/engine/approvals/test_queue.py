"""The order of the queue, and the cost of reading its beginning."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.approvals.request_order import FIRST, RANK, ApprovalQueue, in_order, longest_first
from interlock.engine.history.model.state import ApprovalState

from ...app.support.scenes import NOW, deploy_request

TEMPLATE = deploy_request()
OPENERS = {"s0": None, "s1": None, "s2": "bot", "s3": "bot", "s4": "other"}


class Counted(ApprovalState):
    """A request that counts how often its age is read."""

    def __getattribute__(self, name: str) -> object:
        if name == "since":
            looks[0] += 1
        return super().__getattribute__(name)


looks = [0]


def request(number: int, kind: type[ApprovalState] = ApprovalState, **more: object) -> ApprovalState:
    since = NOW + timedelta(seconds=number)
    values = {"id": f"q{number}", "since": since, "risk": None, "via": None, **more}
    return kind.model_construct(**{**TEMPLATE.__dict__, **values})


def turns(
    approvals: list[ApprovalState], whose: Callable[[ApprovalState], Hashable]
) -> list[ApprovalState]:
    """Return the first request of each, then the second of each, and so on."""
    had: dict[Hashable, int] = {}
    numbered: list[tuple[int, ApprovalState]] = []
    for each in approvals:
        had[whose(each)] = had.get(whose(each), 0) + 1
        numbered.append((had[whose(each)], each))
    return [each for _, each in sorted(numbered, key=lambda pair: pair[0])]


class TestOrder:
    @given(st.lists(st.tuples(st.sampled_from(list(RANK)), st.sampled_from(list(OPENERS))), max_size=25))
    def test_by_risk_asker_session_and_age(self, asked: list[tuple[str | None, str]]) -> None:
        """The order is by risk, then askers in turn, their sessions in turn, and age."""
        made = [
            request(n, risk=risk, session=session, opener=OPENERS[session])
            for n, (risk, session) in enumerate(asked)
        ]
        sessions = turns(made, lambda a: (a.risk, a.session))
        askers = turns(sessions, lambda a: (a.risk, a.opener is None, a.opener or a.session))
        expected = sorted(askers, key=lambda a: RANK[a.risk])
        assert in_order(reversed(made)) == expected
        assert ApprovalQueue(made).first(3) == expected[:3]


class TestBeginning:
    @pytest.mark.slow
    def test_first_requests_are_read_without_full_sort(self) -> None:
        """The first requests and the counts per session are read without sorting ten thousand."""
        made = [request(n, Counted, session=f"s{n % 20}", opener="bot") for n in range(10_000)]
        queue = ApprovalQueue(longest_first(made))
        looks[0] = 0
        assert [each.id for each in queue.first(FIRST)] == [f"q{n}" for n in range(FIRST)]
        assert {stop.number for stop in queue.stops().values()} == {500}
        assert looks[0] <= 5 * FIRST
