"""Plans in the record: the grants of an approved plan, and how long they continue (G-110)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import JsonValue

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.engine.backtest import Judge, Trial
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.core.plan import ConditionReader, Plan, written_plan
from interlock.engine.gate.classify import maps_digest
from interlock.engine.gate.grants.plans import plan_of_call
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    CallDecided,
    GrantGiven,
    GrantRevoked,
    SessionResumed,
)
from interlock.engine.history.model.records import AppliedRules
from interlock.engine.hub.hub import CallAnswer, Hub
from interlock.engine.net.net import Input
from interlock.engine.recording import grants
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.new_rules import NewRules
from interlock.rules import compile_rules

from ..gateway.served import until
from ..support.external_agent import AGENT, check_fold, opened, resumed
from ..support.shop import bodies

ASKS = "\n".join(f"require human-approval before {name}" for name in ("plan", "deploy", "push"))
STEPS: tuple[dict[str, object], ...] = (
    {"tool": "deploy", "count": 2, "when": 'input.env = "staging"'},
    {"tool": "push"},
)
INPUT: dict[str, JsonValue] = written_plan("Release 1.4", STEPS)  # type: ignore[assignment]


def hub_on(database: Path) -> Hub:
    return Hub(Journal.open(database), language=LANGUAGE)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = hub_on(tmp_path / "hub.db")
    yield hub
    await hub.close()


async def call_and_approve(
    hub: Hub, call_id: str, tool: str, given: dict[str, JsonValue]
) -> tuple[CallAnswer, bool]:
    """Make a call and approve its request, if any; return the answer and whether there was one."""
    call = asyncio.ensure_future(hub.call("robin-1", call_id, tool, given))
    asked = asyncio.ensure_future(until(hub.approvals))
    await asyncio.wait((call, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    requests = await hub.approvals()
    for request in requests:
        assert not (tool == "plan" and request.may_grant)
        outcome = await hub.decide(request.id, approved=True, by="jo", digest=request.digest)
        assert outcome.ok, outcome.message
    return await asyncio.wait_for(call, 10), bool(requests)


async def planned(hub: Hub, rules: str = ASKS) -> str:
    """A session with an approved plan."""
    session = await opened(hub, rules)
    answer, asked = await call_and_approve(hub, "p1", "plan", INPUT)
    assert (answer.outcome, asked) == ("allow", True), answer
    await hub.result(session, "p1", output="approved", is_error=False)
    return session


async def deploys(hub: Hub, call_id: str) -> bool:
    """Deploy to staging; return whether the plan covered it."""
    answer, asked = await call_and_approve(hub, call_id, "deploy", {"env": "staging"})
    assert answer.outcome == "allow", answer
    await hub.result("robin-1", call_id, output="", is_error=False)
    return not asked


class TestRecorded:
    async def test_grants_are_recorded_before_the_decision(self, hub: Hub) -> None:
        """G-108: the grants are recorded before the decision, with the approver and the step."""
        session = await planned(hub)
        given = bodies(hub, session, GrantGiven)
        assert [(g.grant.key, g.grant.plan, g.grant.uses, g.by, g.call_id) for g in given] == [
            ("grant-1", "plan-1", 2, "jo", "p1"),
            ("grant-2", "plan-1", 1, "jo", "p1"),
        ]
        assert given[0].input == written_plan("Release 1.4", [STEPS[0]])
        events = await hub.recorded(session)
        kinds = [type(event.body) for event in events]
        assert kinds.index(GrantGiven) < kinds.index(CallDecided)
        await check_fold(hub)

    async def test_fold_equals_live_state_after_each_call(self, hub: Hub) -> None:
        """G-109: after each call, the fold of the record equals the live state."""
        session = await planned(hub)
        for n, passes in enumerate((True, True, False)):
            assert await deploys(hub, f"d{n}") is passes
            await check_fold(hub)
        state = await hub.session(session)
        assert [grant.net.marking["granted"] for grant in state.grants.values()] == [0, 1]
        decided = [d for d in bodies(hub, session, CallDecided) if d.tool == "deploy"]
        assert [d.granted for d in decided] == [("grant-1",), ("grant-1",), ()]

    async def test_history_names_the_plan(self, hub: Hub) -> None:
        """The history names the plan and what it gave."""
        session = await planned(hub)
        lines = [headline(e) for e in await hub.recorded(session)]
        assert any("deploy" in line and "plan-1" in line and "2" in line for line in lines), lines


class TestResumed:
    async def test_remaining_uses_survive_a_restart(self, hub: Hub, tmp_path: Path) -> None:
        """G-63: after a restart, the remaining uses of a plan are available, and no more."""
        session = await planned(hub)
        assert await deploys(hub, "d1")
        await hub.close_session(session, by="jo")
        await hub.close()
        again = hub_on(tmp_path / "hub.db")
        await resumed(again, session, ASKS)
        assert await deploys(again, "d2")
        assert not await deploys(again, "d3")
        await check_fold(again)
        await again.close()

    @pytest.mark.variants
    @pytest.mark.parametrize(
        "rules",
        [ASKS + "\nblock rm", ASKS.replace("push", "ship"), ASKS + "\nmap bash.command ./x as deploy"],
    )
    async def test_other_rules_or_maps_end_the_plan(self, hub: Hub, tmp_path: Path, rules: str) -> None:
        """G-110: under other rules or maps the complete plan ends, also for unchanged rules."""
        session = await planned(hub)
        await hub.close_session(session, by="jo")
        await hub.close()
        again = hub_on(tmp_path / "hub.db")
        await resumed(again, session, rules, nets="changed", reason="other rules")
        assert not await deploys(again, "d1")
        assert not any(grant.net.active for grant in (await again.session(session)).grants.values())
        await check_fold(again)
        await again.close()

    async def test_other_agent_is_not_covered(self, hub: Hub, tmp_path: Path) -> None:
        """G-110: a plan does not cover calls of another agent that resumes the session."""
        session = await planned(hub)
        await hub.close_session(session, by="jo")
        await hub.close()
        again = hub_on(tmp_path / "hub.db")
        other = AGENT.model_copy(update={"name": "raven"})
        await again.resume_external(session, other, SessionConfig(compile_rules(ASKS).registry))
        assert not await deploys(again, "d1")
        [resumption] = bodies(again, session, SessionResumed)
        assert (resumption.agent, resumption.ended_grants) == ("raven", ("grant-1", "grant-2"))
        await check_fold(again)
        await again.close_session(session, by="jo")
        await resumed(again, session, ASKS)
        assert not await deploys(again, "d2"), "what has ended comes back"
        await again.close()

    async def test_each_step_is_read_once(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each recorded step is read once."""
        session = await planned(hub)
        state, nets = fold(await hub.recorded(session)), compile_rules(ASKS).registry
        read: list[Input] = []

        def counting(value: Input, conditions: ConditionReader | None) -> Plan:
            read.append(value)
            return plan_of_call(value, conditions)

        monkeypatch.setattr(grants, "plan_of_call", counting)
        found = grants.Grants.of(state.grants, nets, maps_digest(nets.values()), LANGUAGE.condition)
        assert read == [grant.input for grant in state.grants.values()]
        assert (found.over, [grant.tool for grant in found.every]) == (frozenset(), ["deploy", "push"])

    async def test_host_without_condition_reader_ends_the_plan(self, hub: Hub, tmp_path: Path) -> None:
        """G-110: a host that cannot read conditions ends a plan that has one."""
        session = await planned(hub)
        await hub.close_session(session, by="jo")
        await hub.close()
        again = Hub(Journal.open(tmp_path / "hub.db"))
        await resumed(again, session, ASKS)
        answer, asked = await call_and_approve(again, "x1", "push", {})
        assert (answer.outcome, asked) == ("allow", True)
        assert not await deploys(again, "d1")
        await again.close()


