"""WebSocket server for external agents and remote consoles of one hub."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response as HttpResponse

from ...core.sanitize import visible
from ...gate.types import Mode
from ...history.model.events import JournalEvent, SessionStatus
from ...hub.api import AgentStarter
from ...hub.hub import Hub
from ...hub.request_api import PREFIX as REQUESTS
from ..protocol import login_exchange, server_proof
from ..protocol.address import Address
from ..protocol.agent_methods import AGENT_METHODS, ENDED, HELLO, Hello, SessionEnded, Welcome
from ..protocol.console_methods import CONSOLE_METHODS
from ..protocol.framing import (
    VERSION,
    Code,
    WireError,
    error_frame,
    notice_frame,
    problems,
    read_request,
    result_frame,
)
from ..protocol.log import socket_log
from ..protocol.tokens import Identity, TokenError, TokenFile
from .admission import SUBPROTOCOL, Guard, Refused
from .agent_handlers import AgentHandlers
from .agent_sessions import AgentSessions
from .connection import Connection, InForce, RequestHandlers
from .console_handlers import ConsoleHandlers
from .event_feed import Frames
from .limits import Failures, Limits, TokenLoad
from .rule_sets import RuleSets
from .socket import Peer, Peers

if TYPE_CHECKING:
    from .login_requests import LoginRequests

GREETING = 10.0
"""Seconds for a client's first message, and for the handshake before it."""
HTTPS = 443
"""Port that clients leave out of the `Host` header."""
LOOK_AGAIN = 2.0
"""Seconds after which, at the latest, a connection is ended whose token was revoked or changed."""
ENDS = 1012, "the server shuts down; reconnect"
MOST_FRAMES = 8
"""Maximum number of frames of one connection that are read ahead."""

log = logging.getLogger(__name__)
_socket_log = socket_log(__name__)

_VERSION = version("interlock")
_AGENTS = frozenset(method.name for method in AGENT_METHODS)
_CONSOLES = frozenset(method.name for method in CONSOLE_METHODS)


