"""A headless flow beside another server of the database."""

from __future__ import annotations

import asyncio
import io

import pytest
from pydantic import BaseModel

from interlock.app.hosting.flow import follow_flow
from interlock.engine.flows import Flow, FlowBuilder
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from tests.engine.gateway.cluster.support.hubs import RULES, hub_on
from tests.engine.gateway.served import until
from tests.engine.support.external_agent import opened


class Draft(BaseModel):
    """Input of a flow, which a person signs."""


class Signed(BaseModel):
    """Output of the flow."""


class Release(Flow[Draft, Signed]):
    @classmethod
    def build(cls, g: FlowBuilder[Draft, Signed]) -> FlowBuilder[Draft, Signed]:
        return g.suspend(Draft, Signed)


@pytest.mark.slow
class TestStepOfAPerson:
    @pytest.mark.parametrize("shared", [True, False], ids=["another server", "the last one"])
    async def test_says_where_it_is_answered(self, postgresql: PostgresLocation, shared: bool) -> None:
        """Beside another server the run goes on there, and cannot be resumed by a command."""
        here = await hub_on(postgresql)
        there = await hub_on(postgresql) if shared else None

        async def start(hub: Hub) -> str:
            return await hub.open_flow(Release, Draft(), SessionConfig({}))

        err = io.StringIO()
        try:
            code = await follow_flow(here, start, answer="approve", fills={}, out=io.StringIO(), err=err)
        finally:
            if there is not None:
                await there.close()
        assert code == 1
        assert ("interlock flow resume" in err.getvalue()) is not shared
        assert ("at another server" in err.getvalue()) is shared


@pytest.mark.slow
class TestAnswer:
    async def test_is_for_its_own_requests(self, postgresql: PostgresLocation) -> None:
        """`--answer approve` approves nothing that an agent at another server asks for."""
        here, there = await hub_on(postgresql), await hub_on(postgresql)
        calls: list[asyncio.Task[object]] = []

        async def start(hub: Hub) -> str:
            await opened(there, RULES)
            call = there.call("robin-1", "d1", "deploy", {"env": "prod"})
            calls.append(asyncio.ensure_future(call))
            await until(hub.approvals)
            await asyncio.sleep(0.5)
            return await hub.open_flow(Release, Draft(), SessionConfig({}))

        out = io.StringIO()
        try:
            await follow_flow(here, start, answer="approve", fills={}, out=out, err=io.StringIO())
            assert not calls[0].done()
            assert "robin-1" not in out.getvalue()
        finally:
            calls[0].cancel()
            await there.close()
