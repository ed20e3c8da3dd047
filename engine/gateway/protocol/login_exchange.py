"""Exchange of an ID token for an operator's token that holds for a while, over HTTP at a server.

Each is one request without a WebSocket, as `server_proof` is, of programs and not of pages: one with an
Origin is refused. The ID token is in one header, or in pieces in several of the same name.
"""

from __future__ import annotations

from typing import Final

from pydantic import AwareDatetime, BaseModel, ConfigDict

from ...core.rights import Rights

OFFER: Final = "/login"
OPEN: Final = "/login/open"
RENEW: Final = "/login/renew"
CHECK: Final = "/login/check"
END: Final = "/login/end"
PATHS: Final = frozenset({OFFER, OPEN, RENEW, CHECK, END})
ID_TOKEN_HEADER: Final = "Interlock-Id-Token"
NONCE_HEADER: Final = "Interlock-Login-Nonce"
PIECE: Final = 4096
"""Characters of an ID token in one header: servers bound the length of a line."""


class LoginOffer(BaseModel):
    """The provider at which a program logs an operator in by the device flow.

    Without a `client_id` only pages can, as those of `interlock web`.
    """

    model_config = ConfigDict(frozen=True)

    issuer: str
    client_id: str | None
    scopes: tuple[str, ...]


class OpenLogin(BaseModel):
    """A login: the operator's `token`, until `ends` at the latest, and who that is here.

    The token of one that was only renewed stays as it was, and is left out.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    ends: AwareDatetime
    rights: Rights
    groups: tuple[str, ...] = ()
    token: str | None = None
