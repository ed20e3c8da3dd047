"""Operators who act at a server other than the session's owner, and whose rights change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, ScriptedModel
from interlock.engine.approvals.policy import ApprovalPolicy, Credential
from interlock.engine.core.approvers import Operator
from interlock.engine.core.rights import Rights, may
from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.model.events import ApprovalDecided
from interlock.engine.history.postgres.pool import reading
from interlock.engine.hub.api import Outcome
from interlock.engine.hub.hub import CallAnswer
from interlock.engine.sessions.config import SessionConfig

from ...support.external_agent import opened
from .support.hubs import asked, becomes, silent, stop_following


@dataclass
class Login:
    """An operator's token that only one server knows, with its current rights."""

    name: str
    rights: Rights | None = "administer"
    groups: tuple[str, ...] = ()
    login: str | None = None

    @property
    def credential(self) -> Credential:
        """The credential that accompanies a message."""
        assert self.rights is not None
        operator = Operator(self.name, self.rights, self.groups, self.login)
        return Credential(f"{self.name}'s", self.counts, operator)

    def counts(self, token: str, needed: Rights) -> bool:
        return token == f"{self.name}'s" and may(self.rights, needed)


async def posted(hub: SharedHub) -> None:
    """Wait until an act is in the database."""

    async def is_there() -> bool:
        with reading(hub._lease.location) as connection:
            return bool(connection.number("SELECT count(*) FROM act WHERE method <> 'freeze.confirm'"))

    await becomes(is_there)


async def follow_again(hub: SharedHub) -> None:
    """Make a server follow the other servers again."""
    hub._following = asyncio.get_running_loop().create_task(hub._follow())


async def decided(hub: SharedHub) -> list[ApprovalDecided]:
    events = await hub.recorded("robin-1")
    return [each.body for each in events if isinstance(each.body, ApprovalDecided)]


