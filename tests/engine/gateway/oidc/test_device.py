"""The device flow: polls in the provider's interval until approval, denial or expiry."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from aiohttp import web

from interlock.engine.gateway.oidc.client import DeviceLogin, FlowError, ProviderClient
from interlock.engine.gateway.oidc.provider import Provider, ProviderError
from tests.support.oidc_provider import CLIENT, DEVICE_CLIENT, OidcProvider, provided


class Waiting:
    """The pauses of a flow, which pass at once; the user answers at pause `agree_at`."""

    def __init__(self, provider: OidcProvider, answer: str = "done", agree_at: int = 3) -> None:
        self.provider = provider
        self.answer = answer
        self.agree_at = agree_at
        self.pauses: list[float] = []
        self.down_at: tuple[int, ...] = ()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.provider.down = len(self.pauses) in self.down_at
        if len(self.pauses) == self.agree_at:
            for each in self.provider.devices.values():
                each.state = self.answer

    def clock(self) -> float:
        return sum(self.pauses)


@pytest_asyncio.fixture
async def running_provider() -> AsyncGenerator[OidcProvider, None]:
    async with provided() as provider:
        yield provider


def client(made: OidcProvider) -> ProviderClient:
    return ProviderClient(Provider(made.issuer), DEVICE_CLIENT, ("openid", "profile"))


async def device_login(made: OidcProvider) -> DeviceLogin:
    found = await client(made).begin_device()
    return found.model_copy(update={"interval": 5.0})


class TestFlow:
    @pytest.mark.slow
    async def test_polls_until_approval(self, running_provider: OidcProvider) -> None:
        """The client polls in the provider's interval and gets an ID token for itself."""
        waiting = Waiting(running_provider)
        tokens = await client(running_provider).finish_device(
            await device_login(running_provider), waiting.sleep, waiting.clock
        )
        assert waiting.pauses == [5.0, 5.0, 5.0]
        claims = await Provider(running_provider.issuer).check(tokens.id_token or "", [DEVICE_CLIENT])
        assert claims.sub == "sub-ada"

    @pytest.mark.slow
    async def test_slow_down_lengthens_the_interval(self, running_provider: OidcProvider) -> None:
        """Each `slow_down` permanently lengthens the interval by five seconds (RFC 8628, 3.5)."""
        running_provider.slow = 2
        waiting = Waiting(running_provider, agree_at=4)
        await client(running_provider).finish_device(
            await device_login(running_provider), waiting.sleep, waiting.clock
        )
        assert waiting.pauses == [5.0, 10.0, 15.0, 15.0]

    @pytest.mark.slow
    async def test_denial_ends_the_flow(self, running_provider: OidcProvider) -> None:
        """A denial ends the flow at once."""
        waiting = Waiting(running_provider, "access_denied")
        with pytest.raises(FlowError, match="the login was denied there"):
            await client(running_provider).finish_device(
                await device_login(running_provider), waiting.sleep, waiting.clock
            )

    @pytest.mark.slow
    async def test_code_expires(self, running_provider: OidcProvider) -> None:
        """A code expires when the provider says so, or after its lifetime."""
        waiting = Waiting(running_provider, "expired_token")
        with pytest.raises(FlowError, match="the code has expired: start again"):
            await client(running_provider).finish_device(
                await device_login(running_provider), waiting.sleep, waiting.clock
            )
        waiting = Waiting(running_provider, "authorization_pending")
        with pytest.raises(FlowError, match="the code has expired: start again"):
            await client(running_provider).finish_device(
                await device_login(running_provider), waiting.sleep, waiting.clock
            )
        assert sum(waiting.pauses) < 300

    @pytest.mark.slow
    async def test_polling_continues_while_provider_is_down(self, running_provider: OidcProvider) -> None:
        """The client keeps polling less often while the provider is down, and then gets its token."""
        waiting = Waiting(running_provider, agree_at=3)
        waiting.down_at = (1, 2)
        tokens = await client(running_provider).finish_device(
            await device_login(running_provider), waiting.sleep, waiting.clock
        )
        assert waiting.pauses == [5.0, 10.0, 20.0]
        assert tokens.id_token is not None

    @pytest.mark.slow
    async def test_unavailable_provider_ends_the_flow(self, running_provider: OidcProvider) -> None:
        """A provider that is down or does not know the client ends the flow with an error."""
        running_provider.down = True
        with pytest.raises(ProviderError, match="status 503"):
            await client(running_provider).begin_device()
        running_provider.down, running_provider.secret = False, "secret"
        waiting = Waiting(running_provider, agree_at=1)
        confidential = ProviderClient(Provider(running_provider.issuer), CLIENT, ("openid",))
        with pytest.raises(FlowError, match="it does not accept the client 'interlock'"):
            await confidential.finish_device(
                await device_login(running_provider), waiting.sleep, waiting.clock
            )


class TestAnswers:
    """Any invalid answer of the provider ends as a readable error."""

    @pytest.mark.variants
    @pytest.mark.parametrize(
        "body",
        [
            '{"id_token": {"a": "hidden-token"}}',
            '{"id_token": "a.b.c", "refresh_token": ["hidden-token"]}',
            '{"id_token": "a.b.c", "expires_in": 1e999, "access_token": "hidden-token"}',
            pytest.param("[" * 100_000, id="deep"),
            "[1]",
        ],
    )
    async def test_error_contains_no_part_of_the_answer(
        self, running_provider: OidcProvider, body: str
    ) -> None:
        """The error contains no part of the answer, which may be a token."""
        for path, ask in (
            ("/token", lambda: client(running_provider).refresh("one")),
            ("/device", lambda: client(running_provider).begin_device()),
        ):
            running_provider.replies[path] = web.Response(text=body, content_type="application/json")
            with pytest.raises(ProviderError) as caught:
                await ask()
            assert "hidden" not in str(caught.value)
