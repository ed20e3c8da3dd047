"""A session interrupted while its approval request is being written: the record stays consistent."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from interlock.engine.agents import Agent, C, Runtime, ScriptedModel, T, ToolContext, define_tool
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.writer import Writer, Written
from interlock.engine.history.model.events import ApprovalRequested, ApprovalWithdrawn
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..engine.support.shop import Shop, bodies, bot, until

NETS = compile_rules("require human-approval before deploy").registry


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub on a fresh journal."""
    hub = Hub.open(tmp_path / "hub.db")
    yield hub
    await hub.close()


class Held:
    """Holds commits with an event of a given kind until they are released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *kinds: type[BaseModel]) -> None:
        self.reached = {kind: threading.Event() for kind in kinds}
        self.let_go = {kind: threading.Event() for kind in kinds}
        commit = Writer.commit

        def held(writer: Writer, batch: Sequence[Written]) -> None:
            for kind in kinds:
                if any(isinstance(written.event.body, kind) for written in batch):
                    self.reached[kind].set()
                    assert self.let_go[kind].wait(20)
            commit(writer, batch)

        monkeypatch.setattr(Writer, "commit", held)

    async def until(self, kind: type[BaseModel]) -> None:
        assert await asyncio.to_thread(self.reached[kind].wait, 20)


class NoInput(BaseModel):
    """Empty input."""


async def test_request_interrupted_while_written_is_withdrawn(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request interrupted before it is on disk is withdrawn, and its answer comes too late."""
    held = Held(monkeypatch, ApprovalRequested, ApprovalWithdrawn)
    events = hub.subscribe()
    session = await hub.open_session(bot(Shop(), C(deploy={}), T("ok")), SessionConfig(NETS))
    await hub.send(session, "go", by="maria")
    await held.until(ApprovalRequested)
    await hub.abort(session, "not now")
    held.let_go[ApprovalRequested].set()
    await until(events, ApprovalRequested)
    await held.until(ApprovalWithdrawn)
    [request] = await hub.approvals()
    answering = asyncio.create_task(hub.decide(request.id, approved=True, by="ben"))
    for _ in range(20):
        await asyncio.sleep(0)
    held.let_go[ApprovalWithdrawn].set()
    assert not (await answering).ok
    await hub.wait(session)
    assert fold(await hub.recorded(session)) == await hub.session(session)


async def test_interrupted_preview_withdraws_nothing(hub: Hub) -> None:
    """A session interrupted while a preview is created has requested nothing yet."""
    previewing = asyncio.Event()

    async def deploy(_: NoInput, __: ToolContext) -> str:
        return "deployed"

    async def preview(_: NoInput, __: Runtime) -> str:
        previewing.set()
        await asyncio.sleep(60)
        return "what it would do"

    tool = define_tool("deploy", "Deploy.", NoInput, deploy, preview=preview)
    agent = Agent(ScriptedModel([C(deploy={}), T("ok"), T("ok")]), name="bot", tools=[tool])
    session = await hub.open_session(agent, SessionConfig(NETS))
    await hub.send(session, "go", by="maria")
    await previewing.wait()
    await hub.send(session, "not now", by="maria")
    await hub.wait(session)
    assert fold(await hub.recorded(session)) == await hub.session(session)


async def test_request_stopped_at_its_answer_is_withdrawn(hub: Hub) -> None:
    """A request whose session is stopped at the moment of its answer is withdrawn."""
    events = hub.subscribe()
    session = await hub.open_session(bot(Shop(), C(deploy={}), T("ok")), SessionConfig(NETS))
    await hub.send(session, "go", by="maria")
    await until(events, ApprovalRequested)
    [request] = await hub.approvals()
    for _ in range(20):
        await asyncio.sleep(0)
    await hub.abort(session, "not now")
    assert not (await hub.decide(request.id, approved=True, by="ben")).ok
    await hub.wait(session)
    assert await hub.approvals() == []
    assert [w.approval_id for w in bodies(hub, session, ApprovalWithdrawn)] == [request.id]


async def test_replaced_request_is_made_again(hub: Hub, tmp_path: Path) -> None:
    """A request replaced by a new one interrupts nothing: after its host has died, it is made again."""
    rules = "require human-approval before deploy\nblock rm"
    registry = compile_rules(rules).registry
    events = hub.subscribe()
    session = await hub.open_session(bot(Shop(), C(deploy={}), T("ok")), SessionConfig(registry))
    await hub.send(session, "go", by="maria")
    await until(events, ApprovalRequested)
    await hub.toggle_net(session, "block-rm", False, by="maria", reason="a test")
    await until(events, ApprovalRequested)
    for ending in ("", "-wal"):
        shutil.copy(tmp_path / f"hub.db{ending}", tmp_path / f"left.db{ending}")
    left = Hub.open(tmp_path / "left.db")
    try:
        again = left.subscribe()
        await left.resume_session(session, bot(Shop(), T("ok")), SessionConfig(registry))
        await until(again, ApprovalRequested)
        [request] = await left.approvals()
        assert request.call_id == next(iter((await left.session(session)).calls))
    finally:
        await left.close()
