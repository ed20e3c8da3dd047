"""The hub's explanation of a call of a live session, as a console receives it."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine import Agent, ScriptedModel, ToolContext, tool
from interlock.engine.agents import C, T
from interlock.engine.gate import ApprovalAnswer, GateContext, GateManager, GrantTerms
from interlock.engine.history.model.events import ApprovalRequested, JournalEvent
from interlock.engine.hub.hub import Hub, UnknownSessionError
from interlock.engine.net.net import ToolCall
from interlock.engine.recording.explain import view_of
from interlock.engine.recording.explanation import ExplanationView
from interlock.engine.sessions.config import SessionConfig
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


async def opened(hub: Hub, *replies: object, explain_blocks: bool = False) -> str:
    agent = Agent(ScriptedModel(list(replies)), name="bot", tools=[run_tests, deploy])
    session = await hub.open_session(
        agent, SessionConfig(compile_rules(RULES).registry, explain_blocks=explain_blocks)
    )
    await hub.send(session, "go", by="maria")
    return session


class TestViews:
    """Explanations of a gate, as values that can be serialized."""

    async def test_used_limit_shows_time_until_return(self) -> None:
        """G-10: a used limit returns with time, and the view says how long that takes."""
        now = 0.0
        gate = GateManager(compile_rules("limit push to 1 per 1h").registry, clock=lambda: now)
        await gate.handle_tool_call(ToolCall("c1", "push"), GateContext())
        view = view_of(gate.explain(ToolCall("c2", "push")))
        assert view.way is not None
        assert str(view.way) == "wait 1h → push"
        assert [call.seconds for call in view.way.calls] == [3600, None]
        assert ExplanationView.model_validate_json(view.model_dump_json()) == view

    async def test_grant_and_replaced_people_are_named(self) -> None:
        """The view names the grant and the people that the net would have asked for."""
        gate = GateManager(compile_rules("require human-approval before push").registry)
        answer = ApprovalAnswer(True, by="maria", grant=GrantTerms("names", uses=2))
        await gate.handle_tool_call(ToolCall("c1", "push"), GateContext(confirm=lambda _: answer))
        view = view_of(gate.explain(ToolCall("c2", "push")))
        assert (view.outcome, view.granted, view.nets[0].people) == ("allow", ("grant-1",), 1)

    async def test_prerequisite_does_not_show_the_condition(self) -> None:
        """G-10: the condition of a sequence is not shown for its prerequisite."""
        gate = GateManager(compile_rules("require test before deploy when input.n = 1").registry)
        for name, when in (("test", None), ("deploy", "input.n = 1"), ("other", None)):
            view = view_of(gate.explain(ToolCall("c1", name, {"n": 1})))
            assert view.nets[0].when == when


class TestExplain:
    async def test_blocked_call_shows_rules_and_way(self, hub: Hub) -> None:
        """G-60: names, verdicts with rules, and the way; all of it can be serialized."""
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

    async def test_explanation_is_of_the_present_state(self, hub: Hub) -> None:
        """The explanation is about the present: after the test only the approval is missing."""
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
        await hub.decide(request.id, approved=True, by="maria")
        await hub.wait(session)
        view = await hub.explain(session, first)
        assert (view.outcome, str(view.way)) == ("block", "test → deploy (approval)")

    async def test_unknown_session_or_call_is_named(self, hub: Hub) -> None:
        """The error names an unknown session or call."""
        session = await opened(hub, T("nothing to do"))
        await hub.wait(session)
        with pytest.raises(LookupError, match="has made no call 'c9'"):
            await hub.explain(session, "c9")
        with pytest.raises(UnknownSessionError, match="nobody"):
            await hub.explain("nobody", "c9")

    async def test_view_has_conditions_and_people(self, hub: Hub) -> None:
        """G-10: the view has each net's condition, why it abstains or applies, and the people it asks."""
        rules = (
            'require human-approval before deploy by 2 when input.env = "prod"\n'
            "require test before deploy\nblock test when input.n = 1"
        )
        agent = Agent(
            ScriptedModel([C(deploy={"env": "prod"}), C(deploy={"env": "x"}), C(deploy={}), T("done")]),
            name="bot",
            tools=[run_tests, deploy],
        )
        session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry))
        await hub.send(session, "go", by="maria")
        await hub.wait(session)
        calls = (await hub.session(session)).calls
        prod, other, untold = [await hub.explain(session, call_id) for call_id in calls]
        way = "test (outside block-test) → deploy"
        assert [str(v.way) for v in (prod, other, untold)] == [
            f"{way} (2 people approve)",
            way,
            f"{way} (2 people approve)",
        ]
        when = 'input.env = "prod"'
        asking = [
            (n.verdict, n.people, n.when, n.note) for v in (prod, other, untold) for n in v.nets[:1]
        ]
        assert asking == [
            ("gated", 2, when, None),
            ("abstain", 0, when, f"{when} does not hold"),
            ("gated", 2, when, "the call has no input.env"),
        ]
        for view in (prod, other, untold):
            assert ExplanationView.model_validate_json(view.model_dump_json()) == view

    async def test_way_is_added_to_reason_if_enabled(self, hub: Hub) -> None:
        """If enabled, the reason that the model reads and the journal keeps ends with the way."""
        session = await opened(hub, C(deploy={}), T("I see"), explain_blocks=True)
        await hub.wait(session)
        [call] = (await hub.session(session)).calls.values()
        told = "deploy requires a successful call to test first. To get there: test → deploy (approval)."
        assert (call.reason, call.output) == (told, told)
