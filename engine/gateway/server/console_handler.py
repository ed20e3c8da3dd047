"""Request handlers of a console's connection. The operator is the one named by the token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from pydantic import JsonValue
from websockets.exceptions import ConnectionClosed

from ...agents import KEEP_LAST
from ...approvals.queue import ApprovalQueue, longest_first
from ...approvals.requests import Credential
from ...gate.types import GrantTerms
from ...history.decisions.counts import Counts, ShadowSummary
from ...history.decisions.reader import Scan
from ...history.model.events import JournalEvent
from ...history.model.state import ApprovalState, SessionState
from ...hub.hub import Hub, Nets, Outcome, Revealed
from ...recording.explanation import ExplanationView
from ..protocol.agent_methods import OfCall, OfSession
from ..protocol.console_methods import (
    ABORT,
    COMPACT,
    CONFIRM_CHANGE,
    COUNT,
    DECIDE,
    DECISION,
    DROP_CHANGE,
    END,
    EVENTS,
    EXPLAIN_CALL,
    EXTEND,
    GO_ON,
    HISTORY,
    LISTED,
    MODE,
    MOST_EVENTS,
    MOST_STATE,
    MOST_TEXT,
    QUEUE,
    RAISE_LIMIT,
    READ,
    REVEAL,
    REVOKE,
    SCAN,
    SEND,
    SESSION,
    SHADOW,
    START,
    STARTED_FROM,
    SUBSCRIBE,
    TOGGLE,
    Abort,
    Compact,
    CountDecisions,
    Decide,
    Decisions,
    Events,
    Extend,
    Filtered,
    First,
    GoOn,
    History,
    Listed,
    NoParams,
    OfChange,
    OneDecision,
    Queue,
    RaiseLimit,
    ReadDecisions,
    Recorded,
    Reveal,
    Revoke,
    ScanDecisions,
    Send,
    Sessions,
    SetMode,
    Start,
    Started,
    StartedFrom,
    Subscribe,
    Subscribed,
    Toggle,
)
from ..protocol.errors import told_in_codes
from ..protocol.framing import Code, Nothing, WireError
from .backtest_handler import JudgingDesk
from .connection import Connection, Handler, handler
from .event_feed import Frames, feed
from .limits import Limits

FEW_EVENTS = 15
"""So many events, each at most as large as a frame, always fit in one answer."""

log = logging.getLogger(__name__)


class Starter(Protocol):
    """Makes agents from specs, on the server.

    Both methods raise `ValueError` for an invalid spec, with every problem found.
    """

    async def start(self, spec: dict[str, JsonValue], *, by: str) -> str:
        """Open a session and start its agent; return the session's id."""
        ...

    async def go_on(
        self,
        session_id: str,
        *,
        by: str,
        at: int | None,
        nets: Nets,
        task: str | None,
        max_cost: float | None,
        reason: str | None,
    ) -> str:
        """Resume a recorded session; return the id of the live one."""
        ...


