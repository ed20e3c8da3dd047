"""Logins at MCP servers over HTTP that require OAuth: made once, in a browser, and then reused.

`interlock mcp login` logs in with the flow of the MCP SDK, which checks issuer, state and resource and
uses PKCE. Each server's login is stored in a file that only its owner may read. The proxy sends the
login's token and renews it. If it cannot, it prompts nobody, because its stdin and stdout carry the
protocol.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import parse_qs, urlsplit

import httpx2
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, field_serializer

from ...core.sanitize import visible
from ..protocol.address import is_loopback_url, is_safe
from ..protocol.token_paths import config_directory
from ..protocol.tokens import TokenError, alone, read_private, write_private

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

LOGIN_TIME: Final = 600.0
"""Seconds in which a person must log in."""
REQUEST_TIME: Final = 30.0
EARLY: Final = 30.0
"""Seconds before a token's expiry from which it is renewed."""
MOST_HEAD: Final = 16_384
"""Maximum size of a browser's request, in bytes."""
_CALLBACK: Final = "/callback"
_PAGE: Final = "<!doctype html><meta charset=utf-8><title>Interlock</title><p>{}</p>"
_VERSION: Final = "2025-06-18"


class McpLoginError(Exception):
    """A login that failed or is unusable; the text has the reason and the remedy."""


class McpLogin(BaseModel):
    """A login at the MCP server `url`: its tokens, and the data to renew and revoke them.

    `expires` is in seconds since 1970; `resource` is the server as the tokens name it (RFC 8707).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    issuer: str | None = None
    token_endpoint: str
    revocation_endpoint: str | None = None
    resource: str
    client_id: str
    client_secret: SecretStr | None = None
    auth_method: str | None = None
    access_token: SecretStr
    refresh_token: SecretStr | None = None
    scope: str | None = None
    expires: float | None = None

    @field_serializer("access_token", "refresh_token", "client_secret", when_used="json")
    def _secret_text(self, value: SecretStr | None) -> str | None:
        return None if value is None else value.get_secret_value()

    def needs_renewal(self, now: float) -> bool:
        """Return whether the token has expired, or is about to."""
        return self.expires is not None and now >= self.expires - EARLY


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A client registered at the authorization server, for servers without dynamic registration.

    `port` is the port of its redirection, `http://127.0.0.1:PORT/callback`; 0 means any free port.
    """

    id: str
    secret: SecretStr | None = None
    port: int = 0


def login_command(url: str) -> str:
    """Return the command that logs in at a server."""
    return f"interlock mcp login {url}"


class LoginFile:
    """File of one server's login, in this user's configuration directory."""

    def __init__(self, url: str, directory: Path | None = None) -> None:
        from mcp.shared.auth_utils import resource_url_from_server_url

        self.url = resource_url_from_server_url(url)
        name = f"mcp-login-{hashlib.sha256(self.url.encode()).hexdigest()[:32]}.json"
        self.path = (directory or config_directory()) / name

    def read(self) -> McpLogin | None:
        """Return the login; `None` if there is none. Raises `TokenError`."""
        try:
            login = McpLogin.model_validate_json(read_private(self.path))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            # Without the values, which are secrets.
            raise TokenError(
                f"{self.path}: is not a login at an MCP server; run: {login_command(self.url)}"
            ) from error
        if login.url != self.url or not is_safe(login.token_endpoint):
            raise TokenError(f"{self.path}: is a login at another server; run: {login_command(self.url)}")
        return login

    def write(self, login: McpLogin) -> None:
        """Replace the login. Raises `TokenError`."""
        write_private(self.path, login.model_dump_json(indent=2) + "\n")

    def forget(self) -> McpLogin | None:
        """Remove the login and return it. Raises `TokenError`."""
        with alone(self.path):
            try:
                login = self.read()
            except TokenError:
                login = None
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                raise TokenError(f"{self.path}: cannot be removed: {error.strerror}") from error
            return login


# Using a login


