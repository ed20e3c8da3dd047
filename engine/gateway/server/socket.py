"""Sockets of a server: unauthenticated ones, which are limited in number, and admitted ones."""

from __future__ import annotations

import asyncio
from logging import LoggerAdapter
from typing import Any, cast

from websockets.asyncio.server import Server, ServerConnection
from websockets.protocol import State
from websockets.server import ServerProtocol

from ..protocol.tokens import Identity

AT_ONCE = 1 << 16
"""Maximum number of bytes that wait to be sent together with others."""


class Peers:
    """All sockets, by state."""

    def __init__(self, strangers: int) -> None:
        self.inside: dict[Peer, Identity] = {}
        self.strangers: dict[Peer, None] = {}
        self._limit = strangers

    def connection(self, protocol: ServerProtocol, server: Server, **options: Any) -> Peer:  # pyright: ignore[reportExplicitAny]
        """Create the object for a socket; the WebSocket library calls this factory."""
        return Peer(protocol, server, self, **options)

    def came(self, peer: Peer) -> None:
        """Add a socket; above the limit, cut the oldest unauthenticated one."""
        self.strangers[peer] = None
        if len(self.strangers) > self._limit:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.transport.abort()

    def cut_strangers(self) -> None:
        """Cut unauthenticated sockets, so that the closing server does not wait for them."""
        for each in list(self.strangers):
            each.transport.abort()


class Peer(ServerConnection):
    """One socket.

    Its members, and those that the library adds after connecting, are in slots. Sockets then share the
    names in their `__dict__`, because these are at most 30 and known before many sockets exist; this
    saves 1.3 kB per socket.
    """

    __slots__ = ("_parts", "_peers", "_unsent", "identity", "recv_messages", "transport")
    transport: asyncio.Transport

    def __init__(self, protocol: ServerProtocol, server: Server, peers: Peers, **options: Any) -> None:  # pyright: ignore[reportExplicitAny]
        super().__init__(protocol, server, **options)
        self.identity: Identity | None = None
        self._peers = peers
        self._unsent = 0
        # Marks a message that is sent in parts; websockets 15 and 16 name the attribute differently.
        has_public_name = hasattr(self, "send_in_progress")
        self._parts = "send_in_progress" if has_public_name else "fragmented_send_waiter"

    def say(self, frame: bytes) -> bool:
        """Send a text frame together with the others of this iteration of the event loop.

        Returns false if it would have to wait or the connection is closed: `send` then waits, or raises.
        """
        if self.protocol.state is not State.OPEN or self.paused or getattr(self, self._parts) is not None:
            return False
        self.protocol.send_text(frame)
        if not self._unsent:
            self.loop.call_soon(self._send_said)
        self._unsent += len(frame)
        if self._unsent > AT_ONCE:
            self.send_data()
            self._unsent = 1
        return True

    def _send_said(self) -> None:
        self._unsent = 0
        if not self.transport.is_closing():
            self.send_data()

    def send_data(self) -> None:
        """Send the ready frames in one write instead of one for each."""
        ready = self.protocol.writes
        if len(ready) > 1 and all(ready):
            self.protocol.writes = [b"".join(ready)]
        super().send_data()

    def forget_handshake(self) -> None:
        """Release the data of the handshake, which is most of an idle connection's memory."""
        if self.request is not None:
            self.request.headers.clear()
        self.response = None

    @property
    def address(self) -> str:
        """Remote address; the same for all clients of a Unix socket."""
        address = cast("tuple[object, ...] | str", self.remote_address)
        return str(address[0]) if isinstance(address, tuple) and address else "local"

    def let_in(self, identity: Identity) -> None:
        """Mark the socket as admitted."""
        self.identity = identity
        self._peers.strangers.pop(self, None)
        self._peers.inside[self] = identity

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._peers.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._peers.strangers.pop(self, None)
        self._peers.inside.pop(self, None)
        super().connection_lost(exc)
        self._let_go()

    def _let_go(self) -> None:
        """Break reference cycles, so that the socket is freed without garbage collection.

        Each client opens one for the proof of its server; several hundred of them would take 4 MB.
        """
        if isinstance(self.logger, LoggerAdapter):
            self.logger = self.protocol.logger = self.logger.logger
        self.protocol.parser.close()
