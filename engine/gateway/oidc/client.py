"""Flows of a client of the provider, by authlib: code with PKCE, device, and refresh.

`Provider` checks the resulting tokens; this module trusts only the connection to the provider.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...core.sanitize import visible
from .answers import HEADERS, TIMEOUT, bounding_hook, in_time
from .provider import Metadata, Provider, ProviderError

if TYPE_CHECKING:
    import httpx2

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SLOWER = 5.0
"""Seconds by which a device flow lengthens its interval after each `slow_down` (RFC 8628)."""
LONGEST_INTERVAL = 60.0
MOST_SAID = 200
"""Maximum number of characters of a provider's error text that people read."""


class FlowError(Exception):
    """A login that the provider refused or that was not completed in time; the text has the remedy."""


class ProviderTokens(BaseModel):
    """Tokens at the end of a flow; `refresh_token` if the provider gives one."""

    model_config = ConfigDict(frozen=True)

    id_token: str | None = None
    refresh_token: str | None = None


class DeviceLogin(BaseModel):
    """A started device flow: the URL and the code for the person."""

    model_config = ConfigDict(frozen=True)

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float = Field(gt=0)
    interval: float = Field(default=5.0, gt=0)


class _Session(AbstractAsyncContextManager["_Session"], Protocol):
    """The used part of authlib's client, which has no types of its own."""

    def create_authorization_url(
        self, url: str, state: str, code_verifier: str, **more: str
    ) -> tuple[str, str]: ...

    async def fetch_token(self, url: str, **body: str) -> Mapping[str, object]: ...

    async def refresh_token(self, url: str, refresh_token: str) -> Mapping[str, object]: ...

    async def request(
        self,
        method: str,
        url: str,
        *,
        withhold_token: bool,
        data: Mapping[str, str],
    ) -> httpx2.Response: ...