class StoredLogin(httpx2.Auth):
    """Sends a login's token to its server, and renews the token if it has expired or is refused.

    Of several processes that share a login, one renews it, and the others read the result.
    """

    def __init__(
        self,
        file: LoginFile,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = file
        self._report = report
        self._clock = clock
        self._origin = _origin(file.url)
        # Only one task waits for other processes, in a thread, because renewal needs threads, too.
        self._renewing = asyncio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        login = self._stored_login()
        if login is None or _origin(str(request.url)) != self._origin:
            yield request
            return
        has_expired = login.needs_renewal(self._clock())
        refused_token: SecretStr | None = None
        for last in (False, True):
            if refused_token is not None or has_expired:
                async with self._renewing, _locked(self._file.path):
                    # Another process may have renewed the login or logged out in the meantime.
                    stored_login = self._stored_login()
                    login = stored_login or login
                    stale = login.access_token == refused_token or login.needs_renewal(self._clock())
                    if stored_login is not None and stale and login.refresh_token is not None:
                        login = await self._renew(login, (yield renewal_request(login)))
            # Sent even if renewal failed: then the server's answer to this request says so.
            request.headers["Authorization"] = f"Bearer {login.access_token.get_secret_value()}"
            response = yield request
            if response.status_code != HTTPStatus.UNAUTHORIZED or has_expired or last:
                return
            refused_token = login.access_token

    def _stored_login(self) -> McpLogin | None:
        try:
            return self._file.read()
        except TokenError as error:
            self._report(str(error))
            return None

    async def _renew(self, login: McpLogin, answer: httpx2.Response) -> McpLogin:
        """Return the login with the tokens of an answer, or the old login if there are none."""
        from mcp.shared.auth import OAuthToken

        try:
            tokens = OAuthToken.model_validate_json(await answer.aread())
        except ValidationError:
            tokens = None
        # A token that no header can hold would appear in the request's error, which a model may read.
        if tokens is None or not re.fullmatch(r"[\x21-\x7e]+", tokens.access_token):
            self._report(f"the login at {login.url} could not be renewed ({answer.status_code})")
            return login
        fresh = with_tokens(login, tokens, self._clock())
        try:
            self._file.write(fresh)
        except TokenError as error:
            self._report(f"the renewed login could not be stored: {error}")
        return fresh


class _locked:  # noqa: N801 - used like a function
    """Lock a login against other processes without blocking the loop."""

    def __init__(self, path: Path) -> None:
        self._lock = alone(path)

    async def __aenter__(self) -> None:
        await asyncio.to_thread(self._lock.__enter__)

    async def __aexit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)


def with_tokens(login: McpLogin, tokens: OAuthToken, now: float) -> McpLogin:
    """Return a login with new tokens; if there is no new refresh token, the old one stays valid."""
    return login.model_copy(
        update={
            "access_token": SecretStr(tokens.access_token),
            "refresh_token": SecretStr(tokens.refresh_token)
            if tokens.refresh_token
            else login.refresh_token,
            "scope": tokens.scope or login.scope,
            "expires": None if tokens.expires_in is None else now + tokens.expires_in,
        }
    )


def renewal_request(login: McpLogin) -> httpx2.Request:
    """Return the request for a new token."""
    assert login.refresh_token is not None
    data = {"grant_type": "refresh_token", "refresh_token": login.refresh_token.get_secret_value()}
    return _client_request(login, login.token_endpoint, {**data, "resource": login.resource})


def _client_request(login: McpLogin, endpoint: str, data: dict[str, str]) -> httpx2.Request:
    """Return a request of the login's client at its authorization server, authenticated as registered."""
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

    secret = login.client_secret
    client = OAuthClientInformationFull(
        client_id=login.client_id,
        client_secret=None if secret is None else secret.get_secret_value(),
        token_endpoint_auth_method=login.auth_method,
        redirect_uris=None,
    )
    metadata = OAuthClientMetadata.model_construct(redirect_uris=None)
    context = OAuthContext(login.url, metadata, _Storage(), None, None, client_info=client)
    form, headers = context.prepare_token_auth({**data, "client_id": login.client_id}, {})
    return httpx2.Request("POST", endpoint, data=form, headers=headers)


# Logging in and out


