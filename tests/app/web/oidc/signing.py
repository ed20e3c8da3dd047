"""A front with its own server whose operators log in at a provider, and programs that do so."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientResponse, ClientSession, CookieJar

from interlock.app.sources.deep_link import DeepLink
from interlock.app.web.environment import tab_environment
from interlock.app.web.logins import LoginFile, Logins
from interlock.app.web.oidc.consoles import OperatorConsoles
from interlock.app.web.oidc.sign_in import SignIn
from interlock.app.web.server import ConsoleServer
from interlock.app.web.tabs import Console
from interlock.engine.core.approvers import Operators
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.client.login import LoginExchange
from interlock.engine.gateway.oidc.client import ProviderClient
from interlock.engine.gateway.oidc.login_terms import LoginTerms
from interlock.engine.gateway.oidc.logins import OperatorLogins
from interlock.engine.gateway.oidc.provider import Provider
from interlock.engine.gateway.protocol.login_exchange import LoginOffer
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.login_requests import LoginRequests
from tests.engine.gateway.served import Served, served
from tests.support.oidc_provider import CLIENT, DEVICE_CLIENT, OidcProvider, person, provided

from ..fronts import KEY, SMALL_APP, shown, small_app

SCOPES = ("openid", "profile")
ROLES = {"administer": ("sre",), "decide": ("dev",), "look": ("staff",)}
GROUPS = {"security": ("sec-team",)}


def login_requests(provider: OidcProvider, tokens: TokenFile, operators: Operators) -> LoginRequests:
    """Return the login requests of a server whose operators log in at a provider."""
    terms = LoginTerms(provider.issuer, (CLIENT, DEVICE_CLIENT), roles=ROLES, groups=GROUPS)
    logins = OperatorLogins(terms, tokens, lambda: operators)
    return LoginRequests(
        logins, LoginOffer(issuer=provider.issuer, client_id=DEVICE_CLIENT, scopes=SCOPES)
    )


@asynccontextmanager
async def offering(
    directory: Path, provider: OidcProvider, **options: object
) -> AsyncGenerator[Served, None]:
    """A server whose operators log in at a provider."""
    known = Operators(issuer=provider.issuer)
    requests = login_requests(provider, TokenFile(directory / "tokens.json"), known)
    async with served(directory, logins=requests, **options) as server:  # type: ignore[arg-type]
        server.hub.know_operators(known)
        yield server


@dataclass
class Front:
    """A front with its server and its provider; `tokens` holds the tokens that tabs were started with."""

    provider: OidcProvider
    server: Served
    front: ConsoleServer
    sign_in: SignIn
    tokens: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.front.url

    @asynccontextmanager
    async def program(self) -> AsyncGenerator[ClientSession, None]:
        """A program with its own cookie jar."""
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
            yield session

    async def start(self, session: ClientSession) -> str:
        """Begin a login as the page does; return the provider's address."""
        async with session.post(
            f"{self.url}/oidc/start", json={"key": shown(KEY)}, headers={"Origin": self.url}
        ) as answer:
            assert answer.status == 200, await answer.text()
            return str(json.loads(await answer.text())["url"])

    async def answer(self, session: ClientSession, url: str) -> str:
        """Return the address to which the provider redirects."""
        async with session.get(url, allow_redirects=False) as answer:
            return answer.headers["Location"]

    async def log_in(self, session: ClientSession) -> ClientResponse:
        """Log in as a browser does."""
        return await self.follow(session, await self.answer(session, await self.start(session)))

    async def follow(self, session: ClientSession, location: str) -> ClientResponse:
        """Follow the provider's redirect."""
        async with session.get(location) as answer:
            await answer.read()
            return answer

    async def is_in(self, session: ClientSession) -> bool:
        """Tell whether the front knows the login of a program."""
        async with session.get(f"{self.url}/login/state") as answer:
            return answer.status == 204


@asynccontextmanager
async def front_of(
    server: Served, provider: OidcProvider, *, file: Path | None = None, port: int = 0, real: bool = False
) -> AsyncGenerator[Front, None]:
    """A front of a server; with `real` its tabs run real consoles."""
    client = ProviderClient(Provider(provider.issuer), CLIENT, SCOPES, provider.secret)
    sign_in = SignIn(client, LoginExchange(server.url, server.ada))
    tokens: list[str] = []

    def process(link: DeepLink, token: str) -> Console:
        tokens.append(token)
        line = [sys.executable, "-P", str(SMALL_APP), *link.options]
        if real:
            line = [sys.executable, "-P", "-m", "interlock.app.cli", "console", "--connect", server.url]
        return Console(line, tab_environment(token))

    front = ConsoleServer(
        small_app,
        logins=Logins(file=None if file is None else LoginFile(file, "served")),
        phone=lambda: ConsoleClient(server.url, server.ada),
        sign_in=sign_in,
        operators=OperatorConsoles(process, lambda token: ConsoleClient(server.url, token)),
    )
    await front.start("127.0.0.1", port)
    try:
        yield Front(provider, server, front, sign_in, tokens)
    finally:
        await front.close()


@asynccontextmanager
async def signing(directory: Path, **options: object) -> AsyncGenerator[Front, None]:
    """A provider, a server and a front."""
    async with (
        provided() as provider,
        offering(directory, provider) as server,
        front_of(server, provider, **options) as front,  # type: ignore[arg-type]
    ):
        provider.person = person("maria", "dev")
        yield front
