"""Recovery plan for a session whose host died, its subagents' sessions included.

A working subagent resumes from its own record, and its last reply settles the call that started it, as
usual. If that is impossible, the call ends like any other without a result: its outcome is unknown.
Nothing that ran is run again. This module only reads records.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ..agents import Message, ToolMessage
from ..agents.decisions import ApprovedCall, ResumedCall
from ..agents.messages import ProposedCall, completion_reason, open_calls
from ..agents.session.subagents import TaskTool
from ..agents.tool import input_problem
from ..core.value_key import split_key
from ..history.errors import FoldError
from ..history.fold.flow_steps import DIED
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
from ..recording.conversation import conversation, first_rules, message_of
from ..recording.interrupted_calls import (
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

if TYPE_CHECKING:
    from ..agents import Agent


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """Session as its host left it, and how its open calls resume or end.

    `undecided` are calls that the gate decides now. `children` are the subagents' sessions that resume,
    by the call of this session that started each. `resumes` says whether the session resumes by itself.
    `closing` are events that end what does not resume; `unfinished` is how the calls of its step resume
    or have ended. `failure` is the error with which a subagent had failed, `rules` the part of its system
    prompt about the rules (G-73).
    """

    state: SessionState
    messages: Sequence[Message]
    undecided: tuple[str, ...] = ()
    children: Mapping[str, RecoveryPlan] = field(default_factory=dict[str, "RecoveryPlan"])
    resumes: bool = False
    closing: tuple[EventBody, ...] = ()
    unfinished: tuple[ResumedCall, ...] = ()
    failure: str | None = None
    rules: tuple[str, ...] | None = None

    @property
    def asked_again(self) -> tuple[str, ...]:
        """The calls that are decided now, including those of subagents' sessions, by this gate's ids."""
        deeper = (f"{each.state.id}/{i}" for each in self.children.values() for i in each.asked_again)
        return (*self.undecided, *deeper)

    @property
    def going_on(self) -> tuple[str, ...]:
        """The calls whose subagents resume, by this gate's ids."""
        return _resumed_calls(self.children)


def _resumed_calls(children: Mapping[str, RecoveryPlan]) -> tuple[str, ...]:
    deeper = (f"{each.state.id}/{i}" for each in children.values() for i in each.going_on)
    return (*children, *deeper)


def plan_recovery(
    reader: HistoryReader,
    events: Sequence[JournalEvent],
    state: SessionState,
    agent: Agent,
    nets: Mapping[str, object],
    *,
    imported: bool,
) -> RecoveryPlan:
    """Return the plan for the session of `events`, with the fold `state`, to be resumed by `agent`.

    `nets` are those that keep their markings; a call pending in another one cannot resume. An `imported`
    session never resumes by itself, because the author of the file chose its open calls.
    """
    ended = frozenset(p.call_id for p in state.pending if split_key(p.step.net)[0] not in nets)
    family = _Family(reader, [event.body for event in events], ended)
    record = _Record(events, state, state, conversation(events), last_step(events))
    if imported:
        return _plan(record, {}, resumes=False)
    children = family.plans(state, record.messages, agent) if host_died(state) else {}
    return _plan(record, children)


@dataclass(frozen=True, slots=True)
class _Record:
    """Record of a session; `current` is its `state` with the events it `missed`, `step` its last one."""

    events: Sequence[JournalEvent]
    state: SessionState
    current: SessionState
    messages: Sequence[Message]
    step: Sequence[EventBody]
    missed: Sequence[EventBody] = ()


def _plan(
    record: _Record, children: Mapping[str, RecoveryPlan], *, resumes: bool | None = None
) -> RecoveryPlan:
    """Return the plan of a session whose subagents' sessions resume as `children`.

    By default it `resumes` if calls are open, a subagent is working or a message waits.
    """
    current, messages, step = record.current, record.messages, record.step
    open_ids = () if children or resumes is False else undecided(current, messages, step)
    if resumes is None:
        resumes = bool(open_ids or children or record.state.queued)
    ended = closings(current, messages, step, asked_again=open_ids, going_on=_resumed_calls(children))
    running = [SessionStatus(status="running")] if resumes else []
    closing = (*record.missed, *ended, *running)
    results = (*(event.body for event in record.events), *closing)
    outputs = {body.call_id: body.output for body in results if isinstance(body, CallResult)}
    unfinished: list[ResumedCall] = []
    for each in continued_calls(current, messages, children) if children else ():
        if isinstance(each, ProposedCall):
            args = copy.deepcopy(current.calls[each.call_id].input)
            unfinished.append(ApprovedCall(each.call_id, each.name, args))
        elif isinstance(answer := message_of(each, outputs), ToolMessage):
            unfinished.append(answer)
    return RecoveryPlan(
        record.state,
        messages,
        open_ids,
        children,
        resumes,
        closing,
        tuple(unfinished),
        rules=first_rules(record.events),
    )


