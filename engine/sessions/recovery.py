"""What a session left open when its host died, with its subagents' sessions: what goes on, what ends.

A subagent that was at work goes on from its own record, and its last words settle the call that had
started it, as if nothing had happened. Where that cannot be, the call ends as any other that has no
result: nobody knows its outcome. Nothing that ran is run again. Here records are only read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..agents import Agent, Message, ToolMessage
from ..agents.loop.execution import ApprovedCall
from ..agents.loop.resume_step import Unfinished, at_rest
from ..agents.messages import ProposedCall, open_calls
from ..agents.session.subagents import TaskTool
from ..agents.tool import input_problem
from ..history.errors import FoldError
from ..history.fold.fold import apply, fold, snapshot
from ..history.journal.reader import HistoryReader
from ..history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from ..history.model.state import Phase, SessionState
from ..recording.conversation import conversation, message_of
from ..recording.resume import (
    DIED,
    NOT_YET,
    UNRESOLVED,
    closings,
    host_died,
    interrupted,
    last_step,
    status_of,
    told_later,
    undecided,
)


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """A session as its host left it.

    `again` are calls that the gate decides now, `below` the subagents' sessions that go on, by the call
    of this session that started each. `works` says whether it goes on by itself. `closing` ends in its
    record what does not; `unfinished` is how the calls of its step go on or have ended. `failure` is what
    a subagent had failed with.
    """

    state: SessionState
    said: Sequence[Message]
    again: tuple[str, ...]
    below: Mapping[str, RecoveryPlan]
    works: bool
    closing: tuple[EventBody, ...]
    unfinished: tuple[Unfinished, ...] = ()
    failure: str | None = None

    @property
    def asked_again(self) -> tuple[str, ...]:
        """The calls that are decided now, with those of the sessions below, named as by this gate."""
        below = (f"{left.state.id}/{i}" for left in self.below.values() for i in left.asked_again)
        return (*self.again, *below)

    @property
    def going_on(self) -> tuple[str, ...]:
        """The calls whose subagents go on, likewise."""
        return _named(self.below)


def _named(below: Mapping[str, RecoveryPlan]) -> tuple[str, ...]:
    deeper = (f"{left.state.id}/{i}" for left in below.values() for i in left.going_on)
    return (*below, *deeper)


def plan_recovery(
    reader: HistoryReader,
    events: Sequence[JournalEvent],
    state: SessionState,
    agent: Agent,
    nets: Mapping[str, object],
    *,
    imported: bool = False,
) -> RecoveryPlan:
    """What the session of these events, whose fold is `state`, left open for `agent` to go on with.

    `nets` are those that go on from where they were; a call that waits in another one cannot go on. Of an
    `imported` session nothing goes on by itself: whoever made the file chose its open calls.
    """
    lost = frozenset(p.call_id for p in state.pending if p.step.net not in nets)
    family = _Family(reader, [event.body for event in events], lost)
    said, step = conversation(events), last_step(events)
    if imported:
        return _left(events, state, state, said, step, (), {}, works=False)
    below = family.below(state, said, agent) if host_died(state) else {}
    again = () if below else undecided(state, said, step)
    works = bool(again or below or state.queued)
    return _left(events, state, state, said, step, again, below, works)


def _left(
    events: Sequence[JournalEvent],
    state: SessionState,
    known: SessionState,
    said: Sequence[Message],
    step: Sequence[EventBody],
    again: tuple[str, ...],
    below: Mapping[str, RecoveryPlan],
    works: bool,
    missed: Sequence[EventBody] = (),
) -> RecoveryPlan:
    """`known` is `state` with what it `missed`."""
    ended = closings(known, said, step, asked_again=again, going_on=_named(below))
    closing = (*missed, *ended, *([SessionStatus(status="running")] if works else []))
    results = (*(event.body for event in events), *closing)
    outputs = {body.call_id: body.output for body in results if isinstance(body, CallResult)}
    unfinished: list[Unfinished] = []
    for each in told_later(known, said, below) if below else ():
        if isinstance(each, ProposedCall):
            args = copy.deepcopy(known.calls[each.call_id].input)
            unfinished.append(ApprovedCall(each.call_id, each.name, args))
        elif isinstance(told := message_of(each, outputs), ToolMessage):
            unfinished.append(told)
    return RecoveryPlan(state, said, again, below, works, closing, tuple(unfinished))


@dataclass(frozen=True)
class _Family:
    """The record of the session at the top, and those of the sessions below it.

    `lost` are calls, as the top names them, that cannot go on.
    """

    reader: HistoryReader
    top: Sequence[EventBody]
    lost: frozenset[str]

    @cached_property
    def children(self) -> Mapping[tuple[str, str], list[str]]:
        """The subagents' sessions of the journal, by the session and the call that started them.

        Imported ones are nobody's here, whatever they say.
        """
        found: dict[tuple[str, str], list[str]] = {}
        for line in self.reader.sessions(limit=None):
            if line.kind != "child" or line.parent is None or line.imported:
                continue
            for event in self.reader.events(line.id, limit=1):
                opened = event.body
                if isinstance(opened, SessionOpened) and opened.parent_call is not None:
                    found.setdefault((line.parent, opened.parent_call), []).append(line.id)
        return found

    def below(
        self, state: SessionState, said: Sequence[Message], agent: Agent, path: str = ""
    ) -> dict[str, RecoveryPlan]:
        """The sessions of `agent`'s subagents that go on, by call.

        `path` is what the top puts before the names of this session's calls.
        """
        tools = {tool.name: tool for tool in agent.tools}
        found: dict[str, RecoveryPlan] = {}
        for call in open_calls(said):
            tool = tools.get(call.name)
            stands = state.calls.get(call.call_id)
            if not isinstance(tool, TaskTool) or tool.agent is None or stands is None:
                continue
            if stands.status not in UNRESOLVED or stands.output is not None:
                continue
            if path + call.call_id in self.lost or input_problem(tool, stands.input) is not None:
                continue
            left = self._child(state.id, call.call_id, tool.agent, path)
            if left is not None:
                found[call.call_id] = left
        return found

    def _child(self, parent: str, call_id: str, agent: Agent, path: str) -> RecoveryPlan | None:
        """The session that a call had started, if it can go on or has said its last words."""
        ids = self.children.get((parent, call_id), [])
        if len(ids) != 1:
            return None
        events = list(self.reader.events(ids[0]))
        try:
            state = fold(events)
            if state.agent != agent.name:
                return None
            return self._child_left(events, state, agent, f"{path}{state.id}/")
        except FoldError:
            return None

    def _child_left(
        self, events: Sequence[JournalEvent], state: SessionState, agent: Agent, path: str
    ) -> RecoveryPlan | None:
        said = conversation(events)
        phase = _phase_at_death(events)
        if phase == "failed":
            error = state.error or ""
            return RecoveryPlan(state, said, (), {}, False, (), failure=error.partition(": ")[2] or error)
        calls = {call.call_id for call in open_calls(said)}
        seen = [body for body in self._seen(path) if body.call_id in calls]
        missed = _missed(state, seen)
        known = _caught_up(state, missed)
        step = [*last_step(events), *seen]
        if said and at_rest(said) is not None and not state.queued:
            return _left(events, state, known, said, step, (), {}, False, missed)
        if not state.queued:
            stopped = phase == "done" or (phase == "idle" and bool(said)) or interrupted(step, calls)
            if stopped:
                return None  # By a person, or for its many steps: its record does not say.
        below = self.below(known, said, agent, path)
        again = () if below else undecided(known, said, step)
        return _left(events, state, known, said, step, again, below, True, missed)

    def _seen(self, path: str) -> Iterator[_OfCall]:
        """What the top recorded of a session's calls, as that session names them."""
        for body in self.top:
            if isinstance(body, _OF_CALLS) and body.call_id.startswith(path):
                named = {"call_id": body.call_id.removeprefix(path)}
                match body:
                    case CallDecided():
                        yield body.model_copy(update={**named, "via": None, "steps": ()})
                    case CallResult():
                        yield body.model_copy(update={**named, **_NO_NETS})
                    case ApprovalRequested():
                        yield body.model_copy(update={**named, "via": None})
                    case _:
                        yield body.model_copy(update=named)


