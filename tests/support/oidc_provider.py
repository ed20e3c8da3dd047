"""An OpenID Connect provider on loopback, with people who log in and configurable faults."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT = "interlock"
DEVICE_CLIENT = "interlock-console"
HOST = "127.0.0.2"
"""A site different from the tests' servers, for browsers: another port alone is not another site."""
Claims = dict[str, object]
_KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})


@dataclass
class Code:
    """Data behind an authorization code or a refresh token."""

    claims: Claims
    client: str
    redirect: str = ""
    challenge: str = ""
    nonce: str | None = None


@dataclass
class Device:
    """A device code, and its state; the first `slow` polls are answered with `slow_down`."""

    code: str
    client: str
    state: str = "authorization_pending"
    slow: int = 0
    polls: list[float] = field(default_factory=list)


class OidcProvider:
    """The provider. `person` is logged in without a question; with `None`, login is refused.

    `claims` change an ID token's claims, `header` its header; `secret` is that of the client, if it has
    one. `replies` are answers that replace the provider's own, by path, each once; with `drips` responses
    never end.
    """

    def __init__(self) -> None:
        self.issuer = ""
        self.person: Claims | None = person("ada", "sre")
        self.claims: Claims = {}
        self.header: dict[str, str] = {}
        self.secret: str | None = None
        self.refreshes = True
        self.down = False
        self.drips = False
        self.replies: dict[str, web.Response] = {}
        self.key: RSAKey | ECKey = _KEY
        self.shown_keys = [self.key]
        self.says_issuer = True
        self.answered_issuer: str | None = None
        self.codes: dict[str, Code] = {}
        self.refresh_tokens: dict[str, Code] = {}
        self.devices: dict[str, Device] = {}
        self.slow = 0
        self.expires_in = 300.0
        self.asked: list[str] = []
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application(middlewares=[self._noted])
        app.add_routes(
            [
                web.get("/.well-known/openid-configuration", self._metadata),
                web.get("/jwks", self._jwks),
                web.get("/authorize", self._authorize),
                web.post("/token", self._token),
                web.post("/device", self._device),
            ]
        )
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port)
        await site.start()
        server = site._server
        assert server is not None
        self.issuer = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]

    async def close(self) -> None:
        self.drips = False
        if self._runner is not None:
            await self._runner.cleanup()

    def rotate(self, kid: str = "two", *, keep: bool = False) -> None:
        """Sign with another key from now on."""
        self.key = ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})
        self.shown_keys = [*(self.shown_keys if keep else []), self.key]

    def id_token(self, claims: Claims | None = None, client: str = CLIENT, **changes: object) -> str:
        """Return an ID token of this provider, with `changes`; `None` leaves a claim out."""
        now = int(time.time())
        every = {
            "iss": self.issuer,
            "aud": client,
            "iat": now,
            "exp": now + 300,
            "jti": secrets.token_hex(8),
            **(claims or self.person or {}),
            **self.claims,
            **changes,
        }
        alg = "RS256" if isinstance(self.key, RSAKey) else "ES256"
        header = {"alg": alg, "kid": self.key.kid or "", **self.header}
        content = {name: value for name, value in every.items() if value is not None}
        return jwt.encode(header, content, self.key, algorithms=["RS256", "ES256"])

    @web.middleware
    async def _noted(self, request: web.Request, handler: web.RequestHandler) -> web.StreamResponse:
        self.asked.append(request.path)
        if self.drips:
            return await self._drip(request)
        if (reply := self.replies.pop(request.path, None)) is not None:
            return reply
        if self.down:
            return web.Response(status=503, text="maintenance")
        return await handler(request)  # type: ignore[operator, no-any-return]

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while self.drips:
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    async def _metadata(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/jwks",
                "device_authorization_endpoint": f"{self.issuer}/device",
                "authorization_response_iss_parameter_supported": self.says_issuer,
                "response_types_supported": ["code"],
            }
        )

    async def _jwks(self, _: web.Request) -> web.Response:
        keys = [each.as_dict(private=False) for each in self.shown_keys]
        return web.json_response({"keys": keys})

    async def _authorize(self, request: web.Request) -> web.Response:
        query = request.query
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        answer = {"state": query["state"]}
        if self.says_issuer:
            answer["iss"] = self.answered_issuer or self.issuer
        if self.person is None:
            answer["error"] = "access_denied"
        else:
            code = secrets.token_urlsafe(16)
            self.codes[code] = Code(
                self.person,
                query["client_id"],
                query["redirect_uri"],
                query["code_challenge"],
                query.get("nonce"),
            )
            answer["code"] = code
        raise web.HTTPFound(f"{query['redirect_uri']}?{urlencode(answer)}")

    async def _token(self, request: web.Request) -> web.Response:
        data = {name: str(value) for name, value in (await request.post()).items()}
        client = self._client(request, data)
        if client is None:
            return web.json_response({"error": "invalid_client"}, status=401)
        match data.get("grant_type"):
            case "authorization_code":
                found = self.codes.pop(data.get("code", ""), None)
                verifier = data.get("code_verifier", "")
                digest = hashlib.sha256(verifier.encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                fits = (
                    found is not None
                    and found.challenge == challenge
                    and found.redirect == data.get("redirect_uri")
                    and found.client == client
                )
                return self._tokens(found if fits else None)
            case "refresh_token":
                return self._tokens(self.refresh_tokens.pop(data.get("refresh_token", ""), None))
            case "urn:ietf:params:oauth:grant-type:device_code":
                device = self.devices.get(data.get("device_code", ""))
                return self._polled(device, client)
            case _:
                return web.json_response({"error": "unsupported_grant_type"}, status=400)

    def _client(self, request: web.Request, data: dict[str, str]) -> str | None:
        authorization = request.headers.get("Authorization", "")
        if authorization.startswith("Basic "):
            client, _, secret = base64.b64decode(authorization[6:]).decode().partition(":")
            return client if secret == self.secret else None
        client = data.get("client_id", "")
        return None if client == CLIENT and self.secret is not None else client

    def _tokens(self, code: Code | None) -> web.Response:
        if code is None or self.person is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        claims = (
            {**code.claims, **self.person} if code.claims["sub"] == self.person["sub"] else code.claims
        )
        nonce: Claims = {} if code.nonce is None else {"nonce": code.nonce}
        answer = {
            "access_token": secrets.token_urlsafe(16),
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": self.id_token({**nonce, **claims}, code.client),
        }
        if self.refreshes:
            answer["refresh_token"] = secrets.token_urlsafe(16)
            self.refresh_tokens[answer["refresh_token"]] = Code(claims, code.client)
        return web.json_response(answer)

    async def _device(self, request: web.Request) -> web.Response:
        data = await request.post()
        device = Device(secrets.token_urlsafe(16), str(data["client_id"]), slow=self.slow)
        self.devices[device.code] = device
        return web.json_response(
            {
                "device_code": device.code,
                "user_code": "WDJB-MJHT",
                "verification_uri": f"{self.issuer}/activate",
                "verification_uri_complete": f"{self.issuer}/activate?user_code=WDJB-MJHT",
                "expires_in": self.expires_in,
                "interval": 0.05,
            }
        )

    def _polled(self, device: Device | None, client: str) -> web.Response:
        if device is None or device.client != client:
            return web.json_response({"error": "invalid_grant"}, status=400)
        device.polls.append(time.monotonic())
        if device.slow:
            device.slow -= 1
            return web.json_response({"error": "slow_down"}, status=400)
        if device.state != "done":
            return web.json_response({"error": device.state}, status=400)
        del self.devices[device.code]
        assert self.person is not None
        return self._tokens(Code(self.person, client))


def person(name: str, *groups: str, sub: str | None = None) -> Claims:
    """Return the claims of a person."""
    return {"sub": sub or f"sub-{name}", "preferred_username": name, "groups": list(groups)}


@asynccontextmanager
async def provided() -> AsyncGenerator[OidcProvider, None]:
    """Provide a running provider."""
    provider = OidcProvider()
    await provider.start()
    try:
        yield provider
    finally:
        await provider.close()
