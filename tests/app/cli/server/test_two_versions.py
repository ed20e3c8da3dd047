"""Servers of two versions on one database: a rolling upgrade, and an upgrade that forbids it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.database.revisions import read_revision
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.schema import reading
from tests.app.cli.server.test_serve import Running, serving
from tests.app.cli.server.test_two_servers import LINE, asked_again
from tests.engine.gateway.served import until
from tests.engine.history.support.recording import opening
from tests.support.migrations import CONTRACTING, EXPANDING, LATER, NEXT, NOW, prepare, schema_with
from tests.support.newer import SessionPaused
from tests.support.next_version import program
from tests.support.postgres import named

RULES = "require human-approval before deploy\n"


@pytest.fixture
def shared(tmp_path: Path, postgresql: PostgresLocation) -> dict[str, str]:
    """Environment of servers on one database; their rules are in `a.rules`."""
    (tmp_path / "a.rules").write_text(RULES)
    return {"INTERLOCK_DB": named(postgresql), "PYTHONPATH": str(Path(__file__).parents[4])}


def revision_and_older_schemas(location: PostgresLocation) -> tuple[str, tuple[str, ...]]:
    """Return the revision of the database and the older schemas that may run beside it."""
    with reading(location) as connection:
        return tuple(read_revision(connection))


async def lists_sessions(console: ConsoleClient, *sessions: str) -> bool:
    """Tell whether a console lists sessions."""
    return {*sessions} <= {each.id for each in await console.sessions()}


def url(*servers: Running) -> str:
    return ",".join(f"ws://{each.where}" for each in servers)


class TestRollingUpgrade:
    @pytest.mark.timeout(300)
    async def test_loses_nothing(
        self, tmp_path: Path, shared: dict[str, str], postgresql: PostgresLocation
    ) -> None:
        """Both versions work on one database; the older server's sessions continue at the newer one."""
        next_version = program(schema_with(tmp_path, EXPANDING))
        async with serving(tmp_path, *LINE, **shared) as old:
            first = old.agent()
            begun = await first.open("early")
            assert (await begun.call("test", {}, call_id="t1")).outcome == "allow"
            async with serving(tmp_path, *LINE, real=True, program=next_version, **shared) as new:
                assert revision_and_older_schemas(postgresql) == (NEXT, (NOW,))
                client, other = old.agent(url(old, new)), new.agent()
                one, two = await client.open("old-bot"), await other.open("new-bot")
                await begun.result("t1", "tested")
                waiting = asyncio.create_task(one.call("deploy", {}, call_id="d1"))
                assert (await one.call("build", {}, call_id="b1")).outcome == "allow"
                assert (await two.call("test", {})).outcome == "allow"
                async with old.console() as at_old, new.console() as at_new:
                    for console in (at_old, at_new):
                        await until(lambda each=console: lists_sessions(each, begun.id, one.id, two.id))
                    [asked] = await until(at_new.approvals)
                    code, said = await old.ended()
                    assert code == 0, said
                    [request] = await asked_again(at_new, asked.id)
                    await one.result("b1", "built")
                    outcome = await at_new.decide(request.id, approved=True, digest=request.digest)
                    assert outcome.ok, outcome.message
                    assert (await waiting).outcome == "allow"
                    events = list(await at_new.recorded(one.id))
                    assert not any("unknown" in headline(each) for each in events)
                    results = [each for each in events if each.body.type == "call.result"]
                    assert [each.body.call_id for each in results] == ["b1"]
                # The older version starts beside it, too.
                async with serving(tmp_path, *LINE, **shared) as late:
                    third = late.agent()
                    gate = await third.open("late")
                    assert (await gate.call("test", {})).outcome == "allow"
                    await third.close()
                for each in (first, client, other):
                    await each.close()

    @pytest.mark.slow
    @pytest.mark.timeout(300)
    async def test_leaves_new_records_to_the_new_version(
        self, tmp_path: Path, shared: dict[str, str], postgresql: PostgresLocation
    ) -> None:
        """A session with an event that the older version does not know waits for the newer one."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening(), SessionPaused())
        async with serving(tmp_path, *LINE, **shared) as old, old.console() as console:
            await until(lambda: lists_sessions(console, "s"))
            assert "newer version" in (console.server_of("s") or "")
            next_version = program(schema_with(tmp_path, EXPANDING))
            async with serving(tmp_path, *LINE, real=True, program=next_version, **shared):

                async def taken() -> bool:
                    found = {each.id: each for each in await console.history()}
                    return found["s"].status == "failed"

                await until(taken)
            code, said = await old.ended()
            assert code == 0
            assert "session 's' stays open without a server: event 2, 'session.paused'" in said


class TestUpgradeThatAllowsNoOther:
    @pytest.mark.slow
    @pytest.mark.timeout(300)
    async def test_waits_for_older_servers_and_keeps_them_out(
        self, tmp_path: Path, shared: dict[str, str], postgresql: PostgresLocation
    ) -> None:
        """It is refused while an older server runs; afterwards an older server does not start."""
        contracted = schema_with(tmp_path, EXPANDING, CONTRACTING)
        async with serving(tmp_path, *LINE, **shared) as old:
            with pytest.raises(JournalError, match="End all of them"):
                await asyncio.to_thread(prepare, postgresql, contracted)
            client = old.agent()
            gate = await client.open("bot")
            assert (await gate.call("test", {})).outcome == "allow"
            await client.close()
        with Journal.open(postgresql) as ends:  # the killed server has ended
            await until(lambda: is_only_server(postgresql, ends))
        await asyncio.to_thread(prepare, postgresql, contracted)
        with pytest.raises(
            AssertionError, match=f"schema {LATER}; this version knows schemas up to {NOW}"
        ):
            async with serving(tmp_path, *LINE, **shared):
                pass
        assert revision_and_older_schemas(postgresql) == (LATER, ())


async def is_only_server(location: PostgresLocation, journal: Journal) -> bool:
    """Tell whether no other server is left."""
    with reading(location) as connection:
        [(number,)] = connection.execute("SELECT count(*) FROM server WHERE ended IS NULL").fetchall()
    return number == 1
