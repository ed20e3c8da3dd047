"""A provider of OpenID Connect: its metadata, its keys, and the verification of its ID tokens.

Everything fails closed: what cannot be fetched, parsed or verified raises `ProviderError` or
`InvalidIdTokenError`, and logs nobody in.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictFloat, StrictInt, ValidationError

from ...core.sanitize import visible
from ..protocol.address import is_safe
from .answers import HEADERS, TIMEOUT, bounding_hook, in_time

if TYPE_CHECKING:
    from joserfc.jwk import Key

DISCOVERY: Final = "/.well-known/openid-configuration"
KEPT = 3600.0
"""Seconds for which metadata and keys are cached."""
KEYS_AGAIN = 10.0
"""Minimum seconds between two fetches of the keys, even for tokens that name an unknown key."""
MAX_ID_TOKEN = 64 * 1024
"""Maximum number of characters of an ID token."""
LEEWAY = 30.0
"""Seconds by which the clocks of the provider and this machine may differ."""
FRESH = 600.0
"""Seconds for which an ID token can open a login: an older one may come from a log or a backup."""
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Accepted signature algorithms: by private keys only, never by a shared secret."""

ModelT = TypeVar("ModelT", bound=BaseModel)


class ProviderError(Exception):
    """The provider cannot be used at present: it does not answer, or not as expected."""


class InvalidIdTokenError(Exception):
    """An ID token that is not accepted here."""


class Metadata(BaseModel):
    """Discovery document of a provider, limited to the fields in use."""

    model_config = ConfigDict(frozen=True)

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    device_authorization_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False

    @property
    def endpoints(self) -> tuple[str, ...]:
        """All endpoint URLs in use."""
        urls = (
            self.authorization_endpoint,
            self.token_endpoint,
            self.jwks_uri,
            self.device_authorization_endpoint,
        )
        return tuple(each for each in urls if each is not None)


class _Keys(BaseModel):
    model_config = ConfigDict(frozen=True)

    keys: tuple[dict[str, JsonValue], ...]


class IdToken(BaseModel):
    """Claims of a verified ID token."""

    model_config = ConfigDict(frozen=True, extra="allow")

    iss: str
    sub: str = Field(min_length=1, max_length=255)
    aud: str | tuple[str, ...]
    exp: StrictInt | StrictFloat
    iat: StrictInt | StrictFloat
    nbf: StrictInt | StrictFloat | None = None
    azp: str | None = None
    nonce: str | None = None

    @property
    def audiences(self) -> tuple[str, ...]:
        """The clients for which the token was issued."""
        return (self.aud,) if isinstance(self.aud, str) else self.aud

    def claim(self, name: str) -> JsonValue:
        """Return a claim by its name; `None` if there is none."""
        own_claims: dict[str, JsonValue] = {"sub": self.sub}
        return own_claims.get(name) or (self.model_extra or {}).get(name)


def checked_issuer(url: str) -> str:
    """Check a configured issuer: `https://…`, or `http://` on this machine. Raises `ValueError`."""
    parts = urlsplit(url)
    if any(each.isspace() for each in url) or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"expected a URL like https://id.example.com, found {url!r}")
    if not is_safe(url):
        raise ValueError(
            f"expected https://, found {url!r}: without TLS anybody on the way could pretend to "
            "be the provider; http:// is for a provider at an address of this machine only"
        )
    return url


