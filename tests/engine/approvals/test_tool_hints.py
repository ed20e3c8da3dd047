"""Tools with an approval hint, under the hub: the hint becomes a net beside those of the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel, T, task_tool, tool
from interlock.engine.approvals.tool_hints import with_wishes
from interlock.engine.gate import ApprovalRequest, GateContext, GateManager
from interlock.engine.history.model.events import ApprovalRequested
from interlock.engine.history.model.state import SessionState
from interlock.engine.hub.hub import Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..support.shop import until

RAN: list[str] = []


@tool(needs_approval=True)
async def publish(what: str) -> str:
    """Publish."""
    RAN.append(what)
    return "published"


@tool(needs_approval=lambda args: args["amount"] > 10)
async def pay(amount: int) -> str:
    """Pay."""
    RAN.append(f"paid {amount}")
    return "paid"


@pytest.fixture(autouse=True)
def clear_ran() -> None:
    RAN.clear()


async def asked(path: Path, agent: Agent, rules: str = "") -> tuple[Hub, SessionState]:
    """A hub whose session `s` of `agent` is at its first request, and the state of the session."""
    hub = Hub.open(path / "journal.db")
    subscription = hub.subscribe()
    await hub.open_session(agent, SessionConfig(compile_rules(rules).registry), session_id="s")
    await hub.send("s", "go")
    await until(subscription, ApprovalRequested)
    return hub, await hub.session("s")


class TestDefaults:
    """G-66: a tool's approval hint does not make the tool one that the rules name."""

    @pytest.mark.parametrize("also", ["", "require human-approval before pay when input.amount = 0\n"])
    @pytest.mark.parametrize(("name", "fields"), [("publish", {"what": "x"}), ("pay", {"amount": 5})])
    async def test_block_anything_else_blocks_tool_with_hint(
        self, name: str, fields: dict[str, object], also: str
    ) -> None:
        """`block anything-else` blocks a tool with a hint, unless a rule names the tool."""
        nets = with_wishes(compile_rules(f"{also}block anything-else").registry, [publish, pay])
        decision = await GateManager(registry=nets).handle_tool_call(ToolCall("c", name, fields))
        named = also and name == "pay"
        assert decision.block is not named
        assert ("anything-else" in decision.names) is not named

    async def test_anything_else_asks_in_addition_to_hint(self) -> None:
        """A net of `anything-else` asks in addition to the tool's hint."""
        rules = compile_rules("require human-approval before anything-else").registry
        asked: list[str] = []

        def confirm(request: ApprovalRequest) -> bool:
            asked.append(request.net)
            return True

        manager = GateManager(registry=with_wishes(rules, [publish]))
        context = GateContext(confirm=confirm)
        assert not (await manager.handle_tool_call(ToolCall("c", "publish", {}), context)).block
        assert asked == ["approve-before-anything-else", "approve-before-publish"]
        assert manager.loses_to("approve-before-publish") == ()


class TestHints:
    async def test_tool_with_hint_needs_approval(self, tmp_path: Path) -> None:
        """A tool with a hint does not run before an operator approves it."""
        agent = Agent(ScriptedModel([C(publish={"what": "news"}), T("done")]), tools=[publish])
        hub, state = await asked(tmp_path, agent)
        assert state.active == ["approve-before-publish"]
        assert RAN == []
        [request] = state.approvals.values()
        assert (await hub.decide(request.id, approved=True, by="operator")).ok
        await hub.wait("s")
        assert RAN == ["news"]
        await hub.close()

    async def test_hint_may_depend_on_the_input(self, tmp_path: Path) -> None:
        """A hint that is a function asks only for the calls for which it returns true."""
        model = ScriptedModel([C(pay={"amount": 3}), C(pay={"amount": 30}), T("done")])
        hub, state = await asked(tmp_path, Agent(model, tools=[pay]))
        assert RAN == ["paid 3"]
        [request] = state.approvals.values()
        await hub.decide(request.id, approved=True, by="operator", input={"amount": 20})
        await hub.wait("s")
        assert RAN == ["paid 3", "paid 20"]
        await hub.close()

    async def test_only_the_rule_asks(self, tmp_path: Path) -> None:
        """If a rule already asks for the tool, the only request is the rule's."""
        agent = Agent(ScriptedModel([C(publish={"what": "news"}), T("done")]), tools=[publish])
        hub, state = await asked(tmp_path, agent, "require human-approval before publish")
        assert state.active == ["approve-before-publish"]
        [request] = state.approvals.values()
        assert request.rule is not None
        await hub.decide(request.id, approved=False, by="operator")
        await hub.wait("s")
        assert RAN == []
        await hub.close()

    @pytest.mark.slow
    async def test_hint_asks_if_the_rules_condition_fails(self, tmp_path: Path) -> None:
        """If the rule's condition does not hold, the hint asks; no call gets two requests."""
        calls = C(publish={"what": "news"}), C(publish={"what": "secret"})
        agent = Agent(ScriptedModel([*calls, T("done")]), tools=[publish])
        rule = 'require human-approval before publish when input.what = "secret"'
        hub, state = await asked(tmp_path, agent, rule)
        assert state.active == ["approve-before-publish", "approve-before-publish#2"]
        [request] = state.approvals.values()
        assert (request.net, RAN) == ("approve-before-publish#2", [])
        subscription = hub.subscribe()
        await hub.decide(request.id, approved=True, by="operator")
        await until(subscription, ApprovalRequested)
        [request] = (await hub.session("s")).approvals.values()
        assert (request.net, RAN) == ("approve-before-publish", ["news"])
        await hub.decide(request.id, approved=False, by="operator")
        await hub.wait("s")
        assert RAN == ["news"]
        await hub.close()

    async def test_subagents_tool_needs_approval(self, tmp_path: Path) -> None:
        """A subagent's tool with a hint also requires approval."""
        helper = Agent(
            ScriptedModel([C(publish={"what": "x"}), T("done")]), tools=[publish], name="helper"
        )
        model = ScriptedModel([C(task_helper={"prompt": "p"}), T("done")])
        hub, state = await asked(tmp_path, Agent(model, tools=[task_tool(helper)]))
        [request] = state.approvals.values()
        assert (request.tool, RAN) == ("publish", [])
        await hub.decide(request.id, approved=True, by="operator")
        await hub.wait("s")
        assert RAN == ["x"]
        await hub.close()
