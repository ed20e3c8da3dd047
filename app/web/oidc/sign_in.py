"""Login at a provider from the login page: the code flow with PKCE, bound to the browser that began it.

The page's script begins it by POST, with the public key that it made, and leads the browser to the
provider. The provider leads it back by GET, the one request here that changes something without being
from our own page. So it counts only with a state that was given out once, and in the browser that has the
cookie of that state. That cookie is `Lax`, since browsers leave `Strict` ones out where another site
leads to a page, and it opens nothing but the answer of one login. The login's own cookie stays `Strict`,
and of no use without the key, which the browser that began it has.

What a login that has begun is about stands in its cookie, encrypted by a secret of this process. Nothing
of it is kept here, so that nobody who begins thousands ends the login of anybody else, from whatever
address: behind a proxy all have the same one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp_jinja2
from aiohttp import web
from aiohttp.web_routedef import AbstractRouteDef
from pydantic import BaseModel, ConfigDict

from ....engine.core.sanitize import visible
from ....engine.gateway.client.connection import GatewayError, NotAdmittedError
from ....engine.gateway.client.login import LoginExchange
from ....engine.gateway.oidc.client import FlowError, ProviderClient
from ....engine.gateway.oidc.provider import ProviderError
from ....engine.gateway.server.limits import Failures
from ..browser_key import check_key
from ..logins import Login, Logins, browser_name
from ..policy import ServerNames
from .seal import seal, unseal

CALLBACK = "/oidc/callback"
OPEN_TO_LOGGED_OUT = frozenset({"oidc-start", "oidc-callback"})
FLOW_LIFETIME = 600.0
"""Seconds in which a login at the provider has to come back."""
MAX_ANSWERED = 4096
"""Logins of which it is known that they came back; one more forgets the oldest.

Only the browser that has its cookie could bring one back once more, and the provider takes its code once.
"""
MAX_WRONG = 20
"""Answers a minute that belong to no login, before one is only told to wait."""
LOOK = 1.0
"""Seconds after which the token of a login that has ended is ended, too, at the latest."""
CHECK_AGAIN = 5.0
"""Seconds after which a login is ended here that was ended or revoked at the server, at the latest."""
READ_AGAIN = 300.0
"""Seconds after which role and groups are read again, where the provider lets that be done."""

log = logging.getLogger(__name__)


class _Start(BaseModel):
    """Message of the login page: the key that the browser made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str