async def log_in(
    file: LoginFile,
    show: Callable[[str], None],
    pasted: AsyncGenerator[str] | None = None,
    client: RegisteredClient | None = None,
) -> McpLogin | None:
    """Log in at a server; return `None` if it needs no login. `show` shows the URL for the browser.

    `pasted` are lines from a person whose browser is on another machine: the URL at which it ended.
    Without a `client`, one is registered. Raises `McpLoginError` and `TokenError`.
    """
    from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
    from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
    from pydantic import AnyUrl

    if not is_safe(file.url):
        raise McpLoginError(
            f"{file.url}: expected https://…: without TLS others could read the token on the way; "
            "http:// is for a server at an address of this machine only"
        )
    storage, port = _Storage(), 0 if client is None else client.port
    browser = _Browser(show, local=is_loopback_url(file.url), pasted=pasted, port=port)
    async with browser:
        metadata = OAuthClientMetadata(
            client_name="Interlock",
            redirect_uris=[AnyUrl(browser.redirect)],
            token_endpoint_auth_method="none",
        )
        if client is not None:
            storage.client = OAuthClientInformationFull(
                client_id=client.id,
                client_secret=None if client.secret is None else client.secret.get_secret_value(),
                redirect_uris=metadata.redirect_uris,
                token_endpoint_auth_method="none",
            )

        async def open_address(address: str) -> None:
            registration = storage.client
            if client is not None and client.secret is not None and registration is not None:
                # The authorization server's methods are known only at this point.
                registration.token_endpoint_auth_method = _auth_method(provider)
            await browser.open_address(address)

        provider = OAuthClientProvider(file.url, metadata, storage, open_address, browser.wait_for_code)
        transport = _SafeTransport(local=is_loopback_url(file.url))
        timeout = httpx2.Timeout(REQUEST_TIME)
        try:
            async with (
                asyncio.timeout(LOGIN_TIME),
                httpx2.AsyncClient(auth=provider, transport=transport, timeout=timeout) as http,
            ):
                status = await _probe(http, file.url)
        except TimeoutError as error:
            raise McpLoginError(f"nobody logged in within {LOGIN_TIME / 60:.0f} minutes") from error
        except (OAuthFlowError, OAuthTokenError, httpx2.HTTPError, ValidationError) as error:
            raise McpLoginError(f"{file.url}: {visible(str(error))[:500]}") from error
    if storage.tokens is None:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise McpLoginError(f"{file.url} refuses ({status}) and does not say where to log in")
        return None
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise McpLoginError(f"{file.url} refuses the token that it issued ({status})")
    login = _login_of(file.url, provider, storage)
    with alone(file.path):
        file.write(login)
    return login


def _auth_method(provider: OAuthClientProvider) -> Literal["client_secret_basic", "client_secret_post"]:
    """Return how a client authenticates with its secret; by default the method of RFC 8414."""
    metadata = provider.context.oauth_metadata
    methods = None if metadata is None else metadata.token_endpoint_auth_methods_supported
    if methods and "client_secret_basic" not in methods and "client_secret_post" in methods:
        return "client_secret_post"
    return "client_secret_basic"


def _login_of(url: str, provider: OAuthClientProvider, storage: _Storage) -> McpLogin:
    context, tokens, client = provider.context, storage.tokens, storage.client
    assert tokens is not None
    assert client is not None
    metadata = context.oauth_metadata
    if metadata is None:
        # A server of the first version of MCP's authorization is its own authorization server.
        origin = context.get_authorization_base_url(url)
        endpoint, revocation, issuer = f"{origin}/token", None, None
    else:
        endpoint, issuer = str(metadata.token_endpoint), str(metadata.issuer)
        revocation = None if metadata.revocation_endpoint is None else str(metadata.revocation_endpoint)
    login = McpLogin(
        url=url,
        issuer=issuer,
        token_endpoint=endpoint,
        revocation_endpoint=revocation,
        resource=context.get_resource_url(),
        client_id=client.client_id,
        client_secret=None if client.client_secret is None else SecretStr(client.client_secret),
        auth_method=client.token_endpoint_auth_method,
        access_token=SecretStr(tokens.access_token),
    )
    return with_tokens(login, tokens, time.time())


async def log_out(file: LoginFile) -> tuple[McpLogin | None, str | None]:
    """Delete a login and revoke its tokens; return the login, and the reason if revocation failed.

    Raises `TokenError`.
    """
    login = await asyncio.to_thread(file.forget)
    if login is None:
        return None, None
    if login.revocation_endpoint is None:
        return login, "the server has no way to revoke it"
    token = login.refresh_token or login.access_token
    transport = _SafeTransport(local=is_loopback_url(login.url))
    async with httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(REQUEST_TIME)) as http:
        data = {"token": token.get_secret_value()}
        try:
            answer = await http.send(_client_request(login, login.revocation_endpoint, data))
        except (httpx2.HTTPError, McpLoginError) as error:
            return login, str(error) or type(error).__name__
    return login, None if answer.is_success else f"the server answered {answer.status_code}"


