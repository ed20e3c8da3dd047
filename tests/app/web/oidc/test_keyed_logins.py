"""Late approvals with passkeys by operators who log in at a provider, after the client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from interlock.engine.approvals.policy import ApprovalPolicy
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.client.connection import GatewayError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.client.login import LoginExchange
from interlock.engine.gateway.protocol.agent_methods import CallAnswer
from interlock.engine.history.audit.verify import ChainCheck, verify_journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalDecided, ApprovalGiven, ApprovalWithdrawn
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.api import Outcome
from tests.engine.gateway.served import Served, until
from tests.support.authenticator import PAGE, Authenticator
from tests.support.oidc_provider import OidcProvider, person, provided

from .signing import offering

RULES = "require human-approval before deploy by 2 of security not by author with passkey risk high"
PROD = {"env": "prod"}
PEOPLE = ("maria", "ben-k")


@dataclass
class Person:
    """A logged-in operator with a console and the device that holds the passkey."""

    name: str
    token: str
    console: ConsoleClient
    device: Authenticator = field(default_factory=Authenticator)

    async def enroll(self, codes: list[str]) -> None:
        """Enroll the device's key with the code that the terminal shows."""
        begun = await self.console.begin_key(origin=PAGE, by=self.name)
        made = await self.console.register_key(self.device.make(begun), by=self.name)
        assert made.ok, made.message
        code = codes[-1].partition("code ")[2][:9]
        assert (await self.console.confirm_key(made.id, code=code, by=self.name)).ok

    async def approve(self, request: ApprovalState) -> Outcome:
        """Approve the request with the key."""
        asked = await self.console.challenge_key(
            request.id, digest=request.digest, origin=PAGE, by=self.name
        )
        assert asked.ok, asked.message
        return await self.console.decide(
            request.id,
            approved=True,
            by=self.name,
            digest=request.digest,
            passkey=self.device.sign(asked),
        )


@dataclass
class Place:
    """A server whose operators log in at a provider, and one of its agents."""

    provider: OidcProvider
    server: Served
    exchange: LoginExchange
    agent: AgentSession
    people: dict[str, Person] = field(default_factory=dict)

    async def abandoned_request(self) -> ApprovalState:
        """Return the request of a deploy that was undecided when its client gave up."""
        while not await self.server.hub.approvals():
            answer = await self.agent.call("deploy", PROD, call_id="d1", wait=0.05)
            assert answer.outcome == "waiting"
        assert await self.agent.give_up("d1", "nobody decided") is not None
        [request] = await self.server.hub.approvals()
        assert request.late is not None
        return request

    async def approved(self) -> ApprovalState:
        """Return that request after both have approved it with their keys; it is held for the agent."""
        request = await self.abandoned_request()
        for each in self.people.values():
            outcome = await each.approve(request)
            assert outcome.ok, outcome.message
        [held] = await self.server.hub.approvals()
        assert held.fuse is not None
        return held

    async def repeat_call(self, wait: float = 10.0) -> CallAnswer:
        """Make the same call under another id and return its answer."""
        return await self.agent.call("deploy", PROD, call_id="d2", wait=wait)

    async def withdrawal_reason(self, before: ApprovalState) -> str:
        """Return why the approval was withdrawn when the agent made the call again."""
        again = asyncio.ensure_future(self.repeat_call(30.0))

        async def another() -> list[ApprovalState]:
            return [e for e in await self.server.hub.approvals() if e.id != before.id]

        try:
            [asked] = await until(another)
            assert (asked.given, asked.fuse) == ((), None)
            assert not again.done()
        finally:
            again.cancel()
            await asyncio.gather(again, return_exceptions=True)
        found = [
            each.reason for each in self.recorded(ApprovalWithdrawn) if each.approval_id == before.id
        ]
        return str(found[0])

    def recorded(self, kind: type) -> list:
        reader = open_reader(self.server.hub.database)
        [session] = reader.sessions()
        return [each.body for each in reader.events(session.id) if isinstance(each.body, kind)]

    def verified(self) -> ChainCheck:
        """Return the result of verifying the session's record."""
        [found] = verify_journal(self.server.hub.database)
        return found


@asynccontextmanager
async def logged_in(place: Place, name: str) -> AsyncGenerator[Person, None]:
    token = place.provider.id_token(person(name, "dev", "sec-team"))
    opened = await place.exchange.open(token)
    assert opened.token is not None
    async with ConsoleClient(place.server.url, opened.token) as console:
        yield Person(opened.name, opened.token, console)


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Place, None]:
    policy = ApprovalPolicy(late=3600.0, fuse=0.05)
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(provided())
        server = await stack.enter_async_context(offering(tmp_path, provider, rules=RULES, policy=policy))
        codes: list[str] = []
        server.hub.serve_keys(PAGE, codes.append)
        client = await stack.enter_async_context(server.agent_client())
        agent = await stack.enter_async_context(client.session("robin"))
        made = Place(provider, server, LoginExchange(server.url, server.ada), agent)
        for name in PEOPLE:
            each = await stack.enter_async_context(logged_in(made, name))
            await each.enroll(codes)
            made.people[name] = each
        yield made


