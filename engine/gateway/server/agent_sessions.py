"""Sessions of external agents.

A session belongs to a token, not to a connection: a client that lost its connection reconnects and
repeats its requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager

from ...gate.types import Mode
from ...history.errors import JournalError
from ...history.journal.reader import SessionNotFound
from ...hub.hub import ExternalAgent, Hub, SessionConfig, UnknownSessionError
from ...net.net import SkillNet
from ...recording.explanation import ExplanationView
from ..protocol.agent_methods import (
    RESUME,
    CallAnswer,
    CallTool,
    ExplainCall,
    GivenUp,
    GiveUp,
    OpenSession,
    ReportMessage,
    ResumeSession,
    RulesPrompt,
    SessionEnded,
    SessionOpen,
    SessionParams,
    ToolClaims,
    ToolResult,
    WithdrawCall,
)
from ..protocol.framing import Code, Nothing, WireError
from ..protocol.tokens import Identity
from .limits import Limits
from .pending_calls import Listener, PendingCalls, TokenSession
from .rule_sets import RuleSets

log = logging.getLogger(__name__)


class AgentSessions:
    """Sessions of all external agents of a server."""

    def __init__(
        self,
        hub: Hub,
        rules: RuleSets,
        limits: Limits,
        *,
        mode: Mode = "enforce",
        may_shadow: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.hub = hub
        self.rules = rules
        self.limits = limits
        self._mode: Mode = mode
        self._may_shadow = may_shadow
        self._clock = clock
        self._open: dict[str, TokenSession] = {}
        self._under_way: dict[str, asyncio.Event] = {}
        self._beginners: dict[str, str] = {}
        self.calls = PendingCalls(hub, limits, clock)

    # Start and end

    async def open(self, identity: Identity, params: OpenSession, listener: Listener) -> SessionOpen:
        """Start a session, or find the one with this id that the token has open."""
        note_arrival = self.hub.arrival()
        mode = self._mode_for(params.mode)
        rules = self.rules
        registry = await rules.registry(params.rules)
        agent = ExternalAgent(
            name=params.agent,
            model=params.model,
            tools=params.tools,
            workdir=params.workdir,
            shell=params.shell,
            labels=params.labels,
        )
        if params.session is not None and await self._is_open(identity, params.session):
            note_arrival(params.session)
            return await self._rejoin(identity, params.session, listener)
        with self._beginning(identity, params.session):
            if params.session is not None:
                await self._check_free(identity, params.session)
            while rules is not self.rules:
                rules = self.rules
                registry = await rules.registry(params.rules)
            config = SessionConfig(
                registry,
                active=_active(registry, params.active, rules.always),
                mode=mode,
                by=identity.name,
                owner=identity.owner,
                labels=identity.labels,
                applied=rules.applied,
                explain_blocks=params.explain_blocks,
            )
            session = await self.hub.open_external(agent, config, session_id=params.session)
            return await self._start_session(identity, session, params.rules, listener)

    async def resume(self, identity: Identity, params: ResumeSession, listener: Listener) -> SessionOpen:
        """Resume a session of this token, in a mode at least as strict as that of new sessions."""
        note_arrival = self.hub.arrival()
        rules = self.rules
        registry = await rules.registry(params.rules)
        if await self._is_open(identity, params.session):
            note_arrival(params.session)
            return await self._rejoin(identity, params.session, listener)
        with self._beginning(identity, params.session):
            agent = await self._recorded(identity, params.session)
            if agent is None:
                raise _unknown(params.session)
            mode = "enforce" if self._mode == "enforce" and not self._may_shadow else None
            while rules is not self.rules:
                rules = self.rules
                registry = await rules.registry(params.rules)
            config = SessionConfig(
                registry,
                mode=mode,
                by=identity.name,
                owner=identity.owner,
                labels=identity.labels,
                applied=rules.applied,
            )
            session = await self.hub.resume_external(params.session, agent, config)
            return await self._start_session(identity, session, params.rules, listener)

    async def _is_open(self, identity: Identity, session_id: str) -> bool:
        """Return whether this id is open, after any pending opening or end.

        Raises if it is another token's.
        """
        while True:
            if (under_way := self._under_way.get(session_id)) is not None:
                await under_way.wait()
            elif session_id not in self._open:
                return False
            else:
                session = self._session(identity, session_id)
                # An agent may come while its session is handed over to the server that it left.
                is_live = await self.hub.is_live(session_id)
                if self._open.get(session_id) is not session:
                    continue  # another connection of the agent has resumed it, or is doing so
                if is_live:
                    return True
                self._drop(session_id)

    @contextmanager
    def _beginning(self, identity: Identity, session_id: str | None) -> Generator[None, None, None]:
        """Reserve an id; concurrent requests for it wait and then find it. Raises at the limit."""
        self._check_room(identity)
        over = asyncio.Event()
        key = session_id or f"new {id(over)}"
        self._under_way[key] = over
        self._beginners[key] = identity.name
        try:
            yield
        finally:
            del self._under_way[key], self._beginners[key]
            over.set()

    async def _recorded(self, identity: Identity, session_id: str) -> ExternalAgent | None:
        """Return the agent of a recorded session of this token; reveal nothing about other sessions."""
        try:
            session = await self.hub.recorded_external(session_id, whole=True)
        except SessionNotFound:
            return None
        mine = session is not None and session.id == session_id and session.opened_by == identity.name
        return session.agent if session is not None and mine else None

    async def _check_free(self, identity: Identity, session_id: str) -> None:
        if await self._recorded(identity, session_id) is not None:
            raise WireError(
                Code.REFUSED,
                f"session '{session_id}' has ended; continue it with {RESUME.name}, or choose another id",
            )

    async def close(self, identity: Identity, params: SessionParams) -> Nothing:
        """End a session and withdraw its requests."""
        session = self._session(identity, params.session)
        await self.hub.close_session(session.id, identity.name)
        self._drop(session.id)
        return Nothing()

    def note_end(self, session_id: str, reason: str, *, event: int | None = None) -> None:
        """Notify the client that the hub has ended a session, by the event with this number.

        The end of an earlier run, at this server or another one, may be seen after the session was
        resumed here.
        """
        current = self._open.get(session_id)
        if current is not None and event is not None and event <= current.begun:
            return
        session = self._drop(session_id)
        if session is not None:
            notice = SessionEnded(session=session_id, reason=reason)
            for listener in session.listeners:
                listener(notice)

    def leave(self, session_id: str) -> str | None:
        """Forget a session that its client is to resume; the name of its owner, if it was open."""
        session = self._drop(session_id)
        return None if session is None else session.owner

    def _drop(self, session_id: str) -> TokenSession | None:
        session = self._open.pop(session_id, None)
        if session is not None:
            self.calls.release(session)
        return session

    def detach(self, listener: Listener) -> None:
        """Detach a closed connection from its sessions."""
        for session in self._open.values():
            if listener in session.listeners:
                session.listeners.discard(listener)
                if not session.listeners:
                    self.calls.note_lost(session)

    async def end_idle(self) -> None:
        """End waits that lasted too long, and sessions that are long unused and have no pending call."""
        for session in self._open.values():
            self.calls.end_waits(session)
        since = self._clock() - self.limits.idle
        await self._end([s for s in self._open.values() if s.used < since and not s.pending])

    async def end_left(self, owners: Collection[str]) -> None:
        """End the sessions of all except these owners: no client can resume them."""
        await self._end([session for session in self._open.values() if session.owner not in owners])

    async def _end(self, sessions: list[TokenSession]) -> None:
        for session in sessions:
            try:
                await self.hub.close_session(session.id, "interlock")
            except (JournalError, UnknownSessionError):
                log.exception("Unused session '%s' could not be ended", session.id)

    def stop(self) -> None:
        """Prepare for the server's shutdown: agents reconnect, so abandoned calls are not withdrawn."""
        for session in self._open.values():
            self.calls.cancel_withdrawals(session)
        self._open.clear()

    # Calls

    def call(
        self, identity: Identity, params: CallTool, *, claimed: bool = False
    ) -> asyncio.Future[CallAnswer]:
        """Decide a call; see `PendingCalls.submit`.

        If the call's connection has not `claimed` anything about the tool, claims of another connection
        about a tool of that name no longer count: it may be a tool of another MCP server, or of none
        (G-113).
        """
        session = self._session(identity, params.session)
        if not claimed and self.hub.has_hints(session.id, params.tool):
            return asyncio.ensure_future(self._call_without_hints(session, params))
        return self._submit(session, params)

    async def _call_without_hints(self, session: TokenSession, params: CallTool) -> CallAnswer:
        await self.hub.note_hints(session.id, params.tool, {})
        return await self._submit(session, params)

    def _submit(self, session: TokenSession, params: CallTool) -> asyncio.Future[CallAnswer]:
        answer = self.calls.submit(session, params)
        if params.traceparent is not None:
            self.hub.note_parent(session.id, params.call, params.traceparent)
        return answer

    async def withdraw(self, identity: Identity, params: WithdrawCall) -> Nothing:
        """Withdraw a pending call. The reason names the agent, since no operator stated it."""
        session = self._session(identity, params.session)
        reason = f"the agent took it back: {params.reason}".removesuffix(": ")
        await self.hub.withdraw_call(session.id, params.call, reason)
        return Nothing()

    async def give_up(self, identity: Identity, params: GiveUp) -> GivenUp:
        """Stop waiting for a call; see `PendingCalls.give_up`."""
        session = self._session(identity, params.session)
        session.used = self._clock()
        reason = f"the agent gave up: {params.reason}".removesuffix(": ")
        return GivenUp(until=await self.calls.give_up(session, params.call, reason))

    async def result(self, identity: Identity, params: ToolResult) -> Nothing:
        """Record the result of an allowed call."""
        session = self._session(identity, params.session)
        session.used = self._clock()
        await self.hub.result(
            session.id,
            params.call,
            output=params.output,
            is_error=params.is_error,
            seconds=params.seconds,
            unknown=params.unknown,
        )
        return Nothing()

    async def end_turn(self, identity: Identity, params: SessionParams) -> Nothing:
        """Mark allowed calls without a result as having an unknown outcome."""
        session = self._session(identity, params.session)
        session.used = self._clock()
        await self.hub.end_turn(session.id)
        return Nothing()

    async def report_message(self, identity: Identity, params: ReportMessage) -> Nothing:
        """Record a message; a user's is recorded as reported by the agent, because it is unconfirmed."""
        session = self._session(identity, params.session)
        await self.hub.record_message(session.id, params.role, params.text, reported_by=identity.name)
        return Nothing()

    async def note_hints(self, identity: Identity, params: ToolClaims) -> Nothing:
        """Record the claims of an MCP server about one of its tools."""
        session = self._session(identity, params.session)
        await self.hub.note_hints(session.id, params.tool, params.hints)
        return Nothing()

    async def prompt(self, identity: Identity, params: SessionParams) -> RulesPrompt:
        """Describe what the rules allow the model now."""
        session = self._session(identity, params.session)
        return RulesPrompt(text=await self.hub.system_prompt(session.id))

    async def explain(self, identity: Identity, params: ExplainCall) -> ExplanationView:
        """Explain the decision on a call without making it."""
        session = self._session(identity, params.session)
        return await self.hub.explain_input(session.id, params.tool, params.input)

    # Ownership and limits

    def _session(self, identity: Identity, session_id: str) -> TokenSession:
        """Return a session of this token; one of another token is reported as unknown."""
        session = self._open.get(session_id)
        if session is None or session.owner != identity.name:
            raise _unknown(session_id)
        return session

    def _check_room(self, identity: Identity) -> None:
        limit = self.limits.sessions_per_token
        owners = [each.owner for each in self._open.values()] + list(self._beginners.values())
        if owners.count(identity.name) >= limit:
            raise WireError(
                Code.LIMIT,
                f"this token has {limit} sessions open, which is the limit: close one",
                {"limit": limit},
            )

    def _mode_for(self, chosen: Mode | None) -> Mode:
        """Return the stricter of the server's mode and the requested one, unless the agent may choose."""
        if chosen is None:
            return self._mode
        if chosen == "shadow" and self._mode == "enforce" and not self._may_shadow:
            raise WireError(Code.NOT_ALLOWED, "this server does not let agents choose shadow mode")
        return chosen

    def rules_of(self, session_id: str) -> Sequence[str] | None:
        """Named rule sets of an external agent's live session; `None` for any other session."""
        session = self._open.get(session_id)
        return None if session is None else session.rules

    async def _start_session(
        self, identity: Identity, session_id: str, rules: Sequence[str], listener: Listener
    ) -> SessionOpen:
        state = await self.hub.session(session_id)
        session = TokenSession(session_id, identity.name, self._clock(), tuple(rules), begun=state.seq)
        session.listeners.add(listener)
        self._open[session_id] = session
        return await self._described(session_id, again=False)

    async def _rejoin(self, identity: Identity, session_id: str, listener: Listener) -> SessionOpen:
        self._session(identity, session_id).listeners.add(listener)
        return await self._described(session_id, again=True)

    async def _described(self, session_id: str, *, again: bool) -> SessionOpen:
        state = await self.hub.session(session_id)
        return SessionOpen(session=session_id, mode=state.mode, active=tuple(state.active), again=again)


def _unknown(session_id: str) -> WireError:
    return WireError(Code.UNKNOWN, f"this token has no session '{session_id}' open")


def _active(
    registry: Mapping[str, SkillNet], chosen: tuple[str, ...] | None, always: Collection[str]
) -> list[str] | None:
    """Return the nets that start active: the server's own (`always`) and those that the agent chose."""
    if chosen is None:
        return None
    for net in chosen:
        if net not in registry:
            raise WireError(Code.PARAMS, f"active: this session has no net '{net}'")
    return [key for key in registry if key in always or key in chosen]