@dataclass(frozen=True)
class _Family:
    """Record of the top session, and those of the sessions below it.

    `ended` are calls, by the top session's ids, that cannot resume.
    """

    reader: HistoryReader
    top: Sequence[EventBody]
    ended: frozenset[str]

    @cached_property
    def children(self) -> Mapping[tuple[str, str], list[str]]:
        """Subagents' sessions of the journal, by the session and the call that started them.

        Imported ones are left out, because the calls that they name were not made here.
        """
        found: dict[tuple[str, str], list[str]] = {}
        # Events of newer versions in other sessions do not matter here; a subagent's own record is read
        # completely.
        reader = self.reader.showing()
        for line in reader.sessions(limit=None):
            if line.kind != "child" or line.parent is None or line.imported:
                continue
            for event in reader.events(line.id, limit=1):
                opened = event.body
                if isinstance(opened, SessionOpened) and opened.parent_call is not None:
                    found.setdefault((line.parent, opened.parent_call), []).append(line.id)
        return found

    def plans(
        self, state: SessionState, messages: Sequence[Message], agent: Agent, path: str = ""
    ) -> dict[str, RecoveryPlan]:
        """Return plans for the sessions of `agent`'s subagents that resume, by call.

        `path` is the top session's prefix of the ids of this session's calls.
        """
        tools = {tool.name: tool for tool in agent.tools}
        found: dict[str, RecoveryPlan] = {}
        for call in open_calls(messages):
            tool = tools.get(call.name)
            recorded_call = state.calls.get(call.call_id)
            if not isinstance(tool, TaskTool) or tool.agent is None or recorded_call is None:
                continue
            if recorded_call.status not in UNRESOLVED or recorded_call.output is not None:
                continue
            if path + call.call_id in self.ended or input_problem(tool, recorded_call.input) is not None:
                continue
            plan = self._child(state.id, call.call_id, tool.agent, path)
            if plan is not None:
                found[call.call_id] = plan
        return found

    def _child(self, parent: str, call_id: str, agent: Agent, path: str) -> RecoveryPlan | None:
        """Return the plan of a session that a call started, if it can resume or has its last reply."""
        ids = self.children.get((parent, call_id), [])
        if len(ids) != 1:
            return None
        events = list(self.reader.events(ids[0]))
        try:
            state = fold(events)
            if state.agent != agent.name:
                return None
            return self._child_plan(events, state, agent, f"{path}{state.id}/")
        except FoldError:
            return None

    def _child_plan(
        self, events: Sequence[JournalEvent], state: SessionState, agent: Agent, path: str
    ) -> RecoveryPlan | None:
        messages = conversation(events)
        phase = _phase_at_death(events)
        if phase == "failed":
            error = state.error or ""
            return RecoveryPlan(state, messages, failure=error.partition(": ")[2] or error)
        calls = {call.call_id for call in open_calls(messages)}
        bodies = [body for body in self._events_of(path) if body.call_id in calls]
        missed = _missed(state, bodies)
        current = _caught_up(state, missed)
        record = _Record(events, state, current, messages, [*last_step(events), *bodies], missed)
        if not state.queued:
            if messages and completion_reason(messages) is not None:
                return _plan(record, {}, resumes=False)
            stopped = phase == "done" or (phase == "idle" and bool(messages))
            if stopped or interrupted(record.step, calls):
                return None  # Stopped by an operator or its step limit: the record does not say.
        return _plan(record, self.plans(current, messages, agent, path), resumes=True)

    def _events_of(self, path: str) -> Iterator[_OfCall]:
        """Yield the top session's events about calls of the session at `path`, under its own ids."""
        for body in self.top:
            if isinstance(body, _OfCall) and body.call_id.startswith(path):
                call_id = body.call_id.removeprefix(path)
                yield body.model_copy(update={"call_id": call_id, **_CHILD_FIELDS.get(type(body), {})})


_OfCall = (
    CallDecided | CallResult | ApprovalRequested | ApprovalDecided | ApprovalExpired | ApprovalWithdrawn
)
_CHILD_FIELDS: Mapping[type[EventBody], Mapping[str, object]] = {
    CallDecided: {"via": None, "steps": ()},
    CallResult: {"fired": (), "dropped": (), "undone": (), "arrived": {}},
    ApprovalRequested: {"via": None},
}
"""Fields that differ in the record of the session below, which has no nets."""


def _missed(state: SessionState, bodies: Sequence[_OfCall]) -> list[EventBody]:
    """Return decisions and results recorded at the top before the host died, but not in the session."""
    decided = {body.call_id: body for body in bodies if isinstance(body, CallDecided)}
    ended = {body.call_id: body for body in bodies if isinstance(body, CallResult) and not body.anomaly}
    missed: list[EventBody] = [
        body for call_id, body in decided.items() if status_of(state, call_id) in NOT_YET
    ]
    for call_id, body in ended.items():
        recorded_call = state.calls.get(call_id)
        if call_id in decided and (recorded_call is None or recorded_call.output is None):
            missed.append(body)
    return missed


def _caught_up(state: SessionState, missed: Sequence[EventBody]) -> SessionState:
    """Return the session's state after it has recorded what it missed."""
    current = snapshot(state)
    resumed = SessionResumed(agent=state.agent, model=state.model, mode=state.mode)
    at = state.updated or state.opened
    assert at is not None, "a session that was folded has a beginning"
    for body in (resumed, *missed):
        event = JournalEvent(cursor=1, session=state.id, seq=current.seq + 1, at=at, body=body)
        apply(current, event)
    return current


def _phase_at_death(events: Sequence[JournalEvent]) -> Phase:
    """Return a session's status when its host died, or its final one if it had ended before."""
    for event in reversed(events):
        match event.body:
            case SessionStatus(status=status, error=error) if (status, error) != ("failed", DIED):
                return status
            case _:
                pass
    return "idle"
