"""A flow's run in the journal: the possible order of steps, the state after them, and the text."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from interlock.engine.history.errors import FoldError
from interlock.engine.history.fold.event_text import changes, headline
from interlock.engine.history.fold.fold import fold, new_state
from interlock.engine.history.model.events import EventBody, MessageAdded, SessionOpened
from interlock.engine.history.model.records import (
    FlowRecord,
    FlowStepped,
    NetRecord,
    RuleRecord,
    TransitionRecord,
)

from ..support.recording import opening, recorded

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
    def test_state_follows_the_last_step(self) -> None:
        """The state has live nodes in order, the last node, the awaited call and the marking."""
        state = fold(recorded(OPENED, BEGINS, stepped(1, "B", "C", waits="B#1")))
        assert state.flow is not None
        assert (state.flow.step, state.flow.node, state.flow.live) == (1, "A", ("B", "C"))
        assert (state.flow.waits, state.flow.done) == ("B#1", False)
        assert state.flow.marking == {"A": 0, "B": 1, "C": 1}
        assert [entry.text for entry in state.transcript] == ["A → B, C"]

    def test_next_step_clears_awaited_call(self) -> None:
        """An awaited call is cleared by the next step."""
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
    def test_impossible_step_is_refused(self, bodies: list[EventBody], problem: str) -> None:
        """A missing, repeated or late step, one without a flow, or one to an unknown node is refused."""
        with pytest.raises(FoldError, match=problem):
            fold(recorded(*bodies))


RULE = RuleRecord(file="a.rules", line=3, text="require human-approval before deploy")


def asking(key: str, rule: RuleRecord | None) -> NetRecord:
    """Return a net that asks about deploy, alone or together with another tool."""
    return NetRecord(
        key=key,
        name=key,
        places=("idle",),
        transitions=(
            TransitionRecord(name="approve", inputs=("idle",), outputs=("idle",), tools=("deploy",)),
            TransitionRecord(name="either", inputs=("idle",), outputs=("idle",), tools=("a", "b")),
        ),
        initial_marking={"idle": 1},
        rule=rule,
    )


def named(names: dict[str, str]) -> SessionOpened:
    """Return a flow that branches into B and D, each of which ends in C."""
    net = NetRecord(
        key="Chain",
        name="Chain",
        places=("A", "B", "C", "D"),
        transitions=(
            TransitionRecord(name="A", inputs=("A",), outputs=("B", "D")),
            TransitionRecord(name="B", inputs=("B",), outputs=("C",)),
            TransitionRecord(name="D", inputs=("D",), outputs=("C",)),
        ),
        initial_marking={"A": 1},
    )
    record = FlowRecord(name="Chain", net=net, output="C", names=names)
    return OPENED.model_copy(update={"flow": record})


class TestSpeaker:
    def test_message_belongs_to_the_working_node(self) -> None:
        """P-55: a message belongs to the node that works next or waits; after the end, to none.

        An operator's message keeps its sender.
        """

        def said(text: str) -> MessageAdded:
            return MessageAdded(role="assistant", text=text)

        state = fold(
            recorded(
                named({"A": "Draft", "B": "Review", "D": "Test"}),
                BEGINS,
                said("one"),
                stepped(1, "B", "D"),
                said("two"),
                stepped(2, "B", "D", node="D", waits="1.c"),
                said("three"),
                MessageAdded(role="user", text="four"),
                stepped(3, "B", "C", node="D"),
                said("five"),
                stepped(4, "C", node="B", done=True),
                said("six"),
            )
        )
        told = {entry.text: entry.by for entry in state.transcript if entry.kind != "note"}
        assert told == {
            "one": "Draft",
            "two": "Review",
            "three": "Test",
            "four": None,
            "five": "Review",
            "six": None,
        }

    def test_older_record_without_names_has_no_node(self) -> None:
        """An older record without names can be read, and its messages have no node."""
        raw = OPENED.model_dump(mode="json")
        del raw["flow"]["names"]
        older = SessionOpened.model_validate(raw)
        assert older.flow is not None
        assert older.flow.names == {}
        state = fold(recorded(older, BEGINS, MessageAdded(role="assistant", text="one")))
        assert [(entry.text, entry.by) for entry in state.transcript] == [("one", None)]


class TestWords:
    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            ({"kind": "approval", "tool_id": "A::bash", "asks": ["n", "approve"]}, "approval of deploy"),
            ({"kind": "approval", "tool_id": "A::bash", "asks": ["n", "either"]}, "approval of bash"),
            ({"kind": "approval", "tool_id": "A::bash", "asks": ["own", "approve"]}, "approval of bash"),
            ({"kind": "approval", "tool_id": "A::bash", "asks": ["gone", "x"]}, "approval of bash"),
            ({"kind": "approval", "tool_id": "A::bash"}, "approval of bash"),
            ({"kind": "input", "tool_id": "A"}, "an answer"),
            ({"kind": "choice", "tool_id": "A"}, "a choice"),
            ({"kind": "tool", "tool_id": "A::consult"}, "an answer to consult"),
            ({"kind": "approval", "tool_id": None}, "call c"),
            ("of another version", "call c"),
        ],
    )
    def test_awaited_approval_names_its_request(self, asked: JsonValue, words: str) -> None:
        """P-82: an awaited approval names what its request asks about.

        A step of another version names its call.
        """
        opened = OPENED.model_copy(update={"nets": (asking("n", RULE), asking("own", None))})
        waits = stepped(1, "A", waits="c").model_copy(
            update={"output": {"snapshot": {"suspended": asked}}}
        )
        events = recorded(opened, BEGINS, waits)
        state = fold(events)
        assert state.transcript[-1].text == f"A waits for {words}"
        assert changes(fold(events[:2]), events[2], state)[1] == f"flow waits for {words}"
        # The event alone does not have the name that the rule asks about.
        plain = "approval" if words.startswith("approval") else words
        assert headline(events[2]) == f"flow.step  A  A  waits for {plain}"

    def test_replay_describes_each_step(self) -> None:
        """A replay describes the beginning of a flow, a step, and a step that waits."""
        events = recorded(OPENED, BEGINS, stepped(1, "B", "C", waits="B#1"))
        told = [changes(fold(events[:n]), events[n], fold(events[: n + 1])) for n in (1, 2)]
        assert told == [
            ["flow begins with A"],
            ["flow step 1: A → B, C", "flow waits for call B#1"],
        ]

    def test_opening_names_its_flow(self) -> None:
        """The opening of a run names its flow."""
        [event] = recorded(OPENED)
        assert "runs flow Chain" in changes(new_state(event.session), event, fold([event]))
