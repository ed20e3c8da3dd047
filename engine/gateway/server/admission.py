"""Admission of clients that upgrade to a WebSocket, checked first and refused without details.

A browser sends an Origin with every WebSocket, whichever page opens it. A request with an Origin that is
not allowed is therefore refused even with a valid token. A name that an attacker's DNS points to this
server (DNS rebinding) shows in the Host header.

Clients that cannot set headers offer their token as an additional subprotocol, `bearer.TOKEN`. The server
never chooses that subprotocol, so no response repeats the token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus

from websockets.datastructures import Headers, MultipleValuesError
from websockets.typing import Subprotocol

from ...core.approvers import Operators
from ..protocol.address import is_bare
from ..protocol.server_proof import NONCE_HEADER, TOKEN_HEADER, is_nonce
from ..protocol.tokens import Identity, Kind, TokenError, TokenFile
from .limits import Failures

SUBPROTOCOL = Subprotocol("interlock.v1")
PATHS: dict[str, Kind] = {"/agent": "agent", "/console": "operator"}


NEEDED = "A token is needed: Authorization: Bearer TOKEN"
NOT_ITS_NAME = "This server is not known by that name; [gateway] hosts in its interlock.toml adds names"
NOT_THEIRS = (
    "This login does not count here: it is of another provider than [oidc] has, or [operators] lists "
    "its name "
    "without the subject of this person"
)
_OFFERED = "bearer."


@dataclass(frozen=True, slots=True)
class Refused:
    """HTTP status and the single sentence that unauthenticated clients get."""

    status: HTTPStatus
    why: str


@dataclass(frozen=True, slots=True)
class Guard:
    """Terms of admission. `hosts` are lower-case names with port; `any_address` admits all IP addresses.

    `operators` returns the current operators of the configuration.
    """

    tokens: TokenFile
    failures: Failures
    hosts: frozenset[str] = frozenset()
    any_address: bool = False
    origins: Collection[str] = ()
    operators: Callable[[], Operators] = Operators

    def check(self, path: str, headers: Headers, address: str) -> Identity | Refused:
        """Return the identity of a client that wants to connect, or its refusal."""
        try:
            host, origin = headers.get("Host"), headers.get("Origin")
            secret = _secret(headers)
        except (MultipleValuesError, ValueError):
            return Refused(HTTPStatus.BAD_REQUEST, "A header is repeated or invalid")
        kind = PATHS.get(path)
        if kind is None:
            return Refused(HTTPStatus.NOT_FOUND, "Connect to /agent or /console")
        return self.identify(kind, path, host=host, origin=origin, secret=secret, address=address)

    def identify(
        self,
        kind: Kind,
        path: str,
        *,
        host: str | None,
        origin: str | None,
        secret: str | None,
        address: str,
    ) -> Identity | Refused:
        """Return the identity of a client whose token must be of a given kind, or its refusal.

        `address` is the client's; `host` and `origin` are the headers of these names.
        """
        if not self._is_ours(host):
            return Refused(HTTPStatus.MISDIRECTED_REQUEST, NOT_ITS_NAME)
        if origin is not None and origin not in self.origins:
            return Refused(HTTPStatus.FORBIDDEN, "This origin may not connect")
        try:
            identity = None if secret is None else self.tokens.find(secret)
        except TokenError:
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot read its tokens")
        if identity is None:
            return self.refuse(address, HTTPStatus.UNAUTHORIZED, NEEDED)
        if identity.kind != kind:
            wrong = f"This token is an {identity.kind}'s; {path} needs an {kind}'s"
            return self.refuse(address, HTTPStatus.FORBIDDEN, wrong)
        current = identity.with_role(self.operators())
        return current or self.refuse(address, HTTPStatus.FORBIDDEN, NOT_THEIRS)

    def prove(self, headers: Headers, address: str) -> str | Refused:
        """Answer a client that checks, before it sends its token, whether this server knows the token."""
        try:
            host, name = headers.get("Host"), headers.get(TOKEN_HEADER, "")
            nonce = headers.get(NONCE_HEADER, "")
        except MultipleValuesError:
            return Refused(HTTPStatus.BAD_REQUEST, "A header is repeated")
        if host is None or not self._is_ours(host):
            return Refused(HTTPStatus.MISDIRECTED_REQUEST, NOT_ITS_NAME)
        if headers.get("Origin") is not None or not is_nonce(nonce):
            return Refused(HTTPStatus.BAD_REQUEST, "This is not a valid request for a proof")
        try:
            proof = self.tokens.prove(name, nonce, host)
        except TokenError:
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot read its tokens")
        return proof or self.refuse(address, HTTPStatus.UNAUTHORIZED, "This token is not known here")

    def refusal_of_page(self, headers: Headers) -> Refused | None:
        """Refuse requests of web pages, and of clients that address this server by an unknown name.

        Raises `MultipleValuesError` for a repeated header.
        """
        if not self._is_ours(headers.get("Host")):
            return Refused(HTTPStatus.MISDIRECTED_REQUEST, NOT_ITS_NAME)
        if headers.get("Origin") is not None or headers.get("Sec-Fetch-Site") is not None:
            return Refused(HTTPStatus.FORBIDDEN, "This is for programs, not for web pages")
        return None

    def secret(self, headers: Headers) -> str | None:
        """Return the token of a request. Raises `MultipleValuesError`, or `ValueError` for two tokens."""
        return _secret(headers)

    def refuse(self, address: str, status: HTTPStatus, reason: str) -> Refused:
        """Refuse a client and count its address; the limit never applies to a valid token."""
        if self.failures.too_many(address):
            return Refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many refused tokens; wait a minute")
        self.failures.note(address)
        return Refused(status, reason)

    def _is_ours(self, host: str | None) -> bool:
        if host is None:
            return False
        if host.lower() in self.hosts:
            return True
        return self.any_address and is_bare(host)


def _secret(headers: Headers) -> str | None:
    """Return the token of a request. Raises `MultipleValuesError`, or `ValueError` for two tokens."""
    authorization = headers.get("Authorization")
    offers = [
        each.strip() for line in headers.get_all("Sec-WebSocket-Protocol") for each in line.split(",")
    ]
    secrets = [each[len(_OFFERED) :] for each in offers if each.startswith(_OFFERED)]
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        secrets.append(secret.strip() if scheme.lower() == "bearer" else "")
    if len(secrets) > 1:
        raise ValueError("two tokens")
    return secrets[0] if secrets else None
