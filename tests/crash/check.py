"""Checks of a journal whose writer died, against the file and the marks kept outside it."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from interlock.engine.history.audit.verify import check_file, verify_journal
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.fold import FoldError, fold
from interlock.engine.history.journal.file_schema import connect_readonly
from interlock.engine.history.journal.reader import HistoryReader, open_reader
from interlock.engine.history.journal.schema import inspect
from interlock.engine.history.journal.session_index import SessionLine
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    EventBody,
    JournalEvent,
    MessageAdded,
    MessageQueued,
    ModeChanged,
    NetToggled,
    SessionStatus,
)
from interlock.engine.history.model.state import SessionState, SessionSummary
from interlock.engine.recording.interrupted_calls import HOST_GONE

from .family import at_top, below, not_as_it_was, unlike_their_parents
from .flows_check import not_as_alone, runs_in
from .marks import Mark, ran_in, told_in

T = TypeVar("T", bound=EventBody)


@dataclass(slots=True)
class Found:
    """State after a death: events and state by session, the tools that ran, and the problems found."""

    events: dict[str, list[JournalEvent]] = field(default_factory=dict)
    states: dict[str, SessionState] = field(default_factory=dict)
    ran: list[Mark] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _kinds: dict[tuple[str, type[EventBody]], list[EventBody]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _decisions: dict[tuple[str, str], list[CallDecided]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, session: str, events: list[JournalEvent]) -> None:
        """Add the events that a session recorded."""
        self.events[session] = events
        for event in events:
            self._kinds[session, type(event.body)].append(event.body)
            if isinstance(event.body, CallDecided):
                self._decisions[session, event.body.call_id].append(event.body)

    def bodies(self, session: str, kind: type[T]) -> list[T]:
        """Return the event bodies of one kind in a session."""
        return cast("list[T]", self._kinds.get((session, kind), []))

    def decisions(self, session: str, call_id: str) -> list[CallDecided]:
        """Return a session's recorded decisions on a call."""
        return self._decisions.get((session, call_id), [])

    def tops(self) -> list[str]:
        """Return agents' sessions with their own nets: all but those of helpers and flows."""
        kinds = "child", "flow"
        return [session for session, state in self.states.items() if state.kind not in kinds]

    def unanswered(self) -> set[tuple[str, str]]:
        """Return session and call of every unanswered approval request that the nets still require.

        A request is no longer required if an operator has since switched off its net, switched the
        session to shadow mode, or steered the agent that made the call.
        """
        return {
            (session, call_id)
            for session in self.tops()
            if (state := self.states[session]).mode == "enforce"
            for call_id, net in _unanswered(self.events[session]).items()
            if net in state.active and self._still_wanted(*below(self.states, session, call_id))
        }

    def _still_wanted(self, maker: str, call_id: str) -> bool:
        """Return whether the agent that made a call still waits for it."""
        if any(said.mode == "steer" for said in self.states[maker].queued):
            return False
        return all(m.call_id != call_id or m.role != "tool" for m in self.bodies(maker, MessageAdded))

    def without_result(self) -> set[tuple[str, str]]:
        """Return session and call of everything that was allowed and has no result.

        A helper's call has a result if it is recorded in the session with its nets.
        """
        return {
            (session, call.call_id)
            for session, state in self.states.items()
            for call in state.calls.values()
            if call.status in ("running", "unknown") and not self._settled(session, call.call_id)
        }

    def _settled(self, session: str, call_id: str) -> bool:
        top, name = at_top(self.states, session, call_id)
        call = self.states[top].calls.get(name)
        return call is not None and call.status in ("done", "failed")

    def at_work(self) -> list[str]:
        """Return the sessions of helpers whose task has no result."""
        left = self.without_result()
        return [
            session
            for session, state in self.states.items()
            if state.kind == "child" and (state.parent, state.parent_call) in left
        ]


