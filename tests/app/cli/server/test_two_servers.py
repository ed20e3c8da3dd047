"""Two `interlock serve` on one database, as a team runs them: one queue, and failover."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.model.state import ApprovalState
from tests.app.cli.server.test_serve import serving
from tests.engine.gateway.served import until
from tests.support.postgres import named

RULES = "require human-approval before deploy\n"


@pytest.fixture
def shared(tmp_path: Path, postgresql: PostgresLocation) -> dict[str, str]:
    """The environment of servers on one database, whose rules are in `a.rules`."""
    (tmp_path / "a.rules").write_text(RULES)
    return {"INTERLOCK_DB": named(postgresql)}


async def asked_again(console: ConsoleClient, first: str) -> list[ApprovalState]:
    """The open requests but for the first, once there are any: a lease has to be over before."""
    for _ in range(900):
        if found := [each for each in await console.approvals() if each.id != first]:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("it was not asked again")


LINE = ("--rules", "a.rules", "--listen", "127.0.0.1:0")


class TestTwoServers:
    async def test_one_queue(self, tmp_path: Path, shared: dict[str, str]) -> None:
        """An agent at one server is released by an operator at the other."""
        async with serving(tmp_path, *LINE, **shared) as one, serving(tmp_path, *LINE, **shared) as two:
            client = one.agent()
            gate = await client.open("bot")
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            async with two.console() as console:
                [request] = await until(console.approvals)
                assert console.server_of(request.session) == f"ws://{one.where}"
                outcome = await console.decide(request.id, approved=True, digest=request.digest)
                assert outcome.ok, outcome.message
                assert (await going).outcome == "allow"
            await client.close()
            for each, rest in ((one, ["its sessions go on at another one"]), (two, [])):
                code, said = await each.ended()
                assert code == 0
                # The database of these tests keeps nothing through a power cut, which is said.
                weak = ("interlock serve: fsync is", "interlock serve: full_page_writes is")
                others = [line for line in said.splitlines() if not line.startswith(weak)]
                assert [part in line for part, line in zip(rest, others, strict=True)] == [True] * len(
                    rest
                )

    @pytest.mark.timeout(180)
    async def test_failover(self, tmp_path: Path, shared: dict[str, str]) -> None:
        """When a server is killed, its agent goes on at the other, where its question is asked again."""
        async with serving(tmp_path, *LINE, **shared) as one, serving(tmp_path, *LINE, **shared) as two:
            client = one.agent(f"ws://{one.where},ws://{two.where}")
            gate = await client.open("bot")
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            async with two.console() as console:
                [first] = await until(console.approvals)
                one.process.send_signal(signal.SIGKILL)

                [request] = await asked_again(console, first.id)
                outcome = await console.decide(request.id, approved=True, digest=request.digest)
                assert outcome.ok, outcome.message
            assert (await going).outcome == "allow"
            await client.close()
