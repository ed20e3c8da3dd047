"""Login of an operator from a terminal, by the device flow, and its refresh by later commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ...engine.core.sanitize import visible
from ...engine.gateway.client.connection import GatewayError, NotAdmittedError, UnreachableError
from ...engine.gateway.client.kept_login import KeptLogin, forget_login, keep_login, read_login
from ...engine.gateway.client.login import LoginExchange
from ...engine.gateway.oidc.client import DeviceLogin, FlowError, ProviderClient
from ...engine.gateway.oidc.provider import Provider, ProviderError
from ...engine.gateway.protocol.login_exchange import LoginOffer

READ_AGAIN = 300.0
"""Seconds after which the next command refreshes role and groups, if the provider allows it."""


class OperatorLoginError(GatewayError):
    """A login that failed or has ended; the message includes the remedy."""


async def log_in(url: str, token: str | None, show: Callable[[DeviceLogin], None]) -> KeptLogin:
    """Log in at the server at `url` by the device flow, and store the login; `show` shows the code.

    `token` is known to the server and lets a server without TLS prove its identity. Raises `GatewayError`
    and `TokenError`.
    """
    exchange = LoginExchange(url, token)
    offer = await exchange.offer()
    try:
        client = _client(offer)
        begun = await client.begin_device()
        show(begun)
        tokens = await client.finish_device(begun)
    except (FlowError, ProviderError, ValueError) as error:
        raise OperatorLoginError(str(error)) from error
    if tokens.id_token is None:
        raise OperatorLoginError(f'{offer.issuer} gave no ID token; is "openid" among the scopes?')
    opened = await exchange.open(tokens.id_token)
    assert opened.token is not None
    login = KeptLogin(
        url=url,
        name=opened.name,
        token=opened.token,
        ends=opened.ends,
        offer=offer,
        refresh_token=tokens.refresh_token,
        read=time.time(),
    )
    keep_login(login)
    return login


async def log_out(url: str) -> KeptLogin | None:
    """End the login at a server, and delete it here; `None` if there was none. Raises `TokenError`.

    If the server does not answer, the token stays valid there until it expires, but no copy is left here.
    """
    login = read_login(url)
    if login is not None:
        forget_login(url)
        try:
            await LoginExchange(url).end(login.token)
        except (UnreachableError, NotAdmittedError):
            return login
    return login


def current_login(url: str) -> KeptLogin | None:
    """Return the login at a server, with its current role and groups; `None` if there is none.

    While the provider or the server does not answer, the login is used as it is. Raises
    `OperatorLoginError` for one that has ended, and `TokenError`.
    """
    login = read_login(url)
    if login is None:
        return None
    if login.is_over:
        raise OperatorLoginError(f"your login as {visible(login.name)} at {url} {_over(url)}")
    if login.refresh_token is None or time.time() - login.read < READ_AGAIN:
        return login
    return asyncio.run(_read_again(login))


async def _read_again(login: KeptLogin) -> KeptLogin:
    assert login.refresh_token is not None
    try:
        tokens = await _client(login.offer).refresh(login.refresh_token)
        new = login.model_copy(
            update={"refresh_token": tokens.refresh_token or login.refresh_token, "read": time.time()}
        )
        # Stored before anything else can fail: the previous refresh token may already be invalid.
        keep_login(new)
        if tokens.id_token is not None:
            await LoginExchange(login.url).renew(login.token, tokens.id_token)
    except (FlowError, NotAdmittedError) as error:
        forget_login(login.url)
        raise OperatorLoginError(
            f"your login as {visible(login.name)} {_over(login.url)} ({error})"
        ) from error
    except (ProviderError, UnreachableError):
        return login
    return new


def _over(url: str) -> str:
    return f"has ended; log in again: interlock login --connect {url}"


def _client(offer: LoginOffer) -> ProviderClient:
    """Return the provider's client. Raises `FlowError`, and `ValueError` for an invalid issuer."""
    if offer.client_id is None:
        raise FlowError(
            "this server offers no login to consoles, only to pages: use a token, or have "
            "[oidc] device_client_id set to a public client where the server runs"
        )
    return ProviderClient(Provider(offer.issuer), offer.client_id, offer.scopes)
