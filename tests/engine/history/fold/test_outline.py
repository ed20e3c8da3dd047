"""The outline of a long session: each moment found with it equals the fold up to there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.app.format.calls import call_of
from interlock.engine.history.errors import FoldError, JournalError
from interlock.engine.history.fold import outline as outlining
from interlock.engine.history.fold import replay as replaying
from interlock.engine.history.fold.fold import apply, fold, new_state, snapshot
from interlock.engine.history.fold.replay import Replay
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.lazy_events import LazyEvents
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.rows import EventRow
from interlock.engine.history.model.events import (
    ApprovalExpired,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    LimitRaised,
    MessageAdded,
    MessageQueued,
    ModeChanged,
    SessionResumed,
    SessionStatus,
    StepEnded,
)
from interlock.engine.history.model.records import CallRecord, StepRecord
from interlock.engine.history.model.state import SessionState
from interlock.engine.history.model.times import to_ms
from interlock.engine.history.redaction.masked_events import MaskedEvents
from interlock.engine.history.redaction.redaction import Redaction
from interlock.engine.history.redaction.spans import mask_of
from tests.support.laws import examples

from ..support.recording import answer, asks, decided, limit, opening, recorded, request, result, sequence
from .test_laws import MOVES, Move, events_of

SECRET = "password: correct-horse-battery"
NETS = (sequence("test", "deploy"), limit("push", 3))
STEPS = tuple(
    StepRecord(net=net.name, transition=transition.name, tool="test", deferred=transition.deferred)
    for net in NETS
    for transition in net.transitions
    if transition.tools
)
FILE = Path("session.db")


def rows_of(events: list[JournalEvent]) -> list[EventRow]:
    """Return events as database rows."""
    return [
        (e.cursor, e.session, e.seq, to_ms(e.at), e.body.type, e.body.model_dump_json()) for e in events
    ]


@contextmanager
def small() -> Iterator[None]:
    """Make checkpoints every few events, so that short sessions have many."""
    sizes = {"GAP": 5, "REACH": 9, "WINDOW": 4}
    with patch.multiple(outlining, **sizes), patch.object(replaying, "OUTLINED", 1):
        yield


def replayed(events: list[JournalEvent]) -> Replay:
    """Return a replay of these events with their rows."""
    return Replay(MaskedEvents(LazyEvents(rows_of(events), FILE), Redaction()), at=0)


def check_replay_equals(replay: Replay, full: SessionState) -> None:
    """Check that a replay shows `full` without the start of its transcript and calls settled there."""
    state = replay.state
    without = {"transcript": [], "calls": {}}
    assert state.model_copy(update=without) == full.model_copy(update=without)
    assert len(full.transcript) == replay.earlier + len(state.transcript)
    last = min(len(full.transcript), 4)
    assert not last or state.transcript[-last:] == full.transcript[-last:]
    assert all(full.calls[key] == call for key, call in state.calls.items())
    changing = {"proposed", "waiting", "running", "unknown"}
    assert {key for key, call in full.calls.items() if call.status in changing} <= state.calls.keys()


IDS = st.sampled_from(("c1", "c2"))
WORDS = st.sampled_from((None, "", "next", SECRET))
STATUSES: tuple[Literal["running", "idle", "done", "failed"], ...] = ("running", "idle", "done", "failed")
BODIES = st.one_of(
    st.builds(
        lambda text, ids: MessageAdded(
            role="assistant",
            text=text,
            calls=tuple(CallRecord(call_id=i, tool="test", input={"token": "s3cr3t-v4lue"}) for i in ids),
        ),
        WORDS,
        st.lists(IDS, max_size=3),
    ),
    st.builds(
        lambda call_id, outcome, mode, steps, via: CallDecided(
            call_id=call_id,
            tool="test",
            input={"password": "hunter2-hunter2"},
            names=("test",),
            outcome=outcome,
            mode=mode,
            steps=tuple(steps),
            via=via,
        ),
        IDS,
        st.sampled_from(("allow", "allow", "allow", "block", "ask")),
        st.sampled_from(("enforce", "enforce", "shadow")),
        st.lists(st.sampled_from(STEPS), max_size=1),
        st.sampled_from((None, None, None, "child-1")),
    ),
    st.builds(
        lambda call_id, went, fell, odd: CallResult(
            call_id=call_id,
            tool="test",
            output=SECRET,
            is_error=odd == "error",
            fired=tuple(went),
            dropped=tuple(fell),
            unknown=odd == "unknown",
            anomaly=SECRET if odd == "anomaly" else None,
        ),
        IDS,
        st.lists(st.sampled_from(STEPS), max_size=1),
        st.lists(st.sampled_from(STEPS), max_size=1),
        st.sampled_from(("", "", "", "error", "unknown", "anomaly")),
    ),
    st.builds(lambda call_id, text: MessageAdded(role="tool", call_id=call_id, text=text), IDS, WORDS),
    st.builds(
        lambda call_id: MessageAdded(role="tool", call_id=call_id, text="so it went", ended="done"), IDS
    ),
    st.builds(lambda text: MessageAdded(role="user", text=text, by="maria"), WORDS),
    st.builds(lambda text: MessageAdded(role="summary", text=text), WORDS),
    st.builds(lambda cost: StepEnded(finish_reason="stop", input_tokens=7, cost=cost), st.floats(0, 1)),
    st.builds(lambda status: SessionStatus(status=status), st.sampled_from(STATUSES)),
    st.builds(lambda call_id: request(f"a-{call_id}", call_id, "test"), IDS),
    st.builds(lambda call_id: answer(f"a-{call_id}", call_id), IDS),
    st.builds(lambda i: ApprovalExpired(approval_id=f"a-{i}", call_id=i, reason="nobody"), IDS),
    st.builds(lambda i: ApprovalWithdrawn(approval_id=f"a-{i}", call_id=i, reason="stopped"), IDS),
    st.builds(lambda i: MessageQueued(message_id=f"m-{i}", mode="steer", text=SECRET), IDS),
    st.builds(lambda i: MessageAdded(role="assistant", text="taken", message_id=f"m-{i}"), IDS),
    st.builds(lambda mode: ModeChanged(mode=mode, by="maria"), st.sampled_from(("enforce", "shadow"))),
    st.builds(lambda usd: LimitRaised(max_cost=usd, by="maria"), st.floats(1, 9)),
    st.builds(
        lambda again, on: SessionResumed(
            agent="other",
            model="m",
            mode="enforce",
            active=tuple(net.name for net in NETS),
            asked_again=tuple(again),
            going_on=tuple(on),
        ),
        st.lists(IDS, max_size=1),
        st.lists(IDS, max_size=1),
    ),
)


def complete_call(call_id: str, step: StepRecord | None, text: str | None) -> tuple[EventBody, ...]:
    """Return a complete call; its step fires at once or with the result."""
    steps = () if step is None else (step,)
    return (
        asks((call_id, "test")),
        decided(call_id, "test", *steps),
        result(call_id, "test", *(each for each in steps if each.deferred)),
        MessageAdded(role="tool", call_id=call_id, text=text),
        StepEnded(finish_reason="tool-calls", output_tokens=3, cost=0.1),
    )


def refused(call_id: str) -> tuple[EventBody, ...]:
    """Return a call that is blocked, with the message to the model."""
    told = MessageAdded(role="tool", call_id=call_id, text="blocked")
    return asks((call_id, "test")), decided(call_id, "test", outcome="block"), told


def cut_short(call_id: str, *, runs: bool) -> tuple[EventBody, ...]:
    """Return a call that is running, or only proposed, when its session ends."""
    run = (decided(call_id, "test"),) if runs else ()
    return asks((call_id, "test")), *run, SessionStatus(status="done")


def resumption_continuing(call_id: str) -> tuple[EventBody, ...]:
    """Return a resumption of the session that continues a call."""
    ids = (call_id,)
    active = tuple(net.name for net in NETS)
    fields = {"agent": "other", "model": "m", "mode": "enforce", "active": active}
    return (SessionResumed.model_validate({**fields, "asked_again": ids, "going_on": ids}),)


def ordered(call_id: str) -> tuple[EventBody, ...]:
    """Return a subagent's call that is decided, even if it was skipped before."""
    return (decided(call_id, "test", via="child-1"),)


