"""The server in front of the console: without a login it gives access to nothing behind it.

textual-serve brings the terminal in the page and the way to talk to an app's process. Its own server
lets in everybody, so it is not used.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Literal, TypeAlias

import aiohttp_jinja2
import jinja2
import textual_serve
from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.web_protocol import RequestHandler
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ...engine.gateway.client.console import ConsoleClient
from ...engine.gateway.protocol.address import Address
from ...engine.gateway.server.limits import Bucket, Failures
from ..sources.deep_link import DeepLink
from .browser_key import check_key, is_signed, new_challenge
from .chat.decisions import OPEN_TO_CHAT, SlackDecisions
from .logins import LOGIN_LIFETIME, Login, Logins, browser_name, is_secret
from .oidc.consoles import OperatorConsoles, PhonesOfLogins
from .oidc.sign_in import OPEN_TO_LOGGED_OUT as OIDC_OPEN_TO_LOGGED_OUT
from .oidc.sign_in import SignIn
from .phone.pages import OPEN_TO_LOGGED_OUT, PAGES, PhonePages
from .policy import LOGIN, ServerNames, answer_headers, find_refusal, is_phone
from .tabs import Console, Tab, size_of

MAX_TABS = 16
"""Tabs at a time, of all browsers: each is a process."""
STARTS_PER_SECOND = 4.0
"""Consoles started a second."""
MAX_BODY_BYTES = 64 * 1024
"""Bytes of a login that are read; what is longer is none."""
MAX_MESSAGE_BYTES = 1 << 20
"""Bytes of one message of a tab."""
LOGIN_CHECK_INTERVAL = 1.0
"""Seconds after which a tab whose login has ended is closed at the latest."""
HEARTBEAT = 15.0
"""Seconds after which a browser is asked for a sign of life; half as many later its tab is closed."""
MAX_STRANGERS = 64
"""Connections that have not shown a login; for one more the oldest has to go."""
MAX_VISITORS = 256
"""Connections that have shown a login's cookie and not its key; for one more the oldest has to go."""
MAX_WRONG_LINKS = 20
"""Wrong links and keys a minute, before one is only told to wait."""
PROOF_TIMEOUT = 10.0
"""Seconds in which a tab has to show the key of its login."""
PROOF_LENGTH = 256
"""Bytes of the message that shows it."""
TLS_TIMEOUT = 10.0
"""Seconds in which a browser has to agree on TLS."""

LOCALHOST = ("127.0.0.1", "::1")
"""Addresses that the name `localhost` stands for."""

_HERE = Path(__file__).parent
_TERMINAL = Path(textual_serve.__file__).parent / "static"
_PUBLIC = frozenset(
    {"login", "redeem", "own", *OPEN_TO_LOGGED_OUT, *OIDC_OPEN_TO_LOGGED_OUT, *OPEN_TO_CHAT}
)
"""Routes for those who have not logged in: the page that asks for it, and what that is made of."""
_SOCKETS = frozenset({"ws", "deep-ws"})
_NONCE: web.RequestKey[str] = web.RequestKey("nonce", str)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Connections: TypeAlias = "dict[RequestHandler, None]"

log = logging.getLogger(__name__)

_PROOF: TypeAdapter[tuple[Literal["proof"], str]] = TypeAdapter(tuple[Literal["proof"], str])


USED = "This link was used before, or is too old. Press enter where `interlock web` runs for another.\n"
NO_LINK = (
    "This is not a login link. Paste all of the link that `interlock web` printed in its terminal, from "
    "http to its end; enter prints another there.\n"
)


