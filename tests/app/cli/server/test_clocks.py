"""`interlock serve` on one database, on machines whose clocks differ."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from agentapprovalprotocol import AsyncClient

from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway.protocol.tokens import read_secret
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.schema import time_of
from interlock.engine.history.model.events import SessionStatus
from tests.app.cli.server.test_serve import approval_address, serving, surroundings
from tests.app.cli.server.test_two_servers import LINE
from tests.engine.gateway.served import until
from tests.support.decisions import opened
from tests.support.postgres import named
from tests.support.wrong_clock import program

HOUR = 3600
RULES = """\
limit refund to 2 per 1h across everyone
limit note to 1 per 1h
require human-approval before deploy
"""


@pytest.fixture
def shared(tmp_path: Path, postgresql: PostgresLocation) -> dict[str, str]:
    """Environment of servers on one database; their rules are in `a.rules`."""
    (tmp_path / "a.rules").write_text(RULES)
    return {"INTERLOCK_DB": named(postgresql), "PYTHONPATH": str(Path(__file__).parents[4])}


@pytest.mark.slow
class TestClocksOfMachines:
    @pytest.mark.timeout(180)
    async def test_limits_and_event_times_use_database_clock(
        self, tmp_path: Path, shared: dict[str, str], postgresql: PostgresLocation
    ) -> None:
        """A machine that is an hour fast keeps limits per time and dates events by the database."""
        fast = program(HOUR)
        async with (
            serving(tmp_path, *LINE, **shared) as right,
            serving(tmp_path, *LINE, real=True, program=fast, **shared) as ahead,
        ):
            here, there = right.agent(f"ws://{right.where},ws://{ahead.where}"), ahead.agent()
            one, two = await here.open("one"), await there.open("two")
            calls = [one, one, two, two]
            refunds = [(await each.call("refund", {})).outcome for each in calls]
            assert refunds == ["allow", "allow", "block", "block"]
            assert (await one.call("note", {})).outcome == "allow"
            assert (await right.ended())[0] == 0  # its agent goes to the other server
            assert (await one.call("note", {})).outcome == "block"
            for client in (here, there):
                await client.close()
        dated = [each.at for id_ in (one.id, two.id) for each in open_reader(postgresql).events(id_)]
        assert max(dated) <= time_of(postgresql)

    @pytest.mark.timeout(180)
    async def test_grant_from_fast_machine_ends_in_time(
        self, tmp_path: Path, shared: dict[str, str]
    ) -> None:
        """A grant of 6 s from a machine that is an hour fast ends in time at another server."""
        async with (
            serving(tmp_path, *LINE, **shared) as right,
            serving(tmp_path, *LINE, real=True, program=program(HOUR), **shared) as ahead,
        ):
            client = right.agent(f"ws://{ahead.where},ws://{right.where}")
            gate = await client.open("bot")
            asking = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            async with ahead.console() as console:
                [request] = await until(console.approvals)
                outcome = await console.decide(
                    request.id,
                    approved=True,
                    digest=request.digest,
                    reason="for now",
                    grant=GrantTerms(scope="names", seconds=6),
                )
                assert outcome.ok, outcome.message
            assert (await asking).outcome == "allow"
            assert (await ahead.ended())[0] == 0

            async def asks() -> bool:
                return (await gate.call("deploy", {}, wait=0.1)).outcome == "waiting"

            await until(asks)
            await client.close()

    @pytest.mark.timeout(180)
    @pytest.mark.parametrize("seconds", [HOUR, -HOUR], ids=["fast", "slow"])
    async def test_approval_requests_last_as_long(
        self, tmp_path: Path, shared: dict[str, str], seconds: int
    ) -> None:
        """The deadline of a protocol's request and the use of its approval are by the database's time."""
        line = (*LINE, "--approval-protocol", "127.0.0.1:0")
        async with serving(tmp_path, *line, real=True, program=program(seconds), **shared) as wrong:
            secret = read_secret(wrong.config / "agent.token")
            client = AsyncClient(await approval_address(wrong), secret)
            asking = asyncio.create_task(
                client.create({"tool": "deploy", "arguments": {}, "timeout": "10m"}, "key")
            )
            async with wrong.console() as console:
                [request] = await until(console.approvals)
                made = await asking
                outcome = await console.decide(request.id, approved=True, digest=request.digest)
                assert outcome.ok, outcome.message

            async def has_ended() -> bool:
                return (await client.get(made.id)).status != "pending"

            await until(has_ended)
            assert (await client.consume(made.id, "use")).consumption is not None

    async def test_prune_uses_the_database_clock(
        self, tmp_path: Path, shared: dict[str, str], postgresql: PostgresLocation
    ) -> None:
        """`prune` takes the age of a session from the database clock, not from its machine's clock."""
        with Journal.open(postgresql) as journal:
            journal.write("done", opened("bot"), SessionStatus(status="done"))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *program(48 * HOUR), "history", "prune", "--older-than", "1d"),
            cwd=tmp_path,
            env=surroundings(tmp_path) | shared,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0
        assert said.decode() == "Pruned 0 sessions, 0 events.\n"
