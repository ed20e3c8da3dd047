"""The page's console on the hub, one for all of its tabs, and what has moved there.

It has the operator's token, as the processes of the terminal's tabs have it, and so never more rights.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from time import monotonic

from ....engine.gateway.client.console import ConsoleClient
from ....engine.history.fold.approvals import end_of
from ....engine.history.model.events import (
    ApprovalClaimed,
    ApprovalCommented,
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    ApprovalTakenBack,
    ApprovalUnclaimed,
    ApprovalWithdrawn,
    CallLate,
    CallRepeated,
    JournalEvent,
)
from ....engine.hub.events import DisconnectedCalls, FreezeChanged, HubEvent

PAUSE = 0.2
"""Seconds between two reports of changes to a tab, however many events there are."""
MOST_ENDED = 500
"""Requests whose end is remembered for those who still look at them."""
MOST_WAITING = 10_000
"""Events that wait to be looked at; with more, everything counts as moved."""
_OF_REQUESTS = (
    ApprovalClaimed,
    ApprovalCommented,
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    ApprovalTakenBack,
    ApprovalUnclaimed,
    ApprovalWithdrawn,
)


class Changes:
    """Requests that moved since they were last taken: their ids, or `None` for all of them."""

    def __init__(self, forget: Callable[[Changes], None]) -> None:
        self._ids: set[str] = set()
        self._all = False
        self._arrived = asyncio.Event()
        self._forget = forget

    def put(self, ids: Collection[str] | None) -> None:
        """Add requests that moved."""
        self._all = self._all or ids is None
        self._ids.update(ids or ())
        self._arrived.set()

    async def take(self, seconds: float) -> list[str] | None:
        """Requests that have moved; an empty list where none has for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        found = None if self._all else sorted(self._ids)
        self._ids, self._all = set(), False
        self._arrived.clear()
        return found

    def close(self) -> None:
        """Take no more."""
        self._forget(self)


class HubConnection:
    """A console that `connect` makes, which is opened when somebody first looks."""

    def __init__(self, connect: Callable[[], ConsoleClient]) -> None:
        self.operator = ""
        self._connect = connect
        self._client: ConsoleClient | None = None
        self._opening = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._followers: list[Changes] = []
        self._boot, self._moves = secrets.token_hex(4), 0
        self._ended: dict[str, str] = {}
        self._noted: set[str] | None = set()
        self._reported = 0.0
        self._report: asyncio.TimerHandle | None = None

    async def hub(self) -> ConsoleClient:
        """The hub. Raises `GatewayError` where its server does not answer or does not admit."""
        async with self._opening:
            if self._client is None:
                client = self._connect()
                try:
                    self.operator = await client.open()
                except BaseException:
                    await client.close()
                    raise
                client.connected = self._connected
                self._client = client
                self._watching = asyncio.get_running_loop().create_task(self._watch(client))
            return self._client

    @property
    def trouble(self) -> str | None:
        """Fault of the connection to the server of the sessions, while it is lost."""
        return None if self._client is None else self._client.trouble

    @property
    def moment(self) -> str:
        """The state of the queue, for a tab to say what it has seen last."""
        return f"{self._boot}.{self._moves}"

    def follow(self) -> Changes:
        """Follow what moves from now on."""
        changes = Changes(self._followers.remove)
        self._followers.append(changes)
        return changes

    def wake(self) -> None:
        """Let all who follow look up, with nothing moved."""
        for each in self._followers:
            each.put(())

    def end_of(self, request_id: str) -> str | None:
        """The way in which a request ended, where that was seen here."""
        return self._ended.get(request_id)

    async def close(self) -> None:
        """End the connection; requests go on waiting."""
        if self._report is not None:
            self._report.cancel()
        if self._watching is not None:
            self._watching.cancel()
        if self._client is not None:
            await self._client.close()

    async def _watch(self, client: ConsoleClient) -> None:
        while True:
            subscription = client.subscribe(MOST_WAITING)
            try:
                async for event in subscription:
                    self._take(event)
            finally:
                subscription.close()
            if not subscription.lost:
                return
            self._note(None)

    def _connected(self, connected: bool) -> None:
        """While the connection was lost anything may have moved."""
        self._note(None)

    def _take(self, event: HubEvent) -> None:
        late = isinstance(event, JournalEvent) and isinstance(event.body, CallLate | CallRepeated)
        if late or isinstance(event, DisconnectedCalls | FreezeChanged):
            self._note(None)
        elif isinstance(event, JournalEvent) and isinstance(event.body, _OF_REQUESTS):
            if (end := end_of(event.body)) is not None:
                self._ended[end[0]] = end[1]
                while len(self._ended) > MOST_ENDED:
                    del self._ended[next(iter(self._ended))]
            self._note({event.body.approval_id})

    def _note(self, ids: set[str] | None) -> None:
        """Report at once what moved, or with what else moves in the next moment."""
        self._noted = None if ids is None or self._noted is None else self._noted | ids
        if self._report is None:
            later = max(0.0, self._reported + PAUSE - monotonic())
            self._report = asyncio.get_running_loop().call_later(later, self._tell)

    def _tell(self) -> None:
        noted, self._noted, self._report = self._noted, set(), None
        self._reported = monotonic()
        self._moves += 1
        for each in self._followers:
            each.put(noted)
