"""Checks of ID tokens: only a fresh token of the provider for this client is valid."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hmac
import json
import time
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

from interlock.engine.gateway.oidc.answers import MAX_ANSWER
from interlock.engine.gateway.oidc.provider import (
    FRESH,
    LEEWAY,
    InvalidIdTokenError,
    Provider,
    ProviderError,
    checked_issuer,
)
from tests.support.oidc_provider import CLIENT, DEVICE_CLIENT, OidcProvider, provided


@pytest_asyncio.fixture
async def running_provider() -> AsyncGenerator[OidcProvider, None]:
    async with provided() as provider:
        yield provider


async def refused(made: OidcProvider, token: str, nonce: str | None = None) -> str:
    with pytest.raises(InvalidIdTokenError) as caught:
        await Provider(made.issuer).check(token, [CLIENT], nonce)
    return str(caught.value)


class TestAcceptance:
    async def test_valid_token_is_accepted(self, running_provider: OidcProvider) -> None:
        """The claims are the user's, also for the second client's name, a nonce and several audiences."""
        provider = Provider(running_provider.issuer)
        claims = await provider.check(running_provider.id_token(), [CLIENT])
        assert (claims.sub, claims.claim("groups")) == ("sub-ada", ["sre"])
        other = await provider.check(
            running_provider.id_token(client=DEVICE_CLIENT), [CLIENT, DEVICE_CLIENT]
        )
        assert other.aud == DEVICE_CLIENT
        assert await provider.check(running_provider.id_token(nonce="n1"), [CLIENT], "n1")
        assert await provider.check(running_provider.id_token(aud=[CLIENT, "x"], azp=CLIENT), [CLIENT])

    async def test_documents_are_fetched_once(self, running_provider: OidcProvider) -> None:
        """Metadata and keys are cached for an hour."""
        now = [time.time()]
        provider = Provider(running_provider.issuer, lambda: now[0])
        for _ in range(3):
            await provider.check(running_provider.id_token(), [CLIENT])
        assert running_provider.asked == ["/.well-known/openid-configuration", "/jwks"]
        now[0] += 3601
        await provider.check(running_provider.id_token(iat=int(now[0]), exp=int(now[0]) + 60), [CLIENT])
        assert len(running_provider.asked) == 4

    @pytest.mark.slow
    async def test_clock_skew_within_leeway_is_accepted(self, running_provider: OidcProvider) -> None:
        """Times within the leeway are accepted."""
        now = int(time.time())
        provider = Provider(running_provider.issuer)
        assert await provider.check(running_provider.id_token(exp=now - 10), [CLIENT])
        assert await provider.check(running_provider.id_token(iat=now + 10, nbf=now + 10), [CLIENT])


class TestForgeries:
    async def test_no_signature(self, running_provider: OidcProvider) -> None:
        """`alg: none` is refused, with and without a signature behind it."""
        head, body, signature = running_provider.id_token().split(".")
        none = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').rstrip(b"=").decode()
        for token in (f"{none}.{body}.", f"{none}.{body}.{signature}", f"{head}.{body}."):
            assert await refused(running_provider, token)

    async def test_public_key_as_hmac_secret(self, running_provider: OidcProvider) -> None:
        """A token signed by HS256 with the public key as secret is refused."""
        public = running_provider.key.as_pem(private=False)
        head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}').rstrip(b"=")
        signed = head + b"." + running_provider.id_token().split(".")[1].encode()
        mac = base64.urlsafe_b64encode(hmac.digest(public, signed, "sha256")).rstrip(b"=")
        token = f"{signed.decode()}.{mac.decode()}"
        assert "signed by 'HS256'" in await refused(running_provider, token)

    @pytest.mark.slow
    async def test_key_supplied_by_the_token(self, running_provider: OidcProvider) -> None:
        """A token signed by its own key, also one shown in its header, is refused."""
        own = RSAKey.generate_key(2048, {"kid": "one"})
        claims = json.loads(base64.urlsafe_b64decode(running_provider.id_token().split(".")[1] + "=="))
        for header in ({"jwk": own.as_dict(private=False)}, {}):
            token = jwt.encode({"alg": "RS256", "kid": "one", **header}, claims, own)
            assert "cannot be verified" in await refused(running_provider, token)

    async def test_another_kind_of_token(self, running_provider: OidcProvider) -> None:
        """An access token or a logout token of the same provider is refused."""
        for kind in ("at+jwt", "logout+jwt"):
            running_provider.header = {"typ": kind}
            assert "not an ID token" in await refused(running_provider, running_provider.id_token())

    @pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "…", "e30.e30.e30", "." * 100, "a" * 70_000])
    async def test_text_that_is_no_token(self, running_provider: OidcProvider, text: str) -> None:
        """Any other text is refused with the same error."""
        assert await refused(running_provider, text)

    @pytest.mark.slow
    async def test_a_changed_claim(self, running_provider: OidcProvider) -> None:
        """A changed body under the same signature is refused."""
        head, _, signature = running_provider.id_token().split(".")
        other = running_provider.id_token({"sub": "sub-eve", "preferred_username": "ada"}).split(".")[1]
        assert "cannot be verified" in await refused(running_provider, f"{head}.{other}.{signature}")


class TestClaims:
    @pytest.mark.slow
    async def test_another_client(self, running_provider: OidcProvider) -> None:
        """A token for another client, or requested by another client, is refused."""
        assert "another client (shop)" in await refused(
            running_provider, running_provider.id_token(aud="shop")
        )
        assert "several clients" in await refused(
            running_provider, running_provider.id_token(aud=[CLIENT, "shop"])
        )
        azp = running_provider.id_token(aud=[CLIENT, "shop"], azp="shop")
        assert "at the request of the client 'shop'" in await refused(running_provider, azp)
        assert "at the request of" in await refused(
            running_provider, running_provider.id_token(azp="shop")
        )

    async def test_another_issuer(self, running_provider: OidcProvider) -> None:
        """A token that names another issuer is refused although the provider signed it."""
        said = await refused(running_provider, running_provider.id_token(iss="https://evil.example"))
        assert "from the issuer 'https://evil.example'" in said

    @pytest.mark.slow
    async def test_invalid_or_missing_times(self, running_provider: OidcProvider) -> None:
        """Expired, future and old tokens are refused, and so are tokens with missing claims."""
        now = int(time.time())
        assert "has expired" in await refused(
            running_provider, running_provider.id_token(exp=now - LEEWAY - 5)
        )
        assert "in the future" in await refused(
            running_provider, running_provider.id_token(iat=now + LEEWAY + 5)
        )
        assert "in the future" in await refused(
            running_provider, running_provider.id_token(nbf=now + LEEWAY + 5)
        )
        old = running_provider.id_token(iat=now - FRESH - LEEWAY - 5, exp=now + 3600)
        assert "made more than 10 minutes ago" in await refused(running_provider, old)
        for name in ("exp", "iat", "sub", "aud"):
            assert f"are invalid: {name}" in await refused(
                running_provider, running_provider.id_token(**{name: None})
            )
        assert "are invalid" in await refused(running_provider, running_provider.id_token(exp="tomorrow"))

    @pytest.mark.slow
    async def test_time_with_hundreds_of_digits(self, running_provider: OidcProvider) -> None:
        """A time that is too large for a float is compared correctly."""
        assert "in the future" in await refused(running_provider, running_provider.id_token(nbf=10**400))

    @pytest.mark.slow
    async def test_the_nonce_of_another_login(self, running_provider: OidcProvider) -> None:
        """A token with another nonce or none is refused."""
        for token in (running_provider.id_token(), running_provider.id_token(nonce="other")):
            assert "another login" in await refused(running_provider, token, "mine")


class TestKeys:
    async def test_rotated_keys_are_fetched(self, running_provider: OidcProvider) -> None:
        """After a rotation the keys are fetched again, and tokens of the old key are refused."""
        now = [time.time()]
        provider = Provider(running_provider.issuer, lambda: now[0])
        old = running_provider.id_token()
        await provider.check(old, [CLIENT])
        running_provider.rotate()
        now[0] += 11
        assert await provider.check(running_provider.id_token(), [CLIENT])
        with pytest.raises(InvalidIdTokenError, match=r"a key that .* does not have"):
            await provider.check(old, [CLIENT])

    async def test_unknown_keys_cause_few_requests(self, running_provider: OidcProvider) -> None:
        """Tokens of unknown keys do not cause repeated requests to the provider."""
        provider = Provider(running_provider.issuer)
        await provider.check(running_provider.id_token(), [CLIENT])
        running_provider.header = {"kid": "made-up"}
        for _ in range(5):
            with pytest.raises(InvalidIdTokenError):
                await provider.check(running_provider.id_token(), [CLIENT])
        assert running_provider.asked.count("/jwks") == 1

    async def test_encryption_key_verifies_no_signature(self, running_provider: OidcProvider) -> None:
        """A key for encryption verifies no signature."""
        running_provider.key = RSAKey.generate_key(2048, {"kid": "enc"})
        for_encryption = RSAKey.import_key({**running_provider.key.as_dict(private=False), "use": "enc"})
        running_provider.shown_keys = [for_encryption]
        assert "does not have" in await refused(running_provider, running_provider.id_token())


class TestProvider:
    async def test_unavailable_provider_is_named(self, running_provider: OidcProvider) -> None:
        """The error names the provider's fault."""
        running_provider.down = True
        with pytest.raises(ProviderError, match=r"answers with status 503; expected 200"):
            await Provider(running_provider.issuer).check(running_provider.id_token(), [CLIENT])
        await running_provider.close()
        with pytest.raises(ProviderError, match="does not answer"):
            await Provider(running_provider.issuer).metadata()

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("headers", "size", "said"),
        [
            ({}, MAX_ANSWER + 1, "has more than 1,048,576 bytes"),
            ({"Content-Encoding": "gzip"}, 64 << 20, "is compressed"),
        ],
        ids=["long", "compressed"],
    )
    async def test_answer_size_is_bounded(
        self, running_provider: OidcProvider, headers: dict[str, str], size: int, said: str
    ) -> None:
        """An answer is read up to a bound, and a compressed one is refused."""
        body = gzip.compress(b" " * size) if headers else b" " * size
        running_provider.replies["/.well-known/openid-configuration"] = web.Response(
            body=body, headers=headers
        )
        with pytest.raises(ProviderError, match=said):
            await Provider(running_provider.issuer).metadata()

    @pytest.mark.slow
    async def test_endless_answer_ends_at_the_timeout(
        self, running_provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An answer that arrives byte by byte ends at the timeout."""
        monkeypatch.setattr("interlock.engine.gateway.oidc.answers.TIMEOUT", 0.3)
        running_provider.drips = True
        async with asyncio.timeout(10):
            with pytest.raises(ProviderError, match="no complete answer within"):
                await Provider(running_provider.issuer).metadata()

    async def test_a_document_of_another_issuer(self, running_provider: OidcProvider) -> None:
        """A metadata document that names another issuer is refused."""
        asked = running_provider.issuer + "/"
        with pytest.raises(ProviderError, match=r"names the issuer 'http://127\.0\.0\.2:\d+'; if that"):
            await Provider(asked).metadata()

    @pytest.mark.parametrize(
        "url",
        [
            "http://id.example.com",
            "ftp://127.0.0.1",
            "id.example.com",
            "https://",
            "https://a b",
            "https://u@h/",
        ],
    )
    def test_invalid_issuer_is_refused(self, url: str) -> None:
        """An issuer needs TLS unless it is local, and must be a plain URL."""
        with pytest.raises(ValueError, match="expected"):
            checked_issuer(url)

    def test_valid_issuer_is_accepted(self) -> None:
        """An issuer with TLS or a local address is accepted."""
        for url in (
            "https://id.example.com/realms/a",
            "http://127.0.0.1:1/",
            "http://[::1]:9",
            "http://localhost",
        ):
            assert checked_issuer(url) == url
