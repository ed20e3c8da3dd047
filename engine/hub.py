"""The hub: live sessions, approval queue, journal and event bus in one object.

Consoles, the gateway and tests talk to it and to nothing behind it. What it takes and gives are pydantic
models, so that the same calls can come over a wire. It runs in one asyncio loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, JsonValue

from .agents import Agent, ErrorEvent, Session, TextDelta, ToolProgress
from .explained import ExplanationView
from .gate.types import ApprovalAnswer, Mode
from .history.events import JournalEvent, SessionStatus
from .history.journal import Journal, JournalError
from .history.state import ApprovalState, SessionState, SessionSummary
from .hosted import HostedSession
from .net import SkillNet

Spawn: TypeAlias = Callable[[Coroutine[None, None, None], str], object]


class UnknownSessionError(LookupError):
    """No live session has this id."""


class Streaming(BaseModel):
    """Something on its way that the journal does not keep: text as it comes, a tool's output, a failure.

    `kind` is `text` for the agent's own words, `output` for what the tool of `call_id` prints.
    """

    model_config = ConfigDict(frozen=True)

    session: str
    kind: Literal["text", "output", "failure"]
    text: str
    call_id: str | None = None


class Outcome(BaseModel):
    """Whether an operator's action took effect, and the sentence to show."""

    model_config = ConfigDict(frozen=True)

    ok: bool
    message: str


HubEvent: TypeAlias = JournalEvent | Streaming

ENDED = ("done", "failed")
DIED = "the process that hosted this session ended without closing it"


class Subscription:
    """Events from now on, in order; never holds up the hub. Ends when closed or when the hub closes.

    Streaming text that nobody has taken yet is joined, so that a slow reader costs no memory per word.
    """

    def __init__(self, forget: Callable[[Subscription], None]) -> None:
        self._events: deque[HubEvent] = deque()
        self._arrived = asyncio.Event()
        self._closed = False
        self._forget = forget

    def put(self, event: HubEvent) -> None:
        """Hand an event over; called by the hub."""
        last = self._events[-1] if self._events else None
        if (
            isinstance(event, Streaming)
            and isinstance(last, Streaming)
            and (last.session, last.kind, last.call_id) == (event.session, event.kind, event.call_id)
        ):
            self._events[-1] = last.model_copy(update={"text": last.text + event.text})
        else:
            self._events.append(event)
        self._arrived.set()

    def close(self) -> None:
        """Stop; what has not been read yet can still be read."""
        self._closed = True
        self._forget(self)
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[HubEvent]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._arrived.clear()
            await self._arrived.wait()


def _as_task(coroutine: Coroutine[None, None, None], name: str) -> object:
    return asyncio.get_running_loop().create_task(coroutine, name=name)