async def _probe(http: httpx2.AsyncClient, url: str) -> int:
    """Send a client's first message, to which a server refers to its login; return the HTTP status."""
    client = {"name": "interlock mcp login", "version": "1"}
    params = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": _VERSION}
    answer = await http.post(url, json=message, headers=headers)
    session = answer.headers.get("mcp-session-id")
    if session is not None:
        with suppress(httpx2.HTTPError):
            await http.delete(url, headers={**headers, "mcp-session-id": session})
    return answer.status_code


class _Storage:
    """Tokens and client of one login, in memory; the stored login is built from both."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _SafeTransport(httpx2.AsyncHTTPTransport):
    """Sends only over safe connections, and to this machine only if the MCP server is on it, too."""

    def __init__(self, *, local: bool) -> None:
        super().__init__()
        self._local = local

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_address(str(request.url), local=self._local)
        return await super().handle_async_request(request)


def check_address(url: str, *, local: bool) -> None:
    """Check a URL that a server names. Raises `McpLoginError`.

    A URL on this machine is accepted only from a server that is `local` itself: no other one may make
    Interlock connect to programs that listen here.
    """
    address = visible(url.partition("?")[0])[:200]
    if not is_safe(url):
        raise McpLoginError(
            f"the server leads to {address}: expected https://…; tell whoever maintains it"
        )
    if is_loopback_url(url) and not local:
        raise McpLoginError(f"the server leads to {address}, which is on this machine, and is not itself")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


class _Browser:
    """Exchange with a browser: a URL to open, and a port of this machine to which it returns."""

    def __init__(
        self, show: Callable[[str], None], *, local: bool, pasted: AsyncGenerator[str] | None, port: int
    ) -> None:
        self.redirect = ""
        self._port = port
        self._show = show
        self._local = local
        self._pasted = pasted
        self._state: str | None = None
        self._code_result: asyncio.Future[AuthorizationCodeResult] = (
            asyncio.get_running_loop().create_future()
        )
        self._server: asyncio.Server | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self._port, limit=MOST_HEAD
            )
        except OSError as error:
            raise McpLoginError(
                f"the browser cannot return to port {self._port} of this machine: {error.strerror}. "
                "End the program that listens there, or name the port of another registered redirection"
            ) from error
        port = self._server.sockets[0].getsockname()[1]
        self.redirect = f"http://127.0.0.1:{port}{_CALLBACK}"

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        if self._reading is not None:
            self._reading.cancel()
        self._code_result.cancel()

    async def open_address(self, address: str) -> None:
        """Show the URL at which a person logs in."""
        check_address(address, local=self._local)
        self._state = parse_qs(urlsplit(address).query)["state"][0]
        self._show(address)
        if self._pasted is not None:
            self._reading = asyncio.create_task(self._read(self._pasted))

    async def wait_for_code(self) -> AuthorizationCodeResult:
        """Wait until the browser has returned. Raises `McpLoginError`."""
        return await self._code_result

    async def _read(self, lines: AsyncGenerator[str]) -> None:
        async for line in lines:
            if line.strip() and self._take(line.strip()) is None:
                return

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of the browser."""
        try:
            async with asyncio.timeout(REQUEST_TIME):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, *_ = head.split(" ", 2)
            fault = self._take(target) if method == "GET" else "not found"
            status = "200 OK" if fault is None else "400 Bad Request"
            text = (
                "Logged in. You can close this page."
                if fault is None
                else "This is not a login: go back."
            )
            page = _PAGE.format(text).encode()
            kind = "Content-Type: text/html; charset=utf-8\r\nReferrer-Policy: no-referrer\r\n"
            length = f"Content-Length: {len(page)}\r\nConnection: close\r\n\r\n"
            writer.write(f"HTTP/1.1 {status}\r\n{kind}{length}".encode() + page)
            await writer.drain()
        except (
            OSError,
            ValueError,
            TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            # An unknown client, or a browser that requested nothing: continue to wait for the login.
            pass
        finally:
            writer.close()

    def _take(self, address: str) -> str | None:
        """Accept the answer in a URL, or return why it is none; then another one is awaited."""
        from mcp.shared.auth import AuthorizationCodeResult

        parts = urlsplit(address)
        fields = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != _CALLBACK or self._state is None or fields.get("state") != self._state:
            return "not this login"
        if not self._code_result.done():
            if "code" in fields:
                self._code_result.set_result(
                    AuthorizationCodeResult(
                        code=fields["code"], state=fields["state"], iss=fields.get("iss")
                    )
                )
            else:
                reason = fields.get("error_description") or fields.get("error") or "no reason"
                message = f"the login was refused: {visible(reason)[:300]}"
                self._code_result.set_exception(McpLoginError(message))
        return None
