"""Servers of two versions on one database: an older server and records that only a newer one knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from interlock.app.cli.main import main
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import SessionNewer
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import NewerEvent, SessionOpened
from interlock.engine.history.model.records import Record
from interlock.engine.history.postgres.pool import reading
from tests.support.newer import NEWER, SessionPaused
from tests.support.postgres import named

from ...history.support.recording import decided, opening
from ...support.external_agent import AGENT, resumed
from .support.hubs import RULES, becomes, hub_on


@pytest.fixture
async def older(postgresql: PostgresLocation) -> AsyncIterator[SharedHub]:
    """A server of this version."""
    hub = await hub_on(postgresql)
    try:
        yield hub
    finally:
        await hub.close()


@pytest.fixture
def newer(postgresql: PostgresLocation, older: SharedHub) -> Journal:
    """The journal of a server of the next version; the test or the end of the database closes it."""
    return Journal.open(postgresql)


def owner(location: PostgresLocation, session: str) -> str | None:
    """Return the server that has a session according to the database."""
    with reading(location) as connection:
        [(server,)] = connection.execute(
            "SELECT server FROM owner WHERE session = ?", (session,)
        ).fetchall()
    return server


async def listed(hub: SharedHub, session: str) -> bool:
    """Tell whether a server lists a session."""
    return session in [each.id for each in await hub.sessions()]


class TestOlderServer:
    @pytest.mark.slow
    async def test_shows_unknown_event_and_later_ones(self, older: SharedHub, newer: Journal) -> None:
        """The server shows an event of an unknown type and the events after it."""
        heard = older.subscribe()
        await asyncio.to_thread(newer.write, "s", opening(), SessionPaused(), decided("c1", "test"))
        await asyncio.to_thread(newer.write, "t", opening())
        await becomes(lambda: listed(older, "t"))
        state = await older.session("s")
        assert state.newer
        assert "c1" in state.calls
        bodies = []
        async with asyncio.timeout(20):
            async for event in heard:
                bodies.append(event.body)
                if len(bodies) == 4:
                    break
        assert bodies[1] == NewerEvent(name="session.paused")
        assert isinstance(bodies[3], SessionOpened)
        await asyncio.to_thread(newer.close)

    @pytest.mark.slow
    @pytest.mark.parametrize(("body", "part"), NEWER.values(), ids=NEWER)
    async def test_leaves_unknown_sessions_and_takes_known_ones(
        self,
        older: SharedHub,
        newer: Journal,
        postgresql: PostgresLocation,
        capsys: pytest.CaptureFixture[str],
        body: Record,
        part: str,
    ) -> None:
        """The server takes over known sessions. It lists the others and reports why it leaves them."""
        said: list[str] = []
        older.warn_operators = said.append
        await asyncio.to_thread(newer.write, "known", opening())
        await asyncio.to_thread(newer.write, "s", opening(), body)
        await asyncio.to_thread(newer.close)

        async def taken() -> bool:
            return owner(postgresql, "known") == older._lease.id and bool(said)

        await becomes(taken)
        assert owner(postgresql, "s") is None
        assert said == [
            f"session 's' stays open without a server: event 2, {part}, is not known to this version, so "
            "that a server of a newer one has to go on with it"
        ]
        await becomes(lambda: listed(older, "s"))
        assert "newer version" in (older.server_of("s") or "")
        assert [each.status for each in await older.history() if each.id == "s"] != ["failed"]
        assert await asyncio.to_thread(main, ["servers", "--db", named(postgresql)]) == 0
        assert f"Session s has no server: event 2, {part}" in capsys.readouterr().out

    @pytest.mark.slow
    @pytest.mark.parametrize("column", ["status", "mode", "kind"])
    async def test_leaves_session_with_unknown_listed_value(
        self,
        older: SharedHub,
        newer: Journal,
        postgresql: PostgresLocation,
        capsys: pytest.CaptureFixture[str],
        column: str,
    ) -> None:
        """The server lists a session with an unknown value in a listed column, and does nothing else."""
        await asyncio.to_thread(newer.write, "s", opening(), decided("c1", "test"))
        with reading(postgresql) as connection:
            connection.execute(f"UPDATE session SET {column} = 'asleep' WHERE id = 's'")
        await becomes(lambda: listed(older, "s"))
        assert [each.newer for each in await older.history()] == [True]
        await asyncio.to_thread(newer.write, "known", opening())
        await asyncio.to_thread(newer.close)

        async def taken() -> bool:
            return owner(postgresql, "known") == older._lease.id and "s" in older._journal.newer_sessions

        await becomes(taken)
        assert owner(postgresql, "s") is None
        assert await asyncio.to_thread(main, ["servers", "--db", named(postgresql)]) == 0
        assert f"Session s has no server: its {column} 'asleep' is not known" in capsys.readouterr().out
        with pytest.raises(SessionNewer, match=f"a {column} 'asleep'"):
            await asyncio.to_thread(older._journal.write, "s", decided("c2", "test"), after=2)
        assert owner(postgresql, "s") is None
        with reading(postgresql) as connection:
            [(kept,)] = connection.execute(f"SELECT {column} FROM session WHERE id = 's'").fetchall()
        assert kept == "asleep"

    @pytest.mark.slow
    async def test_leaves_parent_of_unknown_subagent(
        self, older: SharedHub, newer: Journal, postgresql: PostgresLocation
    ) -> None:
        """If the record of a subagent is unknown, the server leaves its parent session open as well."""
        child = opening().model_copy(update={"kind": "child", "parent": "s", "parent_call": "c1"})
        await asyncio.to_thread(newer.write, "s", opening())
        await asyncio.to_thread(newer.write, "s/1", child, SessionPaused())
        await asyncio.to_thread(newer.close)

        async def left() -> bool:
            return sorted(older._journal.newer_sessions) == ["s", "s/1"]

        await becomes(left)
        assert owner(postgresql, "s") is None
        assert owner(postgresql, "s/1") is None

    async def test_refuses_agent_of_unknown_session(
        self, older: SharedHub, newer: Journal, postgresql: PostgresLocation
    ) -> None:
        """The server refuses an agent that resumes such a session; the session keeps its owner."""
        outside = opening().model_copy(update={"kind": "outside", "agent": AGENT.name})
        await asyncio.to_thread(newer.write, "robin-1", outside, SessionPaused())
        before = owner(postgresql, "robin-1")
        with pytest.raises(SessionNewer, match="does not know"):
            await resumed(older, rules=RULES)
        assert before is not None
        assert owner(postgresql, "robin-1") == before
        await asyncio.to_thread(newer.close)

    @pytest.mark.slow
    async def test_many_unknown_sessions_do_not_hide_a_known_one(
        self, older: SharedHub, newer: Journal, postgresql: PostgresLocation
    ) -> None:
        """Unknown sessions do not hide a known one, even if they exceed the size of a takeover batch."""
        for number in range(7):
            await asyncio.to_thread(newer.write, f"s{number}", opening(), SessionPaused())
        await asyncio.to_thread(newer.write, "known", opening())
        await asyncio.to_thread(newer.close)
        with Journal.open(postgresql) as another:
            taken: list[str] = []
            for _ in range(4):
                taken += another.orphans(2)
            assert len(another.newer_sessions) >= 6
        assert taken in (["known"], [])  # the server of the fixture may have been first
        assert owner(postgresql, "s0") is None