class _Offer(BaseModel):
    """Message of the login page: the secret of a link, and the key that the browser made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    link: str
    key: str


class ConsoleServer:
    """Server of consoles in browser tabs. `start`, then `close`; `console` gives a tab's process.

    With `phone`, which gives a console of the hub, it also has the pages for phones. With `sign_in`
    people log in at a provider as well, and have the consoles of `operators`. With `chat` it takes clicks
    in a chat.
    """

    def __init__(
        self,
        console: Callable[[DeepLink], Console],
        *,
        logins: Logins | None = None,
        most_tabs: int = MAX_TABS,
        phone: Callable[[], ConsoleClient] | None = None,
        deny_reasons: Sequence[str] = (),
        sign_in: SignIn | None = None,
        operators: OperatorConsoles | None = None,
        chat: SlackDecisions | None = None,
    ) -> None:
        self.logins = logins or Logins()
        self._console = console
        self._most_tabs = most_tabs
        self._failures = Failures(MAX_WRONG_LINKS)
        self._sign_in = sign_in
        self._operators = operators
        self._chat = chat

        def pages(connect: Callable[[], ConsoleClient]) -> PhonePages:
            return PhonePages(connect, self.logins, self._failures, self._renew, deny_reasons)

        ended: Callable[[str], None] | None = None
        self._phone: PhonePages | PhonesOfLogins | None = None
        if phone is not None and sign_in is not None and operators is not None:
            self._phone = of_logins = PhonesOfLogins(pages, phone, operators.client, sign_in.token)
            ended = of_logins.forget
        elif phone is not None:
            self._phone = pages(phone)
        if sign_in is not None:
            sign_in.use(lambda: self._names, self.logins, self._set_cookie, ended)
        self._starts = Bucket(STARTS_PER_SECOND)
        self._tabs: dict[web.WebSocketResponse, Login] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._strangers: _Connections = {}
        self._visitors: _Connections = {}
        self._names = ServerNames(())
        self._listens_at = ("", 0)
        self._cookie = ""
        self._runner: web.AppRunner | None = None
        self._listeners: list[asyncio.Server] = []
        self._login_check: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Address at which the server is reached."""
        return self._names.url

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, certified: Collection[str] = ()
    ) -> str:
        """Listen, with a port of the system's choice for 0; returns the URL. Raises `OSError`.

        `certified` are the names that the certificate of `tls` is for. Raises `ValueError` without TLS
        outside of loopback: cookies, and what is typed, could be read on the way. The name `localhost`,
        without which browsers make no passkeys there, stands for two addresses: both are taken.
        """
        if tls is None and not Address(host).is_local:
            raise ValueError(f"expected TLS, or an address of this machine only; found {host}")
        self._runner = web.AppRunner(
            self._application(), handle_signals=False, access_log=None, shutdown_timeout=1.0
        )
        await self._runner.setup()
        server = self._count_strangers(self._runner)
        try:
            for address in LOCALHOST if host == "localhost" else (host,):
                port = await self._listen(server, address, port, tls)
        except OSError:
            await self.close()
            raise
        self._listens_at = (host, port)
        self._names = ServerNames.at(host, port, secure=tls is not None, certified=certified)
        # Browsers send cookies to every port of a host: each server has one of its own. With this prefix
        # no page without TLS can set it.
        self._cookie = f"__Host-interlock-{port}" if tls is not None else f"interlock-{port}"
        self._login_check = asyncio.get_running_loop().create_task(self._check_logins())
        if self._sign_in is not None:
            self._sign_in.begin()
        return self.url

    async def _listen(self, server: web.Server, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen at one address; returns the port. Raises `OSError`."""
        try:
            listener = await asyncio.get_running_loop().create_server(
                server,
                host,
                port,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else TLS_TIMEOUT,
            )
        except OSError as error:
            # Where this machine has no IPv6 nobody else listens at that address, either.
            if self._listeners and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                return port
            raise
        self._listeners.append(listener)
        return listener.sockets[0].getsockname()[1]

    def certify(self, names: Collection[str]) -> None:
        """Be reached by the names of the certificate that is shown from now on."""
        self._names = ServerNames.at(*self._listens_at, secure=True, certified=names)

    def _count_strangers(self, runner: web.AppRunner) -> web.Server:
        """Track connections without a login, at most `MAX_STRANGERS`: a new one closes the oldest."""
        server = runner.server
        assert server is not None
        on_made, on_lost = server.connection_made, server.connection_lost

        def connected(handler: RequestHandler, transport: asyncio.Transport) -> None:
            on_made(handler, transport)
            _count_connection(handler, self._strangers, MAX_STRANGERS)

        def disconnected(handler: RequestHandler, exc: BaseException | None = None) -> None:
            self._strangers.pop(handler, None)
            self._visitors.pop(handler, None)
            on_lost(handler, exc)

        server.connection_made = connected
        server.connection_lost = disconnected
        return server

    async def close(self) -> None:
        """End every tab and its process, and listen no more."""
        if self._login_check is not None:
            self._login_check.cancel()
        for listener in self._listeners:
            listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._phone is not None:
            await self._phone.close()
        if self._sign_in is not None:
            await self._sign_in.close()
        if self._chat is not None:
            await self._chat.close()

    def link(self) -> str:
        """A link that logs one browser in, once. The part after the # is in no request."""
        return f"{self.url}/login#{self.logins.link()}"

    def phone_link(self, link: str) -> str:
        """The same link, of the same secret, to the page for phones."""
        return link.replace("/login#", "/m/login#", 1)

    @property
    def tabs(self) -> int:
        """Number of open tabs."""
        return len(self._tabs)

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=MAX_BODY_BYTES)
        pages = aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(_HERE / "templates"))
        pages.globals["issuer"] = None if self._sign_in is None else self._sign_in.issuer  # type: ignore[assignment]
        app.add_routes(
            [
                web.get("/", self._page, name="queue"),
                web.get("/console", self._page, name="console"),
                web.get("/{kind:[sa]}/{name}", self._page, name="deep"),
                web.get("/ws/", self._terminal, name="ws"),
                web.get("/ws/{kind:[sa]}/{name}", self._terminal, name="deep-ws"),
                web.get("/login", self._login_page, name="login"),
                web.post("/login", self._redeem, name="redeem"),
                web.get("/login/state", self._state, name="state"),
                web.get("/logout", self._logout_page, name="logout"),
                web.post("/logout", self._logout, name="end"),
                web.static("/terminal", _TERMINAL, name="terminal"),
                web.static("/static", _HERE / "static", name="own"),
            ]
        )
        if self._phone is not None:
            app.add_routes(self._phone.routes())
        if self._sign_in is not None:
            app.add_routes(self._sign_in.routes())
        if self._chat is not None:
            app.add_routes(self._chat.routes())
        app.on_response_prepare.append(self._seal)
        app.on_shutdown.append(self._end_tabs)
        return app

    # Who may come in

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Look at every request before anything is done for it."""
        name = request.match_info.route.name or ""
        acts = request.method not in ("GET", "HEAD") or name in _SOCKETS
        # A chat's server is no page: what it sends is signed.
        own_page = acts and name not in OPEN_TO_CHAT
        status = find_refusal(request.headers, self._names, same_origin=own_page)
        if status is not None:
            return web.Response(status=status, text=f"{status.phrase}: open {self.url}\n")
        login = self.logins.find(request.cookies.get(self._cookie, ""))
        if login is not None and login.operator and self._sign_in is None:
            login = None  # No provider vouches for it any more.
        if login is not None:
            request[LOGIN] = login
            if self._phone is not None and self._phone.proves(request):
                self._strangers.pop(request.protocol, None)
                self._visitors.pop(request.protocol, None)
            elif name not in _SOCKETS:  # One of these shows its key first.
                self._strangers.pop(request.protocol, None)
                _count_connection(request.protocol, self._visitors, MAX_VISITORS)
        elif name not in _PUBLIC:
            if name in ("queue", "console", "deep") or name in PAGES:
                return aiohttp_jinja2.render_template(
                    "login.html", request, {}, status=HTTPStatus.UNAUTHORIZED
                )
            return web.Response(status=HTTPStatus.UNAUTHORIZED, text="Log in first\n")
        return await handler(request)

    async def _seal(self, request: web.Request, response: web.StreamResponse) -> None:
        host = request.headers.get("Host", "")
        sockets = self._names.socket(host if self._names.includes(host) else "localhost")
        response.headers.update(answer_headers(sockets, request.get(_NONCE)))

    # Logging in and out

    async def _login_page(self, request: web.Request) -> web.StreamResponse:
        return aiohttp_jinja2.render_template("login.html", request, {})

    async def _redeem(self, request: web.Request) -> web.StreamResponse:
        """A cookie for the secret of a link."""
        address = request.remote or ""
        try:
            offer = _Offer.model_validate_json(await request.read())
            check_key(offer.key)
        except ValueError:
            return web.Response(
                status=HTTPStatus.BAD_REQUEST, text="This page is from another version; reload it.\n"
            )
        browser = browser_name(request.headers.get("User-Agent", ""))
        cookie = self.logins.redeem(offer.link, offer.key, browser)
        if cookie is None:
            if self._failures.too_many(address):
                return web.Response(
                    status=HTTPStatus.TOO_MANY_REQUESTS, text="Too many wrong links; wait a minute.\n"
                )
            self._failures.note(address)
            return web.Response(
                status=HTTPStatus.FORBIDDEN,
                text=USED if is_secret(offer.link) else NO_LINK,
            )
        response = web.Response(status=HTTPStatus.NO_CONTENT)
        self._set_cookie(response, cookie)
        return response

    def _set_cookie(self, response: web.StreamResponse, cookie: str) -> None:
        response.set_cookie(
            self._cookie,
            cookie,
            path="/",
            max_age=int(LOGIN_LIFETIME),
            secure=self._names.secure,
            httponly=True,
            samesite="Strict",
        )

    def _renew(self, request: web.Request, response: web.StreamResponse) -> None:
        """Give a login that has shown its key another cookie, where it is time."""
        cookie = self.logins.renew(request.cookies.get(self._cookie, ""))
        if cookie is not None:
            self._set_cookie(response, cookie)

    async def _state(self, request: web.Request) -> web.StreamResponse:
        """Confirm a login to the login page, which a link from another site opens without the cookie."""
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _logout_page(self, request: web.Request) -> web.StreamResponse:
        return aiohttp_jinja2.render_template("logout.html", request, {})

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        self.logins.end(request.cookies.get(self._cookie, ""))
        response = web.Response(status=HTTPStatus.NO_CONTENT)
        response.del_cookie(
            self._cookie, path="/", secure=self._names.secure, httponly=True, samesite="Strict"
        )
        await self._close_logged_out_tabs()
        return response

    # The console

    async def _page(self, request: web.Request) -> web.StreamResponse:
        """The page with the terminal. Anything after a ? would be options of the terminal's script."""
        if request.query_string:
            raise web.HTTPSeeOther(request.path)
        link = _deep_link(request)
        name = request.match_info.route.name
        # A terminal is of no use on a phone's screen; the page for phones leads to it all the same.
        has_page = self._phone is not None and name != "console" and link.session is None
        if has_page and is_phone(request.headers):
            raise web.HTTPSeeOther(f"/m{request.path}")
        nonce = request[_NONCE] = secrets.token_urlsafe(16)
        path = "/" if name == "console" else request.path
        socket = f"{self._names.socket(request.headers['Host'])}/ws{path}"
        return aiohttp_jinja2.render_template("console.html", request, {"socket": socket, "nonce": nonce})

    async def _terminal(self, request: web.Request) -> web.StreamResponse:
        """One tab, until it is closed, its console ends, or its login does."""
        link = _deep_link(request)
        size = size_of(request.query.get("width", ""), request.query.get("height", ""))
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT, max_msg_size=MAX_MESSAGE_BYTES)
        await socket.prepare(request)
        refusal = await self._refusal(request, socket)
        if refusal is not None:
            await socket.close(code=refusal)
            return socket
        self._strangers.pop(request.protocol, None)
        self._visitors.pop(request.protocol, None)
        if len(self._tabs) >= self._most_tabs:
            most = f"{len(self._tabs)} tabs are open, the maximum. This one opens when one is closed."
            await socket.close(code=WSCloseCode.TRY_AGAIN_LATER, message=most.encode())
            return socket
        self._tabs[socket] = request[LOGIN]
        self._empty.clear()
        try:
            await asyncio.sleep(self._starts.take())
            await self._run(Tab(self._process(link, request[LOGIN]), socket), size)
        finally:
            del self._tabs[socket]
            if not self._tabs:
                self._empty.set()
        return socket

    def _process(self, link: DeepLink, login: Login) -> Console:
        """The process of a tab: of the operator who logged in at the provider, or the front's own."""
        if not login.operator:
            return self._console(link)
        token = None if self._sign_in is None else self._sign_in.token(login)
        if token is None or self._operators is None:
            raise web.HTTPUnauthorized  # Never with more than is theirs.
        return self._operators.process(link, token)

    async def _refusal(self, request: web.Request, socket: web.WebSocketResponse) -> WSCloseCode | None:
        """Close code for a tab whose first message does not prove its login's key; `None` if it does.

        Before that the tab is sent nothing but the challenge to sign.
        """
        challenge = new_challenge()
        try:
            async with asyncio.timeout(PROOF_TIMEOUT):
                await socket.send_json(["challenge", challenge])
                message = await socket.receive()
        except (TimeoutError, ConnectionError):
            return WSCloseCode.TRY_AGAIN_LATER
        if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            return WSCloseCode.TRY_AGAIN_LATER
        login, origin, address = request[LOGIN], request.headers["Origin"], request.remote or ""
        signature = _signature(message.data) if message.type is WSMsgType.TEXT else None
        if signature is not None and is_signed(login.key, origin, challenge, signature):
            return None if self.logins.holds(login) else WSCloseCode.POLICY_VIOLATION
        if not self._failures.too_many(address):
            log.warning(
                "%s showed the cookie of a login without its key: another program of this host may have "
                "the cookie, which opens nothing by itself",
                address,
            )
        self._failures.note(address)
        return WSCloseCode.POLICY_VIOLATION

    async def _run(self, tab: Tab, size: tuple[int, int]) -> None:
        try:
            await tab.start(*size)
            await tab.receive()
        finally:
            # Whatever ends this handler, the process ends too.
            await asyncio.shield(asyncio.ensure_future(tab.stop()))

    async def _check_logins(self) -> None:
        while True:
            await asyncio.sleep(LOGIN_CHECK_INTERVAL)
            await self._close_logged_out_tabs()

    async def _close_logged_out_tabs(self) -> None:
        """Close the tabs whose login has ended."""
        over = [socket for socket, login in self._tabs.items() if not self.logins.holds(login)]
        await asyncio.gather(*(socket.close(code=WSCloseCode.POLICY_VIOLATION) for socket in over))

    async def _end_tabs(self, app: web.Application) -> None:
        if self._phone is not None:
            await self._phone.end_streams()
        await asyncio.gather(*(socket.close(code=WSCloseCode.GOING_AWAY) for socket in list(self._tabs)))
        await self._empty.wait()


def _count_connection(handler: RequestHandler, to: _Connections, most: int) -> None:
    """Count a connection as the latest of its kind; the oldest of too many is cut."""
    to.pop(handler, None)
    to[handler] = None
    if len(to) > most:
        oldest = next(iter(to))
        del to[oldest]
        if isinstance(oldest.transport, asyncio.Transport):
            oldest.transport.abort()


def _signature(text: str) -> str | None:
    """The signature in a tab's first message, if it is one."""
    if len(text) > PROOF_LENGTH:
        return None
    try:
        return _PROOF.validate_json(text)[1]
    except ValidationError:
        return None


def _deep_link(request: web.Request) -> DeepLink:
    """Deep link of a request's path. Raises `HTTPNotFound`."""
    kind, name = request.match_info.get("kind"), request.match_info.get("name")
    if kind is None or name is None:
        return DeepLink()
    try:
        return DeepLink.of(kind, name)
    except ValueError as error:
        raise web.HTTPNotFound from error