class Hub:
    """See the module. `spawn` starts a session's run; a console puts it in a worker of its own."""

    def __init__(self, journal: Journal, *, spawn: Spawn = _as_task) -> None:
        self.spawn = spawn
        self._journal = journal
        self._hosted: dict[str, HostedSession] = {}
        self._subscriptions: list[Subscription] = []
        self._deciders: dict[str, str] = {}

    @classmethod
    def open(cls, database: Path, *, spawn: Spawn = _as_task) -> Hub:
        """A hub on the journal at `database`. Raises `JournalError` when it cannot be written.

        This process is the only one that writes there, so sessions that are still open belonged to one
        that died: they are ended as failed, and calls of theirs without a result become unknown.
        """
        journal = Journal.open(database)
        try:
            for left in journal.reader().unfinished():
                journal.write(left.id, SessionStatus(status="failed", error=DIED))
        except BaseException:
            journal.close()
            raise
        return cls(journal, spawn=spawn)

    @property
    def database(self) -> Path:
        return self._journal.path

    async def close(self) -> None:
        """End every session, then the journal. What could not be recorded is raised at the end."""
        problems: list[JournalError] = []
        for hosted in self._hosted.values():
            if hosted.session is not None:
                await hosted.session.aclose()
            if hosted.state.status not in ENDED:
                try:
                    await hosted.record(SessionStatus(status="done"))
                except JournalError as error:
                    problems.append(error)
        for subscription in list(self._subscriptions):
            subscription.close()
        await asyncio.to_thread(self._journal.close)
        if problems:
            raise problems[0]

    # Sessions

    async def open_session(
        self,
        agent: Agent,
        *,
        registry: Mapping[str, SkillNet],
        active: Sequence[str] | None = None,
        mode: Mode = "enforce",
        by: str | None = None,
        session_id: str | None = None,
        explain_blocks: bool = False,
    ) -> str:
        """Host a session of `agent` under the nets of `registry`; `active` defaults to all. Its id.

        With `explain_blocks` the agent is also told which calls would lead to a blocked one. Raises
        `NetError` for unknown names in `active`, `JournalError` when it cannot be recorded.
        """
        session_id = session_id or f"{agent.name}-{uuid4().hex[:6]}"
        hosted = HostedSession(
            session_id,
            self._journal,
            self._publish,
            registry=registry,
            active=active,
            mode=mode,
            explain_blocks=explain_blocks,
        )
        await hosted.record(hosted.opened(agent, by))
        session = await agent.create_session(
            session_id, gate=hosted, store=hosted, spawn=lambda run: self.spawn(run, session_id)
        )
        session.on_any(hosted.on_event)
        hosted.session = session
        self._hosted[session_id] = hosted
        return session_id

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        by: str | None = None,
        mode: Literal["steer", "queue"] = "steer",
    ) -> None:
        """Say something to the agent: starts it when idle, interrupts or queues when it works."""
        hosted, session = self._live(session_id)
        if session.status == "idle":
            await hosted.record(SessionStatus(status="running"))
        session.send(text, mode=mode, by=by)

    async def abort(self, session_id: str, reason: str = "") -> None:
        """Stop what the agent is doing; the session stays open."""
        self._live(session_id)[1].abort(reason)

    async def wait(self, session_id: str) -> None:
        """Return when the session rests; raises what its run failed with."""
        await self._live(session_id)[1].wait_for_idle()

    async def sessions(self) -> list[SessionState]:
        """The live sessions, in the order they were opened."""
        return [hosted.state for hosted in self._hosted.values()]

    async def session(self, session_id: str) -> SessionState:
        """The state of a live session."""
        return self._live(session_id)[0].state

    # Approvals and switches

    async def approvals(self) -> list[ApprovalState]:
        """Everything that waits for a person, longest first."""
        waiting = [a for hosted in self._hosted.values() for a in hosted.state.approvals.values()]
        return sorted(waiting, key=lambda a: (a.since, a.id))

    async def decide(
        self,
        approval_id: str,
        *,
        approved: bool,
        by: str,
        reason: str | None = None,
        input: dict[str, JsonValue] | None = None,  # noqa: A002 - the field's name on the wire
    ) -> Outcome:
        """Answer a request. The first answer counts; a later one learns who came first."""
        for hosted in self._hosted.values():
            request = hosted.state.approvals.get(approval_id)
            if request is None:
                continue
            answer = ApprovalAnswer(approved=approved, reason=reason or None, input=input, by=by)
            try:
                if await hosted.answer(approval_id, answer, by):
                    self._deciders[approval_id] = by
                    return Outcome(ok=True, message=_decided(request, approved, by))
            except JournalError as error:
                return Outcome(ok=False, message=f"Not decided, the journal refused it: {error}")
            break
        decider = self._deciders.get(approval_id)
        if decider is not None:
            return Outcome(ok=False, message=f"Already decided by {decider}")
        return Outcome(ok=False, message="This request is no longer open")

    async def explain(self, session_id: str, call_id: str) -> ExplanationView:
        """What a live session's nets say of one of its calls as things stand now.

        Raises `UnknownSessionError`, and `LookupError` for a call the session has not made.
        """
        hosted, _ = self._live(session_id)
        return await asyncio.to_thread(hosted.explain, call_id)

    async def toggle_net(self, session_id: str, net: str, active: bool, *, by: str) -> Outcome:
        """Switch a net of a session on or off."""
        try:
            result = await self._live(session_id)[0].toggle(net, active, by)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not switched, the journal refused it: {error}")
        return Outcome(ok=result.ok, message=result.message)

    async def set_mode(self, session_id: str, mode: Mode, *, by: str) -> Outcome:
        """Enforce or shadow, from the session's next call on."""
        try:
            await self._live(session_id)[0].set_mode(mode, by)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not switched, the journal refused it: {error}")
        return Outcome(ok=True, message=f"{session_id} is now in {mode} mode")

    # History

    async def history(self, limit: int = 200) -> list[SessionSummary]:
        """Recorded sessions, newest first, live ones included."""
        return await asyncio.to_thread(lambda: self._journal.reader().sessions(limit=limit))

    async def recorded(self, session_id: str) -> list[JournalEvent]:
        """Every event of a recorded session. Raises `SessionNotFound` for an unknown or ambiguous id."""
        return await asyncio.to_thread(self._recorded, session_id)

    def _recorded(self, session_id: str) -> list[JournalEvent]:
        reader = self._journal.reader()
        return list(reader.events(reader.session(session_id).id))

    # Events

    def subscribe(self) -> Subscription:
        """Everything that happens from now on. Close it when done."""
        subscription = Subscription(self._subscriptions.remove)
        self._subscriptions.append(subscription)
        return subscription

    def _publish(
        self, event: JournalEvent | TextDelta | ToolProgress | ErrorEvent, session_id: str
    ) -> None:
        match event:
            case TextDelta():
                shown: HubEvent = Streaming(session=session_id, kind="text", text=event.delta)
            case ToolProgress():
                shown = Streaming(
                    session=session_id, kind="output", text=event.text, call_id=event.call_id
                )
            case ErrorEvent():
                shown = Streaming(session=session_id, kind="failure", text=str(event.error))
            case JournalEvent():
                shown = event
        for subscription in self._subscriptions:
            subscription.put(shown)

    def _live(self, session_id: str) -> tuple[HostedSession, Session]:
        hosted = self._hosted.get(session_id)
        if hosted is None or hosted.session is None:
            raise UnknownSessionError(f"No live session '{session_id}'")
        return hosted, hosted.session


def _decided(request: ApprovalState, approved: bool, by: str) -> str:
    return f"{request.tool} {'approved' if approved else 'denied'} by {by}"