class Gateway:
    """Server of a hub. Call `start`, then `close`; the hub stays open.

    `origins` are the pages that may connect from a browser, none by default. `hosts` are further names of
    the server, with port, in addition to its own address. Agents are judged by `rules` in `mode`;
    `starter` starts the agents that consoles request. `logins` answers operators who log in at a
    provider.
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
        starter: AgentStarter | None = None,
        logins: LoginRequests | None = None,
    ) -> None:
        self.hub = hub
        self._starter = starter
        self._logins = logins
        self.limits = limits or Limits()
        self.tokens = tokens
        self.sessions = AgentSessions(hub, rules, self.limits, mode=mode, may_shadow=agents_may_shadow)
        hub.abandoned = self.sessions.note_end
        self._guard = Guard(
            tokens,
            Failures(self.limits.failures),
            _lower(hosts),
            origins=origins,
            operators=lambda: hub.operators,
        )
        self._server: Server | None = None
        self._peers = Peers(self.limits.strangers)
        self._connections: dict[Connection, Peer] = {}
        self._usage: dict[str, TokenLoad] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self._frames = Frames()
        self._in_force = InForce(tokens, lambda: hub.operators)
        hub.know_tokens(self._in_force.counts, self._in_force.person, self._in_force.given_up)
        hub.bound_requests(self.limits.requests_per_token)
        self._socket_file: tuple[Path, int] | None = None
        self._last_end = 0.0
        self.address: Address | None = None

    def replace_rules(self, rules: RuleSets) -> None:
        """Judge the sessions that start from now on by other rules."""
        self.sessions.rules = rules

    def rules_of(self, session_id: str) -> Sequence[str] | None:
        """Named rule sets of an external agent's live session; `None` for any other session."""
        return self.sessions.rules_of(session_id)

    @property
    def connected(self) -> Mapping[str, int]:
        """Number of connections by the kind of their tokens."""
        kinds = [each.identity.kind for each in self._connections]
        return {kind: kinds.count(kind) for kind in ("agent", "operator")}

    @property
    def unused_since(self) -> float | None:
        """Time at which the last connection ended, by the loop's clock; `None` while any exists."""
        return None if self._connections else self._last_end

    async def start(
        self, address: Address, *, tls: ssl.SSLContext | None = None, names: Collection[str] = ()
    ) -> Address:
        """Start listening. Returns the address, with the chosen port in place of 0.

        `names` are those in the certificate: clients reach the server by them.
        Raises `OSError` if it cannot listen there, and `TokenError` if no token could be accepted.
        """
        if not self.tokens.tokens():
            raise TokenError(f"{self.tokens.path}: there is no token, so nobody could connect")
        if address.path is not None:
            bound = _bind(address.path)
            self._socket_file = address.path, address.path.stat().st_ino
            listening = unix_serve(self._serve, sock=bound, **self._options(tls))
        else:
            listening = serve(self._serve, address.host, address.port, **self._options(tls))
        self._server = await listening
        self._last_end = asyncio.get_running_loop().time()
        if address.path is None:
            address = replace(address, port=self._server.sockets[0].getsockname()[1])
        # Determined before anybody can connect: a client refused by mistake may not come again.
        everywhere = address.path is None and address.host in ("0.0.0.0", "::")
        hosts = self._guard.hosts | _names(address, self._server, alone=tls is not None or everywhere)
        hosts |= _lower(str(Address(each, address.port)) for each in names)
        if address.port == HTTPS:
            hosts |= _lower(names)
        self._guard = replace(self._guard, hosts=hosts, any_address=everywhere)
        self.address = address
        for run in (self._follow(), self._look_after(), self.hub.follow_outages()):
            self._tasks.add(asyncio.get_running_loop().create_task(run))
        await self._server.start_serving()
        return address

    def _options(self, tls: ssl.SSLContext | None) -> dict[str, Any]:
        return {
            "process_request": self._let,
            "create_connection": self._peers.connection,
            "open_timeout": GREETING,
            "subprotocols": [SUBPROTOCOL],
            "compression": None,
            "max_size": self.limits.frame,
            "max_queue": MOST_FRAMES,
            "server_header": None,
            "logger": _socket_log,
            "ssl": tls,
            "ssl_handshake_timeout": None if tls is None else GREETING,
            "start_serving": False,
        }

    async def close(self) -> None:
        """Stop listening and end every connection, so that clients reconnect later."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._connections):
            connection.end(*ENDS)
        self._peers.cut_strangers()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        self.sessions.stop()
        if self._socket_file is not None:
            path, inode = self._socket_file
            with suppress(OSError):
                if path.stat().st_ino == inode:
                    path.unlink()

    def call_back(self, session_id: str) -> None:
        """End the connections of an external agent's session, so that its client resumes it.

        The provider of the Agent Approval Protocol has no connection: it learns that its session ended.
        """
        if session_id.startswith(REQUESTS):
            self.sessions.note_end(session_id, ENDS[1])
            return
        owner = self.sessions.leave(session_id)
        for connection in list(self._connections):
            if connection.identity.kind == "agent" and connection.identity.name == owner:
                connection.end(*ENDS)

    # One connection

    def _let(
        self, peer: ServerConnection, request: HttpRequest
    ) -> Awaitable[HttpResponse] | HttpResponse | None:
        """Admit or refuse a client before anything is set up for it."""
        assert isinstance(peer, Peer)
        path = request.path.partition("?")[0]
        if path == server_proof.PATH:
            return self._prove(peer, request)
        if path in login_exchange.PATHS:
            return self._log_in(peer, path, request)
        admission = self._guard.check(path, request.headers, peer.address)
        if isinstance(admission, Identity):
            admission = self._has_room(admission)
        if isinstance(admission, Refused):
            log.info("refused a connection to %s: %d", visible(path[:100]), admission.status)
            return peer.respond(admission.status, admission.why + "\n")
        peer.let_in(admission)
        return None

    def _prove(self, peer: Peer, request: HttpRequest) -> HttpResponse:
        """Answer a client's request for proof that this server knows its token."""
        proof = self._guard.prove(request.headers, peer.address)
        if isinstance(proof, Refused):
            log.info("refused a proof: %d", proof.status)
            return peer.respond(proof.status, proof.why + "\n")
        return peer.respond(HTTPStatus.OK, proof + "\n")

    async def _log_in(self, peer: Peer, path: str, request: HttpRequest) -> HttpResponse:
        """Answer a request for a login, or about one."""
        from .login_requests import LoginRequests

        logins = self._logins or LoginRequests(None, None)
        answer = await logins.answer(self._guard, path, request.headers, peer.address)
        if isinstance(answer, Refused):
            response = peer.respond(answer.status, answer.why + "\n")
        else:
            response = peer.respond(HTTPStatus.OK, answer + "\n")
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = "application/json"
        response.headers["Cache-Control"] = "no-store"
        return response

    def _has_room(self, identity: Identity) -> Identity | Refused:
        inside = self._peers.inside
        same = sum(each.token == identity.token for each in inside.values())
        if len(inside) >= self.limits.connections or same >= self.limits.connections_per_token:
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections")
        return identity

    async def _serve(self, peer: ServerConnection) -> None:
        assert isinstance(peer, Peer)
        identity = peer.identity
        assert identity is not None
        peer.forget_handshake()
        others = _CONSOLES if identity.kind == "agent" else _AGENTS
        usage = self._usage.setdefault(identity.token, TokenLoad(self.limits))
        connection = Connection(
            peer, identity, self.limits, self._in_force, usage, self.hub.lease, others
        )
        self._connections[connection] = peer
        try:
            if await self._greet(peer, connection):
                await connection.serve(self._handlers(connection, identity))
        except ConnectionClosed:
            pass
        finally:
            del self._connections[connection]
            self._last_end = asyncio.get_running_loop().time()

    async def _greet(self, peer: ServerConnection, connection: Connection) -> bool:
        """Exchange the first messages, with protocol versions. Returns false without a common version."""
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
            if hello.read_only and connection.identity.kind == "agent":
                raise WireError(Code.PARAMS, f"{HELLO}: read_only: only a console can be read-only")
        except TimeoutError:
            await peer.close(1008, "no greeting came")
            return False
        except (WireError, ValidationError) as error:
            if isinstance(error, ValidationError):
                error = WireError(Code.PARAMS, f"{HELLO}: {problems(error)}")
            about = request_id if error.request_id is None else error.request_id
            await peer.send(error_frame(about, error), text=True)
            await peer.close(1002, "no common greeting")
            return False
        connection.read_only = hello.read_only
        welcome = Welcome(
            version=VERSION,
            server=_VERSION,
            kind=connection.identity.kind,
            name=connection.identity.name,
            frame=self.limits.frame,
            rights=connection.rights,
            groups=connection.identity.groups,
            page=None if connection.rights is None else self.hub.web_page,
            traces=connection.rights is None and self.hub.traces,
        )
        await peer.send(result_frame(request_id, welcome), text=True)
        return True

    def _handlers(self, connection: Connection, identity: Identity) -> RequestHandlers:
        if identity.kind == "operator":
            return ConsoleHandlers(self.hub, connection, self.limits, self._frames, self._starter)

        def tell(notice: SessionEnded) -> None:
            task = asyncio.get_running_loop().create_task(_tell(connection, notice))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

        return AgentHandlers(self.sessions, identity, tell)

    # Background tasks

    async def _follow(self) -> None:
        """Notify clients of sessions that others end."""
        subscription = self.hub.subscribe()
        try:
            async for event in subscription:
                match event:
                    case JournalEvent(session=session, seq=seq, body=SessionStatus(status="done", by=by)):
                        self.sessions.note_end(session, f"ended by {by or 'the server'}", event=seq)
                    case _:
                        pass
        finally:
            subscription.close()

    async def _look_after(self) -> None:
        """End connections that are no longer allowed, and sessions that are unused or without owner."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                await self._look()
            except Exception:
                log.exception("Checking connections and sessions failed; trying again")

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self._connections):
            connection.cut_if_stuck(now)
            connection.may_stay()
        with suppress(TokenError):
            tokens = self.tokens.tokens()
            for token_id in self._usage.keys() - {each.id for each in tokens}:
                del self._usage[token_id]
            await self.sessions.end_left({each.name for each in tokens if each.kind == "agent"})
        await self.sessions.end_idle()


def _names(address: Address, server: Server, *, alone: bool) -> frozenset[str]:
    """Names of the server at an address, as they occur in `Host`.

    Returns all names of this machine if no other program can answer to them: `alone` is true with a
    certificate or if the server listens on every address. Otherwise returns only the server's own
    addresses, because a program on another one could relay clients' requests.
    """
    if address.path is not None:
        return frozenset({"localhost"})
    port = address.port
    if not alone:
        return frozenset(str(Address(*each.getsockname()[:2])) for each in server.sockets)
    return frozenset({f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", str(address).lower()})


def _bind(path: Path) -> socket.socket:
    """Return a socket that only this user can open, from its creation on. Raises `OSError`."""
    _clear(path)
    bound = socket.socket(socket.AF_UNIX)
    # No await until the mask is restored: other files created in between would be private, too.
    old = os.umask(0o177)
    try:
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        os.umask(old)
    return bound


def _clear(path: Path) -> None:
    """Remove the socket of a server that died. Raises `OSError` if a server answers on it."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        else:
            raise OSError(errno.EADDRINUSE, "another server listens there", str(path))


async def _tell(connection: Connection, notice: SessionEnded) -> None:
    with suppress(ConnectionClosed):
        await connection.tell(notice_frame(ENDED.name, notice))


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
