"""Sockets of a server: strangers, of whom there are few at a time, and those who were let in."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from websockets.asyncio.server import Server, ServerConnection
from websockets.protocol import State
from websockets.server import ServerProtocol

from ..protocol.tokens import Identity

AT_ONCE = 1 << 16
"""Bytes that wait at most for others to be sent together with them."""


class Peers:
    """Every socket there is, by what is known of it."""

    def __init__(self, strangers: int) -> None:
        self.inside: dict[Peer, Identity] = {}
        self.strangers: dict[Peer, None] = {}
        self._most = strangers

    def connection(self, protocol: ServerProtocol, server: Server, **options: Any) -> Peer:  # pyright: ignore[reportExplicitAny]
        """What the WebSocket library makes for every socket."""
        return Peer(protocol, server, self, **options)

    def came(self, peer: Peer) -> None:
        """One more; where there are too many, whoever has said nothing for longest is cut."""
        self.strangers[peer] = None
        if len(self.strangers) > self._most:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.transport.abort()

    def cut_strangers(self) -> None:
        """The server ends: it waits for nobody who has not said yet who it is."""
        for each in list(self.strangers):
            each.transport.abort()


class Peer(ServerConnection):
    """One socket."""

    def __init__(self, protocol: ServerProtocol, server: Server, peers: Peers, **options: Any) -> None:  # pyright: ignore[reportExplicitAny]
        super().__init__(protocol, server, **options)
        self.identity: Identity | None = None
        self._peers = peers
        self._unsent = 0

    def say(self, frame: bytes) -> bool:
        """Send a text frame together with what else is said in this turn of the loop.

        False where it would have to be waited for, or nothing can be sent any more: `send` does, or says.
        """
        if self.protocol.state is not State.OPEN or self.paused or self.send_in_progress is not None:
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
        """What is ready, in one write instead of one for each frame."""
        ready = self.protocol.writes
        if len(ready) > 1 and all(ready):
            self.protocol.writes = [b"".join(ready)]
        super().send_data()

    @property
    def address(self) -> str:
        """Where it comes from; all of a Unix socket's are one."""
        found = cast("tuple[object, ...] | str", self.remote_address)
        return str(found[0]) if isinstance(found, tuple) and found else "local"

    def let_in(self, identity: Identity) -> None:
        """It is no stranger any more."""
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
