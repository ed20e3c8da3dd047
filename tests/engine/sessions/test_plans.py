"""Plans in hosted sessions: calls of the agent and its subagents, and branches (G-108 to G-110)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    CallDecided,
    GrantGiven,
    MessageAdded,
    SessionOpened,
    SessionStatus,
)
from interlock.engine.history.model.records import AppliedRules
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.new_rules import NewRules
from interlock.rules import compile_rules

from ..support.shop import Shop, bodies, check, until

RULES = "require human-approval before plan\nrequire human-approval before deploy\n"
PLAN: dict[str, Any] = {"title": "Release", "steps": [{"tool": "deploy", "count": 2}]}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db"), language=LANGUAGE)
    yield hub
    await hub.close()


@tool(name="plan")
async def plan_tool(ctx: ToolContext, title: str, steps: list[dict[str, Any]]) -> str:
    """Propose a plan."""
    return title


def agent(shop: Shop, *replies: Reply) -> Agent:
    """An agent of the shop with the plan tool."""
    return Agent(ScriptedModel(list(replies)), name="bot", tools=[*shop.tools(), plan_tool])


async def approve_all(hub: Hub, asked: list[str]) -> None:
    """Approve each request; `asked` collects their tools."""
    while True:
        for request in await hub.approvals():
            outcome = await hub.decide(request.id, approved=True, by="jo", digest=request.digest)
            if outcome.ok:
                asked.append(request.tool)
        await asyncio.sleep(0.01)


async def run(hub: Hub, session: str, text: str = "go") -> list[str]:
    """Send a task and wait until the turn ends; return the tools that were requested."""
    asked: list[str] = []
    events = hub.subscribe()
    approving = asyncio.ensure_future(approve_all(hub, asked))
    await hub.send(session, text, by="maria")
    while (await until(events, SessionStatus)).body.status != "idle":
        pass
    approving.cancel()
    events.close()
    return asked


class TestHosted:
    async def test_approved_plan_allows_its_calls(self, hub: Hub) -> None:
        """G-108: an approved plan allows its calls, and the call beyond it is requested."""
        shop = Shop()
        deploys = [C(deploy={"env": "test"}) for _ in range(3)]
        bot = agent(shop, C(plan=PLAN), *deploys, T("done"))
        registry = compile_rules(RULES).registry
        session = await hub.open_session(bot, SessionConfig(registry))
        assert await run(hub, session) == ["plan", "deploy"]
        assert shop.ran == ["deploy test"] * 3
        granted = [d.granted for d in bodies(hub, session, CallDecided)]
        assert granted == [(), ("grant-1",), ("grant-1",), ()]
        await check(hub, session)

    async def test_branch_does_not_inherit_a_plan(self, hub: Hub) -> None:
        """G-110: a branch does not inherit a plan from its session."""
        shop = Shop()
        bot = agent(shop, C(plan=PLAN), C(deploy={}), T("done"), C(deploy={}), T("done"))
        registry = compile_rules(RULES).registry
        session = await hub.open_session(bot, SessionConfig(registry))
        assert await run(hub, session) == ["plan"]
        last = len(await hub.recorded(session))
        branch = await hub.branch_session(session, last, bot, SessionConfig(registry))
        assert await run(hub, branch) == ["deploy"]
        assert bodies(hub, branch, GrantGiven) == []


class TestTool:
    """The plan tool of a hosted agent follows the rules of its session."""

    async def opened(self, hub: Hub, shop: Shop, rules: str, *replies: Reply) -> str:
        """Open a session whose agent brings no plan tool."""
        bot = Agent(ScriptedModel(list(replies)), name="bot", tools=shop.tools())
        return await hub.open_session(bot, SessionConfig(compile_rules(rules).registry))

    async def replace(self, hub: Hub, session: str, rules: str) -> None:
        """Replace the rules of the session."""
        registry = compile_rules(rules).registry
        applied = AppliedRules(by="ada", at=datetime(2026, 11, 23, tzinfo=UTC), reason="others")
        outcome = await hub.replace_rules(session, NewRules(registry, registry, applied))
        assert outcome.ok, outcome.message

    def offers_plan_tool(self, hub: Hub, session: str) -> bool:
        """Return whether the model is offered the plan tool in its next step."""
        return any(tool.name == "plan" for tool in hub._live.get(session)[1].tools)

    async def test_exists_if_rules_ask_about_plans(self, hub: Hub) -> None:
        """The tool exists only if the rules ask about plans, and the record lists it."""
        shop = Shop()
        asking = await self.opened(hub, shop, RULES)
        other = await self.opened(hub, shop, "require human-approval before deploy\n")
        assert (self.offers_plan_tool(hub, asking), self.offers_plan_tool(hub, other)) == (True, False)
        [begun] = bodies(hub, asking, SessionOpened)
        assert "plan" in begun.tools

    async def test_new_rules_add_the_tool(self, hub: Hub) -> None:
        """G-108: rules that begin to ask about plans add the tool, and the next plan counts."""
        shop = Shop()
        replies = (T("hello"), C(plan=PLAN), C(deploy={"env": "test"}), T("done"))
        session = await self.opened(hub, shop, "require human-approval before deploy\n", *replies)
        await run(hub, session)
        assert not self.offers_plan_tool(hub, session)
        await self.replace(hub, session, RULES)
        assert self.offers_plan_tool(hub, session)
        assert await run(hub, session) == ["plan"]
        assert shop.ran == ["deploy test"]
        await check(hub, session)

    async def test_tool_stays_without_effect(self, hub: Hub) -> None:
        """G-108: rules that no longer ask keep the tool; its answer says that the plan allows nothing."""
        shop = Shop()
        replies = (C(plan=PLAN), C(deploy={"env": "test"}), T("done"))
        session = await self.opened(hub, shop, RULES, *replies)
        await self.replace(hub, session, "require human-approval before deploy\n")
        assert self.offers_plan_tool(hub, session)
        assert await run(hub, session) == ["deploy"]
        said = [m.text for m in bodies(hub, session, MessageAdded) if m.role == "tool"]
        assert "This plan lets nothing pass by itself" in said[0]
