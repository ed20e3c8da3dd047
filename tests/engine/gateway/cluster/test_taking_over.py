"""Sessions that Interlock hosts, when servers end one after the other or during a takeover."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel, tool
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.flow_steps import DIED
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.state import SessionSummary
from interlock.engine.history.postgres.pool import reading
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .support.hubs import RULES, becomes, hub_on, silent, stop_following


@tool
async def deploy() -> str:
    """Deploy."""
    return "deployed"


async def hosted(hub: SharedHub) -> str:
    """Open the session of a hosted agent whose call waits for approval."""
    agent = Agent(ScriptedModel([C(d1=("deploy", {}))]), name="bot", tools=[deploy])
    session = await hub.open_session(agent, SessionConfig(compile_rules(RULES).registry))
    await hub.send(session, "go")
    await becomes(hub.approvals)
    return session


def takes_over(hub: SharedHub) -> list[str]:
    """Make a server note the sessions that it should continue, without continuing them."""
    taken: list[str] = []

    def take(line: SessionSummary) -> None:
        taken.append(line.id)

    hub.taken_over = take
    return taken


async def have_ended(hub: SharedHub, session: str) -> None:
    """Wait until a session is recorded as ended by the death of its server."""

    async def is_ended() -> bool:
        return fold(await hub.recorded(session)).error == DIED

    await becomes(is_ended)


class TestServerThatTakesOver:
    async def test_next_server_resumes_after_second_death(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """If a server ends a session and dies before resuming it, the next server takes it over."""
        here, there = two
        first = takes_over(there)
        session = await hosted(here)
        await silent(here, postgresql)
        await have_ended(there, session)

        async def is_told() -> bool:
            return first == [session]

        await becomes(is_told)
        third = await hub_on(postgresql)
        second = takes_over(third)
        try:
            await third.take_over()
            assert second == []
            await stop_following(there)
            await silent(there, postgresql)

            async def taken() -> bool:
                third._orphans_due = 0.0
                return bool(second)

            await becomes(taken)
            assert second == [session]
        finally:
            await third.close()

    async def test_takeover_is_repeated_after_an_outage(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A session that a server took, and could neither end nor release, is taken over later."""
        here, there = two
        session = await hosted(here)
        await stop_following(there)
        await silent(here, postgresql)
        failed: list[str] = []

        def fail(session: str, *_: object, **__: object) -> None:
            failed.append(session)
            raise JournalError("the database is away")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(there._journal, "write", fail)
            patch.setattr(there._journal, "release", fail)
            await there.take_over()
        assert failed == [session, session]
        await there._look()
        await have_ended(there, session)

    @pytest.mark.slow
    async def test_continued_session_is_not_taken_again(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A session that a server has reported as continued is not taken over again."""
        here, there = two
        takes_over(there)
        session = await hosted(here)
        await silent(here, postgresql)
        await have_ended(there, session)
        await there.continued(session)
        await stop_following(there)
        await silent(there, postgresql)
        third = await hub_on(postgresql)
        second = takes_over(third)
        try:
            await third.take_over()
            assert second == []
            with reading(postgresql) as connection:
                assert connection.number("SELECT count(*) FROM act") == 0
        finally:
            await third.close()

    @pytest.mark.slow
    async def test_later_server_resumes_session_left_ended(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """If the first server ends a session without continuing it, a later server takes it over."""
        here, there = two
        session = await hosted(here)
        await silent(here, postgresql)
        await have_ended(there, session)
        third = await hub_on(postgresql)
        second = takes_over(third)
        try:
            await third.take_over()
            assert second == [session]
            assert await asyncio.to_thread(third._journal.owner, session) is None
        finally:
            await third.close()
