"""A running plan beside rules of high risk, with a passkey and for two approvers (G-108, G-109)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.engine.approvals.policy import Credential
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import ApprovalRequested, CallDecided, GrantGiven
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import ApprovalPolicy, CallAnswer, Hub

from ..support.external_agent import check_fold, opened, recorded
from ..support.shop import until

RULES = """
require human-approval before plan
require human-approval before deploy
require human-approval before deploy risk high when input.env = "prod"
require human-approval before publish with passkey
require 2 human-approvals before migrate
"""
STEPS: list[JsonValue] = [{"tool": "deploy", "count": 2}, {"tool": "publish"}, {"tool": "migrate"}]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub on which the fuse of a high-risk approval burns for an hour."""
    hub = Hub(Journal.open(tmp_path / "hub.db"), language=LANGUAGE, policy=ApprovalPolicy(fuse=3600.0))
    yield hub
    await hub.close()


class Agent:
    """The agent of a session under `rules`; each call has a new id."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._count = 0

    def call(self, tool: str, **value: JsonValue) -> asyncio.Future[CallAnswer]:
        """Make a call."""
        self._count += 1
        return asyncio.ensure_future(self.hub.call("robin-1", f"c{self._count}", tool, value))

    async def call_until_request(
        self, tool: str, **value: JsonValue
    ) -> tuple[ApprovalState, asyncio.Future[CallAnswer]]:
        """Make a call and return its request and its answer."""
        heard = self.hub.subscribe()
        waiting = self.call(tool, **value)
        await until(heard, ApprovalRequested)
        heard.close()
        return (await self.hub.approvals())[-1], waiting

    async def approve(self, request: ApprovalState, by: str = "maria") -> None:
        """Approve a request with the digest that it shows."""
        outcome = await self.hub.decide(request.id, approved=True, by=by, digest=request.digest)
        assert outcome.ok, outcome.message

    async def deny(self, request: ApprovalState, waiting: asyncio.Future[CallAnswer]) -> None:
        """Deny a request and check that its call is blocked."""
        await self.hub.decide(request.id, approved=False, by="maria", digest=request.digest)
        assert (await waiting).outcome == "block"

    async def end_fuse(self) -> None:
        """End the fuse of the only open request now, as its timer would."""
        questions = self.hub._live.hosted("robin-1").questions
        [waiting] = questions.table.open.values()
        assert waiting.fuse is not None
        await questions.fuses.release(waiting, waiting.fuse)

    async def approve_plan(self, *steps: JsonValue) -> None:
        """Request a plan with these steps and approve it."""
        request, waiting = await self.call_until_request("plan", title="Release", steps=list(steps))
        await self.approve(request)
        assert (await waiting).outcome == "allow"

    async def uses_left(self) -> dict[str, int]:
        """Return the remaining uses of each grant."""
        grants = (await self.hub.session("robin-1")).grants
        return {key: grant.net.marking["granted"] for key, grant in grants.items()}


@pytest.fixture
async def agent(hub: Hub) -> Agent:
    await opened(hub, RULES)
    return Agent(hub)


class TestWalk:
    async def test_stricter_rules_are_not_covered(self, hub: Hub, agent: Agent) -> None:
        """G-109: a plan does not cover rules of high risk, with a passkey or for two approvers."""
        await agent.approve_plan(*STEPS)
        [given] = recorded(hub.database, GrantGiven)
        assert (given.grant.tool, given.grant.also) == ("deploy", ())
        assert (await agent.call("deploy", env="test")).outcome == "allow"

        request, waiting = await agent.call_until_request("deploy", env="prod")
        assert request.risk == "high"
        await agent.deny(request, waiting)
        request, waiting = await agent.call_until_request("publish")
        assert request.passkey
        refused = await hub.decide(request.id, approved=True, by="maria", digest=request.digest)
        assert not refused.ok
        await agent.deny(request, waiting)
        request, waiting = await agent.call_until_request("migrate")
        assert request.people == 2
        await agent.approve(request)
        assert not waiting.done()
        await agent.deny(request, waiting)

        assert await agent.uses_left() == {"grant-1": 1}
        assert (await agent.call("deploy", env="test")).outcome == "allow"
        assert await agent.uses_left() == {"grant-1": 0}
        await check_fold(hub)

    async def test_plan_and_approver_cover_a_rule_each(self, hub: Hub, agent: Agent) -> None:
        """G-109: if two rules require approval, the plan covers one and an approver decides the other."""
        await agent.approve_plan(*STEPS)
        request, waiting = await agent.call_until_request("deploy", env="prod")
        await agent.approve(request)
        await agent.end_fuse()
        assert (await waiting).outcome == "allow"
        decided = recorded(hub.database, CallDecided)[-1]
        assert (decided.granted, decided.approved_by) == (("grant-1",), ("maria",))
        assert await agent.uses_left() == {"grant-1": 1}
        await check_fold(hub)


class TestGroups:
    """A plan covers a group's rule only if an approver is still in the group when it takes effect."""

    RULES = """
    require human-approval before plan by 2 of ops risk high
    require human-approval before deploy of security
    """
    MARIA = Operator("maria", groups=("ops", "security"))
    BEN = Operator("ben", groups=("ops",))

    @pytest.mark.parametrize("first", [MARIA, BEN], ids=["the first", "who waits for the fuse"])
    async def test_approver_who_left_the_group_does_not_count(self, hub: Hub, first: Operator) -> None:
        """G-109: an approver who left the group before the plan takes effect does not count for it."""
        hub.know_operators(Operators((self.MARIA, self.BEN)))
        await opened(hub, self.RULES)
        agent = Agent(hub)
        request, waiting = await agent.call_until_request(
            "plan", title="Release", steps=[{"tool": "deploy"}]
        )
        for each in (first, self.BEN if first is self.MARIA else self.MARIA):
            login = Credential(f"token of {each.name}", lambda *_: True, each)
            outcome = await hub.decide(
                request.id, approved=True, by=each.name, digest=request.digest, credential=login
            )
            assert outcome.ok, outcome.message
        hub.know_operators(Operators((replace(self.MARIA, groups=("ops",)), self.BEN)))
        await agent.end_fuse()
        assert (await waiting).outcome == "allow"
        assert recorded(hub.database, GrantGiven) == []
        await check_fold(hub)