class Provider:
    """The provider at `issuer`. Metadata and keys are fetched when needed, and cached for a while."""

    def __init__(self, issuer: str, clock: Callable[[], float] = time.time) -> None:
        self.issuer = checked_issuer(issuer)
        self._clock = clock
        self._metadata: tuple[Metadata, float] | None = None
        self._keys: tuple[tuple[Key, ...], float] | None = None

    async def metadata(self) -> Metadata:
        """Return the discovery document. Raises `ProviderError`."""
        if self._metadata is not None and self._clock() - self._metadata[1] < KEPT:
            return self._metadata[0]
        document = await self._fetch(self.issuer.rstrip("/") + DISCOVERY, Metadata)
        if document.issuer != self.issuer:
            raise ProviderError(
                f"{self.issuer}: its discovery document names the issuer '{visible(document.issuer)}'; "
                "if that is your provider, set it in [oidc] issuer"
            )
        for endpoint in document.endpoints:
            if not is_safe(endpoint):
                raise ProviderError(
                    f"{self.issuer}: its discovery document names {visible(endpoint)}: expected https://"
                )
        self._metadata = document, self._clock()
        return document

    async def check(self, text: str, audiences: Collection[str], nonce: str | None = None) -> IdToken:
        """Verify an ID token issued recently by this provider for one of `audiences`; return its claims.

        With a `nonce`, the token must have the same one. Raises `InvalidIdTokenError` and
        `ProviderError`.
        """
        claims = await self._signed(text)
        now = self._clock()
        if claims.iss != self.issuer:
            raise InvalidIdTokenError(
                f"it is from the issuer '{visible(claims.iss)}', not from {self.issuer}"
            )
        if not {*claims.audiences} & {*audiences}:
            made_for = ", ".join(map(visible, claims.audiences))
            raise InvalidIdTokenError(f"it was made for another client ({made_for})")
        if claims.azp is None and len(claims.audiences) > 1:
            raise InvalidIdTokenError(
                "it was made for several clients, and does not name the authorized one"
            )
        if claims.azp is not None and claims.azp not in audiences:
            raise InvalidIdTokenError(f"it was made at the request of the client '{visible(claims.azp)}'")
        times = (claims.exp, claims.iat, claims.nbf or 0)
        # `isfinite` would convert an integer to float, which fails for hundreds of digits.
        if not all(isinstance(each, int) or math.isfinite(each) for each in times):
            raise InvalidIdTokenError("its times are invalid")
        if claims.exp <= now - LEEWAY:
            raise InvalidIdTokenError("it has expired: log in again")
        if claims.iat > now + LEEWAY or (claims.nbf or 0) > now + LEEWAY:
            raise InvalidIdTokenError(
                "it is valid only in the future: compare the clocks of both machines"
            )
        if claims.iat <= now - FRESH - LEEWAY:
            raise InvalidIdTokenError(f"it was made more than {FRESH / 60:.0f} minutes ago: log in again")
        if nonce is not None and claims.nonce != nonce:
            raise InvalidIdTokenError("it belongs to another login (its nonce differs)")
        return claims

    async def _signed(self, text: str) -> IdToken:
        from joserfc import jwt
        from joserfc.errors import JoseError

        if len(text) > MAX_ID_TOKEN:
            raise InvalidIdTokenError(f"it has more than {MAX_ID_TOKEN:,} characters")
        try:
            header = _header(text)
            key = await self._key(header)
            claims = jwt.decode(text, key, algorithms=list(ALGORITHMS)).claims
            return IdToken.model_validate(claims)
        except ValidationError as error:
            where = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
            raise InvalidIdTokenError(f"its claims are invalid: {visible(where)}") from error
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise InvalidIdTokenError(f"it cannot be verified: {visible(str(error))}") from error

    async def _key(self, header: dict[str, Any]) -> Key:  # pyright: ignore[reportExplicitAny]
        """Return the key that signed a token with this header. Raises the errors of `check`."""
        if header.get("alg") not in ALGORITHMS:
            raise InvalidIdTokenError(
                f"it is signed by '{visible(str(header.get('alg')))}'; expected one of "
                f"{', '.join(ALGORITHMS)}"
            )
        if str(header.get("typ", "JWT")).upper() != "JWT":
            raise InvalidIdTokenError(f"it is not an ID token, but '{visible(str(header.get('typ')))}'")
        key = _fitting(await self._current_keys(), header)
        if key is None and self._keys is not None and self._clock() - self._keys[1] >= KEYS_AGAIN:
            self._keys = None  # the provider may have new keys
            key = _fitting(await self._current_keys(), header)
        if key is None:
            raise InvalidIdTokenError(f"it is signed by a key that {self.issuer} does not have")
        return key

    async def _current_keys(self) -> tuple[Key, ...]:
        if self._keys is not None and self._clock() - self._keys[1] < KEPT:
            return self._keys[0]
        from joserfc.errors import JoseError
        from joserfc.jwk import JWKRegistry

        keys: list[Key] = []
        for key in (await self._fetch((await self.metadata()).jwks_uri, _Keys)).keys:
            if key.get("kty") not in ("RSA", "EC") or key.get("use", "sig") != "sig":
                continue
            try:
                keys.append(JWKRegistry.import_key(key))  # type: ignore[arg-type]
            except (JoseError, ValueError):
                continue  # a key of an unknown kind, whose signatures are refused
        self._keys = tuple(keys), self._clock()
        return self._keys[0]

    async def _fetch(self, url: str, model: type[ModelT]) -> ModelT:
        import httpx2

        try:
            async with (
                in_time(),
                httpx2.AsyncClient(
                    timeout=TIMEOUT, event_hooks={"response": [bounding_hook()]}
                ) as client,
            ):
                answer = await client.get(url, headers=HEADERS)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ProviderError(
                f"{self.issuer} does not answer: {error or type(error).__name__}; is it running, and is "
                "the address in [oidc] issuer right?"
            ) from error
        if answer.status_code != 200:
            raise ProviderError(
                f"{self.issuer}: {url} answers with status {answer.status_code}; expected 200 and JSON"
            )
        try:
            return model.model_validate_json(answer.text)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ProviderError(
                f"{self.issuer}: the answer of {url} is not a valid document: {where}: {first['msg']}"
            ) from error


def _header(text: str) -> dict[str, Any]:  # pyright: ignore[reportExplicitAny]
    """Return the unverified header of a token. Raises `ValueError` and `JoseError`."""
    from joserfc.jws import extract_compact

    return dict(extract_compact(text.encode("ascii")).headers())


def _fitting(keys: Collection[Key], header: dict[str, Any]) -> Key | None:  # pyright: ignore[reportExplicitAny]
    """Return the key that a header names; without a name, the only key of the right kind."""
    kind = "EC" if str(header["alg"]).startswith("ES") else "RSA"
    fitting_keys = [
        each for each in keys if each.key_type == kind and each.get("alg", header["alg"]) == header["alg"]
    ]
    if header.get("kid") is not None:
        fitting_keys = [each for each in fitting_keys if each.kid == header["kid"]]
    return fitting_keys[0] if len(fitting_keys) == 1 else None
