"""Requests with restricted approvers: group members, not the author, and others after an escalation."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel, T
from interlock.engine.approvals.policy import ApprovalPolicy
from interlock.engine.core.approvers import Approvers, Escalation, Operator, Operators
from interlock.engine.core.clock import utc_now
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
)
from interlock.engine.history.model.records import AppliedRules
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import CallWithdrawn, Hub, ResumeError
from interlock.engine.net.net import NetError
from interlock.engine.recording.session_end import end_left_open
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.new_rules import NewRules
from interlock.rules import compile_rules
from tests.support.clock import NOON, Clock

from ..support.external_agent import check_fold, recorded
from ..support.shop import Shop, bodies, bot, check, until
from .test_fuse import asked as waiting

HEAD = "require human-approval before deploy"
NET = "approve-before-deploy"
PEOPLE = Operators(
    (
        Operator("maria", groups=("security",)),
        Operator("ada", groups=("security", "dba")),
        Operator("omar", groups=("oncall",)),
        Operator("ben"),
    )
)


@pytest.fixture
async def hub(tmp_path: Path, clock: Clock) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock), policy=ApprovalPolicy())
    hub.know_operators(PEOPLE)
    yield hub
    await hub.close()


def agent(shop: Shop, *replies: object) -> Agent:
    model = ScriptedModel(list(replies or (C(deploy={}), T("done"))))  # type: ignore[arg-type]
    return Agent(model, name="bot", tools=shop.tools())


async def asked(
    hub: Hub, shop: Shop, options: str, *replies: object, by: str = "zoe"
) -> tuple[str, ApprovalState]:
    """Open a session that `by` started and return the request of its deploy."""
    events = hub.subscribe()
    config = SessionConfig(compile_rules(f"{HEAD} {options}").registry, by=by)
    session = await hub.open_session(agent(shop, *replies), config)
    await hub.send(session, "go", by=by)
    await until(events, ApprovalRequested)
    [request] = await hub.approvals()
    return session, request


def hub_after_kill(hub: Hub, copy: Path, clock: Clock) -> Hub:
    """Open another hub on a copy of the record, as after a `kill -9`."""
    with closing(sqlite3.connect(hub.database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    journal = Journal.open(copy, clock=clock)
    end_left_open(journal)
    after = Hub(journal)
    after.know_operators(PEOPLE)
    return after


async def approve(hub: Hub, request: ApprovalState, by: str) -> str:
    """Approve a request; return the message of a refusal, or an empty string."""
    outcome = await hub.decide(request.id, approved=True, by=by, digest=request.digest)
    return "" if outcome.ok else outcome.message


class TestGroup:
    async def test_only_members_count(self, hub: Hub, shop: Shop) -> None:
        """An operator outside the group is refused with a reason, and nothing is recorded."""
        session, request = await asked(hub, shop, "by 2 of security")
        assert request.approvers == Approvers("security")
        assert await approve(hub, request, "ben") == "ben is not in security: 2 of security must approve"
        assert await approve(hub, request, "nobody") != ""
        assert bodies(hub, session, ApprovalGiven) == []
        assert await approve(hub, request, "MARIA") == ""
        assert "has approved already" in await approve(hub, request, "maria")
        assert await approve(hub, request, "ada") == ""
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        [decided] = bodies(hub, session, CallDecided)
        assert decided.approver_names == "MARIA (security), ada (security, dba)"
        await check(hub, session)

    async def test_group_applies_to_a_single_approval(self, hub: Hub, shop: Shop) -> None:
        """The group also applies if one approval is enough."""
        session, request = await asked(hub, shop, "of security")
        assert (
            await approve(hub, request, "omar") == "omar is not in security: 1 of security must approve"
        )
        assert await approve(hub, request, "maria") == ""
        await hub.wait(session)
        [decided] = bodies(hub, session, ApprovalDecided)
        assert decided.groups == ("security",)

    async def test_operator_outside_the_group_may_deny(self, hub: Hub, shop: Shop) -> None:
        """An operator outside the group may deny."""
        session, request = await asked(hub, shop, "by 2 of security")
        assert (await hub.decide(request.id, approved=False, by="ben", reason="no")).ok
        await hub.wait(session)
        assert shop.ran == []

    async def test_no_configured_operators_refuses_approvals(self, hub: Hub, shop: Shop) -> None:
        """If no operators are configured, the group has no members and approvals are refused."""
        hub.know_operators(Operators())
        _, request = await asked(hub, shop, "of security")
        assert "maria is not in security" in await approve(hub, request, "maria")

    async def test_approver_who_left_the_group_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """The last approval checks the earlier ones again; if one no longer counts, all are void."""
        session, request = await asked(hub, shop, "by 2 of security")
        assert await approve(hub, request, "maria") == ""
        hub.know_operators(Operators((Operator("ada", groups=("security",)), Operator("maria"))))
        assert await approve(hub, request, "ada") == (
            "The approval of maria no longer counts, maria is not in security: 2 of security must "
            "approve: everybody is asked again"
        )
        assert len(bodies(hub, session, ApprovalWithdrawn)) == 1
        assert shop.ran == []

    async def test_approver_reduced_to_look_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """G-101: an approval no longer counts if the approver's role was reduced to `look`."""
        session, request = await asked(hub, shop, "by 2")
        assert await approve(hub, request, "maria") == ""
        hub.know_operators(Operators((Operator("ada"), Operator("maria", "look"))))
        assert await approve(hub, request, "ada") == (
            "The approval of maria no longer counts, their role is now 'look': everybody is asked again"
        )
        assert len(bodies(hub, session, ApprovalWithdrawn)) == 1
        assert shop.ran == []

    async def test_edit_requires_a_group_member(self, hub: Hub, shop: Shop) -> None:
        """An operator outside the group cannot approve an edited input either."""
        _, request = await asked(hub, shop, "of security")
        outcome = await hub.decide(request.id, approved=True, by="ben", input={"env": "x"})
        assert not outcome.ok
        assert shop.ran == []

    async def test_grant_requires_a_group_member(self, hub: Hub, shop: Shop) -> None:
        """A grant requires a member of the group who is not the author."""
        session, request = await asked(hub, shop, "of security", by="maria")
        terms = {"approved": True, "reason": "often", "grant": GrantTerms("names")}
        assert "ben is not in security" in (await hub.decide(request.id, by="ben", **terms)).message
        assert "another person must grant" in (await hub.decide(request.id, by="maria", **terms)).message
        assert (await hub.decide(request.id, by="ada", **terms)).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]