class TestWhatTheOwnerHasNotBegunWith:
    async def test_approval_of_revoked_token_is_rejected(self, two: tuple[SharedHub, SharedHub]) -> None:
        """An approval that is queued for the owner is rejected if its token is revoked first."""
        here, there = two
        task = await asked(here, there)
        await stop_following(here)
        ada = Login("ada")
        [request] = await there.approvals()
        answer = asyncio.ensure_future(
            there.decide(
                request.id, approved=True, by="ada", digest=request.digest, credential=ada.credential
            )
        )
        await posted(there)
        ada.rights = None
        await there._check_tokens()
        await follow_again(here)
        outcome = await answer
        assert not outcome.ok
        assert "no longer in force" in outcome.message
        assert await decided(here) == []
        task.cancel()

    async def test_approval_of_ended_server_is_rejected(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """After the end of the approver's server, no server can confirm that the token is valid."""
        here, there = two
        task = await asked(here, there)
        await stop_following(here)
        [request] = await there.approvals()
        answer = asyncio.ensure_future(
            there.decide(
                request.id,
                approved=True,
                by="ada",
                digest=request.digest,
                credential=Login("ada").credential,
            )
        )
        await posted(there)
        await silent(there, postgresql)
        await follow_again(here)
        outcome = await answer
        assert not outcome.ok
        assert await decided(here) == []
        task.cancel()

    @pytest.mark.parametrize(
        "act",
        [
            pytest.param("raise_limit", id="a higher limit"),
            pytest.param("send", id="a message"),
            pytest.param("close_session", id="an end"),
        ],
    )
    async def test_any_act_of_revoked_token_is_rejected(
        self, two: tuple[SharedHub, SharedHub], tmp_path: Path, act: str
    ) -> None:
        """An act queued for the owner is not performed if the operator's token is revoked first."""
        here, there = two
        agent = Agent(ScriptedModel([]), name="bot", tools=[], max_cost=1.0)
        session = await here.open_session(agent, SessionConfig({}))
        await becomes(there.sessions)
        await stop_following(here)
        before = [*await here.recorded(session)]
        async with console_at(there, "ada", tmp_path) as console:
            acts: dict[str, Callable[[], Coroutine[None, None, object]]] = {
                "raise_limit": lambda: console.raise_limit(session, 100.0, by="", reason="a test"),
                "send": lambda: console.send(session, "go"),
                "close_session": lambda: console.close_session(session, by=""),
            }
            answer = asyncio.ensure_future(acts[act]())
            await posted(there)
            TokenFile(tmp_path / "ada.json").revoke("ada")
            await there._check_tokens()
            await here._look()
            await becomes(lambda: answered(there))
            answer.cancel()
            await asyncio.wait([answer])
        assert [*await here.recorded(session)] == before
        assert there._posted == {}


@asynccontextmanager
async def console_at(hub: SharedHub, name: str, directory: Path) -> AsyncGenerator[ConsoleClient, None]:
    """Open the console of an operator whose token only this server knows."""
    tokens = TokenFile(directory / f"{name}.json")
    token = tokens.issue("operator", name)
    gateway = Gateway(hub, tokens, rules=RuleSets.of({}))
    address = await gateway.start(Address(port=0))
    try:
        async with ConsoleClient(address.url, token) as console:
            yield console
    finally:
        await gateway.close()


async def answered(hub: SharedHub) -> bool:
    """Tell whether every act for a session in the database is answered."""
    with reading(hub._lease.location) as connection:
        return not connection.number("SELECT count(*) FROM act WHERE done IS NULL AND session <> ''")


class TestRolesAndGroups:
    @pytest.mark.parametrize("ending", ["second", "fuse"])
    async def test_groups_at_the_approvers_server_count(
        self, two: tuple[SharedHub, SharedHub], ending: str
    ) -> None:
        """A pending approval is judged by the groups that the approver's login has at their server."""
        here, there = two
        logins = {name: Login(name, groups=("security",)) for name in ("eve", "ben")}
        set_logins(there, logins)
        task = await waiting(here, there, ending)
        for name in ("eve", "ben") if ending == "second" else ("eve",):
            assert (await approved(there, logins[name])).ok
        assert (await asyncio.wait_for(task, 5)).outcome == "allow"

    @pytest.mark.parametrize("ending", ["second", "fuse"])
    async def test_approval_is_dropped_when_group_is_left(
        self, two: tuple[SharedHub, SharedHub], ending: str
    ) -> None:
        """A pending approval is dropped when the approver leaves the group at their server."""
        here, there = two
        logins = {name: Login(name, groups=("security",)) for name in ("eve", "ben")}
        set_logins(there, logins)
        task = await waiting(here, there, ending, fuse=1.5)
        [request] = await there.approvals()
        assert (await approved(there, logins["eve"])).ok
        logins["eve"].groups = ()
        if ending == "second":
            await there._check_tokens()
            await here._check_tokens()
            outcome = await approved(there, logins["ben"])
            assert not outcome.ok
            assert "The approval of eve no longer counts" in outcome.message

        async def is_request_renewed() -> bool:
            return [each.id for each in await here.approvals()] not in ([], [request.id])

        await becomes(is_request_renewed)
        assert await decided(here) == []
        task.cancel()

    async def test_grant_is_dropped_when_right_is_lost(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A grant is dropped if its operator loses the administer right before the fuse has elapsed."""
        here, there = two
        logins = {"eve": Login("eve")}
        set_logins(there, logins)
        task = await waiting(here, there, "fuse", fuse=1.5, of="")
        [request] = await there.approvals()
        assert (await approved(there, logins["eve"], GrantTerms("input", uses=3))).ok
        logins["eve"].rights = "decide"

        async def has_new_request() -> bool:
            return [each.id for each in await here.approvals()] not in ([], [request.id])

        await becomes(has_new_request)
        assert await decided(here) == []
        task.cancel()


class TestTwoPeople:
    @pytest.mark.parametrize("first", ["owner", "other"])
    async def test_two_operators_approve_at_two_servers(
        self, two: tuple[SharedHub, SharedHub], tmp_path: Path, first: str
    ) -> None:
        """Both orders count, although neither server knows the token of the other server's operator."""
        here, there = two
        await opened(here, "require human-approval before deploy by 2")
        task = asyncio.ensure_future(here.call("robin-1", "d1", "deploy", {"env": "prod"}))
        await becomes(there.approvals)
        [request] = await there.approvals()
        async with console_at(here, "eve", tmp_path) as eve, console_at(there, "ben", tmp_path) as ben:
            for console in (eve, ben) if first == "owner" else (ben, eve):
                outcome = await console.decide(request.id, approved=True, by="", digest=request.digest)
                assert outcome.ok, outcome.message
        assert (await asyncio.wait_for(task, 5)).outcome == "allow"


class TestOneLogin:
    """One login that two servers know under two names, as after a name change at the provider."""

    async def test_second_name_does_not_approve_twice(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A second approval by the same login does not count under another name at another server."""
        here, there = two
        eve, adele = named(here, there)
        task = await waiting(here, there, "second", of="")
        assert (await approved(here, eve)).ok
        outcome = await approved(there, adele)
        assert not outcome.ok
        assert "adele has approved already, as eve" in outcome.message
        assert await decided(here) == []
        task.cancel()

    async def test_second_name_does_not_approve_own_session(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """The operator who started the session cannot approve its calls under another name."""
        here, there = two
        adele = Login("adele", login=PERSON)
        set_logins(here, {"ada": Login("ada", login=PERSON)})
        set_logins(there, {"adele": adele})
        task = await waiting(here, there, "second", of="")
        outcome = await approved(there, adele)
        assert not outcome.ok
        assert "adele has the login of ada, and ada started this session" in outcome.message
        task.cancel()

    async def test_second_name_does_not_agree_to_own_proposal(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """One login cannot turn off a rule for two approvers by agreeing under a second name."""
        here, there = two
        eve, adele = named(here, there)
        await opened(here, "require human-approval before deploy by 2")
        await becomes(there.sessions)
        for login, server, done in ((eve, here, "Proposed"), (adele, there, "already, as eve")):
            outcome = await server.toggle_net(
                "robin-1",
                "approve-before-deploy",
                False,
                by=login.name,
                reason="a test",
                credential=login.credential,
            )
            assert done in outcome.message
        assert (await here.session("robin-1")).active == ["approve-before-deploy"]


PERSON = "https://id.example 42"


def named(here: SharedHub, there: SharedHub) -> tuple[Login, Login]:
    """Return one person's login as each of two servers knows it."""
    eve, adele = Login("eve", login=PERSON), Login("adele", login=PERSON)
    set_logins(here, {"eve": eve})
    set_logins(there, {"adele": adele})
    return eve, adele


def set_logins(hub: SharedHub, logins: dict[str, Login]) -> None:
    """Make a server know operators by their logins, as a server with a login provider does."""

    def person(name: str) -> Operator | None:
        return None if name not in logins else logins[name].credential.operator

    def check(token: str, needed: Rights) -> bool:
        return any(each.counts(token, needed) for each in logins.values())

    hub.know_tokens(check, person)


async def waiting(
    hub: SharedHub, other: SharedHub, ending: str, *, fuse: float = 0.2, of: str = " of security"
) -> asyncio.Task[CallAnswer]:
    """A call that waits for two approvers of a group, or for one approver and a fuse."""
    rules = f"require human-approval before deploy by 2{of}"
    if ending == "fuse":
        rules = f"require human-approval before deploy{of and ' by 1'}{of} risk high"
        hub._live._policy = ApprovalPolicy(fuse=fuse)
    await opened(hub, rules)
    task = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))
    await becomes(other.approvals)
    return task


async def approved(hub: SharedHub, login: Login, grant: GrantTerms | None = None) -> Outcome:
    """Approve the one open request and return the outcome."""
    [request] = await hub.approvals()
    return await hub.decide(
        request.id,
        approved=True,
        by=login.name,
        digest=request.digest,
        credential=login.credential,
        grant=grant,
        reason="a test",
    )