def found_in(folder: Path, database: Path) -> Found:
    """Read and check what is there, without writing to it."""
    found = Found(ran=ran_in(folder))
    told = told_in(folder)
    try:
        if inspect(database)[0] == "fresh":
            if found.ran or told:
                found.problems.append("there is no journal any more")
            return found
        found.problems += _unsound(database)
        found.problems += _broken_chain(database)
        reader = open_reader(database)
        for line in reader.sessions(limit=None):
            found.problems += _read(found, reader, line)
    except (JournalError, sqlite3.Error) as error:
        found.problems.append(f"it cannot be read: {error}")
        return found
    found.problems += _unfounded_marks(found)
    found.problems += _asked_in_vain(found)
    found.problems += _forgotten(found, told)
    found.problems += _reused(found)
    found.problems += unlike_their_parents(found)
    found.problems += not_as_it_was(found)
    found.problems += not_as_alone(found)
    return found


# Checks of the file


def _unsound(database: Path) -> list[str]:
    with closing(connect_readonly(database)) as connection:
        said = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    return [] if said == ["ok"] else [f"integrity_check says {said[:3]}"]


def _broken_chain(database: Path) -> list[str]:
    """Return problems of the hash chain: every session must verify, and no event may be missing."""
    faults = [
        f"the chain of {check.session} breaks at {check.fault.seq}: {check.fault.message}"
        for check in verify_journal(database)
        if check.fault is not None
    ]
    missing = check_file(database).missing
    return [*faults, *([f"{missing} events are missing from the file"] if missing else [])]


def _read(found: Found, reader: HistoryReader, line: SessionSummary) -> list[str]:
    """Read a session; check its fold, and whether its row in the list agrees."""
    events = list(reader.events(line.id))
    found.add(line.id, events)
    try:
        found.states[line.id] = fold(events)
    except FoldError as error:
        return [f"the record makes no sense: {error}"]
    if SessionLine.of(events).summary() != line:
        return [f"the line of {line.id} is not what its events say"]
    return []


# Checks against marks


def _unfounded_marks(found: Found) -> Iterator[str]:
    """Check that a tool ran once, after a durable decision that allowed it, with the allowed input.

    A helper's call was decided in the session with its nets; the decision is also recorded in the
    helper's session.
    """
    flows = set(runs_in(found))
    marks = [mark for mark in found.ran if mark.session not in flows]
    times = Counter((mark.session, mark.call_id) for mark in marks)
    for (session, call_id), count in times.items():
        if count > 1:
            yield f"{session}: call {call_id} ran {count} times"
    for mark in marks:
        where = f"{mark.session}: call {mark.call_id}"
        if mark.session not in found.states:
            yield f"{where} ran in a session that is not recorded"
            continue
        top, name = at_top(found.states, mark.session, mark.call_id)
        for session, call_id in {(mark.session, mark.call_id), (top, name)}:
            decided = found.decisions(session, call_id)
            allowed = [d for d in decided if d.mode == "shadow" or d.outcome == "allow"]
            if not allowed:
                yield f"{where} ran and no decision allowed it in {session} ({len(decided)} decisions)"
            elif (mark.tool, mark.env) not in [(d.tool, d.input.get("env")) for d in allowed]:
                yield f"{where} ran as {mark.tool} {mark.env}, which was not what was allowed"
        answers = [a for a in found.bodies(top, ApprovalDecided) if a.call_id == name]
        if not all(answer.approved for answer in answers):
            yield f"{where} ran though it had been denied"


def _asked_in_vain(found: Found) -> Iterator[str]:
    """Check that no approval is requested for a call whose result its agent has received."""
    for top in found.tops():
        for asked in found.states[top].approvals.values():
            maker, call_id = below(found.states, top, asked.call_id)
            if any(m.call_id == call_id for m in found.bodies(maker, MessageAdded)):
                yield f"{top}: question {asked.id} about {asked.call_id} is open, and the call has ended"


