"""Remote hub of a console: the methods of a hub, over a connection.

Live sessions are mirrored here, so that painting a screen never waits for the connection. While the
connection is lost, screens show the last known state and a notice; nothing can be decided.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from ...approvals.passkeys import page_link
from ...approvals.request_order import Unread, longest_first
from ...core.rights import FULL, Rights
from ...history.fold.fold import fold
from ...history.model.events import JournalEvent
from ...history.model.positions import Positions
from ...history.model.records import FreezeRecord, JournalOutage
from ...history.model.state import ApprovalState, SessionState
from ...history.redaction.redaction import Redaction
from ...hub.hub import (
    DisconnectedCalls,
    FreezeChanged,
    HubEvent,
    OutageChanged,
    RequestReaders,
    Spawn,
    Streaming,
    Subscription,
    UnknownSessionError,
)
from ..protocol.address import TOKEN, server_url, trusting
from ..protocol.agent_methods import SessionParams
from ..protocol.console_methods import (
    DISCONNECTED,
    DIVERGED,
    EVENT,
    EVENTS,
    FREEZE,
    OUTAGE,
    QUEUE,
    READERS,
    SESSION,
    SESSIONS,
    SUBSCRIBE,
    DisconnectedNotice,
    EventNotice,
    EventPage,
    FreezeNotice,
    NoParams,
    OutageNotice,
    QueueLimit,
    ReadersNotice,
    SessionList,
    Subscribe,
)
from ..protocol.framing import Code, Notice
from ..protocol.token_paths import operator_token_file
from ..protocol.tokens import read_secret
from .connection import GatewayError, Link, NotAdmittedError, RequestFailedError
from .remote_hub import RemoteHub
from .session_mirror import Mirror

AGAIN = 1.0
"""Seconds between two attempts to reach a lost server."""
REFUSED_AGAIN = 15.0
"""Maximum seconds between attempts if the server refuses this console; the pause grows up to it."""
CATCH_UP = 5.0
"""Seconds for which a query waits for events that are still to arrive."""
SOON = 0.25
"""Seconds for which a screen waits for a server before it is painted with the last known state."""

FIRST_PAINT = 0.25
"""Seconds before a long queue is loaded, in which screens are painted with its first requests."""

LOST = "connection lost, trying again"
NOT_IN = "the server no longer admits this console"

log = logging.getLogger(__name__)


class ConsoleClient(RemoteHub):
    """The hub of the server at `url`, which is INTERLOCK_URL by default; `token` is an operator's.

    Call `open` first. `connected` is called whenever the state of the connection changes; `trouble` then
    describes the fault. A `wss://` server's certificate is checked against `ca`, else INTERLOCK_CA, else
    the system's trust store. A `read_only` client announces this in its greeting, and the server refuses
    its changes.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        ca: Path | None = None,
        tls: ssl.SSLContext | None = None,
        connected: Callable[[bool], None] | None = None,
        read_only: bool = False,
    ) -> None:
        secret = token or os.environ.get(TOKEN)
        usual = partial(read_secret, operator_token_file())
        self.redaction = Redaction()
        self.connected = connected
        self.link = Link(
            server_url(url),
            secret or usual(),
            "/console",
            name="interlock console",
            tls=tls or trusting(ca),
            on_notice=self._receive,
            on_connected=self._restore,
            on_lost=self._note_loss,
            read_token=None if secret else usual,
            read_only=read_only,
        )
        self._mirror = Mirror()
        self._looking: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()
        self._fetching: set[str] = set()
        self._loading: asyncio.Task[None] | None = None
        self._lacking: dict[str, int] = {}
        self._held: deque[JournalEvent | Streaming | DisconnectedCalls | RequestReaders] = deque()
        self._subscriptions: list[Subscription] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._listed: tuple[str, ...] = ()
        self._steered: frozenset[str] = frozenset()
        self._unedited: frozenset[str] = frozenset()
        self._elsewhere: dict[str, str] = {}
        self._frozen: FreezeRecord | None = None
        self._outage: JournalOutage | None = None
        self._listing: asyncio.Task[None] | None = None
        self._slow = False
        self._closed = False
        self.trouble = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> str:
        """Connect; return the operator's name that the token has on the server. Raises `GatewayError`."""
        welcome = await self.link.open()
        return welcome.name

    async def close(self) -> None:
        """Close the connection. Sessions on the server continue."""
        self._closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.link.close()

    @property
    def location(self) -> str:
        """Address of the server, for display."""
        return self.link.url.removeprefix("ws://")

    @property
    def rights(self) -> Rights:
        """Rights that the server gave this console."""
        welcome = self.link.welcome
        return FULL if welcome is None or welcome.rights is None else welcome.rights

    def groups_of(self, name: str) -> tuple[str, ...]:
        """Groups of this console's operator, the only one for whom they are requested."""
        welcome = self.link.welcome
        return () if welcome is None or welcome.name != name else welcome.groups

    def key_link(self, approval_id: str) -> str | None:
        """URL given by the server of the page where a passkey can be used for a request."""
        welcome = self.link.welcome
        return None if welcome is None else page_link(welcome.page, approval_id)

    @property
    def server(self) -> str:
        return self.location

    def spawn_in(self, spawn: Spawn) -> None:
        """Do nothing: agents run on the server."""

    # The connection

    async def _restore(self) -> None:
        """Resume a new connection before anything else: subscribe from the last known event on.

        Waits for slow answers no longer than a screen does; of a long queue only the first requests are
        read.
        """
        self._mirror.forget_connections()
        positions = self._mirror.positions
        last_known: dict[str, object] = {}
        if positions is not None:
            last_known["after"] = max(positions.cursors, default=0)
        if positions is not None and positions.is_shared:
            last_known["lanes"] = positions.cursors
        subscribed = await self.link.ask(SUBSCRIBE, Subscribe.model_validate(last_known))
        if positions is None:
            self._mirror.positions = Positions(subscribed.lanes or (subscribed.after,))
        listed = await self._ask_which()
        self._listed = tuple(session for session, _ in listed.sessions)
        self._mirror.keep(self._listed)
        lacking = {each: seq for each, seq in listed.sessions if self._mirror.lacks(each, seq)}
        self._lacking = lacking
        if any(self._mirror.get(each) is None for each in lacking):
            await self._expect()
        long = self.unread().requests > 0
        self._stop_loading()
        # From now on, the events of these sessions are queued until the sessions are loaded.
        self._fetching.update(lacking)
        self._loading = self._start(self._load(lacking, FIRST_PAINT if long else 0.0))
        if not long:
            await asyncio.wait({self._loading}, timeout=SOON)

    async def _expect(self) -> None:
        """Request the queue of sessions that are not loaded yet; an older server has no such method."""
        try:
            queue = await self.link.ask(QUEUE, QueueLimit())
        except RequestFailedError as error:
            if error.code != Code.METHOD:
                raise
        else:
            self._mirror.expect(dict(queue.waiting), queue.first)

    async def _load(self, lacking: Mapping[str, int], pause: float) -> None:
        """Fetch sessions up to these event numbers one by one, so that screens are painted in between."""
        try:
            await asyncio.sleep(pause)
            for session, seq in lacking.items():
                if self._mirror.lacks(session, seq):
                    await self._fetch_missing(session)
        finally:
            self._fetched(*lacking)
        self._say(None)

    @property
    def _is_loading(self) -> bool:
        return self._loading is not None and not self._loading.done()

    def _stop_loading(self) -> None:
        if self._loading is not None:
            self._loading.cancel()

    def _say(self, trouble: str | None) -> None:
        self.trouble = trouble
        if self.connected is not None:
            self.connected(trouble is None)

    def _note_loss(self) -> None:
        self._stop_loading()
        self._outage = None  # unknown without a connection
        if self._closed:
            return
        self._say(LOST)
        if self._looking is None or self._looking.done():
            self._looking = self._start(self._look_for_it())

    async def _look_for_it(self) -> None:
        refused = AGAIN
        while not self._closed:
            try:
                await self.link.open()
            except NotAdmittedError as error:
                log.warning("The server no longer admits this console: %s", error)
                self._say(f"{NOT_IN}: {error}")
                await asyncio.sleep(refused)
                refused = min(REFUSED_AGAIN, 2 * refused)
            except GatewayError as error:
                log.debug("the server is still unreachable: %s", error)
                await asyncio.sleep(AGAIN)
            else:
                return

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _receive(self, notice: Notice) -> None:
        try:
            match notice.method:
                case EVENT.name:
                    event: JournalEvent | Streaming | DisconnectedCalls | RequestReaders = (
                        EventNotice.model_validate(notice.params).event
                    )
                case DISCONNECTED.name:
                    event = DisconnectedNotice.model_validate(notice.params)
                    self._mirror.connections(event)
                case READERS.name:
                    event = ReadersNotice.model_validate(notice.params)
                    self._mirror.note_readers(event)
                case FREEZE.name:
                    changed = FreezeNotice.model_validate(notice.params)
                    self._frozen = changed.freeze
                    # A freeze does not belong to a session, so it need not wait for queued events.
                    self._publish(changed)
                    return
                case OUTAGE.name:
                    moved = OutageNotice.model_validate(notice.params)
                    self._outage = moved.outage
                    self._publish(moved)
                    return
                case _:
                    return
        except ValidationError:
            log.exception("The server sent an invalid notice")
            return
        if isinstance(event, JournalEvent) and not self._mirror.take(event):
            self._fetching.add(event.session)
            self._start(self._fetch_missing(event.session))
        if self._held or event.session in self._fetching:
            self._held.append(event)
        else:
            self._publish(event)

    def _publish(self, event: HubEvent) -> None:
        session = "" if isinstance(event, FreezeChanged | OutageChanged) else event.session
        if self._mirror.get(session) is not None and session not in self._listed:
            self._listed += (session,)
        for subscription in self._subscriptions:
            subscription.put(event)
        self._start(self._wake())

    async def _wake(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    async def _fetch_missing(self, session: str) -> None:
        """Fetch the events that the mirror lacks of a session; its new events are queued until then."""
        try:
            with suppress(GatewayError):
                await self._fetch(session)
        finally:
            self._fetched(session)
        await self._wake()

    def _fetched(self, *sessions: str) -> None:
        """Mark these sessions as fetched, and publish the events queued for them, in order."""
        self._fetching.difference_update(sessions)
        while self._held and self._held[0].session not in self._fetching:
            self._publish(self._held.popleft())

    async def _fetch(self, session: str) -> None:
        while True:
            try:
                state = await self._state(session)
            except RequestFailedError as error:
                if error.code not in (Code.UNKNOWN, Code.NOT_FOUND):
                    raise
                self._mirror.forget(session)
                return
            if self._mirror.add(state):
                return

    async def _state(self, session: str) -> SessionState:
        """Return the current state of a session; if too large for one answer, build it from events."""
        try:
            return await self.link.ask(SESSION, SessionParams(session=session))
        except RequestFailedError as error:
            if error.code != Code.LIMIT:
                raise
        events: list[JournalEvent] = []
        more = True
        while more:
            # Uses the existing connection: this is also called before the connection counts as open.
            after = events[-1].seq if events else 0
            page = await self.link.ask(EVENTS, EventPage(session=session, after=after))
            events += page.events
            more = page.more
        return await asyncio.to_thread(fold, events)

    def subscribe(self, limit: int | None = None) -> Subscription:
        """Subscribe to all events from now on. Close the subscription when done."""
        subscription = Subscription(self._subscriptions.remove, limit)
        self._subscriptions.append(subscription)
        return subscription

    # Live sessions

    async def sessions(self) -> list[SessionState]:
        """Live sessions in the order they were opened; while disconnected, the last known ones.

        A slow server does not delay painting: its answer is used the next time.
        """
        if not self._is_loading:
            if self._listing is None or self._listing.done():
                self._listing = self._start(self._list())
            await asyncio.wait({self._listing}, timeout=0 if self._slow else SOON)
        return [state for each in self._listed if (state := self._mirror.get(each)) is not None]

    async def _list(self) -> None:
        """Request the list of live sessions, and wait until all their events so far have arrived.

        Does not wait for a session that is still to be loaded and has no newer event.
        """
        started_at = time.monotonic()
        with suppress(GatewayError):
            before = self._listed
            listed = await self._ask_which()
            live = tuple(session for session, _ in listed.sessions)
            # Some may have started while the answer was on its way.
            since = tuple(each for each in self._listed if each not in before and each not in live)
            self._listed = (*live, *since)
            self._mirror.keep(self._listed)
            for session, seq in listed.sessions:
                if not self._is_loading or seq > self._lacking.get(session, 0):
                    await self._reach(session, seq)
        self._slow = time.monotonic() - started_at > SOON

    async def _ask_which(self) -> SessionList:
        listed = await self.link.ask(SESSIONS, NoParams())
        self._steered = frozenset(listed.steered)
        self._unedited = frozenset(listed.unedited)
        before, self._elsewhere = self._elsewhere, dict(listed.elsewhere)
        for session, where in self._elsewhere.items():
            if where == DIVERGED != before.get(session):
                # The database lost some of its events: what is known here is not what it has.
                self._mirror.forget(session)
                self._fetching.add(session)
                self._start(self._fetch_missing(session))
        if listed.frozen != self._frozen:
            self._frozen = listed.frozen
            self._publish(FreezeChanged(freeze=listed.frozen))
        if listed.outage != self._outage:
            self._outage = listed.outage
            self._publish(OutageChanged(outage=listed.outage))
        return listed

    async def _reach(self, session: str, seq: int) -> None:
        """Wait until the mirror has all of a session's events up to `seq`."""
        if not self._mirror.lacks(session, seq):
            return
        try:
            async with asyncio.timeout(CATCH_UP), self._moved:
                await self._moved.wait_for(lambda: not self._mirror.lacks(session, seq))
        except TimeoutError:
            await self._fetch_missing(session)

    async def session(self, session_id: str) -> SessionState:
        """Return the state of a live session. Raises `UnknownSessionError`."""
        await self.sessions()
        if self._is_loading and self._mirror.get(session_id) is None:
            await self._fetch_missing(session_id)
        state = self._mirror.get(session_id)
        if state is None:
            raise UnknownSessionError(f"No live session '{session_id}'")
        return state

    def current_freeze(self) -> FreezeRecord | None:
        """The freeze of all agents on the server, as last reported."""
        return self._frozen

    def current_outage(self) -> JournalOutage | None:
        """Return the outage of the server's journal, as last reported."""
        return self._outage

    def steers(self, session_id: str) -> bool:
        """Return whether messages to a session reach its agent, as last reported."""
        return session_id in self._steered

    def server_of(self, session_id: str) -> str | None:
        """Return the other server that owns a session, as last reported."""
        return self._elsewhere.get(session_id)

    def takes_edits(self, session_id: str) -> bool:
        """Return whether a call of a session can run with an edited input, as last reported."""
        return session_id not in self._unedited

    async def approvals(self) -> list[ApprovalState]:
        """Open approval requests, oldest first, without those counted in `unread`."""
        waiting = [a for state in await self.sessions() for a in state.approvals.values()]
        return longest_first([*waiting, *self._mirror.first])

    def unread(self) -> Unread:
        """Number of sessions and requests of the server that are not loaded yet."""
        return self._mirror.unread
