"""A server's records on the screens of a remote console."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.app.screens.decisions.approval_stats import FatigueScreen
from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.history.backtest import BacktestScreen
from interlock.app.screens.history.screen import HistoryScreen
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.screens.replay.what_if import WhatIfDialog
from interlock.app.screens.replay.what_if_result import JudgedScreen
from interlock.app.screens.rules.screen import RulesScreen
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.decisions.filter import EVERYTHING

from ...engine.gateway.served import Served
from .seats import Seat, attached, between, served


@asynccontextmanager
async def served_with_session(directory: Path) -> AsyncGenerator[tuple[Served, Seat], None]:
    """A server with a session of a blocked, a tested and a deployed call, and a console."""
    async with served(directory) as server, server.agent_client() as agent, attached(server) as ada:
        session = await agent.open("robin")
        assert (await session.call("rm", {"path": "build"}, call_id="r1")).outcome == "block"
        await session.call("test", {}, call_id="t1")
        await session.result("t1", "42 passed")
        deploy = asyncio.ensure_future(session.call("deploy", {"env": "prod"}, call_id="d1"))
        await ada.dialog()
        await ada.press("a")
        assert (await asyncio.wait_for(deploy, 10)).outcome == "allow"
        await session.result("d1", "deployed")
        await ada.shows("deployed")
        yield server, ada


@pytest.fixture(autouse=True)
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator's rules files, which the server does not have."""
    here = tmp_path / "operator"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "strict.rules").write_text("block deploy\n")
    (here / "wrong.rules").write_text("require lint after test\n")
    return here


class TestScreens:
    @pytest.mark.slow
    async def test_history_and_replay(self, tmp_path: Path) -> None:
        """The server's sessions are listed and replayed, event by event."""
        async with served_with_session(tmp_path) as (_, ada):
            await ada.press("h")
            await ada.at(HistoryScreen)
            await ada.shows("robin")
            await ada.press("enter")
            await ada.at(ReplayScreen)
            await ada.press("end")
            await ada.shows("deployed")

    @pytest.mark.slow
    async def test_decisions(self, tmp_path: Path) -> None:
        """The decisions screen lists decisions and their operators."""
        async with served_with_session(tmp_path) as (_, ada):
            await ada.press("v")
            await ada.at(DecisionsScreen)
            await ada.shows("deploy", "rm", "ada")

    @pytest.mark.slow
    async def test_rules(self, tmp_path: Path) -> None:
        """The rules screen shows the operator's own files."""
        async with served_with_session(tmp_path) as (_, ada):
            await ada.press("R")
            await ada.at(RulesScreen)
            await ada.shows("strict.rules")

    @pytest.mark.slow
    async def test_approvals_are_counted(self, tmp_path: Path) -> None:
        """The approval statistics come from the server's journal."""
        async with served_with_session(tmp_path) as (_, ada):
            ada.app.push_screen(FatigueScreen(ada.hub, clock=ada.app._clock))
            await ada.at(FatigueScreen)
            await ada.shows("1 request", "require human-approval before deploy", "ada")

    @pytest.mark.slow
    async def test_backtest(self, tmp_path: Path) -> None:
        """Rules from the operator's machine judge the calls in the server's journal."""
        async with served_with_session(tmp_path) as (_, ada):
            ada.app.push_screen(BacktestScreen(ada.hub, None, ("strict.rules",)))
            await ada.at(BacktestScreen)
            await ada.press("enter")
            await ada.shows("✓ done", "1 newly blocked", "strict.rules:1")

    @pytest.mark.slow
    async def test_rules_that_do_not_compile(self, tmp_path: Path) -> None:
        """A compiler error is shown with its place in the operator's file."""
        async with served_with_session(tmp_path) as (_, ada):
            ada.app.push_screen(BacktestScreen(ada.hub, None, ("wrong.rules",)))
            await ada.at(BacktestScreen)
            await ada.press("enter")
            await ada.shows("✗ wrong.rules:1:14: expected 'before'")

    @pytest.mark.slow
    async def test_what_if_is_judged_at_the_server(self, tmp_path: Path) -> None:
        """A what-if from an event is judged at the server and shown here."""
        async with served_with_session(tmp_path) as (_, ada):
            await ada.press("h")
            await ada.at(HistoryScreen)
            await ada.shows("robin")
            await ada.press("enter")
            await ada.at(ReplayScreen)
            replay = ada.app.screen
            assert isinstance(replay, ReplayScreen)
            replay.position = 1
            await ada.press("w")
            await ada.at(WhatIfDialog)
            await ada.press("tab", "tab")
            ada.app.screen.query_one("#rules").value = "strict.rules"  # type: ignore[attr-defined]
            await ada.press("ctrl+s")
            await ada.at(JudgedScreen)
            await ada.shows("approved → ■ blocked", "strict.rules:1")


