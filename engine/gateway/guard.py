"""The door: who may upgrade to a WebSocket. Looked at before anything else is, and told no details.

A browser sends an Origin with every WebSocket, whatever page asked for it, so an Origin that nobody
allowed is refused even with a good token. A name that was made to point here by DNS comes as Host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus

from websockets.datastructures import Headers, MultipleValuesError
from websockets.typing import Subprotocol

from .limits import Failures
from .tokens import Identity, Kind, TokenError, TokenFile

SUBPROTOCOL = Subprotocol("interlock.v1")
PATHS: dict[str, Kind] = {"/agent": "agent", "/console": "operator"}


@dataclass(frozen=True, slots=True)
class Refused:
    """An HTTP status, and the one sentence that strangers get."""

    status: HTTPStatus
    why: str


@dataclass(frozen=True, slots=True)
class Guard:
    """What is let in. `hosts` are names with port, lower case; `any_address` takes bare addresses."""

    tokens: TokenFile
    failures: Failures
    hosts: frozenset[str] = frozenset()
    any_address: bool = False
    origins: Collection[str] = ()

    def check(self, path: str, headers: Headers, address: str) -> Identity | Refused:
        """Who wants to come in, or why not."""
        try:
            host, origin = headers.get("Host"), headers.get("Origin")
            authorization = headers.get("Authorization")
        except MultipleValuesError:
            return Refused(HTTPStatus.BAD_REQUEST, "A header is given twice")
        kind = PATHS.get(path)
        if kind is None:
            return Refused(HTTPStatus.NOT_FOUND, "Connect to /agent or /console")
        if not self._is_ours(host):
            return Refused(HTTPStatus.MISDIRECTED_REQUEST, "This server is not known by that name")
        if origin is not None and origin not in self.origins:
            return Refused(HTTPStatus.FORBIDDEN, "This origin may not connect")
        if self.failures.too_many(address):
            return Refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many refused tokens; wait a minute")
        scheme, _, secret = (authorization or "").partition(" ")
        try:
            found = self.tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        except TokenError:
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot read its tokens")
        if found is None:
            self.failures.note(address)
            return Refused(HTTPStatus.UNAUTHORIZED, "A token is needed: Authorization: Bearer TOKEN")
        if found.kind != kind:
            self.failures.note(address)
            return Refused(HTTPStatus.FORBIDDEN, f"This token is not for {path}")
        return found

    def _is_ours(self, host: str | None) -> bool:
        if host is None:
            return False
        if host.lower() in self.hosts:
            return True
        return self.any_address and _is_address(host)


def _is_address(host: str) -> bool:
    """Whether a Host is an address and no name: nobody's DNS made it point here."""
    bare = host[1 : host.find("]")] if host.startswith("[") else host.rpartition(":")[0] or host
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return False
    return True