def late_message(call_id: str) -> tuple[EventBody, ...]:
    """Return a late tool message about a call."""
    return (MessageAdded(role="tool", call_id=call_id, text="said late"),)


ODD = st.one_of(
    *(st.builds(make, IDS) for make in (refused, resumption_continuing, ordered, late_message)),
    st.builds(cut_short, IDS, runs=st.booleans()),
    BODIES.map(lambda body: (body,)),
)
USUAL = st.builds(
    complete_call,
    st.sampled_from(("u1", "u2", "u3", "c1")),
    st.sampled_from((None, *STEPS)),
    st.sampled_from((None, None, None, "late words")),
)
"""A typical call."""


def possible(bodies: list[EventBody]) -> list[JournalEvent]:
    """Return a session of those bodies that can follow in order."""
    kept: list[EventBody] = [opening(*NETS)]
    state = new_state("s1")
    apply(state, recorded(*kept)[0])
    for body in bodies:
        there = snapshot(state)
        with suppress(FoldError):
            apply(there, recorded(*kept, body)[-1])
            state = there
            kept.append(body)
    return recorded(*kept)


class TestLaw:
    """The state after any jumps equals the fold from the start."""

    @pytest.mark.slow
    @settings(max_examples=examples(200), deadline=None)
    @given(
        st.lists(st.one_of(USUAL, ODD), min_size=8, max_size=32),
        st.lists(st.integers(0, 150), min_size=1, max_size=5),
    )
    def test_any_events_and_jumps_equal_the_fold(
        self, parts: list[tuple[EventBody, ...]], places: list[int]
    ) -> None:
        """Any possible order of all kinds of events, with typical calls between, and any jumps."""
        events = possible([body for part in parts for body in part])
        shown = MaskedEvents(events, Redaction())
        with small():
            replay = replayed(events)
            for place in (*places, len(events)):
                replay.goto(place)
                for by in (0, -1, 1, 1):
                    replay.step(by)
                    at = replay.position
                    check_replay_equals(replay, fold(shown[:at]) if at else new_state("s1"))

    @settings(max_examples=examples(60), deadline=None)
    @given(MOVES, st.lists(st.integers(0, 60), max_size=6))
    def test_records_of_a_live_gate_equal_the_fold(self, moves: list[Move], places: list[int]) -> None:
        """Records of a live gate: all shapes of nets, deferred steps, resumptions and undone steps."""
        events = events_of(moves)
        shown = MaskedEvents(events, Redaction())
        with small():
            replay = replayed(events)
            assert replay.whole
            for place in (*places, len(events)):
                replay.goto(place)
                at = replay.position
                check_replay_equals(replay, fold(shown[:at]) if at else new_state("s1"))


