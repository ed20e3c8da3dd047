"""What a call would change, asked before a person decides, kept with the question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from interlock.engine import (
    Agent,
    EditTool,
    LocalRuntime,
    ScriptedModel,
    ToolContext,
    define_tool,
)
from interlock.engine.agents import C, Runtime, T
from interlock.engine.history.events import ApprovalRequested, JournalEvent
from interlock.engine.history.fold import fold
from interlock.engine.hub import Hub
from interlock.rules import compile_rules


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub.open(tmp_path / "hub.db")
    yield hub
    await hub.close()


async def asked(hub: Hub, agent: Agent, rules: str) -> tuple[str, str | None]:
    """Run `agent` to its first question; the session and what the question says would change."""
    events = hub.subscribe()
    session = await hub.open_session(agent, registry=compile_rules(rules).registry)
    await hub.send(session, "go")
    async with asyncio.timeout(10):
        async for event in events:
            if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                return session, event.body.preview
    raise AssertionError("nothing was asked")


class TestPreview:
    async def test_an_edit_shows_its_diff(self, hub: Hub, tmp_path: Path) -> None:
        """The request has the file's diff; nothing was written, and after a no nothing is."""
        (tmp_path / "a.py").write_text("one\nold\n")
        edit = C(edit={"path": "a.py", "old_string": "old", "new_string": "new"})
        agent = Agent(ScriptedModel([edit, T("ok")]), tools=[EditTool], runtime=LocalRuntime(tmp_path))
        session, preview = await asked(hub, agent, "require human-approval before edit")
        assert preview is not None
        assert "-old" in preview.splitlines()
        assert "+new" in preview.splitlines()
        [request] = await hub.approvals()
        assert request.preview == preview
        assert fold(await hub.recorded(session)).approvals[request.id].preview == preview
        await hub.decide(request.id, approved=False, by="maria")
        await hub.wait(session)
        assert (tmp_path / "a.py").read_text() == "one\nold\n"

    async def test_a_preview_that_breaks_keeps_nobody_from_asking(self, hub: Hub) -> None:
        """A tool whose preview raises is asked for without one."""

        class Nothing(BaseModel):
            pass

        async def preview(given: Nothing, runtime: Runtime) -> str:
            raise OSError("no such place")

        async def run(given: Nothing, ctx: ToolContext) -> str:
            return "ran"

        tool = define_tool("act", "Act.", Nothing, run, preview=preview)
        agent = Agent(ScriptedModel([C(act={}), T("ok")]), tools=[tool])
        session, said = await asked(hub, agent, "require human-approval before act")
        assert said is None
        [request] = await hub.approvals()
        assert (await hub.decide(request.id, approved=True, by="maria")).ok
        await hub.wait(session)
        assert (await hub.session(session)).calls[request.call_id].output == "ran"

    async def test_an_interrupt_while_it_is_made_asks_nobody(self, hub: Hub) -> None:
        """A slow preview does not outlive the run: aborting leaves no question behind."""

        class Nothing(BaseModel):
            pass

        started = asyncio.Event()

        async def preview(given: Nothing, runtime: Runtime) -> str:
            started.set()
            await asyncio.sleep(60)
            return "late"

        async def run(given: Nothing, ctx: ToolContext) -> str:
            return "ran"

        tool = define_tool("act", "Act.", Nothing, run, preview=preview)
        agent = Agent(ScriptedModel([C(act={}), T("ok")]), tools=[tool])
        rules = compile_rules("require human-approval before act")
        session = await hub.open_session(agent, registry=rules.registry)
        await hub.send(session, "go")
        await started.wait()
        await hub.abort(session, "stop")
        await hub.wait(session)
        state = await hub.session(session)
        assert [c.status for c in state.calls.values()] != ["done"]
        assert state.approvals == {}
        kinds = [type(e.body) for e in await hub.recorded(session)]
        assert ApprovalRequested not in kinds
