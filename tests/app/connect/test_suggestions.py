"""Suggestions on a remote console: from the server's journal, for the operator's own files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.app.screens.decisions.screen import DecisionsScreen
from interlock.app.screens.decisions.suggestions import SuggestionsScreen
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.client.console import ConsoleClient

from ...engine.gateway.served import Served, until
from .seats import Seat, attached, between, served

RULE = "require human-approval before deploy\n"
SECRET = "hunter2-SuperSecret-93"


@pytest.fixture(autouse=True)
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator's rules files, which the server does not have."""
    here = tmp_path / "operator"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "own.rules").write_text(RULE)
    return here


async def deploy(server: Served, session: AgentSession, call: str, env: str, approved: bool) -> None:
    """Make a call and decide its request."""
    values = {"env": env, "password": SECRET}
    asked = asyncio.ensure_future(session.call("deploy", values, call_id=call))
    [request] = await until(server.hub.approvals)
    await server.hub.decide(request.id, approved=approved, by="ben", digest=request.digest)
    answer = await asyncio.wait_for(asked, 10)
    assert answer.outcome == ("allow" if approved else "block")
    if approved:
        await session.result(call, "deployed")


@asynccontextmanager
async def agent_with_deploys(server: Served) -> AsyncGenerator[None, None]:
    """An agent whose deploys to staging were approved and to production denied."""
    async with server.agent_client() as agent:
        session = await agent.open("robin")
        for number in range(12):
            await deploy(server, session, f"s{number}", "staging", True)
        await deploy(server, session, "p1", "prod", False)
        yield


@asynccontextmanager
async def served_with_deploys(directory: Path) -> AsyncGenerator[tuple[Served, Seat], None]:
    async with (
        served(directory, rules=RULE) as server,
        agent_with_deploys(server),
        attached(server) as ada,
    ):
        yield server, ada


class TestOverTheWire:
    @pytest.mark.slow
    async def test_local_rules_get_suggestions(self, tmp_path: Path) -> None:
        """The decisions screen suggests changes to local rules from the server's calls."""
        async with served_with_deploys(tmp_path) as (_, ada):
            await ada.press("v")
            await ada.at(DecisionsScreen)
            await ada.shows("deploy")
            await ada.press("p")
            await ada.at(SuggestionsScreen)
            await ada.shows(
                "own.rules:1", '+ require human-approval before deploy when input.env != "staging"'
            )
            await ada.shows("12 approval requests saved", "approved by ben")

    async def test_answers_equal_those_of_the_hub(self, tmp_path: Path) -> None:
        """The server's answers equal those of its hub, part by part, except for progress."""
        async with served_with_deploys(tmp_path) as (server, ada):
            rules = {"own.rules": RULE}
            there = [p async for p in ada.hub.suggest_rules(rules) if not p.total]
            here = [p async for p in server.hub.suggest_rules(rules) if not p.total]
            assert there == here
            assert there[0].suggestion is not None
            assert there[-1].history is not None
            assert there[-1].history.calls == 13

    @pytest.mark.slow
    async def test_additional_condition_is_judged_by_the_server(self, tmp_path: Path) -> None:
        """The server judges a rule with the operator's condition as its hub does."""
        async with served_with_deploys(tmp_path) as (server, ada):
            rules, place = {"own.rules": RULE}, {"file": "own.rules", "line": 1}
            for env, denied in (("staging", 0), ("prod", 1)):
                when = f'input.env != "{env}"'
                there = [p.found async for p in ada.hub.narrow_rule(rules, **place, when=when)]
                here = [p.found async for p in server.hub.narrow_rule(rules, **place, when=when)]
                assert there[-1] == here[-1]
                assert there[-1] is not None
                assert there[-1].denied == denied
                assert SECRET not in there[-1].model_dump_json()

    @pytest.mark.slow
    async def test_rules_that_do_not_compile(self, tmp_path: Path) -> None:
        """A compiler error comes back with its place in the operator's file."""
        async with served_with_deploys(tmp_path) as (_, ada):
            with pytest.raises(ValueError, match=r"own\.rules:1"):
                async for _ in ada.hub.suggest_rules({"own.rules": "require lint after test"}):
                    pass

    @pytest.mark.slow
    async def test_abandoned_job_ends_on_the_server(self, tmp_path: Path) -> None:
        """Jobs that are started and left end on the server, so that a new one can run."""
        async with served_with_deploys(tmp_path) as (_, ada):
            assert isinstance(ada.hub, ConsoleClient)
            for _ in range(20):
                parts = ada.hub.suggest_rules({"own.rules": RULE})
                await anext(parts)
                await parts.aclose()
            parts = ada.hub.suggest_rules({"own.rules": RULE})
            assert [part.history async for part in parts][-1] is not None

    @pytest.mark.slow
    async def test_no_secret_is_transferred(self, tmp_path: Path) -> None:
        """Masked values are in no suggestion, scenario or list of calls."""
        async with (
            served(tmp_path, rules=RULE) as server,
            agent_with_deploys(server),
            between(server) as (network, url),
            attached(server, url=url) as ada,
        ):
            found = [p async for p in ada.hub.suggest_rules({"own.rules": RULE})]
            assert any(part.suggestion for part in found)
            assert SECRET.encode() not in bytes(network.sent)