@dataclass(frozen=True, slots=True)
class ProviderClient:
    """A client registered at the provider; without a `secret` it is a public client."""

    provider: Provider
    client_id: str
    scopes: Sequence[str]
    secret: str | None = None

    async def authorization_url(self, redirect: str, *, state: str, nonce: str, verifier: str) -> str:
        """Return the URL to send a browser to, which leads back to `redirect`. Raises `ProviderError`."""
        metadata = await self.provider.metadata()
        async with self._session(metadata, redirect) as session:
            url, _ = session.create_authorization_url(
                metadata.authorization_endpoint, state=state, code_verifier=verifier, nonce=nonce
            )
        return url

    async def check_issuer(self, issuer: str | None) -> None:
        """Check the `iss` of an answer (RFC 9207). Raises `FlowError` and `ProviderError`."""
        metadata = await self.provider.metadata()
        if issuer is None and metadata.authorization_response_iss_parameter_supported:
            raise FlowError("the answer does not name its provider: log in again")
        if issuer is not None and issuer != metadata.issuer:
            raise FlowError(f"the answer is from another provider, {visible(issuer)}: log in again")

    async def exchange(self, redirect: str, code: str, verifier: str) -> ProviderTokens:
        """Exchange a code for tokens. Raises `FlowError` and `ProviderError`."""
        metadata = await self.provider.metadata()
        async with self._session(metadata, redirect) as session:
            return await self._tokens(
                session.fetch_token(
                    metadata.token_endpoint,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=verifier,
                    redirect_uri=redirect,
                )
            )

    async def refresh(self, refresh_token: str) -> ProviderTokens:
        """Refresh the tokens. Raises `FlowError` for an invalid refresh token, and `ProviderError`."""
        metadata = await self.provider.metadata()
        async with self._session(metadata) as session:
            return await self._tokens(session.refresh_token(metadata.token_endpoint, refresh_token))

    async def begin_device(self) -> DeviceLogin:
        """Start a device flow. Raises `FlowError` and `ProviderError`."""
        import httpx2

        metadata = await self.provider.metadata()
        endpoint = metadata.device_authorization_endpoint
        if endpoint is None:
            raise FlowError(f"{self.provider.issuer} has no device flow: use a token, or interlock web")
        data = {"client_id": self.client_id, "scope": " ".join(self.scopes)}
        try:
            async with self._session(metadata) as session, in_time():
                answer = await session.request("POST", endpoint, withhold_token=True, data=data)
            if answer.status_code != 200:
                raise FlowError(
                    f"{self.provider.issuer} starts no device flow for the client '{self.client_id}': "
                    f"{visible(answer.text[:200])}; is it registered there as a public client for it?"
                )
            return DeviceLogin.model_validate_json(answer.text)
        except httpx2.HTTPError as error:
            raise ProviderError(f"{self.provider.issuer} does not answer: {error}") from error
        except ValidationError as error:
            raise ProviderError(
                f"{self.provider.issuer}: its answer to a device flow is invalid: {_amiss(error)}"
            ) from error

    async def finish_device(
        self,
        begun: DeviceLogin,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> ProviderTokens:
        """Wait until the person has agreed; return the tokens. Raises `FlowError` and `ProviderError`.

        If the provider does not answer, it is polled at growing intervals until the code expires.
        """
        metadata = await self.provider.metadata()
        end, interval = clock() + begun.expires_in, begun.interval
        async with self._session(metadata) as session:
            while clock() + interval < end:
                await sleep(interval)
                try:
                    return await self._tokens(
                        session.fetch_token(
                            metadata.token_endpoint,
                            grant_type=DEVICE_GRANT,
                            device_code=begun.device_code,
                        )
                    )
                except _PendingError as error:
                    interval += SLOWER if error.slower else 0.0
                except ProviderError:
                    interval = min(LONGEST_INTERVAL, max(1.0, interval * 2))
        raise FlowError("nobody agreed in time, and the code has expired: start again")

    def _session(self, metadata: Metadata, redirect: str | None = None) -> _Session:
        from authlib.integrations.httpx_client import (  # type: ignore[import-untyped]
            AsyncOAuth2Client,  # pyright: ignore[reportUnknownVariableType]
        )

        methods = metadata.token_endpoint_auth_methods_supported
        with_secret = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        options: dict[str, Any] = {  # pyright: ignore[reportExplicitAny]
            "client_id": self.client_id,
            "client_secret": self.secret,
            "scope": " ".join(self.scopes),
            "redirect_uri": redirect,
            "token_endpoint_auth_method": "none" if self.secret is None else with_secret,
            "code_challenge_method": "S256",
            "timeout": TIMEOUT,
            "headers": HEADERS,
            "event_hooks": {"response": [bounding_hook()]},
        }
        return cast("_Session", AsyncOAuth2Client(**options))

    async def _tokens(self, pending_answer: Awaitable[Mapping[str, object]]) -> ProviderTokens:
        """Await the token endpoint's answer. Raises `FlowError`, `ProviderError` and `_PendingError`."""
        import httpx2
        from authlib.integrations.base_client import OAuthError  # type: ignore[import-untyped]

        try:
            async with in_time():
                answer = await pending_answer
            return ProviderTokens.model_validate(dict(answer))
        except OAuthError as error:
            raise self._refusal(error) from error
        except (httpx2.HTTPError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            # The library processes the answer before it is validated.
            raise ProviderError(
                f"{self.provider.issuer} does not answer correctly: {_amiss(error)}"
            ) from error

    def _refusal(self, error: Exception) -> Exception:
        code = str(getattr(error, "error", ""))
        if code in ("authorization_pending", "slow_down"):
            return _PendingError(slower=code == "slow_down")
        reasons = {
            "access_denied": "the login was denied there",
            "expired_token": "nobody agreed in time, and the code has expired: start again",
            "invalid_client": (
                f"it does not accept the client '{self.client_id}': compare client_id and the secret in "
                "[oidc] with what is registered there"
            ),
            "invalid_grant": "the login there has ended, or its code was used before: log in again",
        }
        code = code[:MOST_SAID]
        more = visible(str(getattr(error, "description", "") or "")[:MOST_SAID])
        reason = (
            reasons.get(code) or f"{visible(code) or 'an error without a name'}{more and f': {more}'}"
        )
        return FlowError(f"{self.provider.issuer}: {reason}")


def _amiss(error: Exception) -> str:
    """Describe an invalid answer without its content, which may be a token."""
    if isinstance(error, ValidationError):
        errors = error.errors(include_input=False, include_url=False)
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors)
    return visible(str(error)[:MOST_SAID]) or type(error).__name__


class _PendingError(Exception):
    """The person has not agreed yet; `slower` if the provider is polled too often."""

    def __init__(self, *, slower: bool) -> None:
        super().__init__("pending")
        self.slower = slower
