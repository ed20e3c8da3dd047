"""Outline of a long session, without its texts: states along it from which any moment is near.

Most events of a session are about calls that were proposed, allowed and answered. After its answer such a
call affects a fold only by the tokens that it moved and its entry in the transcript. Such calls are
therefore only counted here, from their rows, without parsing or masking their content. All other events
go through `fold` itself, masked. A fold can start at any position without open counted calls; the entries
that cannot change any more are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from pydantic_core import from_json

from ...net.net import Marking, NetError
from ..errors import FoldError, JournalError
from ..journal.rows import EventRow
from ..model.events import CallDecided, JournalEvent, MessageAdded
from ..model.fast_models import copy_with
from ..model.records import NetRecord, StepRecord
from ..model.state import CallState, NetState, SessionState
from .fold import apply, new_state, snapshot
from .markings import ages, marking_after, transition_of

GAP = 128
"""Events from one state to the next."""

REACH = 256
"""Number of events that a call may be open before it is folded instead of counted."""

WINDOW = 200
"""Number of transcript entries that every fold from a checkpoint to a position has before it."""

_UNSETTLED = frozenset({"proposed", "waiting", "running", "unknown"})
_SESSION, _SEQ, _KIND, _BODY = 1, 2, 4, 5

Raw: TypeAlias = Mapping[str, object]


class Checkpoint(NamedTuple):
    """The state after `position` events, without `earlier` entries of its transcript, and their calls."""

    position: int
    earlier: int
    state: SessionState

    @property
    def entries(self) -> int:
        return self.earlier + len(self.state.transcript)


@dataclass(frozen=True, slots=True)
class Outline:
    """States along the first `upto` events.

    `bearing` are the numbers of events in which a call may have been blocked or approval requested.
    """

    checkpoints: Sequence[Checkpoint]
    upto: int
    bearing: Sequence[int]

    def before(self, position: int) -> Checkpoint:
        """Return the checkpoint before `position` from which its last `WINDOW` entries are folded."""
        points = self.checkpoints
        at = bisect_right(points, position, key=lambda point: point.position) - 1
        entries = points[at].entries - WINDOW
        while at and points[at].entries > entries:
            at -= 1
        return points[at]


class _Position(NamedTuple):
    """Position without open counted calls, to which later counting can be rewound."""

    position: int
    earlier: int
    nets: dict[str, NetState]
    tokens: tuple[int, int, float]


class _Unusual(Exception):  # noqa: N818 - no error: the event is for the fold
    """An event that cannot be only counted."""


class _Inexact(Exception):  # noqa: N818 - no error: what comes needs all that was before
    """An event about a call that was left out."""


def outline(rows: Sequence[EventRow], shown: Sequence[JournalEvent]) -> Outline:
    """Return the outline of a session with these rows; `shown` are its events, masked.

    It ends before the first event that cannot follow or be parsed, or that is about a call left out.
    """
    return _Outliner(rows, shown).run()


class _Outliner:
    """Processes rows in order, and rewinds a little if a counted call turns out to be unusual."""

    def __init__(self, rows: Sequence[EventRow], shown: Sequence[JournalEvent]) -> None:
        self._rows = rows
        self._events = shown
        self._state = new_state(rows[0][_SESSION])
        self._earlier = 0
        self._counted: Mapping[str, Callable[[Raw], None]] = {
            "step": self._step,
            "message": self._message,
            "call.decided": self._decision,
            "call.result": self._result,
        }
        self._points = [Checkpoint(0, 0, snapshot(self._state))]
        # Counted calls by id: `None` until decided, then their deferred steps.
        self._open: dict[str, list[Raw] | None] = {}
        self._at = 0
        self._idle_position = self._current_position()
        self._whole = 0
        self._trimmed_ids: set[str] = set()
        self._trim_limit = GAP
        self._moves: dict[int, tuple[NetRecord, dict[tuple[object, ...], Marking]]] = {}
        self._requested_ids: set[object] = set()
        self._bearing: list[int] = []
        self._look_position = 0

    def run(self) -> Outline:
        position, total = 0, len(self._rows)
        try:
            while position < total:
                if not self._count(position):
                    if self._open:
                        position = self._rewind(position)
                        continue
                    self._fold(position)
                position += 1
                if not self._open:
                    if position - self._points[-1].position >= GAP:
                        self._keep(position)
                elif position - self._idle_position.position > REACH:
                    position = self._rewind(position - 1)
        except (FoldError, JournalError, _Inexact):
            position = min(position, self._idle_position.position) if self._open else position
        return Outline(tuple(self._points), position, tuple(self._bearing))

    # Counted events

    def _count(self, position: int) -> bool:
        """Count an event of a usual call; return false if it is not one."""
        row = self._rows[position]
        self._at = position
        kind = row[_KIND]
        count = self._counted.get(kind)
        if count is None and kind != "approval.requested":
            return False
        if position < self._whole and position < self._look_position:
            return False
        try:
            body = cast(Raw, from_json(row[_BODY]))
            if position >= self._look_position:
                self._look_position = position + 1
                self._look(position + 1, kind, body)
            if count is None or position < self._whole:
                return False
            if row[_SESSION] != self._state.id or row[_SEQ] != position + 1 or body["type"] != kind:
                return False
            count(body)
        except (KeyError, TypeError, ValueError, AttributeError, NetError, _Unusual):
            return False
        return True

    def _look(self, number: int, kind: str, body: Raw) -> None:
        """Note an event that may be marked in a replay."""
        if kind == "approval.requested":
            self._requested_ids.add(body["call_id"])
        elif kind != "call.decided" or not (
            body["outcome"] != "allow"
            or body.get("approved_by")
            or body["call_id"] in self._requested_ids
        ):
            return
        self._bearing.append(number)

    def _step(self, body: Raw) -> None:
        state = self._state
        input_tokens, output_tokens = body.get("input_tokens", 0), body.get("output_tokens", 0)
        cost = body.get("cost", 0.0)
        if (
            type(input_tokens) is not int
            or type(output_tokens) is not int
            or not isinstance(cost, int | float)
        ):
            raise _Unusual
        state.input_tokens += input_tokens
        state.output_tokens += output_tokens
        state.cost += cost

    def _message(self, body: Raw) -> None:
        match body["role"]:
            case "tool":
                self._tool_message(body)
            case "assistant" if body.get("message_id") is None:
                self._proposal(body)
            case _:
                raise _Unusual

    def _tool_message(self, body: Raw) -> None:
        """Skip a message about an answered call, which changes nothing; else raise `_Unusual`."""
        call_id = body.get("call_id")
        if body.get("text") is None or call_id is None:
            return
        if call_id in self._open or call_id in self._state.calls or call_id in self._trimmed_ids:
            raise _Unusual

    def _proposal(self, body: Raw) -> None:
        calls = [str(call["call_id"]) for call in cast("Sequence[Raw]", body.get("calls", ()))]
        state, open_ids = self._state, self._open
        if any(call in open_ids or call in state.calls for call in calls) or len(set(calls)) < len(calls):
            raise _Unusual
        if calls and not open_ids:
            self._idle_position = self._current_position()
        self._earlier += len(calls) + bool(body.get("text"))
        for call in calls:
            open_ids[call] = None

    def _decision(self, body: Raw) -> None:
        call_id = cast(str, body["call_id"])
        open_calls = self._open
        if call_id not in open_calls or open_calls[call_id] is not None or body.get("via") is not None:
            raise _Unusual
        if body["outcome"] != "allow" and body["mode"] != "shadow":
            raise _Unusual
        steps = cast("Sequence[Raw]", body.get("steps", ()))
        deferred = [step for step in steps if step.get("deferred")]
        for step in deferred:
            transition_of(self._net(step).net, StepRecord.model_validate(step))
        self._fire([step for step in steps if not step.get("deferred")] if deferred else steps)
        open_calls[call_id] = deferred

    def _result(self, body: Raw) -> None:
        call_id = cast(str, body["call_id"])
        deferred = self._open.get(call_id)
        if deferred is None or body.get("unknown") or body.get("undone"):
            raise _Unusual
        if body.get("anomaly") is not None or body.get("arrived") or type(body["output"]) is not str:
            raise _Unusual
        fired_steps = cast("Sequence[Raw]", body.get("fired", ()))
        if deferred or fired_steps:
            remaining = list(deferred)
            for step in (*fired_steps, *cast("Sequence[Raw]", body.get("dropped", ()))):
                remaining.remove(step)
            if remaining:
                raise _Unusual
            self._fire(fired_steps)
        elif body.get("dropped"):
            raise _Unusual
        del self._open[call_id]

    def _net(self, step: Raw) -> NetState:
        net = self._state.nets.get(cast(str, step["net"]))
        if net is None:
            # A grant, or a per-value net, which the first step of its value creates.
            raise _Unusual
        return net

    def _fire(self, steps: Sequence[Raw]) -> None:
        """Move tokens of nets without timed transitions; in long sessions most moves are cached."""
        nets = self._state.nets
        for step in steps:
            net = self._net(step)
            record = net.net
            cache_entry = self._moves.get(id(record))
            if cache_entry is None or cache_entry[0] is not record:
                if ages(record):
                    raise _Unusual
                cache_entry = self._moves[id(record)] = (record, {})
            move = (step["transition"], *net.marking.items())
            marking = cache_entry[1].get(move)
            if marking is None:
                marking = cache_entry[1][move] = marking_after(
                    record, net.marking, StepRecord.model_validate(step)
                )
            nets[net.key] = copy_with(net, {"marking": marking})

    # Folded events

    def _fold(self, position: int) -> None:
        """Apply an event as shown. Raises as the fold does."""
        event, state = self._events[position], self._state
        self._check(event)
        state.seq = position
        apply(state, event)
        if len(state.transcript) > self._trim_limit:
            self._trim()

    def _check(self, event: JournalEvent) -> None:
        """Raise `_Inexact` if a fold may need a call that was left out."""
        match event.body:
            case CallDecided(call_id=call_id, via=str()):
                direct = ("proposed", "waiting")
            case MessageAdded(role="tool", text=str(), call_id=str() as call_id):
                direct = ("proposed", "waiting", "running", "blocked")
            case _:
                return
        if call_id in self._trimmed_ids:
            call = self._state.calls.get(call_id)
            if call is None or call.status not in direct:
                raise _Inexact

    def _trim(self) -> None:
        """Leave out entries that later events change only if they name them."""
        state = self._state
        calls = [entry.call for entry in state.transcript if entry.call is not None]
        open_ids = {call.call_id for call in calls if _unsettled(call)}
        open_ids.update(each.call_id for each in (*state.pending, *state.approvals.values()))
        self._trimmed_ids.update(
            call.call_id
            for call in calls
            if call.status in ("blocked", "skipped") and call.call_id not in open_ids
        )
        users = (
            n for n in range(len(state.transcript) - 1, -1, -1) if state.transcript[n].kind == "user"
        )
        user = next(users, None)
        transcript = [
            entry
            for n, entry in enumerate(state.transcript)
            if n == user or (entry.call is not None and entry.call.call_id in open_ids)
        ]
        self._earlier += len(state.transcript) - len(transcript)
        state.transcript = transcript
        state.calls = {key: call for key, call in state.calls.items() if key in open_ids}
        self._trim_limit = GAP + 2 * len(transcript)

    # Positions at which a fold can start

    def _keep(self, position: int) -> None:
        self._trim()
        state = self._state
        state.seq, state.updated = position, self._events[position - 1].at
        self._points.append(Checkpoint(position, self._earlier, snapshot(state)))

    def _current_position(self) -> _Position:
        state = self._state
        tokens = state.input_tokens, state.output_tokens, state.cost
        return _Position(self._at, self._earlier, dict(state.nets), tokens)

    def _rewind(self, position: int) -> int:
        """Undo the counting since no call was open; events up to `position` are then folded."""
        idle, state = self._idle_position, self._state
        self._open.clear()
        self._earlier = idle.earlier
        state.nets = dict(idle.nets)
        state.input_tokens, state.output_tokens, state.cost = idle.tokens
        self._whole = position + 1
        return idle.position


def _unsettled(call: CallState) -> bool:
    """Return whether events that do not name a call may change it, or its next events will."""
    return call.status in _UNSETTLED or (call.status in ("blocked", "skipped") and call.output is None)
