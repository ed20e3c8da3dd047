"""Runs of flows under hosts of one journal, one after the other, as tests play them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from interlock.engine.agents import Reply
from interlock.engine.flows import Flow
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.state import ApprovalState, SessionState
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .external_agent import check_fold
from .release import Commit, Script, ran


@pytest.fixture
async def hubs(tmp_path: Path) -> AsyncIterator[Callable[[], Hub]]:
    """Hosts of one journal, one after the other."""
    ran.clear()
    opened: list[Hub] = []

    def open_hub() -> Hub:
        opened.append(Hub.open(tmp_path / "hub.db"))
        return opened[-1]

    yield open_hub
    for hub in opened:
        await hub.close()


async def begin(
    hub: Hub, flow: type[Flow], *replies: Reply, rules: str = "", mode: str = "enforce"
) -> str:
    registry = compile_rules(rules).registry
    return await hub.open_flow(
        flow, Commit(sha="abc"), SessionConfig(registry, by="maria", mode=mode), factory=Script(replies)
    )


async def go_on(hub: Hub, session: str, flow: type[Flow], *replies: Reply, rules: str = "") -> str:
    registry = compile_rules(rules).registry
    return await hub.resume_flow(
        session, flow, SessionConfig(registry, by="maria"), factory=Script(replies)
    )


async def asked(hub: Hub) -> ApprovalState:
    """The request that waits, once there is one."""
    async with asyncio.timeout(60):
        with closing(hub.subscribe()) as events:
            while not (found := await hub.approvals()):
                await anext(aiter(events))
    [request] = found
    return request


async def ended(hub: Hub, session: str) -> SessionState:
    async with asyncio.timeout(60):
        await hub.flow_ended(session)
    return await hub.session(session)


def bodies(hub: Hub, session: str, kind: type) -> list:
    return [e.body for e in open_reader(hub.database).events(session) if isinstance(e.body, kind)]


async def killed(hub: Hub, session: str) -> None:
    """The host dies: nothing is ended in order."""
    hosted = hub._live.hosted(session)
    hosted._task.cancel()
    hub._live._hosted.clear()
    await asyncio.to_thread(hub._journal.close)


async def checked(hub: Hub, session: str) -> None:
    """The live session and its gate are the fold of the record, and the chain of its hashes is whole."""
    hosted = hub._live.hosted(session)
    await hosted.ledger.catch_up()
    await check_fold(hub, session)
    assert [check.fault for check in verify_journal(hub.database) if check.fault is not None] == []
