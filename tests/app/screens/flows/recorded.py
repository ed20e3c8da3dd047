"""The record of a release flow, made by a real hub, up to the step that an approver answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.engine.agents import C
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from tests.engine.support.release import Commit, Release, Script
from tests.support.copies import copied

KEY = "sk-ant-" + "x7" * 20
"""A key whose format the redaction knows."""
ID = "Release-1"


def write(database: Path) -> Path:
    """A run that was left while it waits for an answer."""
    return copied(_write, database)


def _write(database: Path) -> None:
    asyncio.run(_run(database))


async def _run(database: Path) -> None:
    hub = Hub.open(database)
    replies = C(test={}), C(submit={"text": f"faster, with {KEY}"})
    with_events = hub.subscribe()
    await hub.open_flow(
        Release, Commit(sha="abc"), SessionConfig({}, by="maria"), session_id=ID, factory=Script(replies)
    )
    async with asyncio.timeout(10):
        while not await hub.approvals():
            await anext(aiter(with_events))
    with_events.close()
    await hub.close()
