"""A server's knowledge of the sessions at other servers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Set

import pytest

from interlock.engine.gateway.cluster import peers
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.model.events import JournalEvent
from interlock.engine.history.postgres.servers.listing import PeerSession, live_elsewhere

from ...support.external_agent import opened
from ...support.shop import becomes
from .support.hubs import RULES


async def test_only_the_changed_session_is_listed_again(
    two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a session begins or ends, only that session is listed again."""
    here, there = two
    there._peers._listing_due = math.inf
    asked: list[Set[str] | None] = []

    def listed(
        location: PostgresLocation, server: str, among: Set[str] | None = None
    ) -> list[PeerSession]:
        if server == there._lease.id:
            asked.append(among)
        return live_elsewhere(location, server, among)

    async def gone() -> bool:
        return not await there.sessions()

    monkeypatch.setattr(peers, "live_elsewhere", listed)
    await opened(here, RULES)
    await becomes(there.sessions)
    assert there.server_of("robin-1")
    await here.close_session("robin-1", by="robin")
    await becomes(gone)
    assert not there.server_of("robin-1")
    assert asked
    assert all(among == {"robin-1"} for among in asked)


async def test_events_are_published_after_failed_listing(
    two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the listing fails after events were read, the events are published once the database is back."""
    here, there = two
    heard = there.subscribe()
    failed: list[str] = []

    def away(location: PostgresLocation, server: str, among: Set[str] | None = None) -> list[PeerSession]:
        if server == there._lease.id and among and not failed:
            failed.append(server)
            raise JournalError("away")
        return live_elsewhere(location, server, among)

    monkeypatch.setattr(peers, "live_elsewhere", away)
    await opened(here, RULES)
    await here.close_session("robin-1", by="robin")
    numbers: list[int] = []
    async with asyncio.timeout(20):
        async for event in heard:
            if isinstance(event, JournalEvent):
                numbers.append(event.seq)
                if event.body.type == "session.status" and event.body.status == "done":
                    break
    assert failed
    assert numbers == list(range(1, len(numbers) + 1))
