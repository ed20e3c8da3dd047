"""What the hub says of a call of a live session, as a console gets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine import Agent, ScriptedModel, ToolContext, tool
from interlock.engine.agents import C, T
from interlock.engine.explained import ExplanationView
from interlock.engine.history.events import ApprovalRequested, JournalEvent
from interlock.engine.hub import Hub, UnknownSessionError
from interlock.rules import compile_rules

RULES = "require test before deploy\nrequire human-approval before deploy\nblock rm"


@tool(name="test")
async def run_tests(ctx: ToolContext) -> str:
    """Run the tests."""
    return "ok"


@tool
async def deploy(ctx: ToolContext, env: str = "staging") -> str:
    """Deploy."""
    return env


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub.open(tmp_path / "hub.db")
    yield hub
    await hub.close()


async def opened(hub: Hub, *replies: object, explain_blocks: bool = False) -> str:
    agent = Agent(ScriptedModel(list(replies)), name="bot", tools=[run_tests, deploy])
    session = await hub.open_session(
        agent, registry=compile_rules(RULES).registry, explain_blocks=explain_blocks
    )
    await hub.send(session, "go", by="maria")
    return session


class TestExplain:
    async def test_says_how_a_blocked_call_comes_to_pass(self, hub: Hub) -> None:
        """G-60: names, verdicts with their rules, and the way; all of it survives a wire."""
        session = await opened(hub, C(deploy={"env": "prod"}), T("blocked"))
        await hub.wait(session)
        [call_id] = (await hub.session(session)).calls
        view = await hub.explain(session, call_id)
        assert (view.tool, view.input, view.outcome) == ("deploy", {"env": "prod"}, "block")
        assert [(n.net, n.verdict, n.asks) for n in view.nets] == [
            ("require-test-before-deploy", "blocked", False),
            ("approve-before-deploy", "gated", True),
            ("block-rm", "abstain", False),
        ]
        assert view.nets[0].rule is not None
        assert view.nets[0].rule.where == "<rules>:1"
        assert view.nets[0].reason == "deploy requires a successful call to test first."
        assert str(view.way) == "test → deploy (approval)"
        assert ExplanationView.model_validate_json(view.model_dump_json()) == view

    async def test_follows_the_nets(self, hub: Hub) -> None:
        """The answer is about now: after the test only the person is missing, later the test again."""
        events = hub.subscribe()
        session = await opened(hub, C(deploy={}), C(test={}), C(deploy={}), T("done"))
        async with asyncio.timeout(10):
            async for event in events:
                if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                    break
        [request] = await hub.approvals()
        first = next(iter((await hub.session(session)).calls))
        for call_id in (first, request.call_id):
            view = await hub.explain(session, call_id)
            assert (view.outcome, str(view.way)) == ("ask", "deploy (approval)")
        await hub.toggle_net(session, "approve-before-deploy", False, by="maria")
        await hub.wait(session)
        view = await hub.explain(session, first)
        assert (view.outcome, str(view.way)) == ("block", "test → deploy")
        await hub.decide(request.id, approved=False, by="maria")

    async def test_what_is_not_there(self, hub: Hub) -> None:
        """An unknown session or call is an error that names it."""
        session = await opened(hub, T("nothing to do"))
        await hub.wait(session)
        with pytest.raises(LookupError, match="has made no call 'c9'"):
            await hub.explain(session, "c9")
        with pytest.raises(UnknownSessionError, match="nobody"):
            await hub.explain("nobody", "c9")

    async def test_on_request_the_model_is_told(self, hub: Hub) -> None:
        """The reason that the model reads, and the journal keeps, ends with the way."""
        session = await opened(hub, C(deploy={}), T("I see"), explain_blocks=True)
        await hub.wait(session)
        [call] = (await hub.session(session)).calls.values()
        told = "deploy requires a successful call to test first. To get there: test → deploy (approval)."
        assert (call.reason, call.output) == (told, told)