class TestAuthor:
    async def test_opener_and_task_sender_do_not_count(self, hub: Hub, shop: Shop) -> None:
        """Neither the operator who opened the session nor the one who sent its task counts."""
        events = hub.subscribe()
        config = SessionConfig(compile_rules(f"{HEAD} not by author").registry, by="zoe")
        session = await hub.open_session(agent(shop), config)
        await hub.send(session, "go", by="ben")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert await approve(hub, request, "Zoe") == (
            "Zoe started this session: another person must approve"
        )
        assert await approve(hub, request, "ben") == (
            "ben gave the running turn its task: another person must approve"
        )
        assert await approve(hub, request, "maria") == ""
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]

    async def test_author_may_deny(self, hub: Hub, shop: Shop) -> None:
        """The author of a session may deny its request."""
        session, request = await asked(hub, shop, "not by author")
        assert (await hub.decide(request.id, approved=False, by="zoe")).ok
        await hub.wait(session)
        assert shop.ran == []

    async def test_rule_overrides_own_approvals(self, shop: Shop, tmp_path: Path) -> None:
        """The policy `own_approvals` lets authors count, but not for a rule with `not by author`."""
        hub = Hub(Journal.open(tmp_path / "own.db"), policy=ApprovalPolicy(own_approvals=True))
        try:
            _, request = await asked(hub, shop, "by 2 not by author", by="zoe")
            assert "zoe started this session: 2 other people" in await approve(hub, request, "zoe")
            await hub.decide(request.id, approved=False, by="zoe")
            _, request = await asked(hub, shop, "by 2", by="zoe")
            assert await approve(hub, request, "zoe") == ""
        finally:
            await hub.close()

    async def test_group_member_who_is_author_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """A member of the group who started the session does not count."""
        _, request = await asked(hub, shop, "of security not by author", by="maria")
        assert await approve(hub, request, "maria") == (
            "maria started this session: 1 of security, other people, must approve"
        )
        assert await approve(hub, request, "ada") == ""


