"""Limits across the sessions of a server: live, after a restart, under new rules and in backtests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from interlock.engine.backtest import Backtest, Trial
from interlock.engine.backtest.explain_recorded import explain_recorded_call
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.gate import ToolResult
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided
from interlock.engine.history.model.records import AppliedRules
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.new_rules import NewRules
from interlock.rules import compile_rules, condition_of

from ..history.support.recording import NOON
from ..support.external_agent import check_fold

RULES = "limit refund to 3 per 1d across everyone\n"
PER_AGENT = "limit refund to 1 per 1d across agent\n"
PER_OPERATOR = "limit refund to 1 per 1d across operator\n"
EACH = "limit refund to 1 per 1d for each input.customer across everyone\n"


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


class Server:
    """A hub that can be restarted on its journal, with a clock that tests advance."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.clock = Clock()
        self.hub = Hub(Journal.open(path, clock=self.clock))
        self.calls = 0

    async def restart(self) -> None:
        await self.hub.close()
        self.hub = Hub(Journal.open(self._path, clock=self.clock))

    async def opens(self, session: str, rules: str, *, agent: str = "robin", by: str = "ada") -> None:
        config = SessionConfig(compile_rules(rules).registry, by=by)
        await self.hub.open_external(ExternalAgent(name=agent), config, session_id=session)

    async def resumes(self, session: str, rules: str) -> None:
        config = SessionConfig(compile_rules(rules).registry, by="ada")
        await self.hub.resume_external(session, ExternalAgent(name="robin"), config)

    async def refund(self, session: str, customer: str = "x") -> str:
        self.calls += 1
        self.clock.now += timedelta(seconds=1)
        call_id, given = f"c{self.calls}", {"customer": customer}
        answer = await self.hub.call(session, call_id, "refund", dict(given))
        if answer.outcome == "allow":
            await self.hub.result(session, call_id, output="ok", is_error=False)
        return answer.outcome


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path / "hub.db")
    try:
        yield server
    finally:
        await server.hub.close()


async def use_up(server: Server) -> None:
    """Use two of three refunds, in two sessions."""
    for session in ("a", "b"):
        await server.opens(session, RULES)
        assert await server.refund(session) == "allow"


class TestCounting:
    async def test_over_all_sessions(self, server: Server) -> None:
        await use_up(server)
        await server.opens("c", RULES)
        assert [await server.refund(s) for s in ("c", "c", "a")] == ["allow", "block", "block"]
        server.clock.now += timedelta(days=1)
        assert await server.refund("c") == "allow"
        for session in ("a", "b", "c"):
            await check_fold(server.hub, session)

    async def test_reason_names_the_reach(self, server: Server) -> None:
        await server.opens("a", "limit refund to 1 per 1d across everyone")
        await server.refund("a")
        await server.opens("b", "limit refund to 1 per 1d across everyone")
        answer = await server.hub.call("b", "d1", "refund", {})
        assert answer.reason is not None
        assert "refund has reached its limit of 1 calls per 1d across everyone" in answer.reason

    async def test_simultaneous_calls_stay_within_the_limit(self, server: Server) -> None:
        names = [f"s{n}" for n in range(8)]
        for name in names:
            await server.opens(name, RULES)
        found = await asyncio.gather(*(server.hub.call(name, "c", "refund", {}) for name in names))
        assert sorted(answer.outcome for answer in found) == ["allow"] * 3 + ["block"] * 5

    @pytest.mark.parametrize(
        ("rules", "other"), [(PER_AGENT, {"agent": "kim"}), (PER_OPERATOR, {"by": "ben"})]
    )
    async def test_per_agent_and_per_operator(
        self, server: Server, rules: str, other: dict[str, str]
    ) -> None:
        await server.opens("a", rules)
        await server.opens("b", rules)
        await server.opens("c", rules, **other)
        found = [await server.refund(session) for session in ("a", "b", "c", "c")]
        assert found == ["allow", "block", "allow", "block"]

    async def test_per_value(self, server: Server) -> None:
        await server.opens("a", EACH)
        await server.opens("b", EACH)
        found = [await server.refund(s, c) for s, c in (("a", "ann"), ("b", "Ann"), ("b", "bob"))]
        assert found == ["allow", "block", "allow"]

    async def test_call_that_never_ran_returns_its_use(self, server: Server) -> None:
        await use_up(server)
        await server.opens("c", RULES)
        hosted = server.hub._live.hosted("c")
        call = ToolCall("never", "refund", {"customer": "x"})
        decision = await hosted.decide(call)
        assert not decision.block
        result = ToolResult("never", "refund", call.input, True, decision.steps)
        assert (await hosted.settle(result, "cancelled", 0.0)).undone == decision.steps
        assert server.hub._live.hosted("b").manager.block_reason(call) is None
        await server.restart()
        await server.resumes("b", RULES)
        assert [await server.refund("b") for _ in range(2)] == ["allow", "block"]


class TestAfterwards:
    async def test_uses_survive_a_restart(self, server: Server) -> None:
        await use_up(server)
        await server.restart()
        await server.resumes("a", RULES)
        await server.opens("c", RULES)
        assert [await server.refund(s) for s in ("c", "c", "a")] == ["allow", "block", "block"]
        await check_fold(server.hub, "a")

    async def test_changed_limit_counts_earlier_uses(self, server: Server) -> None:
        """A changed limit counts the uses under the old one, in this and other sessions."""
        await use_up(server)
        new = compile_rules(RULES.replace("3 per 1d", "4 per 7d")).registry
        applied = AppliedRules(by="ada", at=server.clock.now, reason="more")
        assert (await server.hub.replace_rules("a", NewRules(new, new, applied))).ok
        assert [await server.refund("a") for _ in range(3)] == ["allow", "allow", "block"]
        assert await server.refund("b") == "block"

    async def test_longer_limit_counts_older_uses(self, server: Server) -> None:
        await use_up(server)
        server.clock.now += timedelta(days=2)
        await server.restart()
        await server.opens("c", RULES)
        await server.opens("d", RULES.replace("3 per 1d", "3 per 7d"))
        assert [await server.refund(s) for s in ("d", "d", "c")] == ["allow", "block", "allow"]

    async def test_explanations_equal_recorded_outcomes(self, server: Server) -> None:
        await use_up(server)
        assert [await server.refund("a") for _ in range(2)] == ["allow", "block"]
        events = await server.hub.recorded("a")
        for event in events:
            if isinstance(event.body, CallDecided):
                before = fold(e for e in events if e.seq < event.seq)
                view = explain_recorded_call(before, event.body, event.at, condition_of)
                assert view.outcome == event.body.outcome

    @pytest.mark.parametrize("recorded_under", [RULES, "block rm\n"])
    async def test_backtest_counts_across_sessions(self, server: Server, recorded_under: str) -> None:
        """A backtest judges interleaved sessions one by one, each with the other's uses at that time."""
        for session in ("a", "b"):
            await server.opens(session, recorded_under)
        found = {"a": [], "b": []}
        for session in "abbaab":
            found[session].append(await server.refund(session))
        rules = compile_rules(RULES).registry
        reports = {
            report.session: report
            for report in Backtest(Trial.of(rules)).run(recordings(server.hub.database, ["a", "b"]))
        }
        if recorded_under == RULES:
            assert [found["a"], found["b"]] == [["allow", "block", "block"], ["allow", "allow", "block"]]
            assert all(report.first is None for report in reports.values())
        else:
            assert {name: report.counts.blocked.calls for name, report in reports.items()} == {
                "a": 2,
                "b": 1,
            }