_NO_NETS: dict[str, object] = {"fired": (), "dropped": (), "undone": (), "arrived": {}}
_OfCall = (
    CallDecided | CallResult | ApprovalRequested | ApprovalDecided | ApprovalExpired | ApprovalWithdrawn
)
_OF_CALLS = (
    CallDecided,
    CallResult,
    ApprovalRequested,
    ApprovalDecided,
    ApprovalExpired,
    ApprovalWithdrawn,
)


def _missed(state: SessionState, seen: Sequence[_OfCall]) -> list[EventBody]:
    """What the top knew of calls when the host died, and the session itself had not recorded yet."""
    decided = {body.call_id: body for body in seen if isinstance(body, CallDecided)}
    ended = {body.call_id: body for body in seen if isinstance(body, CallResult) and not body.anomaly}
    missed: list[EventBody] = [
        body for call_id, body in decided.items() if status_of(state, call_id) in NOT_YET
    ]
    for call_id, body in ended.items():
        stands = state.calls.get(call_id)
        if call_id in decided and (stands is None or stands.output is None):
            missed.append(body)
    return missed


def _caught_up(state: SessionState, missed: Sequence[EventBody]) -> SessionState:
    """The session's state as it will be when it has recorded what it missed."""
    known = snapshot(state)
    resumed = SessionResumed(agent=state.agent, model=state.model, mode=state.mode)
    at = state.updated or state.opened
    assert at is not None, "a session that was folded has a beginning"
    for body in (resumed, *missed):
        event = JournalEvent(cursor=1, session=state.id, seq=known.seq + 1, at=at, body=body)
        apply(known, event)
    return known


def _phase_at_death(events: Sequence[JournalEvent]) -> Phase:
    """What a session did when its host died; what it had come to, if it had ended before."""
    for event in reversed(events):
        match event.body:
            case SessionStatus(status="failed", error=error) if error == DIED:
                continue
            case SessionStatus(status=status):
                return status
            case _:
                continue
    return "idle"
