"""Logins at a server from a program: exchanges an ID token of the provider for an operator's token."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ..protocol.address import addressed, trusting
from ..protocol.framing import problems
from ..protocol.login_exchange import (
    CHECK,
    END,
    ID_TOKEN_HEADER,
    NONCE_HEADER,
    OFFER,
    OPEN,
    PIECE,
    RENEW,
    LoginOffer,
    OpenLogin,
)
from .connection import GatewayError, NotAdmittedError, UnreachableError, ask_for_proof, check_owner

TIMEOUT = 15.0
"""Seconds for a server's answer; the server may first have to query the provider."""
_PASSING = (429, 502, 503)
"""HTTP statuses of temporary refusals."""

ModelT = TypeVar("ModelT", bound=BaseModel)


class LoginExchange:
    """Logins at the server at `url`; see `address.server_url` for its forms.

    Without TLS, another program may listen there and receive an ID token with which it can log in. So
    over unencrypted TCP the server must first prove that it knows `token`, which is an operator's or that
    of the login itself; without such a token nothing is sent. All methods raise `NotAdmittedError` and
    `UnreachableError`.
    """

    def __init__(self, url: str, token: str | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.url = addressed(url)
        self._token = token
        self._tls = tls

    async def offer(self) -> LoginOffer:
        """Return the provider at which the server's operators log in."""
        return _model(LoginOffer, await self._ask(OFFER, {}))

    async def open(self, id_token: str, nonce: str | None = None) -> OpenLogin:
        """Exchange an ID token for a token of its person; a `nonce` must be that of this login."""
        more = {} if nonce is None else {NONCE_HEADER: nonce}
        return _model(OpenLogin, await self._ask(OPEN, more, id_token))

    async def renew(self, secret: str, id_token: str) -> OpenLogin:
        """Give the login of this token the rights and groups of an ID token."""
        headers = {"Authorization": f"Bearer {secret}"}
        return _model(OpenLogin, await self._ask(RENEW, headers, id_token, proven_by=secret))

    async def check(self, secret: str) -> None:
        """Check that a login is valid. Raises `NotAdmittedError` if the server ended or revoked it."""
        await self._ask(CHECK, {"Authorization": f"Bearer {secret}"}, proven_by=secret)

    async def end(self, secret: str) -> None:
        """Log out: the token becomes invalid."""
        await self._ask(END, {"Authorization": f"Bearer {secret}"}, proven_by=secret)

    async def _ask(
        self, path: str, headers: Mapping[str, str], id_token: str = "", proven_by: str | None = None
    ) -> str:
        import httpx2

        pieces = [id_token[at : at + PIECE] for at in range(0, len(id_token), PIECE)]
        all_headers = [*headers.items(), *((ID_TOKEN_HEADER, each) for each in pieces)]
        base, transport = self.url.replace("ws", "http", 1), None
        if self.url.startswith("unix:"):
            base, transport = "http://localhost", httpx2.AsyncHTTPTransport(uds=self.url[5:])
        verify = (self._tls or trusting(None) or True) if self.url.startswith("wss:") else True
        try:
            if self.url.startswith("unix:"):
                check_owner(Path(self.url[5:]))
            elif self.url.startswith("ws:"):
                await self._prove(proven_by or self._token)
            async with httpx2.AsyncClient(
                timeout=TIMEOUT, transport=transport, verify=verify, trust_env=False
            ) as client:
                answer = await client.get(base + path, headers=all_headers)
        except (OSError, httpx2.HTTPError, TimeoutError) as error:
            raise UnreachableError(
                f"No Interlock server answers at {self.url}: {error or type(error).__name__}"
            ) from error
        if answer.status_code == 200:
            return answer.text
        reason = answer.text[:2000].strip() or f"status {answer.status_code}"
        kind = UnreachableError if answer.status_code in _PASSING else NotAdmittedError
        raise kind(f"{self.url}: {reason}")

    async def _prove(self, token: str | None) -> None:
        if token is None:
            raise NotAdmittedError(
                f"{self.url}: another user of that machine could listen there and log in as you: log in "
                "over wss:// or at a unix:PATH, or with a token that the server knows (--token-file)"
            )
        await ask_for_proof(self.url, token)


def _model(model: type[ModelT], text: str) -> ModelT:
    """Parse an answer. Raises `GatewayError`."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise GatewayError(f"an invalid answer to a login request: {problems(error)}") from error