class TestFuse:
    async def test_taken_back_approval_uses_nothing(self, hub: Hub, agent: Agent) -> None:
        """G-109: an approval that is taken back or denied uses nothing of the plan."""
        await agent.approve_plan(*STEPS)
        request, waiting = await agent.call_until_request("deploy", env="prod")
        await agent.approve(request)
        assert await agent.uses_left() == {"grant-1": 2}
        assert (await hub.take_back(request.id, by="ben")).ok
        assert await agent.uses_left() == {"grant-1": 2}
        await agent.deny(request, waiting)
        assert await agent.uses_left() == {"grant-1": 2}
        await check_fold(hub)

    async def test_plan_used_up_during_the_fuse(self, hub: Hub, agent: Agent) -> None:
        """G-109: during a call's fuse, other calls can use up the plan; the call then needs approval."""
        await agent.approve_plan({"tool": "deploy"})
        request, waiting = await agent.call_until_request("deploy", env="prod")
        await agent.approve(request)
        assert (await agent.call("deploy", env="test")).outcome == "allow"
        heard = hub.subscribe()
        await agent.end_fuse()
        await until(heard, ApprovalRequested)
        heard.close()
        [again] = await hub.approvals()
        assert (again.risk, again.call_id) == (None, request.call_id)
        assert not waiting.done()
        await agent.deny(again, waiting)
        assert await agent.uses_left() == {"grant-1": 0}
        await check_fold(hub)

    async def test_plan_taken_back_gives_no_grants(self, hub: Hub) -> None:
        """G-108: a plan gives no grants if its approval is taken back; a new approval gives them."""
        await opened(hub, RULES.replace("before plan", "before plan risk high"))
        agent = Agent(hub)
        request, waiting = await agent.call_until_request(
            "plan", title="Release", steps=[{"tool": "deploy"}]
        )
        await agent.approve(request)
        assert (await hub.take_back(request.id, by="ben")).ok
        assert (waiting.done(), recorded(hub.database, GrantGiven)) == (False, [])
        deploying, deploy = await agent.call_until_request("deploy", env="test")
        await agent.deny(deploying, deploy)
        await agent.approve(request, by="ben")
        await agent.end_fuse()
        assert (await waiting).outcome == "allow"
        assert (await agent.call("deploy", env="test")).outcome == "allow"
        assert [given.by for given in recorded(hub.database, GrantGiven)] == ["ben"]
