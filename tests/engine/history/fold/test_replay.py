"""Moving through a recorded session."""

from __future__ import annotations

import threading
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.history.errors import FoldError
from interlock.engine.history.fold.fold import fold, new_state
from interlock.engine.history.fold.replay import AT_A_TIME, SHORTEST_GAP, Replay
from interlock.engine.history.model.events import EventBody, MessageAdded, SessionStatus
from interlock.engine.history.model.state import SessionState
from tests.support.laws import examples

from ..support.recording import answer, asks, decided, opening, recorded, request, result

SESSION: tuple[EventBody, ...] = (
    opening(),
    asks(("c1", "test"), ("c2", "deploy"), ("c3", "rm")),
    decided("c1", "test"),
    result("c1", "test"),
    request("a1", "c2", "deploy"),
    answer("a1", "c2"),
    decided("c2", "deploy", approved_by=("maria",)),
    decided("c3", "rm", outcome="block"),
    decided("c4", "rm", outcome="ask", mode="shadow"),
    SessionStatus(status="done"),
)


class TestMoving:
    def test_starts_at_the_end(self) -> None:
        """A fresh replay shows the session's last event."""
        events = recorded(*SESSION)
        replay = Replay(events)
        assert (replay.position, len(replay)) == (10, 10)
        assert replay.event is events[-1]
        assert replay.state == fold(events)

    def test_steps_stop_at_both_ends(self) -> None:
        """Steps stop at both ends of the session."""
        replay = Replay(recorded(*SESSION))
        replay.step(-1)
        assert replay.position == 9
        replay.step(+5)
        assert replay.position == 10
        replay.step(-99)
        assert (replay.position, replay.event, replay.changes) == (0, None, [])
        assert replay.state.seq == replay.before.seq == 0

    def test_shows_what_changed(self) -> None:
        """The changes are those of the current event, whichever direction led to it."""
        replay = Replay(recorded(*SESSION))
        replay.goto(5)
        forward = replay.changes
        replay.goto(6)
        replay.step(-1)
        assert replay.changes == forward == ["approval requested: deploy", "status idle → waiting"]

    def test_session_without_events_has_one_position(self) -> None:
        """A session without events has one position."""
        replay = Replay([])
        assert (len(replay), replay.position, replay.event, replay.changes) == (0, 0, None, [])

    def test_record_with_a_gap_is_refused(self) -> None:
        """A record with a gap is refused on opening."""
        events = recorded(*SESSION)
        with pytest.raises(FoldError, match="event 4 was expected"):
            Replay(events[:3] + events[4:])


class TestLongSessions:
    def test_jump_back_folds_from_a_checkpoint(self) -> None:
        """A jump back folds from a nearby checkpoint and gives the same state."""
        hello = MessageAdded(role="user", text="hello")
        events = recorded(opening(), *[hello] * (6 * SHORTEST_GAP))
        replay = Replay(events)
        folded: list[int] = []
        for position in (5 * SHORTEST_GAP + 3, 7, 2 * SHORTEST_GAP, 2 * SHORTEST_GAP + 1):
            replay.goto(position)
            folded.append(len(replay.state.transcript))
            assert replay.state == fold(events[:position])
            assert replay.state.seq == position
        assert folded == [5 * SHORTEST_GAP + 2, 6, 2 * SHORTEST_GAP - 1, 2 * SHORTEST_GAP]
        assert len(replay._checkpoints) == 7


LONG = recorded(
    opening(),
    *[
        body
        for n in range(520)
        for body in (
            asks((f"c{n % 7}", "test"), (f"d{n}", "rm")),
            decided(f"c{n % 7}", "test"),
            MessageAdded(role="user", text=f"on {n}"),
            result(f"c{n % 7}", "test"),
            SessionStatus(status="idle" if n % 50 == 0 else "running"),
        )
    ],
)


@cache
def folded(position: int) -> SessionState:
    """Return the state after so many events of `LONG`."""
    return fold(LONG[:position]) if position else new_state(LONG[0].session)


class TestLater:
    """States that are computed on demand or by a background thread."""

    def test_start_in_the_middle_folds_nothing_later(self) -> None:
        """A replay that starts in the middle folds nothing after its position until asked."""
        events = recorded(*SESSION, SessionStatus(status="idle"))
        impossible = [*events, events[1]]
        replay = Replay(impossible, at=3)
        assert (replay.position, replay.state) == (3, fold(events[:3]))
        assert replay.goto(11) == fold(events)
        with pytest.raises(FoldError):
            replay.goto(12)

    def test_jumps_work_while_a_thread_fills(self) -> None:
        """Jumps give the right states while another thread fills the replay."""
        events = recorded(opening(), *[MessageAdded(role="user", text=str(n)) for n in range(2000)])
        replay = Replay(events, at=1)
        thread = threading.Thread(target=replay.fill)
        thread.start()
        for position in (1500, 3, 2001, 700, 1999):
            state = replay.goto(position)
            assert (state.seq, len(state.transcript)) == (position, position - 1)
            assert state.transcript[-1].text == str(position - 2)
        thread.join(30)
        assert replay.goto(1777) == fold(events[:1777])

    @pytest.mark.slow
    @settings(max_examples=examples(25), deadline=None)
    @given(st.lists(st.integers(0, 3000), max_size=8), st.integers(0, 2600))
    def test_partial_filling_equals_the_prefix_fold(self, places: list[int], upto: int) -> None:
        """After filling up to any point, all jumps and checkpoints equal the prefix's fold."""
        events = LONG
        replay = Replay(events, at=1)
        turns = iter(range(upto // AT_A_TIME))
        replay.fill(lambda: next(turns, None) is None)
        for place in places:
            state = replay.goto(place)
            assert state == folded(min(place, len(events)))
            assert replay.before == folded(max(min(place, len(events)) - 1, 0))
        replay.fill()
        kept = replay._checkpoints
        assert sorted(kept) == list(range(0, len(events), SHORTEST_GAP))
        assert all(kept[position] == folded(position) for position in kept)

    def test_filling_reports_an_impossible_event(self) -> None:
        """Filling reports an impossible event, unless it is cancelled first."""
        events = recorded(*SESSION)
        replay = Replay([*events, events[1]], at=1)
        replay.fill(lambda: True)
        with pytest.raises(FoldError, match="event 11 was expected"):
            replay.fill()
