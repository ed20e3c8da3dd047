"""Hooks of a hosted agent that apply to the calls of its subagents."""

from __future__ import annotations

from pathlib import Path

from interlock.engine import Agent, Deny, Hooks, ScriptedModel, ToolCallEvent, task_tool, tool
from interlock.engine.agents import C, T
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules


class TestHostedChildren:
    async def test_parents_hook_denies_an_allowed_call(self, tmp_path: Path) -> None:
        """Section 9: the parent's hook denies a call that the nets allow, and the record shows both."""
        ran: list[str] = []
        asked: list[tuple[str, str]] = []

        @tool
        async def deploy() -> str:
            """Deploy."""
            ran.append("deploy")
            return "deployed"

        def guard(event: ToolCallEvent) -> Deny | None:
            asked.append((event.name, event.session_id))
            return Deny(reason="never on a Friday") if event.name == "deploy" else None

        helper = Agent(ScriptedModel([C(deploy={}), T("no")]), name="helper", tools=[deploy])
        boss = Agent(
            ScriptedModel([C(task_helper={"prompt": "x"}), T("ok")]),
            name="boss",
            tools=[task_tool(helper)],
            hooks=Hooks(before_tool_call=guard),
        )
        hub = Hub.open(tmp_path / "hub.db")
        registry = compile_rules("limit deploy to 9 per session").registry
        session = await hub.open_session(boss, SessionConfig(registry))
        await hub.send(session, "go")
        await hub.wait(session)
        [child] = [s for s in await hub.sessions() if s.parent == session]
        assert asked == [("task_helper", session), ("deploy", child.id)]
        assert ran == []
        [call] = child.calls.values()
        assert (call.outcome, call.status, call.output) == ("allow", "failed", "never on a Friday")
        await hub.close()
