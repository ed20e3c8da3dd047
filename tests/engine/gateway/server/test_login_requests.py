"""Logins at a server: the requests for one, and the approvals of operators who logged in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from interlock.engine.core.approvers import Operator, Operators, login_id
from interlock.engine.gateway.client.connection import NotAdmittedError, UnreachableError
from interlock.engine.gateway.client.login import LoginExchange
from interlock.engine.history.model.events import ApprovalDecided, ApprovalGiven
from tests.app.web.oidc.signing import offering
from tests.support.oidc_provider import DEVICE_CLIENT, Claims, OidcProvider, person, provided

from ..served import Served, served, until

TWO = "require human-approval before deploy by 2 of security\n"


class Place:
    """A server with its provider."""

    def __init__(self, server: Served, provider: OidcProvider) -> None:
        self.server = server
        self.provider = provider
        self.exchange = LoginExchange(server.url, server.ada)

    async def enter(self, claims: Claims) -> str:
        """Log in and return the token."""
        opened = await self.exchange.open(self.provider.id_token(claims, DEVICE_CLIENT))
        assert opened.token is not None
        return opened.token


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Place, None]:
    async with provided() as provider, offering(tmp_path, provider, rules=TWO) as server:
        yield Place(server, provider)


async def ask(place: Place, path: str, **headers: str) -> httpx2.Response:
    url = place.server.url.replace("ws", "http", 1)
    async with httpx2.AsyncClient(trust_env=False) as client:
        return await client.get(url + path, headers=headers)


class TestRequests:
    @pytest.mark.slow
    async def test_pages_are_refused(self, place: Place) -> None:
        """A login request of any browser's page is refused."""
        for headers in ({"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "none"}):
            for path in ("/login", "/login/open", "/login/renew", "/login/end"):
                assert (await ask(place, path, **headers)).status_code == 403

    async def test_foreign_host_name_is_refused(self, place: Place) -> None:
        """A login request under a foreign host name is refused."""
        assert (await ask(place, "/login", Host="evil.example")).status_code == 421

    async def test_the_offer_has_no_secret(self, place: Place) -> None:
        """The offer contains the provider, the public client and the scopes, and no secret."""
        answer = await ask(place, "/login")
        assert answer.json() == {
            "issuer": place.provider.issuer,
            "client_id": DEVICE_CLIENT,
            "scopes": ["openid", "profile"],
        }
        assert answer.headers["Cache-Control"] == "no-store"

    @pytest.mark.slow
    async def test_long_id_token_is_accepted(self, place: Place) -> None:
        """A long ID token of a user in a thousand groups is accepted."""
        groups = [f"group-{number:04}" for number in range(1000)]
        token = await place.enter(person("maria", "dev", *groups))
        async with place.server.console(token) as console:
            assert console.rights == "decide"

    @pytest.mark.slow
    async def test_a_forged_token(self, place: Place) -> None:
        """A forged token gets the reason, and repeated ones must wait."""
        with pytest.raises(NotAdmittedError, match="The ID token is refused: it was made for another"):
            await place.exchange.open(place.provider.id_token(aud="shop"))
        for _ in range(60):
            answer = await ask(place, "/login/open", **{"Interlock-Id-Token": "a.b.c"})
        assert answer.status_code == 429
        assert await place.enter(person("maria", "dev"))

    @pytest.mark.slow
    async def test_unavailable_provider_is_a_temporary_error(self, place: Place) -> None:
        """If the provider is down, the error says so and counts as temporary."""
        token = place.provider.id_token(person("maria", "dev"))
        place.provider.down = True
        with pytest.raises(UnreachableError, match="Nobody can log in now"):
            await place.exchange.open(token)

    @pytest.mark.slow
    async def test_a_server_without_logins(self, tmp_path: Path) -> None:
        """A server without logins returns an error with the remedy."""
        async with served(tmp_path) as server:
            with pytest.raises(
                NotAdmittedError, match=r"offers no logins: use a token, or have \[oidc\]"
            ):
                await LoginExchange(server.url, server.ada).offer()

    async def test_stranger_gets_no_id_token(self, place: Place) -> None:
        """A stranger that does not know the token gets no ID token."""
        got: list[bytes] = []

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            got.append(await reader.read(4096))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
            await writer.drain()
            writer.close()

        listener = await asyncio.start_server(listen, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with listener:
            exchange = LoginExchange(f"ws://127.0.0.1:{port}", place.server.ada)
            with pytest.raises(NotAdmittedError):
                await exchange.open(place.provider.id_token())
        assert all(each.startswith(b"GET /proof ") for each in got)


class TestOperators:
    @pytest.mark.slow
    async def test_two_approvers_of_a_provider_group(self, place: Place) -> None:
        """The provider's groups count as configured ones do, and the record has the provider's ids."""
        server = place.server
        tokens = [await place.enter(person(name, "dev", "sec-team")) for name in ("maria", "cy")]
        other = await place.enter(person("eve", "dev"))
        async with server.agent_client() as agent:
            gate = await agent.open("bot")
            call = asyncio.ensure_future(gate.call("deploy", {}, call_id="c1"))
            [request] = await until(server.hub.approvals)
            said: list[str] = []
            for token in (other, *tokens):
                async with server.console(token) as console:
                    outcome = await console.decide(request.id, approved=True, digest=request.digest)
                    said.append(outcome.message)
            assert said[0] == "eve is not in security: 2 of security must approve"
            answer = await asyncio.wait_for(call, 10)
            assert (answer.outcome, answer.approved_by) == ("allow", ("maria", "cy"))
        bodies = [event.body for event in await server.hub.recorded(request.session)]
        [given] = [each for each in bodies if isinstance(each, ApprovalGiven)]
        [decided] = [each for each in bodies if isinstance(each, ApprovalDecided)]
        issuer = place.provider.issuer
        assert (given.login, decided.login) == (login_id(issuer, "sub-maria"), login_id(issuer, "sub-cy"))

    async def test_logout_voids_the_first_approval(self, place: Place) -> None:
        """The first of two approvals no longer counts after its operator logs out."""
        server = place.server
        maria = await place.enter(person("maria", "dev", "sec-team"))
        cy = await place.enter(person("cy", "dev", "sec-team"))
        async with server.agent_client() as agent:
            gate = await agent.open("bot")
            call = asyncio.ensure_future(gate.call("deploy", {}, call_id="c1"))
            [request] = await until(server.hub.approvals)
            async with server.console(maria) as console:
                assert (await console.decide(request.id, approved=True, digest=request.digest)).ok
            await place.exchange.end(maria)
            async with server.console(cy) as console:
                outcome = await console.decide(request.id, approved=True, digest=request.digest)
            assert "the token of maria is no longer in force" in outcome.message
            call.cancel()

    @pytest.mark.slow
    async def test_lost_group_voids_the_first_approval(self, place: Place) -> None:
        """The first approval no longer counts if a renewal removes its operator's group."""
        server = place.server
        maria = await place.enter(person("maria", "dev", "sec-team"))
        cy = await place.enter(person("cy", "dev", "sec-team"))
        async with server.agent_client() as agent:
            gate = await agent.open("bot")
            call = asyncio.ensure_future(gate.call("deploy", {}, call_id="c1"))
            [request] = await until(server.hub.approvals)
            async with server.console(maria) as console:
                assert (await console.decide(request.id, approved=True, digest=request.digest)).ok
            await place.exchange.renew(
                maria, place.provider.id_token(person("maria", "dev"), DEVICE_CLIENT)
            )
            async with server.console(cy) as console:
                outcome = await console.decide(request.id, approved=True, digest=request.digest)
            assert "maria is not in security" in outcome.message
            call.cancel()

    @pytest.mark.slow
    async def test_console_gets_rights_of_renewed_login(self, place: Place) -> None:
        """An open console gets the new rights after a renewal with another role."""
        token = await place.enter(person("maria", "sre"))
        async with place.server.console(token) as console:
            assert console.rights == "administer"
            new = place.provider.id_token(person("maria", "staff"), DEVICE_CLIENT)
            await place.exchange.renew(token, new)

            async def looks() -> bool:
                return console.rights == "look"

            await until(looks)

    @pytest.mark.slow
    async def test_changed_configuration_refuses_login(self, place: Place) -> None:
        """A login is refused after its name or its provider changed in the configuration."""
        token = await place.enter(person("maria", "dev"))
        issuer = place.provider.issuer
        hub = place.server.hub
        for known in (
            Operators((Operator("maria", "administer"),), issuer=issuer),
            Operators(issuer="https://id.example.com"),
            Operators(),
        ):
            hub.know_operators(known)
            with pytest.raises(NotAdmittedError, match="does not count here"):
                await place.server.console(token).open()
        hub.know_operators(
            Operators((Operator("maria", login=login_id(issuer, "sub-maria")),), issuer=issuer)
        )
        async with place.server.console(token) as console:
            assert console.rights == "decide"
