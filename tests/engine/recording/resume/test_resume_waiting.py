"""G-67: a call that waited for approval when its host died waits again, despite any other changes."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.agents import C, T
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    CallDecided,
)
from interlock.engine.hub.hub import CallAnswer, ExternalAgent, Hub, ResumeError
from interlock.engine.recording.session_end import end_left_open
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.raw_database import raw_database

from ...support.shop import Shop, bodies, bot, check, until

RULES = (
    "map deploy.env prod as prod_deploy\nrequire 2 human-approvals before prod_deploy risk high no grants"
)
OTHER = "map deploy.env prod as prod_deploy\nrequire human-approval before prod_deploy"
WITHIN = "map deploy.env prod as prod_deploy\nrequire 2 human-approvals before prod_deploy within 10m"
ROBIN = ExternalAgent(name="robin", tools=("deploy",))
START = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
NET = "approve-before-prod_deploy"
PROD = {"env": "prod"}
CHANGES: dict[str, dict[str, Any]] = {
    "no net active": {"active": ()},
    "shadow mode": {"mode": "shadow"},
    "no rules": {"registry": {}, "nets": "changed"},
    "weaker rules": {"registry": compile_rules(OTHER).registry, "nets": "changed"},
}


def copied(hub: Hub, copy: Path) -> None:
    """Copy the record as a `kill -9` leaves it."""
    with closing(raw_database(hub.database)) as source, closing(raw_database(copy)) as target:
        source.backup(target)


def killed(hub: Hub, copy: Path) -> Hub:
    """Open another host on a copy of the record, as after a `kill -9`."""
    copied(hub, copy)
    return Hub.open(copy)


async def approve(hub: Hub, name: str) -> str:
    [request] = await hub.approvals()
    return (await hub.decide(request.id, approved=True, by=name, digest=request.digest)).message


async def turned_off(hub: Hub, session: str) -> None:
    """Switch the rule off permanently by two operators, so that the session can continue without it."""
    events = hub.subscribe()
    for name in ("ada", "ben"):
        assert (await hub.toggle_net(session, NET, False, by=name, reason="a test")).ok
    await until(events, ApprovalRequested)


class TestHostedHere:
    @pytest.mark.parametrize("how", CHANGES)
    async def test_waiting_call_still_needs_two_approvals(
        self, hub: Hub, shop: Shop, tmp_path: Path, how: str
    ) -> None:
        """Resumed without its rule, with a weaker one or in shadow mode, the call still needs two."""
        terms = {"registry": compile_rules(RULES).registry, **CHANGES[how]}
        events = hub.subscribe()
        await hub.open_session(
            bot(shop, C(deploy=PROD), T("done")),
            SessionConfig(compile_rules(RULES).registry, by="carl"),
            session_id="s1",
        )
        await hub.send("s1", "ship it", by="carl")
        await until(events, ApprovalRequested)
        await turned_off(hub, "s1")
        await approve(hub, "ada")
        assert shop.ran == []
        after = killed(hub, tmp_path / "after.db")
        try:
            events = after.subscribe()
            await after.resume_session(
                "s1", bot(shop, T("done")), SessionConfig(by="carl", reason="x", **terms)
            )
            await until(events, ApprovalRequested)
            [request] = await after.approvals()
            assert (request.people, request.risk, request.may_grant) == (2, "high", False)
            assert (request.net, request.tool) == (NET, "prod_deploy")
            assert shop.ran == []
            await approve(after, "ada")
            assert shop.ran == []
            await approve(after, "ben")
            await after.wait("s1")
            assert shop.ran == ["deploy prod"]
            [decided] = bodies(after, "s1", CallDecided)
            assert {"ada", "ben"} <= set(decided.approved_by)
            await check(after, "s1")
        finally:
            await after.close()

    async def test_later_call_is_judged_by_new_rules(self, hub: Hub, shop: Shop, tmp_path: Path) -> None:
        """The waiting call needs its approval; later calls are judged only by the new rules."""
        events = hub.subscribe()
        await hub.open_session(
            bot(shop, C(deploy=PROD), T("done")),
            SessionConfig(compile_rules(RULES).registry),
            session_id="s1",
        )
        await hub.send("s1", "ship it")
        await until(events, ApprovalRequested)
        await turned_off(hub, "s1")
        after = killed(hub, tmp_path / "after.db")
        try:
            events = after.subscribe()
            agent = bot(shop, C(deploy=PROD), T("done"))
            await after.resume_session("s1", agent, SessionConfig({}, nets="changed"))
            await until(events, ApprovalRequested)
            [request] = await after.approvals()
            await after.decide(request.id, approved=False, by="ada")
            await after.wait("s1")
            assert shop.ran == ["deploy prod"]
            assert [d.outcome for d in bodies(after, "s1", CallDecided)] == ["block", "allow"]
        finally:
            await after.close()


class TestElsewhere:
    @pytest.mark.parametrize("how", CHANGES)
    async def test_repeated_external_call_waits_for_two(self, hub: Hub, tmp_path: Path, how: str) -> None:
        """A repeated call of an external agent under other rules still waits for two approvals."""
        terms = {"registry": compile_rules(RULES).registry, **CHANGES[how]}
        agent = ExternalAgent(name="robin", tools=("deploy",))
        await hub.open_external(
            agent, SessionConfig(compile_rules(RULES).registry, by="carl"), session_id="r1"
        )
        events = hub.subscribe()
        first = asyncio.ensure_future(hub.call("r1", "d1", "deploy", PROD))
        await until(events, ApprovalRequested)
        alone = killed(hub, tmp_path / "alone.db")
        with pytest.raises(ResumeError, match="one person alone"):
            await alone.resume_external("r1", agent, SessionConfig(by="carl", **terms))
        await alone.close()
        await turned_off(hub, "r1")
        after = killed(hub, tmp_path / "after.db")
        first.cancel()
        try:
            await after.resume_external("r1", agent, SessionConfig(by="carl", **terms))
            events = after.subscribe()
            again = asyncio.ensure_future(after.call("r1", "d1", "deploy", PROD))
            await until(events, ApprovalRequested)
            assert not again.done()
            await approve(after, "ada")
            assert not again.done()
            [request] = await after.approvals()
            assert (request.people, len(request.given)) == (2, 1)
            await after.decide(request.id, approved=False, by="ben", reason="no")
            assert (await again).outcome == "block"
        finally:
            await after.close()


class TestDeadline:
    """G-67: a request that is repeated after a restart keeps its deadline."""

    async def waiting(self, path: Path, now: list[datetime], copy: Path, *, here: bool = True) -> Hub:
        """Return a host of a session whose deploy waited, for ten minutes at most, when its host died."""
        hub = Hub(Journal.open(path, clock=lambda: now[0]))
        registry = compile_rules(WITHIN).registry
        events = hub.subscribe()
        if here:
            agent = bot(Shop(), C(deploy=PROD), T("done"))
            await hub.open_session(agent, SessionConfig(registry, by="carl"), session_id="s1")
            await hub.send("s1", "ship it", by="carl")
        else:
            await hub.open_external(ROBIN, SessionConfig(registry, by="carl"), session_id="s1")
            call = asyncio.ensure_future(hub.call("s1", "d1", "deploy", PROD))
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert request.expires == START + timedelta(minutes=10)
        copied(hub, copy)
        await hub.close()
        if not here:
            await asyncio.wait([call])
        journal = Journal.open(copy, clock=lambda: now[0])
        end_left_open(journal)
        return Hub(journal)

    @pytest.mark.parametrize("here", [True, False])
    async def test_deadline_includes_downtime(self, tmp_path: Path, here: bool) -> None:
        """The deadline stays, and one operator still cannot extend the request."""
        now, shop = [START], Shop()
        hub = await self.waiting(tmp_path / "a.db", now, tmp_path / "b.db", here=here)
        now[0] += timedelta(minutes=6)
        events = hub.subscribe()
        call = await self.resumed(hub, shop, here)
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert request.expires == START + timedelta(minutes=10)
        longer = await hub.extend(request.id, seconds=600, by="ada")
        assert "a second person must extend it" in longer.message
        now[0] = START + timedelta(minutes=10)
        late = await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert late.message == "Too late: nobody decided within 10 min (<rules>:2)"
        await hub.close()
        if call is not None:
            await asyncio.wait([call])

    @pytest.mark.parametrize("here", [True, False])
    async def test_expired_request_is_denied_on_resume(self, tmp_path: Path, here: bool) -> None:
        """A request whose deadline passed is denied when its session is resumed."""
        now, shop = [START], Shop()
        hub = await self.waiting(tmp_path / "a.db", now, tmp_path / "b.db", here=here)
        now[0] += timedelta(hours=3)
        call = await self.resumed(hub, shop, here)
        if call is None:
            await hub.wait("s1")
        else:
            answer = await asyncio.wait_for(call, 10)
            assert answer.outcome == "block"
            assert "no decision was recorded within 10 min" in str(answer.reason)
            assert "act on that only 2 h 50 min later" in str(answer.reason)
        assert (shop.ran, await hub.approvals()) == ([], [])
        [expired] = bodies(hub, "s1", ApprovalExpired)
        assert expired.reason.startswith("no decision was recorded within 10 min (<rules>:2)")
        [decided] = bodies(hub, "s1", CallDecided)
        assert decided.outcome == "block"
        assert fold(await hub.recorded("s1")) == await hub.session("s1")
        await hub.close()

    async def resumed(self, hub: Hub, shop: Shop, here: bool) -> asyncio.Task[CallAnswer] | None:
        """Resume the session; an external agent also repeats its call."""
        registry = compile_rules(WITHIN).registry
        if here:
            await hub.resume_session("s1", bot(shop, T("done")), SessionConfig(registry, by="carl"))
            return None
        await hub.resume_external("s1", ROBIN, SessionConfig(registry, by="carl"))
        return asyncio.ensure_future(hub.call("s1", "d1", "deploy", PROD))


class TestGrantsElsewhere:
    async def test_grant_does_not_release_waiting_request(self, hub: Hub, shop: Shop) -> None:
        """A grant given for another call does not release a waiting request, even a renewed one."""
        rules = compile_rules("require human-approval before deploy\nblock rm").registry
        events = hub.subscribe()
        await hub.open_external(ExternalAgent(name="robin"), SessionConfig(rules), session_id="r1")
        first = asyncio.ensure_future(hub.call("r1", "d1", "deploy", PROD))
        await until(events, ApprovalRequested)
        second = asyncio.ensure_future(hub.call("r1", "d2", "deploy", PROD))
        await until(events, ApprovalRequested)
        waits, granted = sorted(await hub.approvals(), key=lambda a: a.call_id)
        terms = GrantTerms("names")
        assert (await hub.decide(granted.id, approved=True, by="ada", grant=terms, reason="often")).ok
        assert (await second).outcome == "allow"
        await hub.toggle_net("r1", "block-rm", False, by="ada", reason="a test")
        await until(events, ApprovalRequested)
        assert [a.id for a in await hub.approvals()] != [waits.id]
        assert not first.done()
        assert [d.call_id for d in bodies(hub, "r1", ApprovalDecided)] == ["d2"]
        first.cancel()
