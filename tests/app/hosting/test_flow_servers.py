"""A headless flow beside another server of the database."""

from __future__ import annotations

import io

import pytest
from pydantic import BaseModel

from interlock.app.hosting.flow import follow_flow
from interlock.engine.flows import Flow, FlowBuilder
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from tests.engine.gateway.cluster.support.hubs import hub_on


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
