"""Logins at a provider, requested over HTTP by clients without a token; see `login_exchange`."""

from __future__ import annotations

import logging
from http import HTTPStatus

from websockets.datastructures import Headers, MultipleValuesError

from ...core.sanitize import visible
from ..oidc.login_terms import LoginRefusedError
from ..oidc.logins import OperatorLogins
from ..oidc.provider import InvalidIdTokenError, ProviderError
from ..protocol.login_exchange import CHECK, END, ID_TOKEN_HEADER, NONCE_HEADER, OFFER, OPEN, LoginOffer
from ..protocol.tokens import TokenError
from .admission import Guard, Refused

NOT_OFFERED = "This server offers no logins: use a token, or have [oidc] configured where it runs"

log = logging.getLogger(__name__)


class LoginRequests:
    """Answers to login requests; without `logins`, all are refused. `offer` is for the device flow."""

    def __init__(self, logins: OperatorLogins | None, offer: LoginOffer | None) -> None:
        self._logins = logins
        self._offer = offer

    async def answer(self, guard: Guard, path: str, headers: Headers, address: str) -> str | Refused:
        """Return the JSON answer to a request, or its refusal."""
        try:
            if (refusal := guard.refusal_of_page(headers)) is not None:
                return refusal
            secret, nonce = guard.secret(headers), headers.get(NONCE_HEADER)
        except (MultipleValuesError, ValueError):
            return Refused(HTTPStatus.BAD_REQUEST, "A header is repeated or invalid")
        if self._logins is None or self._offer is None:
            return Refused(HTTPStatus.NOT_FOUND, NOT_OFFERED)
        if path == OFFER:
            return self._offer.model_dump_json()
        id_token = "".join(each.strip() for each in headers.get_all(ID_TOKEN_HEADER))
        try:
            if path == CHECK:
                self._logins.check(secret or "")
                return "{}"
            if path == END:
                self._logins.end(secret or "")
                return "{}"
            if path == OPEN:
                login = await self._logins.open(id_token, nonce)
            else:
                login = await self._logins.renew(secret or "", id_token)
        except InvalidIdTokenError as error:
            log.warning("refused an ID token: %s", error)
            return guard.refuse(address, HTTPStatus.UNAUTHORIZED, f"The ID token is refused: {error}")
        except LoginRefusedError as error:
            log.warning("refused a login: %s", error)
            return guard.refuse(address, HTTPStatus.FORBIDDEN, f"Not logged in: {visible(str(error))}")
        except ProviderError as error:
            log.warning("nobody can log in: %s", error)
            return Refused(HTTPStatus.BAD_GATEWAY, f"Nobody can log in now: {error}")
        except TokenError:
            log.exception("nobody can log in: the tokens cannot be changed")
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot read or write its tokens")
        return login.model_dump_json(exclude_none=True)
