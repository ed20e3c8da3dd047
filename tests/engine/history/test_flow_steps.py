"""A flow's run as the journal keeps it: what can follow what, where it stands, and in words."""

from __future__ import annotations

import pytest

from interlock.engine.history.changes import changes
from interlock.engine.history.errors import FoldError
from interlock.engine.history.events import EventBody
from interlock.engine.history.flow import FlowRecord, FlowStepped
from interlock.engine.history.fold import fold, new_state
from interlock.engine.history.parts import NetRecord, TransitionRecord
from tests.engine.history.recording import opening, recorded

NET = NetRecord(
    key="Chain",
    name="Chain",
    places=("A", "B", "C"),
    transitions=(
        TransitionRecord(name="A", inputs=("A",), outputs=("B", "C")),
        TransitionRecord(name="B", inputs=("B",), outputs=("C",)),
    ),
    initial_marking={"A": 1},
)
OPENED = opening().model_copy(
    update={"kind": "flow", "flow": FlowRecord(name="Chain", net=NET, output="C")}
)
BEGINS = FlowStepped(step=0, live=("A",), output={"snapshot": {}})


def stepped(
    step: int, *live: str, node: str = "A", waits: str | None = None, done: bool = False
) -> FlowStepped:
    return FlowStepped(step=step, node=node, live=live, waits=waits, done=done, output={"snapshot": {}})


class TestFold:
    def test_stands_where_the_last_step_left_it(self) -> None:
        """States in their order, the node that worked, what is waited for, and the same as tokens."""
        state = fold(recorded(OPENED, BEGINS, stepped(1, "B", "C", waits="B#1")))
        assert state.flow is not None
        assert (state.flow.step, state.flow.node, state.flow.live) == (1, "A", ("B", "C"))
        assert (state.flow.waits, state.flow.done) == ("B#1", False)
        assert state.flow.marking == {"A": 0, "B": 1, "C": 1}
        assert [entry.text for entry in state.transcript] == ["A → B, C"]

    def test_the_end_waits_for_nobody(self) -> None:
        """What an earlier step waited for is over with the next one."""
        steps = (stepped(1, "B", "C", waits="B#1"), stepped(2, "C", node="B", done=True))
        state = fold(recorded(OPENED, BEGINS, *steps))
        assert state.flow is not None
        assert (state.flow.waits, state.flow.done) == (None, True)

    @pytest.mark.parametrize(
        ("bodies", "problem"),
        [
            ([opening(), BEGINS], "runs no flow"),
            ([OPENED, stepped(1, "B")], "does not follow step 0"),
            ([OPENED, BEGINS, BEGINS], "does not follow step 0"),
            ([OPENED, BEGINS, stepped(2, "B")], "does not follow step 0"),
            ([OPENED, BEGINS, stepped(1, "C", done=True), stepped(2, "C")], "does not follow step 1"),
            ([OPENED, BEGINS, stepped(1, "X")], "no state 'X'"),
        ],
    )
    def test_what_cannot_follow_is_refused(self, bodies: list[EventBody], problem: str) -> None:
        """A step left out, repeated, after the end, of no flow, or to a state that it lacks."""
        with pytest.raises(FoldError, match=problem):
            fold(recorded(*bodies))


class TestWords:
    def test_of_each_step(self) -> None:
        """What a replay says of a beginning, of a step, and of one that waits for a person."""
        events = recorded(OPENED, BEGINS, stepped(1, "B", "C", waits="B#1"))
        told = [changes(fold(events[:n]), events[n], fold(events[: n + 1])) for n in (1, 2)]
        assert told == [
            ["flow begins with A"],
            ["flow step 1: A → B, C", "flow waits for the answer to call B#1"],
        ]

    def test_of_an_opening(self) -> None:
        """A run says which flow it is of."""
        [event] = recorded(OPENED)
        assert "runs flow Chain" in changes(new_state(event.session), event, fold([event]))
