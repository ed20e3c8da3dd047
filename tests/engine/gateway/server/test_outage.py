"""Outages of a server's journal, as its consoles are notified of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from math import inf
from pathlib import Path

import pytest

from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.console_methods import OutageNotice
from interlock.engine.history.journal import write_monitor
from interlock.engine.history.model.records import JournalOutage
from interlock.engine.hub.hub import OutageChanged

from ..served import served


async def next_outage(events: AsyncIterator[object]) -> JournalOutage | None:
    async with asyncio.timeout(10):
        async for event in events:
            if isinstance(event, OutageChanged | OutageNotice):
                return event.outage
    raise AssertionError("the console was not notified")


@pytest.mark.slow
async def test_consoles_are_notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connected console is notified of an outage's start and end; a later one shows the outage."""
    monkeypatch.setattr(write_monitor, "PROOF_SECONDS", inf)
    async with served(tmp_path) as server, server.console() as console:
        assert console.current_outage() is None
        events = console.subscribe()
        monitor = server.hub._journal._monitor
        monitor.begin()
        monitor.end(OSError("disk full"))
        found = await next_outage(events)
        assert found is not None
        assert (found.kind, found.reason) == ("unwritable", "disk full")
        assert console.current_outage() == found == server.hub.current_outage()
        async with ConsoleClient(server.url, server.ben) as later:
            assert later.current_outage() == found
        monitor.end(None)
        assert await next_outage(events) is None
        assert console.current_outage() is None
