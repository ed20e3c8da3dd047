"""The page's console on the hub, one for all of its tabs, and the changes there.

It has the operator's token, like the processes of the terminal's tabs, and so never more rights.
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
from ....engine.hub.events import DisconnectedCalls, FreezeChanged, HubEvent, OutageChanged

PAUSE = 0.2
"""Seconds between two reports of changes to a tab, however many events there are."""
MOST_ENDED = 500
"""Number of ended requests whose outcome is kept for tabs that still show them."""
MOST_WAITING = 10_000
"""Maximum number of unprocessed events; beyond it, everything counts as changed."""
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
    """Requests that changed since `take` was last called: their ids, or `None` for all of them."""

    def __init__(self, forget: Callable[[Changes], None]) -> None:
        self._ids: set[str] = set()
        self._all = False
        self._arrived = asyncio.Event()
        self._forget = forget

    def put(self, ids: Collection[str] | None) -> None:
        """Add changed requests."""
        self._all = self._all or ids is None
        self._ids.update(ids or ())
        self._arrived.set()

    async def take(self, seconds: float) -> list[str] | None:
        """Wait for changes, and return them; an empty list if there are none within `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        found = None if self._all else sorted(self._ids)
        self._ids, self._all = set(), False
        self._arrived.clear()
        return found

    def close(self) -> None:
        """Stop receiving changes."""
        self._forget(self)


class HubConnection:
    """A console created by `connect`, opened when it is first needed."""

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
        """Return the hub.

        Raises `GatewayError` if its server does not answer or does not admit this console.
        """
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
        """Problem of the connection to the sessions' server, while it is lost."""
        return None if self._client is None else self._client.trouble

    @property
    def moment(self) -> str:
        """Version of the queue, with which a tab says what it has seen last."""
        return f"{self._boot}.{self._moves}"

    def follow(self) -> Changes:
        """Follow changes from now on."""
        changes = Changes(self._followers.remove)
        self._followers.append(changes)
        return changes

    def wake(self) -> None:
        """Wake all followers, without any change."""
        for each in self._followers:
            each.put(())

    def end_of(self, request_id: str) -> str | None:
        """Return how a request ended, if that was seen here."""
        return self._ended.get(request_id)

    async def close(self) -> None:
        """End the connection; requests keep waiting."""
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
        """Report everything as changed: that is unknown for the time without a connection."""
        self._note(None)

    def _take(self, event: HubEvent) -> None:
        late = isinstance(event, JournalEvent) and isinstance(event.body, CallLate | CallRepeated)
        if late or isinstance(event, DisconnectedCalls | FreezeChanged):
            self._note(None)
        elif isinstance(event, OutageChanged):
            self.wake()
        elif isinstance(event, JournalEvent) and isinstance(event.body, _OF_REQUESTS):
            if (end := end_of(event.body)) is not None:
                self._ended[end[0]] = end[1]
                while len(self._ended) > MOST_ENDED:
                    del self._ended[next(iter(self._ended))]
            self._note({event.body.approval_id})

    def _note(self, ids: set[str] | None) -> None:
        """Report changes at once, or together with others after `PAUSE`."""
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