class TestLateCall:
    @pytest.mark.slow
    async def test_runs_after_two_approvals_with_keys(self, place: Place) -> None:
        """The call runs when its agent makes it again, and the record proves both approvals."""
        await place.approved()
        answer = await place.repeat_call()
        assert (answer.outcome, answer.reason) == ("allow", None)
        given, [decided] = place.recorded(ApprovalGiven), place.recorded(ApprovalDecided)
        issuer = place.provider.issuer
        assert [each.login for each in (*given, decided)] == [f"{issuer} sub-{name}" for name in PEOPLE]
        assert all(each.proof is not None for each in (*given, decided))
        found = place.verified()
        assert (found.proofs, found.unproved, found.fault) == (3, (), None)

    @pytest.mark.slow
    async def test_login_and_token_do_not_replace_a_key(self, place: Place) -> None:
        """Without a signature, neither a login with a key nor the server's operator token approves."""
        request = await place.abandoned_request()
        maria = place.people["maria"]
        async with place.server.console() as ada:
            for console, name in ((maria.console, "maria"), (ada, "ada")):
                outcome = await console.decide(request.id, approved=True, by=name, digest=request.digest)
                assert not outcome.ok
        [still] = await place.server.hub.approvals()
        assert (still.given, still.fuse) == ((), None)

    @pytest.mark.slow
    async def test_challenge_of_another_operator_is_refused(self, place: Place) -> None:
        """A challenge signed by another operator's device, or sent by another operator, is refused."""
        request = await place.abandoned_request()
        maria, ben = place.people.values()
        asked = await ben.console.challenge_key(
            request.id, digest=request.digest, origin=PAGE, by=ben.name
        )
        [credential] = maria.device.keys
        for sender, answer in (
            (ben, maria.device.sign(asked, credential)),
            (maria, ben.device.sign(asked)),
        ):
            outcome = await sender.console.decide(
                request.id, approved=True, by=sender.name, digest=request.digest, passkey=answer
            )
            assert not outcome.ok
        assert not place.recorded(ApprovalGiven)


class TestMeanwhile:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", PEOPLE)
    async def test_approval_of_an_ended_login_does_not_count(self, place: Place, name: str) -> None:
        """After its operator has logged out, an approval no longer counts and is requested again."""
        held = await place.approved()
        await place.exchange.end(place.people[name].token)
        why = await place.withdrawal_reason(held)
        assert f"The approval of {name} no longer counts" in why

    @pytest.mark.slow
    @pytest.mark.parametrize("name", PEOPLE)
    async def test_approval_without_the_group_does_not_count(self, place: Place, name: str) -> None:
        """The login continues, but its approval no longer counts."""
        held = await place.approved()
        new = place.provider.id_token(person(name, "dev"))
        await place.exchange.renew(place.people[name].token, new)
        why = await place.withdrawal_reason(held)
        assert f"{name} is not in security" in why

    @pytest.mark.slow
    @pytest.mark.parametrize("name", PEOPLE)
    async def test_approval_with_a_lowered_role_does_not_count(self, place: Place, name: str) -> None:
        """The approval of an operator whose role is now 'look' no longer counts."""
        held = await place.approved()
        new = place.provider.id_token(person(name, "staff", "sec-team"))
        await place.exchange.renew(place.people[name].token, new)
        why = await place.withdrawal_reason(held)
        assert f"The approval of {name} no longer counts" in why

    @pytest.mark.slow
    @pytest.mark.parametrize("name", PEOPLE)
    async def test_approval_of_a_removed_key_does_not_count(self, place: Place, name: str) -> None:
        """The approval that the removed key proved no longer counts."""
        held = await place.approved()
        someone = place.people[name]
        [credential] = someone.device.keys
        assert (await someone.console.remove_key(credential, by=name)).ok
        why = await place.withdrawal_reason(held)
        assert f"The approval of {name} no longer counts, their passkey was removed" in why

    @pytest.mark.slow
    async def test_proof_from_an_ended_login_is_refused(self, place: Place) -> None:
        """A proof that was signed before the login ended is refused afterwards."""
        request = await place.abandoned_request()
        maria = place.people["maria"]
        asked = await maria.console.challenge_key(
            request.id, digest=request.digest, origin=PAGE, by="maria"
        )
        answer = maria.device.sign(asked)
        await place.exchange.end(maria.token)
        try:
            outcome = await maria.console.decide(
                request.id, approved=True, by="maria", digest=request.digest, passkey=answer
            )
            assert not outcome.ok
        except GatewayError:
            pass
        assert not place.recorded(ApprovalGiven)
