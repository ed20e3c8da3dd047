"""Connections of an HTTP listener; slow or excessive ones are closed.

A client is a stranger until one of its requests is admitted. A stranger cannot keep a connection by
sending little, nor use up the connections of other clients.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from aiohttp import web

from ...engine.gateway.server.limits import Limits


class HttpConnections:
    """All connections of one listener.

    Creates a protocol of `server` for each, and enforces the limits.
    """

    def __init__(self, server: Callable[[], asyncio.Protocol], limits: Limits) -> None:
        self.limits = limits
        self._server = server
        self._open: dict[asyncio.BaseTransport, _Connection] = {}
        self._strangers: dict[_Connection, None] = {}
        self._of_address: Counter[str] = Counter()

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self, self._server())

    def has_room(self, connection: _Connection, transport: asyncio.BaseTransport) -> bool:
        """Register a connection whose address is known; return `False` if it has to be closed.

        Above the limit of strangers the oldest stranger is closed; above the limits in total or per
        address, the new connection.
        """
        if len(self._open) >= self.limits.connections:
            return False
        if self._of_address[connection.address] >= self.limits.strangers_per_address:
            return False
        self._open[transport] = connection
        self._strangers[connection] = None
        self._of_address[connection.address] += 1
        if len(self._strangers) > self.limits.strangers:
            oldest = next(iter(self._strangers))
            self._know(oldest)
            oldest.cut()
        return True

    def forget(self, connection: _Connection, transport: asyncio.BaseTransport) -> None:
        """Unregister a connection that was lost."""
        if self._open.pop(transport, None) is not None:
            self._know(connection)

    def admit(self, request: web.Request) -> None:
        """Record that a request was admitted: its connection no longer counts as a stranger."""
        found = self._find(request)
        if found is not None:
            self._know(found)

    def _know(self, connection: _Connection) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            self._of_address[connection.address] -= 1
            if not self._of_address[connection.address]:
                del self._of_address[connection.address]

    def _find(self, request: web.Request) -> _Connection | None:
        transport = request.transport
        return None if transport is None else self._open.get(transport)

    def middleware(self) -> Callable[..., Awaitable[web.StreamResponse]]:
        """Return a middleware that keeps a connection open while its request is answered."""

        @web.middleware
        async def answering(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            found = self._find(request)
            if found is None:
                return await handler(request)
            found.begin()
            try:
                return await handler(request)
            finally:
                found.end()

        return answering


CONNECTIONS = web.AppKey("connections", HttpConnections)


def admit(request: web.Request) -> None:
    """Record that a request was admitted; see `HttpConnections`."""
    request.app[CONNECTIONS].admit(request)


class _Connection(asyncio.Protocol):
    """A connection that passes all data to the library's protocol, and enforces deadlines."""

    def __init__(self, connections: HttpConnections, inner: asyncio.Protocol) -> None:
        self.address = ""
        self._connections = connections
        self._limits = connections.limits
        self._inner: asyncio.Protocol | None = inner
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self._waits_for_head = False
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Other event loops have transports that do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        peer: Sequence[object] | None = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        if not self._connections.has_room(self, transport) or self._inner is None:
            self._inner = None
            self.cut()
            return
        self._inner.connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            if not self._busy and not self._waits_for_head:
                self._wait_for_head()
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        self._unread = self._later(self._unread, self._limits.stalled)
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._unread = self._later(self._unread, None)
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline = self._later(self._deadline, None)
        self._unread = self._later(self._unread, None)
        if self._transport is not None:
            self._connections.forget(self, self._transport)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def begin(self) -> None:
        """Record that the head of a request is complete, and stop its deadline."""
        self._busy, self._waits_for_head = True, False
        self._deadline = self._later(self._deadline, None)

    def end(self) -> None:
        """Record that a request was answered, and start the deadline for the next one."""
        self._busy = False
        self._deadline = self._later(self._deadline, self._limits.stalled)

    def cut(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _wait_for_head(self) -> None:
        self._waits_for_head = True
        self._deadline = self._later(self._deadline, self._limits.head)

    def _later(
        self, before: asyncio.TimerHandle | None, seconds: float | None
    ) -> asyncio.TimerHandle | None:
        """Schedule closing the connection after `seconds`, replacing the earlier timer.

        `None` only cancels it.
        """
        if before is not None:
            before.cancel()
        return None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.cut)
