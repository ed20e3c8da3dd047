"""Two servers on one database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.database.location import PostgresLocation

from .support.hubs import hub_on


@pytest.fixture
async def two(postgresql: PostgresLocation) -> AsyncIterator[tuple[SharedHub, SharedHub]]:
    here, there = await hub_on(postgresql), await hub_on(postgresql)
    try:
        yield here, there
    finally:
        await here.close()
        await there.close()
