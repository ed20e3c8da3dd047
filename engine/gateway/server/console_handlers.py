"""Request handlers of a console's connection. The operator is the one that the token names."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar
from uuid import uuid4

from pydantic import BaseModel
from websockets.exceptions import ConnectionClosed

from ...approvals.policy import Credential
from ...approvals.request_order import ApprovalQueue, longest_first
from ...history.errors import JournalError
from ...history.model.positions import Positions
from ...history.model.state import SessionState
from ...hub.api import AgentStarter
from ...hub.hub import Hub
from ...hub.operations import Operation, operations
from ..protocol.agent_methods import SessionParams
from ..protocol.console_methods import (
    END_JOB,
    EVENTS,
    MOST_EVENTS,
    MOST_STATE,
    MOST_TEXT,
    NEXT_PART,
    OPERATIONS,
    QUEUE,
    SESSION,
    SESSIONS,
    SUBSCRIBE,
    EventPage,
    Events,
    NoParams,
    QueueLimit,
    QueueStart,
    SessionList,
    Subscribe,
    Subscribed,
    method_of,
)
from ..protocol.framing import Code, Nothing, Payload, WireError
from .connection import Connection, RequestHandler, handler
from .event_feed import Frames, feed
from .jobs import Jobs
from .limits import Limits

FEW_EVENTS = 15
"""Number of events that always fit in one answer, even if each is as large as a frame."""

log = logging.getLogger(__name__)
ModelT = TypeVar("ModelT", bound=BaseModel)


class ConsoleHandlers:
    """Handlers of one console's requests."""

    def __init__(
        self,
        hub: Hub,
        connection: Connection,
        limits: Limits,
        frames: Frames,
        starter: AgentStarter | None = None,
    ) -> None:
        self._hub = hub
        self._connection = connection
        self._limits = limits
        self._frames = frames
        self._starter = starter
        self._feed: asyncio.Task[None] | None = None
        self._console = uuid4().hex
        self._jobs = Jobs(connection.usage, limits.jobs_per_token)
        self._handlers: dict[str, RequestHandler] = dict(
            [
                handler(SESSIONS, self._sessions),
                handler(QUEUE, self._queue),
                handler(SESSION, self._session),
                handler(SUBSCRIBE, self._subscribe),
                handler(EVENTS, self._events),
                handler(NEXT_PART, self._jobs.next, waits=True),
                handler(END_JOB, self._jobs.end),
            ]
        )

    def handler(self, method: str) -> RequestHandler | None:
        """See `RequestHandlers.handler`."""
        request_handler = self._handlers.get(method)
        if request_handler is None and (operation := OPERATIONS.get(method)) is not None:
            request_handler = self._handlers[method] = self._dispatch(operation)
        return request_handler

    async def close(self) -> None:
        """Clean up after the console; its open requests stay undecided."""
        if self._feed is not None:
            self._feed.cancel()
        await self._jobs.close()
        with suppress(JournalError):  # the error is logged, and a claim expires by itself
            await self._hub.console_gone(self._console)

    # Declared operations

    def _dispatch(self, operation: Operation) -> RequestHandler:
        """Return the handler of a declared operation, which calls the hub's method, or the starter's."""
        method = method_of(operation)
        starts = operation.name in operations(AgentStarter)
        identity = self._connection.identity
        # The token determines the operator, who may act only while the token is valid (G-77).
        credential = Credential(identity.token, self._connection.in_force, identity.operator)
        server_arguments = {"by": identity.name, "credential": credential, "console": self._console}
        offers = AgentStarter if starts else type(self._hub)
        takes = inspect.signature(getattr(offers, operation.name)).parameters
        names = (server_arguments.keys() & takes) - method.params.model_fields.keys()
        set_here = {name: server_arguments[name] for name in names}

        async def answer(params: Payload) -> BaseModel:
            target = self._starter if starts else self._hub
            if target is None:
                raise WireError(Code.REFUSED, "this server starts no agents")
            arguments = {name: getattr(params, name) for name in method.params.model_fields}
            if arguments.get("grant") is not None:
                self._connection.check_rights("a grant", "administer")
            call = getattr(target, operation.name)
            if operation.is_job:
                return await self._jobs.start(call(**arguments))
            result = await call(**arguments, **set_here)
            if result is None:
                return Nothing()
            return result if isinstance(result, BaseModel) else method.result.model_validate(result)

        return RequestHandler(method.needs, method.params, answer, operation.waits)

    # State and events

    async def _sessions(self, _: NoParams) -> SessionList:
        live = await self._hub.sessions()
        return SessionList(
            sessions=tuple((s.id, s.seq) for s in live),
            steered=tuple(s.id for s in live if self._hub.steers(s.id)),
            unedited=tuple(s.id for s in live if not self._hub.takes_edits(s.id)),
            frozen=self._hub.current_freeze(),
            outage=self._hub.list_outage(),
            elsewhere=tuple((s.id, where) for s in live if (where := self._hub.server_of(s.id))),
        )

    async def _queue(self, params: QueueLimit) -> QueueStart:
        live = await self._hub.sessions()
        waiting = longest_first(each for state in live for each in state.approvals.values())
        first = _first_that_fit(ApprovalQueue(waiting).first(params.most))
        return QueueStart(waiting=tuple((s.id, len(s.approvals)) for s in live), first=first)

    async def _session(self, params: SessionParams) -> SessionState:
        state = await self._hub.session(params.session)
        if state.seq > FEW_EVENTS and len(state.model_dump_json()) > MOST_STATE:
            raise WireError(
                Code.LIMIT,
                f"the state of '{state.id}' is too large for one answer; build it from its events",
                {"limit": MOST_STATE},
            )
        return state

    async def _subscribe(self, params: Subscribe) -> Subscribed:
        if self._feed is not None:
            raise WireError(Code.REFUSED, "this connection is already subscribed")
        after = await self._hub.positions()
        if params.lanes:
            after = Positions(params.lanes)
        elif params.after is not None:
            after = after.moved(params.after)
        lanes = after.cursors if after.is_shared else ()
        self._feed = asyncio.get_running_loop().create_task(self._send_events(after.copy()))
        return Subscribed(after=max(after.cursors, default=0), lanes=lanes)

    async def _send_events(self, after: Positions) -> None:
        try:
            async for event in feed(self._hub, after, self._limits.backlog):
                frame = self._frames.of(event)
                if frame is not None:
                    await self._connection.tell(frame)
        except ConnectionClosed:
            pass
        except Exception:
            # An event that cannot be sent must not be skipped: the console has to reconnect.
            log.exception("'%s' gets no more events", self._connection.identity.name)
            self._connection.end(1011, "the journal cannot be read; see the server's log")

    async def _events(self, params: EventPage) -> Events:
        session, page = await self._hub.page(params.session, params.after, MOST_EVENTS + 1)
        events = _first_that_fit(page[:MOST_EVENTS])
        return Events(session=session, events=events, more=len(events) < len(page))


def _first_that_fit(models: Iterable[ModelT]) -> tuple[ModelT, ...]:
    """Return as many of the first models as fit into one answer, at least one."""
    first: list[ModelT] = []
    size = 0
    for model in models:
        size += len(model.model_dump_json())
        if first and size > MOST_TEXT:
            break
        first.append(model)
    return tuple(first)