class TestEnded:
    @pytest.mark.parametrize("key", ["grant-2", "plan-1"])
    async def test_revoking_one_grant_ends_all(self, hub: Hub, key: str) -> None:
        """G-110: revoking one grant of a plan ends them all, with one event each."""
        session = await planned(hub)
        outcome = await hub.revoke_grant(session, key, by="ada")
        assert outcome.ok
        assert [(e.key, e.by) for e in bodies(hub, session, GrantRevoked)] == [
            ("grant-1", "ada"),
            ("grant-2", "ada"),
        ]
        assert not await deploys(hub, "d1")
        assert not (await hub.revoke_grant(session, key, by="ada")).ok
        await check_fold(hub)

    async def test_new_rules_end_the_plan(self, hub: Hub) -> None:
        """G-110: new rules for the live session end the plan."""
        session = await planned(hub)
        registry = compile_rules(ASKS + "\nblock rm").registry
        applied = AppliedRules(by="ada", at=datetime(2026, 11, 23, tzinfo=UTC), reason="stricter")
        assert (await hub.replace_rules(session, NewRules(registry, registry, applied))).ok
        assert not await deploys(hub, "d1")
        await check_fold(hub)

    async def test_unchanged_rules_keep_the_plan(self, hub: Hub) -> None:
        """G-110: unchanged rules do not end the plan."""
        session = await planned(hub)
        registry = compile_rules(ASKS).registry
        applied = AppliedRules(by="ada", at=datetime(2026, 11, 23, tzinfo=UTC), reason="same")
        assert (await hub.replace_rules(session, NewRules(registry, registry, applied))).ok
        assert await deploys(hub, "d1")

    async def test_unrecorded_plan_gives_nothing(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        """A-11: if the journal refuses the grants, the plan gives nothing."""
        session = await opened(hub, ASKS)
        hosted = hub._live.hosted(session)
        written = hosted.ledger.write_change

        def refused(bodies: object) -> object:
            monkeypatch.setattr(hosted.ledger, "write_change", written)

            def fail() -> list[object]:
                raise RuntimeError("disk")

            return written(fail)  # type: ignore[arg-type]

        call = asyncio.ensure_future(hub.call(session, "p1", "plan", INPUT))
        (request,) = await asyncio.wait_for(until(hub.approvals), 10)
        monkeypatch.setattr(hosted.ledger, "write_change", refused)
        await hub.decide(request.id, approved=True, by="jo", digest=request.digest)
        with pytest.raises(JournalError):
            await asyncio.wait_for(call, 10)
        assert not await deploys(hub, "d1")
        assert hosted.manager.grants == {}
        assert fold(await hub.recorded(session)).grants == {}


class TestJudgedAgain:
    async def test_same_rules_judge_calls_as_before(self, hub: Hub, tmp_path: Path) -> None:
        """Under the same rules, a backtest judges every call of a session with plans as before."""
        await planned(hub)
        for n in range(3):
            await deploys(hub, f"d{n}")
        no_plan = asyncio.ensure_future(hub.call("robin-1", "p2", "plan", {"steps": "none"}))
        assert (await asyncio.wait_for(no_plan, 10)).outcome == "block"
        recording = next(recordings(tmp_path / "hub.db", ["robin-1"]))
        judged = list(Judge(Trial.of(compile_rules(ASKS).registry)).judge(recording.items))
        assert [j.call.then.outcome for j in judged] == ["ask", "ask", "ask", "ask", "block"]
        assert [j.change for j in judged] == ["same"] * 5

    async def test_other_rules_judge_covered_calls(self, hub: Hub, tmp_path: Path) -> None:
        """Under other rules, a backtest judges a call that a plan covered like any other."""
        await planned(hub)
        await deploys(hub, "d1")
        recording = next(recordings(tmp_path / "hub.db", ["robin-1"]))
        blocked = Judge(Trial.of(compile_rules("block deploy").registry)).judge(recording.items)
        assert [j.change for j in blocked] == ["allowed", "blocked"]


class TestSubagents:
    async def test_external_subagent_is_not_covered(self, hub: Hub) -> None:
        """G-109: a plan does not cover an external agent's subagent, which cannot make one either."""
        session = await planned(hub)
        call = hub.submit_call(session, "s1", "push", {}, "reviewer")
        (request,) = await asyncio.wait_for(until(hub.approvals), 10)
        assert request.beyond is not None
        assert "subagent" in request.beyond
        await hub.decide(request.id, approved=False, by="jo", digest=request.digest)
        assert (await asyncio.wait_for(call, 10)).outcome == "block"
        refused = await asyncio.wait_for(hub.submit_call(session, "s2", "plan", INPUT, "reviewer"), 10)
        assert refused.outcome == "block"
        assert "subagent" in (refused.reason or "")
