"""Recovery plan for a session whose host died, its subagents' sessions included.

A subagent that was at work resumes from its own record, and its last reply settles the call that started
it, as if nothing had happened. Where that is impossible, the call ends as any other without a result: its
outcome is unknown. Nothing that ran is run again. Records are only read here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..agents import Agent, Message, ToolMessage
from ..agents.decisions import ApprovedCall
from ..agents.messages import ProposedCall, open_calls
from ..agents.session.subagents import TaskTool
from ..agents.tool import input_problem
from ..agents.turn.resume_step import ResumedCall, completion_reason
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
    continued_calls,
    host_died,
    interrupted,
    last_step,
    status_of,
    undecided,
)


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """Session as its host left it, and how its open calls resume or end.

    `again` are calls that the gate decides now, `below` the subagents' sessions that resume, by the call
    of this session that started each. `works` says whether it resumes by itself. `closing` ends in its
    record what does not; `unfinished` is how the calls of its step resume or have ended. `failure` is the
    error a subagent had failed with.
    """

    state: SessionState
    said: Sequence[Message]
    again: tuple[str, ...]
    below: Mapping[str, RecoveryPlan]
    works: bool
    closing: tuple[EventBody, ...]
    unfinished: tuple[ResumedCall, ...] = ()
    failure: str | None = None

    @property
    def asked_again(self) -> tuple[str, ...]:
        """The calls that are decided now, with those of the sessions below, named as by this gate."""
        below = (f"{left.state.id}/{i}" for left in self.below.values() for i in left.asked_again)
        return (*self.again, *below)

    @property
    def going_on(self) -> tuple[str, ...]:
        """Calls whose subagents resume, likewise."""
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
    """Recovery plan of the session of `events`, whose fold is `state`, to be resumed by `agent`.

    `nets` are those that keep their markings; a call pending in another one cannot resume. Of an
    `imported` session nothing resumes by itself: the author of the file chose its open calls.
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
    unfinished: list[ResumedCall] = []
    for each in continued_calls(known, said, below) if below else ():
        if isinstance(each, ProposedCall):
            args = copy.deepcopy(known.calls[each.call_id].input)
            unfinished.append(ApprovedCall(each.call_id, each.name, args))
        elif isinstance(told := message_of(each, outputs), ToolMessage):
            unfinished.append(told)
    return RecoveryPlan(state, said, again, below, works, closing, tuple(unfinished))


@dataclass(frozen=True)
class _Family:
    """Record of the session at the top, and those of the sessions below it.

    `lost` are calls, by their ids at the top, that cannot resume.
    """

    reader: HistoryReader
    top: Sequence[EventBody]
    lost: frozenset[str]

    @cached_property
    def children(self) -> Mapping[tuple[str, str], list[str]]:
        """Subagents' sessions of the journal, by the session and the call that started them.

        Imported ones are left out: the calls that they name were not made here.
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
        """Sessions of `agent`'s subagents that resume, by call.

        `path` is what the top puts before the ids of this session's calls.
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
        """Session that a call had started, if it can resume or has ended with its last reply."""
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
        if said and completion_reason(said) is not None and not state.queued:
            return _left(events, state, known, said, step, (), {}, False, missed)
        if not state.queued:
            stopped = phase == "done" or (phase == "idle" and bool(said)) or interrupted(step, calls)
            if stopped:
                return None  # By a person, or for its many steps: its record does not say.
        below = self.below(known, said, agent, path)
        again = () if below else undecided(known, said, step)
        return _left(events, state, known, said, step, again, below, True, missed)

    def _seen(self, path: str) -> Iterator[_OfCall]:
        """Events of the top about the calls of the session at `path`, under that session's own ids."""
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
    """Decisions and results that the top had when the host died, and the session itself did not yet."""
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
    """Status of a session when its host died, or its final one if it had ended before."""
    for event in reversed(events):
        match event.body:
            case SessionStatus(status="failed", error=error) if error == DIED:
                continue
            case SessionStatus(status=status):
                return status
            case _:
                continue
    return "idle"