class TestEscalation:
    async def test_second_group_counts_after_escalation(self, hub: Hub, shop: Shop, clock: Clock) -> None:
        """After the escalation, members of the second group count, and so do earlier approvals."""
        session, request = await asked(hub, shop, "by 2 of security escalate to oncall after 10m")
        assert await approve(hub, request, "maria") == ""
        assert "omar is not in security:" in await approve(hub, request, "omar")
        clock.advance(600)
        assert "ben is not in security or oncall" in await approve(hub, request, "ben")
        [escalated] = bodies(hub, session, ApprovalEscalated)
        assert escalated.group == "oncall"
        [now] = await hub.approvals()
        assert (now.escalated, now.given) == (NOON + timedelta(minutes=10), ("maria",))
        assert await approve(hub, request, "omar") == ""
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        state = fold(await hub.recorded(session))
        assert state.calls[request.call_id].groups == {"maria": ("security",), "omar": ("oncall",)}
        await check(hub, session)

    async def test_rules_changed_during_recording_void_the_answer(
        self, hub: Hub, shop: Shop, clock: Clock
    ) -> None:
        """If the rules change while the escalation is recorded, the answer does not count."""
        session, request = await asked(hub, shop, "of security escalate to oncall after 10m\nblock rm")
        clock.advance(600)
        answer = asyncio.ensure_future(approve(hub, request, "omar"))
        await asyncio.sleep(0)
        switched = await hub.toggle_net(session, "block-rm", False, by="ada", reason="a drill")
        assert switched.ok, switched.message
        assert await answer == "The request has changed since it was shown and is asked again"
        assert bodies(hub, session, ApprovalDecided) == []
        assert shop.ran == []
        await check(hub, session)

    async def test_call_withdrawn_during_recording_is_not_decided(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the call is withdrawn while the escalation is recorded, nothing is decided."""
        rule = f"{HEAD} of security escalate to oncall after 10m"
        async with waiting(tmp_path, rule) as (hub, request, call):
            hub.know_operators(PEOPLE)
            later = utc_now() + timedelta(minutes=10)
            monkeypatch.setattr(hub._live.hosted("robin-1").questions.table, "clock", lambda: later)
            answer = asyncio.ensure_future(approve(hub, request, "maria"))
            await asyncio.sleep(0)
            await hub.withdraw_call("robin-1", request.call_id, "its client has gone")
            assert await answer != ""
            assert recorded(hub.database, ApprovalDecided) == []
            with pytest.raises(CallWithdrawn):
                await call
            await check_fold(hub)

    @pytest.mark.slow
    async def test_happens_without_answer_or_query(self, shop: Shop, tmp_path: Path) -> None:
        """The escalation happens at its time without any answer or query."""
        hub = Hub(Journal.open(tmp_path / "real.db"))
        try:
            events = hub.subscribe()
            session, request = await asked(hub, shop, "escalate to oncall after 1s")
            await until(events, ApprovalEscalated)
            [now] = await hub.approvals()
            assert now.escalated is not None
            assert await approve(hub, request, "anybody") == ""
            await hub.wait(session)
            assert shop.ran == ["deploy staging"]
        finally:
            await hub.close()

    @pytest.mark.slow
    async def test_time_counts_across_a_restart(self, shop: Shop, tmp_path: Path, clock: Clock) -> None:
        """The escalation's time counts from the first request, including time without a host."""
        options = "of security escalate to oncall after 10m within 1h"
        registry = compile_rules(f"{HEAD} {options}").registry
        hub = Hub(Journal.open(tmp_path / "0.db", clock=clock))
        hosts = [hub]
        session, _ = await asked(hub, shop, options)
        clock.advance(540)
        for number, seconds in enumerate((0, 60), 1):
            clock.advance(seconds)
            hub = hub_after_kill(hub, tmp_path / f"{number}.db", clock)
            hosts.append(hub)
            events = hub.subscribe()
            await hub.resume_session(session, bot(shop, T("done")), SessionConfig(registry, by="zoe"))
            await until(events, ApprovalRequested)
            if seconds:
                await until(events, ApprovalEscalated)
            [again] = await hub.approvals()
            assert bodies(hub, session, ApprovalRequested)[-1].first_asked == NOON
            assert (again.escalated is not None) is bool(seconds)
            assert again.approvers == Approvers("security", escalation=Escalation("oncall", 600))
            assert (await approve(hub, again, "omar") == "") is bool(seconds)
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        for each in hosts:
            await each.close()

    async def test_renewed_request_keeps_escalation_time(
        self, hub: Hub, shop: Shop, clock: Clock
    ) -> None:
        """A renewed request keeps the time of the first request and is escalated again."""
        session, request = await asked(hub, shop, "of security escalate to oncall after 10m")
        events = hub.subscribe()
        clock.advance(600)
        assert "ben is not in security or oncall" in await approve(hub, request, "ben")
        await until(events, ApprovalEscalated)
        off = await hub.toggle_net(session, NET, False, by="maria", reason="a test")
        assert off.ok, off.message
        await until(events, ApprovalEscalated)
        [again] = await hub.approvals()
        assert (again.id != request.id, again.escalated is not None) == (True, True)
        first, second = bodies(hub, session, ApprovalRequested)
        assert (first.first_asked, second.first_asked) == (None, NOON)


class TestLoosening:
    async def test_switching_off_takes_two_group_members(self, hub: Hub, shop: Shop) -> None:
        """Switching the net off takes two members of the group: one proposes and another confirms."""
        session, _ = await asked(hub, shop, "by 2 of security")
        proposed = await hub.toggle_net(session, NET, False, by="ben", reason="a drill")
        assert "ben is not in security and does not count" in proposed.message
        [change] = (await hub.session(session)).changes.values()
        assert (await hub.confirm_change(session, change.id, by="maria")).ok
        refused = await hub.confirm_change(session, change.id, by="omar")
        assert "omar is not in security" in refused.message
        assert NET in (await hub.session(session)).active
        assert (await hub.confirm_change(session, change.id, by="ada")).ok
        assert NET not in (await hub.session(session)).active

    async def test_shadow_mode_requires_a_member_of_each_group(self, hub: Hub, shop: Shop) -> None:
        """Shadow mode switches off several rules and requires a member of each rule's group."""
        rules = f"of security\n{HEAD} of dba when input.env = 'x'".replace("'", '"')
        session, _ = await asked(hub, shop, rules)
        half = await hub.set_mode(session, "shadow", by="maria", reason="a drill")
        assert "maria is not in dba" in half.message
        assert (await hub.session(session)).mode == "enforce"
        [change] = (await hub.session(session)).changes.values()
        assert (await hub.confirm_change(session, change.id, by="ada")).ok
        assert (await hub.session(session)).mode == "shadow"

    @pytest.mark.parametrize(
        ("options", "by", "others", "ok"),
        [
            ("", "ben", (), False),
            ("", "maria", (), True),
            ("of oncall", "omar", ("ben",), False),
            ("not by author", "zoe", ("ada",), True),
        ],
    )
    async def test_new_rules_require_a_group_member(
        self, hub: Hub, shop: Shop, options: str, by: str, others: tuple[str, ...], *, ok: bool
    ) -> None:
        """New rules with another group, or none, require the agreement of a group member."""
        session, _ = await asked(hub, shop, "of security")
        registry = compile_rules(f"{HEAD} {options}").registry
        applied = AppliedRules(by=by, at=NOON, others=others, reason="a new policy")
        outcome = await hub.replace_rules(session, NewRules(registry, registry, applied))
        assert outcome.ok is ok, outcome.message
        if not ok:
            assert "needs 1 of security who neither started it" in outcome.message

    async def test_single_operator_cannot_resume_under_another_group(self, hub: Hub, shop: Shop) -> None:
        """An operator alone cannot resume a session with another group of approvers."""
        session, _ = await asked(hub, shop, "of security")
        await hub.close_session(session, by="zoe")
        other = compile_rules(f"{HEAD} of oncall").registry
        with pytest.raises((ResumeError, NetError), match=r"has a different rule|differs"):
            await hub.resume_session(
                session, agent(shop), SessionConfig(other, by="ben", nets="changed", reason="why not")
            )
