"""Connections of an HTTP listener, cut where a client is slow or there are too many.

A client is a stranger until a request of its is admitted. No stranger can hold a connection by sending
little, nor take the places of all others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from aiohttp import web

from ...engine.gateway.server.limits import Limits


class HttpConnections:
    """All connections of one listener. It makes the protocols of `server`'s, each within the limits."""

    def __init__(self, server: Callable[[], asyncio.Protocol], limits: Limits) -> None:
        self.limits = limits
        self._server = server
        self._open: dict[asyncio.BaseTransport, _Connection] = {}
        self._strangers: dict[_Connection, None] = {}
        self._of_address: Counter[str] = Counter()

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self, self._server())

    def has_room(self, connection: _Connection, transport: asyncio.BaseTransport) -> bool:
        """Count a connection that was made, whose address is known; false where it is to be cut.

        Above the limit of strangers the oldest is cut, above that of an address the new one.
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
        """Count a connection no more that was lost."""
        if self._open.pop(transport, None) is not None:
            self._know(connection)

    def admit(self, request: web.Request) -> None:
        """Note that a request was admitted: its connection is no stranger's any more."""
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
        """Has no connection cut while a request of it is answered."""

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
    """Note that a request was admitted; see `HttpConnections`."""
    request.app[CONNECTIONS].admit(request)


class _Connection(asyncio.Protocol):
    """A connection in front of the library's protocol, which is given all that comes."""

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
        # Faster loops have transports of their own, which are no subclasses.
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
        """Note that the head of a request is whole: it is answered now."""
        self._busy, self._waits_for_head = True, False
        self._deadline = self._later(self._deadline, None)

    def end(self) -> None:
        """Note that a request was answered: the next one may come for a while."""
        self._busy = False
        self._deadline = self._later(self._deadline, self._limits.stalled)

    def cut(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _wait_for_head(self) -> None:
        self._waits_for_head = True
        self._deadline = self._later(self._deadline, self._limits.head)

    def _later(
        self, before: asyncio.TimerHandle | None, seconds: float | None
    ) -> asyncio.TimerHandle | None:
        """Cut the connection after some seconds, in place of what was to come before."""
        if before is not None:
            before.cancel()
        return None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.cut)
