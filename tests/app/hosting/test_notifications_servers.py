"""Notifications by servers of one database, one of which was paused for longer than its lease."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from interlock.app.config.notifications import NotifySettings
from interlock.app.hosting.notifications.notifier import notifications_of
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.postgres.servers.clock import now
from tests.engine.gateway.cluster.support.hubs import RULES, hub_on, renews_no_more
from tests.engine.gateway.served import until
from tests.engine.support.external_agent import opened

APPEND = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"


@asynccontextmanager
async def notifying(location: PostgresLocation, file: Path) -> AsyncGenerator[SharedHub]:
    """A server that appends a line to a file for each request that has waited for half a second."""
    hub = await hub_on(location)
    command = [sys.executable, "-c", APPEND, str(file)]
    settings = NotifySettings.model_validate({"command": command, "after": "1s"})
    try:
        async with notifications_of(hub, settings, print):
            yield hub
    finally:
        await hub.close()


class TestPaused:
    @pytest.mark.parametrize("goes_on", [True, False], ids=["held again", "taken over"])
    @pytest.mark.slow
    async def test_does_not_notify_of_requests_of_others(
        self, postgresql: PostgresLocation, tmp_path: Path, goes_on: bool
    ) -> None:
        """Another server has these requests withdrawn, asked again, and notifies of them."""
        file = tmp_path / "sent"
        async with notifying(postgresql, file) as here:
            await opened(here, RULES)
            call = asyncio.ensure_future(here.call("robin-1", "d1", "deploy", {"env": "prod"}))
            await until(here.approvals)
            await renews_no_more(here)
            here._lease._valid_until = 0.0
            await asyncio.sleep(1.8)
            assert not file.exists()
            if goes_on:
                here._lease._valid_until = now() + 60

                async def sent() -> list[str]:
                    return file.read_text().splitlines() if file.exists() else []

                [line] = await until(sent)
                assert json.loads(line)["tool"] == "deploy"
            else:
                here._lease.end()
                await asyncio.sleep(1.0)
                assert not file.exists()
            call.cancel()
            with suppress(asyncio.CancelledError, JournalError):
                await call


class TestClock:
    @pytest.mark.slow
    async def test_of_the_machine_does_not_count(
        self, postgresql: PostgresLocation, tmp_path: Path
    ) -> None:
        """A request that has waited long enough by the database's time is notified of."""
        file = tmp_path / "sent"
        async with notifying(postgresql, file) as here:
            await renews_no_more(here)
            here._lease._valid_until = now() + 60
            here._lease.clock._offset += 3600  # the machine is an hour slow
            await opened(here, RULES)
            call = asyncio.ensure_future(here.call("robin-1", "d1", "deploy", {"env": "prod"}))

            async def sent() -> bool:
                return file.exists() and file.read_text().endswith("\n")

            await until(sent)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