class ConsoleDesk:
    """Handlers of the requests of one console."""

    def __init__(
        self,
        hub: Hub,
        connection: Connection,
        limits: Limits,
        frames: Frames,
        starter: Starter | None = None,
    ) -> None:
        self._hub = hub
        self._connection = connection
        self._limits = limits
        self._frames = frames
        self._starter = starter
        self._by = connection.identity.name
        self._credential = Credential(connection.identity.token, connection.in_force)
        self._feed: asyncio.Task[None] | None = None
        self._judging = JudgingDesk(hub, connection.usage, limits.jobs_per_token)
        self._handlers: Mapping[str, Handler] = dict(
            [
                handler(LISTED, self._listed),
                handler(QUEUE, self._queue),
                handler(SESSION, self._session),
                handler(SUBSCRIBE, self._subscribe),
                handler(DECIDE, self._decide),
                handler(REVEAL, self._reveal),
                handler(EXTEND, self._extend),
                handler(REVOKE, self._revoke),
                handler(TOGGLE, self._toggle),
                handler(MODE, self._mode),
                handler(CONFIRM_CHANGE, self._confirm_change),
                handler(DROP_CHANGE, self._drop_change),
                handler(RAISE_LIMIT, self._raise_limit),
                handler(SEND, self._send),
                handler(ABORT, self._abort),
                handler(COMPACT, self._compact, waits=True),
                handler(END, self._end),
                handler(START, self._start),
                handler(GO_ON, self._go_on),
                handler(EXPLAIN_CALL, self._explain),
                handler(HISTORY, self._history),
                handler(EVENTS, self._events),
                handler(STARTED_FROM, self._started_from),
                handler(SCAN, self._scan),
                handler(READ, self._read),
                handler(DECISION, self._decision),
                handler(COUNT, self._count),
                handler(SHADOW, self._shadow),
                *self._judging.handlers.items(),
            ]
        )

    def handler(self, method: str) -> Handler | None:
        """See `RequestHandlers.handler`."""
        return self._handlers.get(method)

    async def leave(self) -> None:
        """Clean up after the console; its open requests stay undecided."""
        if self._feed is not None:
            self._feed.cancel()
        await self._judging.leave()

    # State and events

    async def _listed(self, _: NoParams) -> Listed:
        live = await self._hub.sessions()
        return Listed(
            sessions=tuple((s.id, s.seq) for s in live),
            steered=tuple(s.id for s in live if self._hub.steers(s.id)),
            as_asked=tuple(s.id for s in live if not self._hub.takes_edits(s.id)),
        )

    async def _queue(self, asked: First) -> Queue:
        live = await self._hub.sessions()
        waiting = longest_first(each for state in live for each in state.approvals.values())
        first: list[ApprovalState] = []
        size = 0
        for each in ApprovalQueue(waiting).first(asked.most):
            size += len(each.model_dump_json())
            if first and size > MOST_TEXT:
                break
            first.append(each)
        return Queue(waiting=tuple((s.id, len(s.approvals)) for s in live), first=tuple(first))

    async def _session(self, asked: OfSession) -> SessionState:
        with told_in_codes():
            state = await self._hub.session(asked.session)
        if state.seq > FEW_EVENTS and len(state.model_dump_json()) > MOST_STATE:
            raise WireError(
                Code.LIMIT,
                f"the state of '{state.id}' is too large for one answer; put it together from its events",
                {"limit": MOST_STATE},
            )
        return state

    async def _subscribe(self, asked: Subscribe) -> Subscribed:
        if self._feed is not None:
            raise WireError(Code.REFUSED, "this connection is subscribed already")
        with told_in_codes():
            after = asked.after if asked.after is not None else await self._hub.cursor()
        self._feed = asyncio.get_running_loop().create_task(self._tell(after))
        return Subscribed(after=after)

    async def _tell(self, after: int) -> None:
        try:
            async for event in feed(self._hub, after, self._limits.backlog):
                frame = self._frames.of(event)
                if frame is not None:
                    await self._connection.tell(frame)
        except ConnectionClosed:
            pass
        except Exception:
            # An event cannot be sent, and must not be left out: the console has to reconnect.
            log.exception("'%s' is not told what happens any more", self._by)
            self._connection.end(1011, "the journal cannot be read; see the server's log")

    # Actions of operators

    async def _decide(self, asked: Decide) -> Outcome:
        try:
            grant = None
            if asked.grant is not None:
                wanted = asked.grant
                grant = GrantTerms(wanted.scope, wanted.uses, wanted.seconds, wanted.subagents)
        except ValueError as error:
            raise WireError(Code.PARAMS, f"grant: {error}") from error
        if grant is not None:
            self._connection.check_rights("a grant", "administer")
        return await self._hub.decide(
            asked.approval_id,
            approved=asked.approved,
            by=self._by,
            reason=asked.reason,
            input=asked.input,
            digest=asked.digest,
            grant=grant,
            stop=asked.stop,
            credential=self._credential,
        )

    async def _reveal(self, asked: Reveal) -> Revealed:
        return await self._hub.reveal(asked.approval_id, by=self._by)

    async def _extend(self, asked: Extend) -> Outcome:
        return await self._hub.extend(
            asked.approval_id, seconds=asked.seconds, by=self._by, credential=self._credential
        )

    async def _revoke(self, asked: Revoke) -> Outcome:
        with told_in_codes():
            return await self._hub.revoke_grant(asked.session, asked.key, by=self._by)

    async def _toggle(self, asked: Toggle) -> Outcome:
        with told_in_codes():
            return await self._hub.toggle_net(
                asked.session,
                asked.net,
                asked.active,
                by=self._by,
                reason=asked.reason,
                seconds=asked.seconds,
                credential=self._credential,
            )

    async def _mode(self, asked: SetMode) -> Outcome:
        with told_in_codes():
            return await self._hub.set_mode(
                asked.session,
                asked.mode,
                by=self._by,
                reason=asked.reason,
                seconds=asked.seconds,
                credential=self._credential,
            )

    async def _confirm_change(self, asked: OfChange) -> Outcome:
        with told_in_codes():
            return await self._hub.confirm_change(
                asked.session, asked.change, by=self._by, credential=self._credential
            )

    async def _drop_change(self, asked: OfChange) -> Outcome:
        with told_in_codes():
            return await self._hub.drop_change(asked.session, asked.change, by=self._by)

    async def _raise_limit(self, asked: RaiseLimit) -> Outcome:
        with told_in_codes():
            return await self._hub.raise_limit(
                asked.session, asked.max_cost, by=self._by, reason=asked.reason
            )

    async def _send(self, asked: Send) -> Nothing:
        with told_in_codes():
            await self._hub.send(asked.session, asked.text, by=self._by, mode=asked.mode)
        return Nothing()

    async def _abort(self, asked: Abort) -> Nothing:
        with told_in_codes():
            await self._hub.abort(asked.session, asked.reason, by=self._by)
        return Nothing()

    async def _compact(self, asked: Compact) -> Outcome:
        keep = KEEP_LAST if asked.keep_last is None else asked.keep_last
        with told_in_codes():
            return await self._hub.compact(
                asked.session, by=self._by, keep_last=keep, instructions=asked.instructions
            )

    async def _end(self, asked: OfSession) -> Nothing:
        with told_in_codes():
            await self._hub.close_session(asked.session, self._by)
        return Nothing()

    async def _start(self, asked: Start) -> Started:
        starter = self._may_start()
        with told_in_codes():
            return Started(session=await starter.start(asked.spec, by=self._by))

    async def _go_on(self, asked: GoOn) -> Started:
        starter = self._may_start()
        with told_in_codes():
            session = await starter.go_on(
                asked.session,
                by=self._by,
                at=asked.at,
                nets=asked.nets,
                task=asked.task,
                max_cost=asked.max_cost,
                reason=asked.reason,
            )
        return Started(session=session)

    def _may_start(self) -> Starter:
        if self._starter is None:
            raise WireError(Code.REFUSED, "this server starts no agents")
        return self._starter

    async def _explain(self, asked: OfCall) -> ExplanationView:
        with told_in_codes():
            return await self._hub.explain(asked.session, asked.call)

    # Recorded sessions

    async def _history(self, asked: History) -> Sessions:
        with told_in_codes():
            return Sessions(sessions=tuple(await self._hub.history(asked.limit)))

    async def _events(self, asked: Recorded) -> Events:
        with told_in_codes():
            session, found = await self._hub.page(asked.session, asked.after, MOST_EVENTS + 1)
        events: list[JournalEvent] = []
        size = 0
        for event in found[:MOST_EVENTS]:
            size += len(event.model_dump_json())
            if events and size > MOST_TEXT:
                break
            events.append(event)
        return Events(session=session, events=tuple(events), more=len(events) < len(found))

    async def _started_from(self, asked: OfSession) -> StartedFrom:
        with told_in_codes():
            origin = await self._hub.started_from(asked.session)
        return StartedFrom(**origin._asdict())

    async def _scan(self, asked: ScanDecisions) -> Scan:
        with told_in_codes():
            return await self._hub.scan_decisions(asked.wanted, top=asked.top, bottom=asked.bottom)

    async def _read(self, asked: ReadDecisions) -> Decisions:
        with told_in_codes():
            found = await self._hub.read_decisions(asked.wanted, asked.part)
        return Decisions(decisions=tuple(found))

    async def _decision(self, asked: OneDecision) -> JournalEvent:
        with told_in_codes():
            return await self._hub.decision_event(asked.session, asked.seq)

    async def _count(self, asked: CountDecisions) -> Counts:
        with told_in_codes():
            return await self._hub.count_decisions(asked.wanted, by=asked.by, steps=asked.steps)

    async def _shadow(self, asked: Filtered) -> ShadowSummary:
        with told_in_codes():
            return await self._hub.shadow_summary(asked.wanted)
