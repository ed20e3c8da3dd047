"""Rules per value of a field, in sessions: live, after a restart, in a branch and in backtests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T, ToolContext, tool
from interlock.engine.backtest import Judge, Trial, fork
from interlock.engine.backtest.explain_recorded import explain_recorded_call
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import ApprovalRequested, CallDecided, SessionStatus
from interlock.engine.history.model.records import AppliedRules
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.new_rules import NewRules
from interlock.rules import compile_rules, condition_of

from ..history.support.recording import NOON
from ..support.external_agent import check_fold, opened, resumed
from ..support.shop import bodies, until

ORDER = "require review before merge for same input.pr\n"
LIMIT = "limit refund to 1 per 1d for each input.customer\n"
RULES = ORDER + LIMIT
SESSION = "robin-1"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db"))
    try:
        yield hub
    finally:
        await hub.close()


async def call(hub: Hub, tool: str, *, ends: bool = True, **given: str | int) -> str:
    call_id = f"c{sum(1 for _ in bodies(hub, SESSION, CallDecided)) + 1}"
    answer = await hub.call(SESSION, call_id, tool, dict(given))
    if ends and answer.outcome == "allow":
        await hub.result(SESSION, call_id, output="ok", is_error=False)
    return answer.outcome


async def begin(hub: Hub) -> None:
    """Pull request 1 is reviewed, the review of 2 is running, and ada has got a refund."""
    await call(hub, "review", pr=1)
    await call(hub, "refund", customer="ada")
    await call(hub, "review", ends=False, pr=2)


async def check_rest(hub: Hub) -> None:
    """Check the outcomes that follow from `begin`, in all tests alike."""
    assert await call(hub, "merge", pr=2) == "block"
    await hub.result(SESSION, "c3", output="ok", is_error=False)
    assert [await call(hub, "merge", pr=pr) for pr in (1, 2, 3)] == ["allow", "allow", "block"]
    assert [await call(hub, "refund", customer=c) for c in ("Ada", "bob")] == ["block", "allow"]
    await check_fold(hub)


class TestExternalSessions:
    async def test_each_value_is_counted_separately(self, hub: Hub) -> None:
        await opened(hub, RULES)
        await begin(hub)
        await check_rest(hub)
        state = await hub.session(SESSION)
        assert [value.value for value in state.values.values()] == ["ada", "1", "2", "bob"]

    @pytest.mark.slow
    async def test_values_survive_a_restart(self, hub: Hub, tmp_path: Path) -> None:
        await opened(hub, RULES)
        await begin(hub)
        await hub.close()
        again = Hub(Journal.open(tmp_path / "hub.db"))
        try:
            await resumed(again, SESSION, RULES)
            await check_rest(again)
        finally:
            await again.close()

    @pytest.mark.slow
    async def test_kept_rule_keeps_each_value(self, hub: Hub) -> None:
        """A kept rule keeps the state of each value; a changed rule starts fresh."""
        await opened(hub, RULES)
        await begin(hub)
        new = compile_rules(f"{ORDER}{LIMIT}block rm\n").registry
        applied = AppliedRules(by="ada", at=(await hub.session(SESSION)).updated, reason="new")
        assert (await hub.replace_rules(SESSION, NewRules(new, new, applied))).ok
        await check_rest(hub)
        other = compile_rules(ORDER + LIMIT.replace("customer", "order")).registry
        assert (await hub.replace_rules(SESSION, NewRules(other, other, applied))).ok
        assert await call(hub, "refund", customer="ada", order=7) == "allow"
        assert {value.net for value in (await hub.session(SESSION)).values.values()} == {
            "require-review-before-merge-same-pr",
            "limit-refund-1-per-1d-each-order",
        }
        await check_fold(hub)

    @pytest.mark.slow
    async def test_backtest_and_fork_judge_each_value(self, hub: Hub) -> None:
        """A backtest and a fork judge each call with the calls before it."""
        await opened(hub, "block rm\n")
        await begin(hub)
        await hub.result(SESSION, "c3", output="ok", is_error=False)
        for pr in (1, 2, 3):
            await call(hub, "merge", pr=pr)
        await call(hub, "refund", customer="ADA")
        await call(hub, "merge")
        expected = ["allow", "allow", "block", "block", "block"]
        trial = Trial.of(compile_rules(RULES).registry)
        judge = Judge(trial)
        for _ in range(2):
            recording = next(recordings(hub.database, [SESSION]))
            assert [j.now.outcome for j in judge.judge(recording.items)][3:] == expected
        events = await hub.recorded(SESSION)
        at = next(e.seq for e in events if isinstance(e.body, CallDecided) and e.body.call_id == "c4")
        rest = fork(events, at - 1, trial)
        assert [j.now.outcome for j in judge.judge(rest.items, rest.start)] == [
            "block", "block", "block", "allow", "block"
        ], "nets that the record does not know have seen nothing"  # fmt: skip

    @pytest.mark.slow
    async def test_fork_starts_with_the_state_of_each_value(self, hub: Hub) -> None:
        await opened(hub, RULES)
        await begin(hub)
        await check_rest(hub)
        events = await hub.recorded(SESSION)
        trial = Trial.of(compile_rules(RULES).registry)
        for event in events:
            if isinstance(event.body, CallDecided):
                rest = fork(events, event.seq - 1, trial)
                judged = list(Judge(trial).judge(rest.items, rest.start))
                assert [j.now.outcome for j in judged] == [j.call.then.outcome for j in judged]

    @pytest.mark.slow
    async def test_explanations_equal_recorded_outcomes(self, hub: Hub) -> None:
        await opened(hub, RULES)
        await begin(hub)
        await check_rest(hub)
        assert await call(hub, "review") == "allow"
        assert await call(hub, "merge") == "block"
        events = await hub.recorded(SESSION)
        for event in events:
            if isinstance(event.body, CallDecided):
                before = fold(e for e in events if e.seq < event.seq)
                view = explain_recorded_call(before, event.body, event.at, condition_of)
                assert view.outcome == event.body.outcome


class TestHostedSessions:
    async def test_branch_starts_with_the_state_of_each_value(self, hub: Hub) -> None:
        ran: list[int] = []

        @tool
        async def review(ctx: ToolContext, pr: int) -> str:
            """Review."""
            return "good"

        @tool
        async def merge(ctx: ToolContext, pr: int) -> str:
            """Merge."""
            ran.append(pr)
            return "merged"

        def agent(*replies: Reply) -> Agent:
            return Agent(ScriptedModel(list(replies)), name="robin", tools=[review, merge])

        config = SessionConfig(compile_rules(RULES).registry)
        session = await hub.open_session(
            agent(C(review={"pr": 1}), C(review={"pr": 2}), T("done")), config
        )
        await _turn(hub, session, "review them")
        at = (await hub.session(session)).seq
        merges = [C(merge={"pr": pr}) for pr in (1, 3, 2)]
        branch = await hub.branch_session(session, at, agent(*merges, T("done")), config)
        await _turn(hub, branch, "merge them")
        assert ran == [1, 2]
        state = fold(await hub.recorded(branch))
        assert len(state.values) == 2

    @pytest.mark.slow
    async def test_branch_keeps_the_time_of_a_success(self, tmp_path: Path) -> None:
        """A branch made later does not renew the time of a success."""
        ran: list[str] = []
        now = NOON

        @tool
        async def test(ctx: ToolContext, repo: str) -> str:
            """Test."""
            return "good"

        @tool
        async def deploy(ctx: ToolContext, repo: str) -> str:
            """Deploy."""
            ran.append(repo)
            return "deployed"

        def agent(*replies: Reply) -> Agent:
            return Agent(ScriptedModel(list(replies)), name="robin", tools=[test, deploy])

        hub = Hub(Journal.open(tmp_path / "timed.db", clock=lambda: now))
        rules = "require test before deploy within 30m for same input.repo\n"
        config = SessionConfig(compile_rules(rules).registry)
        try:
            session = await hub.open_session(agent(C(test={"repo": "a"}), T("done")), config)
            await _turn(hub, session, "test it")
            at = (await hub.session(session)).seq
            for minutes, expected in ((29, ["a"]), (31, ["a"])):
                now = NOON + timedelta(minutes=minutes)
                deploys = agent(C(deploy={"repo": "a"}), T("done"))
                branch = await hub.branch_session(session, at, deploys, config)
                await _turn(hub, branch, "deploy it")
                assert ran == expected
                await check_fold(hub, branch)
        finally:
            await hub.close()


async def _turn(hub: Hub, session: str, text: str) -> None:
    """Send a message and wait until the session is idle."""
    subscription = hub.subscribe()
    await hub.send(session, text, by="maria")
    event = await until(subscription, SessionStatus)
    while event.session != session or event.body.status != "idle":
        event = await until(subscription, SessionStatus)


class TestApprovalsForOneValue:
    """`after read_ticket require human-approval before refund for same input.ticket` in a session."""

    RULES = "after read_ticket require human-approval before refund for same input.ticket\n"
    KEY = "approve-before-refund-after-read_ticket-same-ticket"

    async def test_approval_applies_to_its_value_after_a_restart(self, hub: Hub, tmp_path: Path) -> None:
        await opened(hub, self.RULES)
        assert await call(hub, "read_ticket", ticket=7) == "allow"
        assert await call(hub, "refund", ticket=8) == "allow"
        await hub.close()
        again = Hub(Journal.open(tmp_path / "hub.db"))
        try:
            await resumed(again, SESSION, self.RULES)
            assert await self.granted(again, ticket=7) == "allow"
            assert await call(again, "refund", ticket=7) == "allow"
            await check_fold(again)
        finally:
            await again.close()

    async def test_grant_continues_for_its_value_only(self, hub: Hub, tmp_path: Path) -> None:
        await opened(hub, self.RULES)
        for ticket in (7, 8):
            assert await call(hub, "read_ticket", ticket=ticket) == "allow"
        assert await self.granted(hub, ticket=7) == "allow"
        await hub.close()
        again = Hub(Journal.open(tmp_path / "hub.db"))
        try:
            await resumed(again, SESSION, self.RULES)
            assert await call(again, "refund", ticket=7) == "allow"
            assert await self.granted(again, ticket=8) == "allow"
            await check_fold(again)
        finally:
            await again.close()

    async def granted(self, hub: Hub, *, ticket: int) -> str:
        """Return the outcome of a refund that is requested and granted."""
        heard = hub.subscribe()
        made = asyncio.create_task(call(hub, "refund", ticket=ticket))
        await until(heard, ApprovalRequested)
        [request] = await hub.approvals()
        assert request.net == self.KEY
        terms = GrantTerms(scope="names")
        given = await hub.decide(request.id, approved=True, by="maria", reason="known", grant=terms)
        assert given.ok
        return await made