class _Flow(BaseModel):
    """A login that is under way: what has to come back with it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nonce: str
    verifier: str
    redirect: str
    key: str
    ends: float


@dataclass(slots=True)
class _Refresh:
    """The refresh token of a login, and when it was used last."""

    token: str
    at: float


class _NoLoginError(Exception):
    """A login that failed: a status, and what the person reads."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class SignIn:
    """Logins at the provider of `client`, which `exchange` changes for tokens of the server of the
    sessions.

    `use` comes first: the names of the front, its logins, and the setter of a login's cookie.
    """

    def __init__(
        self, client: ProviderClient, exchange: LoginExchange, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._exchange = exchange
        self._clock = clock
        self._failures = Failures(MAX_WRONG)
        self._secret = secrets.token_urlsafe(32)
        # When each login's time is over, by its state.
        self._answered: dict[str, float] = {}
        self._refreshes: dict[str, _Refresh] = {}
        self._names: Callable[[], ServerNames] = lambda: ServerNames(())
        self._logins = Logins()
        self._set_cookie: Callable[[web.StreamResponse, str], None] = lambda response, cookie: None
        self._ended: Callable[[str], None] | None = None
        self._checked = 0.0
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def use(
        self,
        names: Callable[[], ServerNames],
        logins: Logins,
        set_cookie: Callable[[web.StreamResponse, str], None],
        ended: Callable[[str], None] | None = None,
    ) -> None:
        """Log in to this front; `ended` is called with each token whose login is over."""
        self._names, self._logins, self._set_cookie = names, logins, set_cookie
        self._ended = ended

    @property
    def issuer(self) -> str:
        """The provider, as the login page names it."""
        return self._client.provider.issuer.partition("://")[2].rstrip("/")

    def redirect(self, page: str) -> str:
        """The redirect URI of a front whose pages begin with `page`, as the provider has to know it."""
        return f"{page}{CALLBACK}"

    def routes(self) -> list[AbstractRouteDef]:
        """The routes, whose names are in `OPEN_TO_LOGGED_OUT`."""
        return [
            web.post("/oidc/start", self._start, name="oidc-start"),
            web.get(CALLBACK, self._callback, name="oidc-callback"),
        ]

    def token(self, login: Login) -> str | None:
        """The operator's token of a login; `None` for who came by a link."""
        return self._logins.token_of(login)

    def begin(self) -> None:
        """Look after logins from now on: read roles again, and end tokens of those that have ended."""
        # Apart from each other: a provider that does not answer keeps no token alive.
        self._tasks = tuple(asyncio.create_task(self._look_after(each)) for each in self._parts())

    async def close(self) -> None:
        """Look after them no more; logins go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # The flow

    async def _start(self, request: web.Request) -> web.StreamResponse:
        """The address of the provider, for a page that has made a key."""
        try:
            key = _Start.model_validate_json(await request.read()).key
            check_key(key)
        except ValueError:
            return web.Response(
                status=HTTPStatus.BAD_REQUEST, text="This page is from another version; reload it.\n"
            )
        state = secrets.token_urlsafe(32)
        flow = _Flow(
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            redirect=self.redirect(self._names().page(request.headers["Host"])),
            key=key,
            ends=self._clock() + FLOW_LIFETIME,
        )
        try:
            url = await self._client.authorization_url(
                flow.redirect, state=state, nonce=flow.nonce, verifier=flow.verifier
            )
        except ProviderError as error:
            log.warning("nobody can log in: %s", error)
            return web.Response(
                status=HTTPStatus.BAD_GATEWAY, text=f"Nobody can log in now: {visible(str(error))}\n"
            )
        cookie = seal(flow.model_dump_json(), self._secret, state).translate(_TO_COOKIE)
        response = web.json_response({"url": url})
        response.set_cookie(
            self._cookie_name,
            cookie,
            path="/oidc/",
            max_age=int(FLOW_LIFETIME),
            secure=self._names().secure,
            httponly=True,
            samesite="Lax",
        )
        return response

    async def _callback(self, request: web.Request) -> web.StreamResponse:
        """The page to which the provider leads the browser back."""
        try:
            cookie = await self._completed(request)
        except _NoLoginError as error:
            log.warning("a login failed: %s", error)
            response = aiohttp_jinja2.render_template(
                "login_failed.html", request, {"message": visible(str(error))}, status=error.status
            )
        else:
            response = aiohttp_jinja2.render_template("logged_in.html", request, {})
            self._set_cookie(response, cookie)
        response.del_cookie(
            self._cookie_name,
            path="/oidc/",
            secure=self._names().secure,
            httponly=True,
            samesite="Lax",
        )
        return response

    async def _completed(self, request: web.Request) -> str:
        """The cookie of a new login. Raises `_NoLoginError`."""
        flow, query = self._flow(request), request.query
        try:
            await self._client.check_issuer(query.get("iss"))
            if "code" not in query:
                said = visible(query.get("error_description") or query.get("error", "nothing"))
                raise FlowError(f"{self.issuer} did not log you in: {said[:200]}")
            tokens = await self._client.exchange(flow.redirect, query["code"], flow.verifier)
            if tokens.id_token is None:
                raise FlowError(f'{self.issuer} gave no ID token; is "openid" among the scopes?')
            opened = await self._exchange.open(tokens.id_token, flow.nonce)
        except (FlowError, NotAdmittedError) as error:
            raise _NoLoginError(HTTPStatus.FORBIDDEN, str(error)) from error
        except (ProviderError, GatewayError) as error:
            raise _NoLoginError(HTTPStatus.BAD_GATEWAY, str(error)) from error
        assert opened.token is not None
        browser = browser_name(request.headers.get("User-Agent", ""))
        cookie = self._logins.admit(flow.key, browser, opened.name, opened.token, opened.ends.timestamp())
        login = self._logins.find(cookie)
        if login is not None and tokens.refresh_token is not None:
            self._refreshes[login.id] = _Refresh(tokens.refresh_token, self._clock())
        return cookie

    def _flow(self, request: web.Request) -> _Flow:
        """The login that comes back, which counts once. Raises `_NoLoginError`."""
        now, address = self._clock(), request.remote or ""
        self._answered = {state: ends for state, ends in self._answered.items() if ends > now}
        state = request.query.get("state", "")
        flow = self._sealed(request.cookies.get(self._cookie_name, ""), state)
        here = self.redirect(self._names().page(request.headers["Host"]))
        known = flow is not None and _digest(state) not in self._answered
        if flow is None or not known or flow.ends <= now or flow.redirect != here:
            if self._failures.too_many(address):
                raise _NoLoginError(HTTPStatus.TOO_MANY_REQUESTS, "Too many wrong answers; wait a minute")
            self._failures.note(address)
            raise _NoLoginError(
                HTTPStatus.FORBIDDEN,
                "This answer belongs to no login of this browser: it was used before, is too old, or was "
                "begun elsewhere. Log in again",
            )
        self._answered[_digest(state)] = flow.ends
        while len(self._answered) > MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]
        return flow

    def _sealed(self, cookie: str, state: str) -> _Flow | None:
        """The login in a cookie; `None` for one of another state, and for what was not sealed here."""
        try:
            text = unseal(cookie.translate(_FROM_COOKIE), self._secret, state)
            return None if text is None else _Flow.model_validate_json(text)
        except ValueError:
            return None

    @property
    def _cookie_name(self) -> str:
        # Browsers send cookies to every port of a host: each server has one of its own.
        names = self._names()
        server = re.sub(r"[^a-z0-9]+", "-", names.hosts[0]) if names.hosts else ""
        return f"{'__Secure-' if names.secure else ''}interlock-oidc-{server}"

    # While logins last

    async def _look_after(self, part: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(LOOK)
            try:
                await part()
            except Exception:
                log.exception("Checking logins failed; it will be tried again")

    async def look(self) -> None:
        """Read roles again whose time it is, and end logins that are over on either side."""
        for part in self._parts():
            await part()

    def _parts(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        return self._end_tokens, self._check_again, self._read_roles

    async def _end_tokens(self) -> None:
        """End the tokens of logins that have ended here."""
        for login_id, token in self._logins.take_tokens().items():
            self._refreshes.pop(login_id, None)
            if self._ended is not None:
                self._ended(token)
            with suppress(GatewayError):  # The token ends by itself.
                await self._exchange.end(token)

    async def _check_again(self) -> None:
        """End the logins whose token was ended or revoked at the server: their pages close."""
        if self._clock() - self._checked < CHECK_AGAIN:
            return
        self._checked = self._clock()
        await asyncio.gather(*(self._check(*each) for each in self._logins.tokens().items()))

    async def _check(self, login_id: str, token: str) -> None:
        try:
            await self._exchange.check(token)
        except NotAdmittedError as error:
            log.warning("a login is over: %s", error)
            self._logins.end_login(login_id)
        except GatewayError:
            pass  # It is looked at again.

    async def _read_roles(self) -> None:
        due = [
            (login_id, each)
            for login_id, each in self._refreshes.items()
            if self._clock() - each.at >= READ_AGAIN
        ]
        for _, each in due:
            each.at = self._clock()
        await asyncio.gather(*(self._read_again(*each) for each in due))

    async def _read_again(self, login_id: str, refresh: _Refresh) -> None:
        token = self._logins.token_by_id(login_id)
        if token is None:
            return
        try:
            new = await self._client.refresh(refresh.token)
            refresh.token = new.refresh_token or refresh.token
            if new.id_token is not None:
                await self._exchange.renew(token, new.id_token)
            else:
                log.warning(
                    "%s gives no ID token for a refresh: role and groups of a login stay as they are",
                    self.issuer,
                )
        except (FlowError, NotAdmittedError) as error:
            log.warning("a login is over: %s", error)
            self._logins.end_login(login_id)
        except (ProviderError, GatewayError) as error:
            log.warning("a login goes on as it is until its end: %s", error)


_TO_COOKIE = str.maketrans("+/=", "-_.")
_FROM_COOKIE = str.maketrans("-_.", "+/=")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


__all__ = ["OPEN_TO_LOGGED_OUT", "SignIn"]
