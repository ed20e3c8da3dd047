"""Simultaneous actions on one session: the record has the order in which the gate applied them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine.agents import C, T
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalGiven,
    ApprovalRequested,
    CallDecided,
    GrantGiven,
    GrantRevoked,
    NetToggled,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.hosted import HostedSession

from ..support.shop import Shop, bodies, check, start, until
from .test_requests import TWO, opened_by

ASK = "require human-approval before deploy"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db"))
    yield hub
    await hub.close()


async def idle_session(hub: Hub, shop: Shop, rules: str, *replies: object) -> tuple[str, HostedSession]:
    """An idle session and its host."""
    session = await start(hub, shop, *(replies or (T("ready"),)), rules=rules)  # type: ignore[arg-type]
    if not replies:
        await hub.wait(session)
    return session, hub._live.get(session)[0]


class TestOrder:
    async def test_switch_is_recorded_after_the_decision(self, hub: Hub, shop: Shop) -> None:
        """G-63: a net switched on right after the gate allowed a call follows it in the record."""
        session, hosted = await idle_session(hub, shop, "block rm")
        assert (await hub.toggle_net(session, "block-rm", False, by="ada", reason="a test")).ok
        decision, switched = await asyncio.gather(
            hosted.decide(ToolCall("one", "rm", {})), hub.toggle_net(session, "block-rm", True, by="ada")
        )
        assert (decision.outcome, switched.ok) == ("allow", True)
        kinds = [
            type(e.body)
            for e in await hub.recorded(session)
            if isinstance(e.body, CallDecided | NetToggled)
        ]
        assert kinds == [NetToggled, CallDecided, NetToggled]
        await check(hub, session)

    async def test_revocation_is_recorded_after_the_use(self, hub: Hub, shop: Shop) -> None:
        """If a grant is revoked right after it allowed a call, the record has the use first."""
        events = hub.subscribe()
        session, hosted = await idle_session(hub, shop, ASK, C(deploy={}), T("done"))
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        await hub.decide(request.id, approved=True, by="ada", grant=GrantTerms("names"), reason="often")
        await hub.wait(session)
        decision, revoked = await asyncio.gather(
            hosted.decide(ToolCall("one", "deploy", {})),
            hub.revoke_grant(session, "grant-1", by="ben"),
        )
        assert (decision.granted, revoked.ok) == (("grant-1",), True)
        found = [
            type(e.body)
            for e in await hub.recorded(session)
            if isinstance(e.body, CallDecided | GrantRevoked)
        ]
        assert found == [CallDecided, CallDecided, GrantRevoked]


class TestNames:
    async def test_blank_in_a_name_makes_no_other_person(self, hub: Hub, shop: Shop) -> None:
        """A blank in the name lets neither the session's starter nor an earlier approver count again."""
        session, request = await opened_by(hub, shop, "mia", rules=TWO)
        own = await hub.decide(request.id, approved=True, by=" mia")
        assert own.message == "mia started this session: 2 other people must approve"
        assert (await hub.decide(request.id, approved=True, by=" ada")).ok
        again = await hub.decide(request.id, approved=True, by="ada ")
        assert again.message == "ada has approved already: somebody else must approve too"
        assert (await hub.decide(request.id, approved=True, by="ben ")).ok
        await hub.wait(session)
        assert [g.by for g in bodies(hub, session, ApprovalGiven)] == ["ada"]
        assert [d.by for d in bodies(hub, session, ApprovalDecided)] == ["ben"]
        assert shop.ran == ["deploy staging"]

    @pytest.mark.slow
    async def test_record_names_the_giver_of_each_grant(self, hub: Hub, shop: Shop) -> None:
        """If two nets ask about one call, the record names the giver of each grant."""
        events = hub.subscribe()
        rules = f'{ASK}\n{ASK} risk high when input.env = "prod"'
        session, _ = await idle_session(hub, shop, rules, C(deploy={"env": "prod"}), T("done"))
        for name in ("ada", "ben"):
            await until(events, ApprovalRequested)
            [request] = await hub.approvals()
            await hub.decide(
                request.id, approved=True, by=name, grant=GrantTerms("names"), reason="often"
            )
        await hub.wait(session)
        given = {g.grant.asks: g.by for g in bodies(hub, session, GrantGiven)}
        assert given == {"approve-before-deploy": "ada", "approve-before-deploy#2": "ben"}