def _forgotten(found: Found, told: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Check that whatever an operator was shown, or was told had taken effect, is recorded."""
    for fact, count in Counter(told).items():
        if (recorded := _times(found, fact)) < count:
            said = " ".join(fact)
            yield f"operators were told '{said}' {count} times, the record has it {recorded} times"


def _times(found: Found, fact: tuple[str, ...]) -> int:
    match fact:
        case ("opened", session):
            return int(session in found.events)
        case ("asked", session, call_id, approval_id):
            asked = found.bodies(session, ApprovalRequested)
            return sum((a.call_id, a.approval_id) == (call_id, approval_id) for a in asked)
        case ("decided", session, approval_id, answer):
            answers = found.bodies(session, ApprovalDecided)
            return sum((a.approval_id, a.approved) == (approval_id, answer == "yes") for a in answers)
        case ("toggled", session, net, position):
            switched = found.bodies(session, NetToggled)
            return sum((t.net, t.active) == (net, position == "on") for t in switched)
        case ("mode", session, mode):
            return sum(m.mode == mode for m in found.bodies(session, ModeChanged))
        case ("closed", session):
            return sum(s.by is not None for s in found.bodies(session, SessionStatus))
        case ("said", session, text):
            said = [*found.bodies(session, MessageQueued), *found.bodies(session, MessageAdded)]
            return int(text in [message.text for message in said])
        case _:
            raise AssertionError(fact)


def unheard(found: Found) -> Iterator[str]:
    """Check that in the end every message has reached the agent once, or was returned."""
    for session, state in found.states.items():
        heard = Counter(m.text for m in found.bodies(session, MessageAdded) if m.role == "user")
        yield from (
            f"{session}: the agent heard '{text}' {n} times" for text, n in heard.items() if n > 1
        )
        yield from (f"{session}: '{said.text}' still waits to be heard" for said in state.queued)


def _reused(found: Found) -> Iterator[str]:
    """Check that an id stands for one approval request, or one call, forever."""
    questions = Counter(a.approval_id for s in found.events for a in found.bodies(s, ApprovalRequested))
    for approval_id, count in questions.items():
        if count > 1:
            yield f"{count} questions have the id {approval_id}"
    for session in found.events:
        said = found.bodies(session, MessageAdded)
        proposed = Counter(call.call_id for message in said for call in message.calls)
        again = found.states[session].kind == "flow"  # a flow's run resumes with the same request
        for call_id, count in proposed.items():
            if count > 1 and not again:
                yield f"{session}: {count} calls have the id {call_id}"
        allowed = [d for d in found.bodies(session, CallDecided) if d.outcome == "allow"]
        for call_id, count in Counter(d.call_id for d in allowed).items():
            if count > 1:
                yield f"{session}: call {call_id} was allowed {count} times"


def _unanswered(events: Sequence[JournalEvent]) -> dict[str, str]:
    """Return calls whose approval request is open, or was until its host ended or a new one was due.

    The values are the nets that ask. Calls of a tool of which another call was allowed since are left
    out: that one may have taken the tokens they need.
    """
    asked: dict[str, tuple[str, str]] = {}
    for event in events:
        match event.body:
            case ApprovalRequested() as body:
                asked[body.call_id] = body.net, body.called
            case ApprovalWithdrawn() as gone if gone.reason == HOST_GONE or gone.again:
                pass
            case CallDecided(outcome="allow", tool=tool, call_id=call_id):
                asked = {i: (net, other) for i, (net, other) in asked.items() if other != tool}
                asked.pop(call_id, None)
            case ApprovalDecided() | ApprovalWithdrawn() | CallDecided() as body:
                asked.pop(body.call_id, None)
            case MessageAdded(role="tool", call_id=str(call_id)):
                asked.pop(call_id, None)
            case _:
                pass
    return {call_id: net for call_id, (net, _) in asked.items()}
