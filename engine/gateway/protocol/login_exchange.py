"""Exchange of an ID token for a temporary operator token, over HTTP at a server.

Each exchange is one HTTP request without a WebSocket, like `server_proof`. It is for programs, not for
pages: a request with an Origin is refused. The ID token is in one header, or split over several headers
of the same name.
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
"""Maximum characters of an ID token in one header, because servers limit the length of a line."""


class LoginOffer(BaseModel):
    """Provider at which a program logs an operator in by the device flow.

    Without a `client_id` only pages, such as those of `interlock web`, can log in.
    """

    model_config = ConfigDict(frozen=True)

    issuer: str
    client_id: str | None
    scopes: tuple[str, ...]


class OpenLogin(BaseModel):
    """A login: the operator's `token`, the latest time it `ends`, and the operator's name and rights.

    A renewed login keeps its token, so `token` is then left out.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    ends: AwareDatetime
    rights: Rights
    groups: tuple[str, ...] = ()
    token: str | None = None