class TestJobs:
    @pytest.mark.slow
    async def test_abandoned_job_ends_on_the_server(self, tmp_path: Path) -> None:
        """A job whose results are no longer read ends on the server."""
        async with served_with_session(tmp_path) as (server, ada):
            hub = ada.hub
            assert isinstance(hub, ConsoleClient)
            parts = hub.approval_statistics()
            assert (await anext(parts)).found is not None
            await parts.aclose()
            [connection] = [c for c in server.gateway._connections if c.identity.kind == "operator"]
            assert connection.may_stay()
            # Jobs may be started and ended often: only a few run at a time.
            for _ in range(20):
                again = hub.backtest({"a.rules": "block rm"})
                await anext(again)
                await again.aclose()
            assert [part.finished async for part in hub.backtest({"a.rules": "block rm"})][-1]

    @pytest.mark.slow
    async def test_answers_equal_those_of_the_hub(self, tmp_path: Path) -> None:
        """The server's answers equal those of its hub, part by part."""
        async with served_with_session(tmp_path) as (server, ada):
            there, here = ada.hub, server.hub
            rules = {"strict.rules": "block deploy"}
            [state] = await there.sessions()
            asked = {"until": state.seq, "active": ("block-deploy",), "rules": rules}
            assert [p async for p in there.backtest(rules)] == [p async for p in here.backtest(rules)]
            assert [p async for p in there.approval_statistics()] == [
                p async for p in here.approval_statistics()
            ]
            assert [p async for p in there.what_if(state.id, 1, **asked)] == [
                p async for p in here.what_if(state.id, 1, **asked)
            ]
            assert [e async for e in _events(there, state.id)] == list(await here.recorded(state.id))


async def _events(hub: object, session: str) -> AsyncGenerator[object, None]:
    for event in await hub.recorded(session):  # type: ignore[attr-defined]
        yield event


class TestMasking:
    async def test_no_secret_is_transferred(self, tmp_path: Path) -> None:
        """The server masks secrets: no request of a console transfers one."""
        secret = "hunter2-SuperSecret-93"
        async with (
            served(tmp_path) as server,
            between(server) as (network, url),
            server.agent_client() as agent,
            attached(server, url=url) as ada,
        ):
            session = await agent.open("robin")
            given = {"env": "prod", "password": secret, "command": f"curl -u bob:{secret} x"}
            await session.report_message("assistant", f"I use --password {secret} for it.")
            await session.call("test", {**given}, call_id="t1")
            await session.result("t1", f"password={secret}")
            assert (await session.call("rm", given, call_id="r1")).outcome == "block"
            deploy = asyncio.ensure_future(session.call("deploy", given, call_id="d1"))
            await ada.dialog()
            await ada.press("a")
            answer = await asyncio.wait_for(deploy, 10)
            assert answer.input["password"] == secret
            hub = ada.hub
            [state] = await hub.sessions()
            await hub.recorded(state.id)
            await hub.explain(state.id, "d1")
            rules = {"a.rules": "block deploy\nblock test"}
            found = [p async for p in hub.backtest(rules)]
            assert found[-1].totals.counts.blocked.calls == 2
            judged = [p async for p in hub.what_if(state.id, 1, until=state.seq, active=(), rules=rules)]
            assert sum(len(p.found) for p in judged) == 3
            async for _ in hub.approval_statistics():
                pass
            scan = await hub.scan_decisions(EVERYTHING)
            for part in scan.parts:
                await hub.read_decisions(EVERYTHING, part)
            assert len(network.sent) > 10_000
            at = network.sent.find(secret.encode())
            assert at < 0, network.sent[max(0, at - 300) : at + 60]