def usual(number: int) -> tuple[EventBody, ...]:
    """Return a call from proposal to result."""
    call_id = f"call-{number}"
    return asks((call_id, "test")), decided(call_id, "test"), result(call_id, "test")


def long_session(*between: EventBody, calls: int = 400) -> list[JournalEvent]:
    """Return a session with so many calls and `between` in the middle."""
    half = [body for n in range(calls // 2) for body in usual(n)]
    rest = [body for n in range(calls // 2, calls) for body in usual(n)]
    return recorded(opening(), *half, *between, *rest)


class TestOutline:
    """The content of an outline and where it ends."""

    def test_typical_calls_are_outlined_without_parsing(self) -> None:
        """A session of typical calls is outlined from its rows, and hardly any event is parsed."""
        events = LazyEvents(rows_of(long_session()), FILE)
        replay = Replay(events, at=0)
        assert replay.whole
        assert sum(read is not None for read in events._cache) <= 1 + len(events) // outlining.GAP
        assert replay.goto(len(events)).seq == len(events)
        assert replay.earlier > 0
        assert sum(read is not None for read in events._cache) < 1500

    def test_open_call_is_kept_until_its_late_result(self) -> None:
        """A call that stays open is kept in later states until its late result."""
        open_call: tuple[EventBody, ...] = (asks(("slow", "test")), decided("slow", "test"))
        events = recorded(
            opening(), *open_call, *(b for n in range(400) for b in usual(n)), result("slow", "test")
        )
        replay = Replay(LazyEvents(rows_of(events), FILE), at=0)
        assert replay.whole
        assert replay.goto(len(events) - 1).calls["slow"].status == "running"
        assert replay.earlier > 0
        assert replay.goto(len(events)).calls["slow"].status == "done"
        check_replay_equals(replay, fold(events))

    def test_checkpoint_content_is_masked(self) -> None:
        """The content in later checkpoints is masked."""
        waits = request("a1", "c-asked", "deploy").model_copy(update={"input": {"token": "s3cr3t-v4lue"}})
        events = long_session(asks(("c-asked", "deploy")), waits)
        replay = replayed(events)
        state = replay.goto(len(events))
        assert (replay.earlier > 0, state.approvals["a1"].input) == (
            True,
            {"token": mask_of("s3cr3t-v4lue")},
        )

    def test_late_message_changes_entry_of_blocked_call(self) -> None:
        """A late message for a call that was blocked long ago changes its entry."""
        blocked = (
            asks(("c-b", "rm")),
            decided("c-b", "rm", outcome="block"),
            MessageAdded(role="tool", call_id="c-b", text="blocked"),
        )
        events = [
            *long_session(*blocked),
            *recorded(MessageAdded(role="tool", call_id="c-b", text="again")),
        ]
        events[-1] = events[-1].model_copy(update={"seq": len(events), "cursor": len(events)})
        replay = Replay(LazyEvents(rows_of(events), FILE), at=0)
        assert not replay.whole
        replay.goto(len(events) - 1)
        assert replay.earlier > 0
        replay.step()
        assert (replay.earlier, replay.state) == (0, fold(events))

    @pytest.mark.parametrize("runs", [True, False])
    def test_interrupted_call_is_kept_for_resumption(self, runs: bool) -> None:
        """An interrupted call is kept in later states, because a resumption can continue it."""
        resumed = (*resumption_continuing("c-cut"), *resumption_continuing("nobody's"))
        middle = [body for n in range(400) for body in usual(n)]
        events = recorded(opening(*NETS), *cut_short("c-cut", runs=runs), *middle, *resumed)
        replay = Replay(LazyEvents(rows_of(events), FILE), at=0)
        state = replay.goto(len(events))
        assert (replay.whole, replay.earlier > 0) == (True, True)
        assert state.calls["c-cut"].status == ("running" if runs else "proposed")
        check_replay_equals(replay, fold(events))

    def test_impossible_event_is_reported_when_reached(self) -> None:
        """Moments before an impossible event are found; at later ones the fold reports the fault."""
        events = long_session()
        events[900] = events[900].model_copy(update={"seq": 7})
        replay = Replay(LazyEvents(rows_of(events), FILE), at=0)
        assert not replay.whole
        assert replay.goto(900).seq == 900
        with pytest.raises(FoldError, match="event 901 was expected"):
            replay.goto(1000)

    def test_unreadable_event_is_reported_when_reached(self) -> None:
        """An unreadable event is reported as a fault of this journal when it is reached."""
        rows = rows_of(long_session())
        rows[900] = (*rows[900][:5], "{}")
        replay = Replay(LazyEvents(rows, FILE), at=0)
        assert not replay.whole
        with pytest.raises(JournalError, match="event 901 of session 's1' cannot be read"):
            replay.goto(1000)


class TestRecorded:
    """Reading a session's rows."""

    async def test_lazily_read_events_equal_eagerly_read_ones(self, tmp_path: Path) -> None:
        """Events that are read lazily equal those that are read one by one."""
        path = tmp_path / "journal.db"
        with Journal.open(path) as journal:
            journal.write("s1", opening(), asks(("c1", "test")), decided("c1", "test"))
            journal.write("s2", opening())
        reader = open_reader(path)
        read = reader.recorded("s1")
        assert list(read) == read[:] == list(reader.events("s1"))
        assert (read[-1], len(read), read[1] is read[1]) == (read[2], 3, True)
        assert len(reader.recorded("nobody")) == 0

    @pytest.mark.parametrize("call_id", ["call-7", "call-1", 'ö"7', "call 7"])
    def test_search_finds_all_events_about_a_call(self, call_id: str) -> None:
        """The search finds all events about a call, whatever its id, and all openings and resumptions."""
        events = long_session(
            *[e.body for e in recorded(*resumption_continuing("x"), asks((call_id, "test")))], calls=20
        )
        lazy = LazyEvents(rows_of(events), FILE)
        found = {events[n].seq for n in MaskedEvents(lazy, Redaction()).bearing_on(call_id)}
        about = {e.seq for e in events if call_of(e) == call_id or "session." in e.body.type}
        assert about | {32} <= found
        assert set(MaskedEvents(events, Redaction()).bearing_on(call_id)) == set(range(len(events)))

    def test_only_events_containing_the_id_are_parsed(self) -> None:
        """In a long session only events that contain the id are parsed."""
        assert len(list(LazyEvents(rows_of(long_session()), FILE).bearing_on("call-777"))) <= 4

    def test_escaped_id_is_found(self) -> None:
        """An id that was written with JSON escapes is found."""
        rows = rows_of(recorded(opening(), *usual(7)))
        rows[1] = (*rows[1][:5], rows[1][5].replace("call-7", "\\u0063all-7"))
        assert list(LazyEvents(rows, FILE).bearing_on("call-7")) == [0, 1, 2, 3]
