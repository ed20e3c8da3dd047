"""The server: agents and consoles from elsewhere at one hub, over WebSocket."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response as HttpResponse

from ..gate.types import Mode
from ..history.events import JournalEvent, SessionStatus
from ..hub import Hub
from .address import Address
from .agent_desk import AgentDesk
from .agent_methods import AGENT_METHODS, ENDED, HELLO, Hello, SessionEnded, Welcome
from .agent_sessions import AgentSessions, RuleSets
from .connection import REVOKED, Connection, Desk
from .console_desk import ConsoleDesk, Starter
from .console_methods import CONSOLE_METHODS
from .guard import SUBPROTOCOL, Guard, Refused
from .limits import Failures, Limits
from .protocol import VERSION
from .tokens import Identity, TokenError, TokenFile
from .wire import Code, WireError, error_frame, problems, read_request, result_frame

GREETING = 10.0
"""Seconds for a client's first message."""
LOOK_AGAIN = 2.0
"""Seconds after which a connection whose token was revoked is ended at the latest."""

log = logging.getLogger(__name__)

_AGENTS = frozenset(method.name for method in AGENT_METHODS)
_CONSOLES = frozenset(method.name for method in CONSOLE_METHODS)


class Gateway:
    """See the module. `start`, then `close`; the hub is its owner's to close.

    `origins` are the pages that may connect from a browser, none by default; `hosts` are names under
    which it is reached, with port, besides its own address. Agents are judged by `rules` in `mode`;
    `starter` makes those that consoles start.
    """

    def __init__(
        self,
        hub: Hub,
        tokens: TokenFile,
        *,
        rules: RuleSets,
        mode: Mode = "enforce",
        agents_may_shadow: bool = False,
        limits: Limits | None = None,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        starter: Starter | None = None,
    ) -> None:
        self.hub = hub
        self._starter = starter
        self.limits = limits or Limits()
        self.tokens = tokens
        self.sessions = AgentSessions(hub, rules, self.limits, mode=mode, may_shadow=agents_may_shadow)
        self._guard = Guard(tokens, Failures(self.limits.failures), _lower(hosts), origins=origins)
        self._server: Server | None = None
        self._connections: dict[Connection, Identity] = {}
        # Those who were let in, until their connection stands.
        self._let_in: WeakKeyDictionary[ServerConnection, Identity] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self.address: Address | None = None

    async def start(self, address: Address, *, tls: ssl.SSLContext | None = None) -> Address:
        """Listen. The address, with the port that was chosen for 0.

        Raises `OSError` when it cannot be listened on, and `TokenError` when nobody could come in.
        """
        if not self.tokens.tokens():
            raise TokenError(f"{self.tokens.path}: there is no token, so nobody could connect")
        if address.path is not None:
            self._server = await self._listen_on_path(address.path, tls)
            names = {"localhost"}
        else:
            self._server = await serve(
                self._serve,
                address.host,
                address.port,
                process_request=self._let,
                subprotocols=[SUBPROTOCOL],
                compression=None,
                max_size=self.limits.frame,
                server_header=None,
                logger=log,
                ssl=tls,
            )
            port = self._server.sockets[0].getsockname()[1]
            address = replace(address, port=port)
            names = {f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", str(address).lower()}
        everywhere = address.path is None and address.host in ("0.0.0.0", "::")
        self._guard = replace(self._guard, hosts=self._guard.hosts | names, any_address=everywhere)
        self.address = address
        for run in (self._follow(), self._look_after()):
            self._tasks.add(asyncio.get_running_loop().create_task(run))
        return address

    async def close(self) -> None:
        """End every connection, and listen no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close(close_connections=True)
            await self._server.wait_closed()
            if self.address is not None and self.address.path is not None:
                self.address.path.unlink(missing_ok=True)

    async def _listen_on_path(self, path: Path, tls: ssl.SSLContext | None) -> Server:
        """A socket that only this user can open, from the moment it is there."""
        await asyncio.to_thread(_clear, path)
        old = os.umask(0o177)
        try:
            return await unix_serve(
                self._serve,
                str(path),
                process_request=self._let,
                subprotocols=[SUBPROTOCOL],
                compression=None,
                max_size=self.limits.frame,
                server_header=None,
                logger=log,
                ssl=tls,
            )
        finally:
            os.umask(old)

    # One connection

    def _let(self, peer: ServerConnection, request: HttpRequest) -> HttpResponse | None:
        """Look at who wants to come in, before anything is set up for it."""
        path = request.path.partition("?")[0]
        found = self._guard.check(path, request.headers, _address_of(peer))
        if isinstance(found, Identity):
            found = self._has_room(found)
        if isinstance(found, Refused):
            log.info("refused a connection to %s: %d", path, found.status)
            return peer.respond(found.status, found.why + "\n")
        self._let_in[peer] = found
        return None

    def _has_room(self, identity: Identity) -> Identity | Refused:
        same = sum(each.token == identity.token for each in self._connections.values())
        if len(self._connections) >= self.limits.connections or same >= self.limits.connections_per_token:
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections")
        return identity

    async def _serve(self, peer: ServerConnection) -> None:
        identity = self._let_in.pop(peer)
        others = _CONSOLES if identity.kind == "agent" else _AGENTS
        connection = Connection(peer, identity, self.limits, self.tokens, others)
        self._connections[connection] = identity
        try:
            if await self._greet(peer, identity):
                await connection.serve(self._desk(connection, identity))
        except ConnectionClosed:
            pass
        finally:
            del self._connections[connection]

    async def _greet(self, peer: ServerConnection, identity: Identity) -> bool:
        """The first message: both say what they speak. False when they have nothing in common."""
        request_id = None
        try:
            async with asyncio.timeout(GREETING):
                request = read_request(await peer.recv())
            request_id = request.id
            if request.method != HELLO or request_id is None:
                raise WireError(Code.REQUEST, f"the first message is '{HELLO}', with an id")
            hello = Hello.model_validate(request.params)
            if VERSION not in hello.versions:
                raise WireError(Code.VERSION, f"this server speaks version {VERSION} of the protocol")
        except TimeoutError:
            await peer.close(1008, "no greeting came")
            return False
        except (WireError, ValidationError) as error:
            if isinstance(error, ValidationError):
                error = WireError(Code.PARAMS, f"{HELLO}: {problems(error)}")
            await peer.send(error_frame(request_id, error), text=True)
            await peer.close(1002, "no common greeting")
            return False
        welcome = Welcome(
            version=VERSION,
            server=version("interlock"),
            kind=identity.kind,
            name=identity.name,
            frame=self.limits.frame,
        )
        await peer.send(result_frame(request_id, welcome), text=True)
        return True

    def _desk(self, connection: Connection, identity: Identity) -> Desk:
        if identity.kind == "operator":
            return ConsoleDesk(self.hub, connection, self.limits, self._starter)

        def tell(said: SessionEnded) -> None:
            task = asyncio.get_running_loop().create_task(_tell(connection, said))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

        return AgentDesk(self.sessions, identity, tell)

    # What goes on beside

    async def _follow(self) -> None:
        """Hear of sessions that others end."""
        subscription = self.hub.subscribe()
        try:
            async for event in subscription:
                match event:
                    case JournalEvent(session=session, body=SessionStatus(status="done", by=by)):
                        self.sessions.ended(session, f"ended by {by or 'the server'}")
                    case _:
                        pass
        finally:
            subscription.close()

    async def _look_after(self) -> None:
        """End what nobody may use or uses any more."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            for connection in [each for each in self._connections if not each.may_stay()]:
                with suppress(ConnectionClosed):
                    await connection.close(*REVOKED)
            await self.sessions.end_idle()


def _clear(path: Path) -> None:
    """Take away the socket of a server that died. Raises `OSError` where one answers."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        else:
            raise OSError(errno.EADDRINUSE, "another server listens there", str(path))


async def _tell(connection: Connection, said: SessionEnded) -> None:
    with suppress(ConnectionClosed):
        await connection.tell(ENDED, said)


def _address_of(peer: ServerConnection) -> str:
    """Where a peer comes from; all of a Unix socket's are one."""
    address = cast("tuple[object, ...] | str", peer.remote_address)
    return str(address[0]) if isinstance(address, tuple) and address else "local"


def _lower(names: Collection[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
