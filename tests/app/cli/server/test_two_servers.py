"""Two `interlock serve` processes on one database, as a team runs them: one queue, and failover."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.tokens import read_secret
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import CallDecided
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.history.postgres.servers.listing import list_servers
from tests.app.cli.hooks.running import Hook, ended, recorded
from tests.app.cli.server.test_serve import serving
from tests.engine.gateway.served import until
from tests.support.postgres import named

RULES = "require human-approval before deploy\n"


@pytest.fixture
def shared(tmp_path: Path, postgresql: PostgresLocation) -> dict[str, str]:
    """Environment of servers on one database; their rules are in `a.rules`."""
    (tmp_path / "a.rules").write_text(RULES)
    return {"INTERLOCK_DB": named(postgresql)}


async def asked_again(console: ConsoleClient, first: str) -> list[ApprovalState]:
    """Return the open requests other than the first, once a lease has expired and there are any."""
    for _ in range(900):
        if found := [each for each in await console.approvals() if each.id != first]:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("it was not asked again")


async def request_at_own_server(console: ConsoleClient) -> ApprovalState:
    """Return the open request of a session that has moved to the console's own server."""
    for _ in range(900):
        found = [each for each in await console.approvals() if not console.server_of(each.session)]
        if found:
            return found[0]
        await asyncio.sleep(0.1)
    raise AssertionError("its session did not come")


LINE = ("--rules", "a.rules", "--listen", "127.0.0.1:0")


class TestTwoServers:
    async def test_operator_at_one_server_releases_call_at_another(
        self, tmp_path: Path, shared: dict[str, str]
    ) -> None:
        """An operator at one server releases a call of an agent at the other server."""
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
            for each in (one, two):
                code, said = await each.ended()
                assert code == 0
                # The test database is not safe against power failure, and the servers report that.
                weak = ("interlock serve: fsync is", "interlock serve: full_page_writes is")
                others = [line for line in said.splitlines() if not line.startswith(weak)]
                assert others == []

    @pytest.mark.slow
    @pytest.mark.timeout(180)
    async def test_calls_of_paused_server_are_decided_elsewhere(
        self, tmp_path: Path, shared: dict[str, str], postgresql: PostgresLocation
    ) -> None:
        """Calls to a server that was paused for longer than its lease are decided at the other server."""
        async with (
            serving(tmp_path, *LINE, real=True, **shared) as one,
            serving(tmp_path, *LINE, **shared) as two,
        ):
            client = one.agent(f"ws://{one.where},ws://{two.where}")
            gate = await client.open("bot")
            assert (await gate.call("read", {}, call_id="r1")).outcome == "allow"
            one.process.send_signal(signal.SIGSTOP)
            for _ in range(600):
                if any(each.ended is not None for each in list_servers(postgresql)):
                    break
                await asyncio.sleep(0.05)
            asked = [asyncio.create_task(gate.call("read", {}, call_id=f"r{n}")) for n in range(2, 9)]
            await asyncio.sleep(0.1)
            one.process.send_signal(signal.SIGCONT)
            assert [each.outcome for each in await asyncio.gather(*asked)] == ["allow"] * len(asked)
            await client.close()

    @pytest.mark.slow
    @pytest.mark.timeout(180)
    async def test_agent_of_killed_server_continues_elsewhere(
        self, tmp_path: Path, shared: dict[str, str]
    ) -> None:
        """If a server is killed, its agent continues at the other server and requests approval again."""
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


AGENTS = """
import asyncio
from interlock.engine.agents import Agent, C, ScriptedModel, T, tool

@tool
async def deploy() -> str:
    \"\"\"Deploy.\"\"\"
    return "deployed"

def make(*script):
    return Agent(ScriptedModel([*script], name="m"), name="bot", tools=[deploy])

def asks():
    return make(C(d1=("deploy", {})), T("done"))

def rests():
    return make(T("done"))

@tool
async def build() -> str:
    \"\"\"Build.\"\"\"
    await asyncio.sleep(600)
    return "built"

def works():
    model = ScriptedModel([C(b1=("build", {}))], name="m")
    return Agent(model, name="bot", tools=[build])
"""


class TestHostedAgents:
    @pytest.mark.slow
    @pytest.mark.timeout(180)
    async def test_waiting_for_a_message_are_named(self, tmp_path: Path, shared: dict[str, str]) -> None:
        """An open request is asked again. An agent whose tool was cut off waits for a message."""
        (tmp_path / "team.py").write_text(AGENTS)
        async with serving(tmp_path, *LINE, **shared) as one, serving(tmp_path, *LINE, **shared) as two:
            async with one.console() as console:
                spec = {"import_from": [str(tmp_path)], "task": "go"}
                asks = await console.start({"agent": "team:asks", **spec})
                rests = await console.start({"agent": "team:rests", **spec})
                works = await console.start({"agent": "team:works", **spec})
                [first] = await until(console.approvals)

                async def is_idle() -> bool:
                    return (await console.session(rests)).status == "idle"

                async def is_running() -> bool:
                    return (await console.session(works)).calls["b1"].status == "running"

                await until(is_idle)
                await until(is_running)
            one.process.send_signal(signal.SIGKILL)
            async with two.console() as console:
                await asked_again(console, first.id)

                async def resumed() -> bool:
                    here = [each.id for each in await console.sessions() if each.status == "idle"]
                    return {rests, works} <= {*here} and console.server_of(rests) is None

                await until(resumed)
            _, said = await two.ended()
            assert f"'{asks}' of a server that ended continues here" in said
            assert (
                f"'{rests}' of a server that ended is here now, and waits for a message: nothing was open"
                in said
            )
            lost = "waits for a message: the outcome of build is unknown"
            assert f"'{works}' of a server that ended is here now, and {lost}" in said


class TestServerThatEnds:
    @pytest.mark.slow
    @pytest.mark.timeout(180)
    async def test_hands_over_sessions_unchanged(self, tmp_path: Path, shared: dict[str, str]) -> None:
        """Sessions that wait, run or rest when a server ends continue unchanged at the other server."""
        async with serving(tmp_path, *LINE, **shared) as one, serving(tmp_path, *LINE, **shared) as two:
            client = one.agent(f"ws://{one.where},ws://{two.where}")
            waits, runs, rests = [await client.open(each) for each in ("waits", "runs", "rests")]
            waiting = asyncio.create_task(waits.call("deploy", {}, call_id="d1"))
            assert (await runs.call("build", {}, call_id="b1")).outcome == "allow"
            async with two.console() as console:
                [first] = await until(console.approvals)
                code, said = await one.ended()
                assert code == 0, said

                [request] = await asked_again(console, first.id)
                # The agent has moved, and all of its sessions with it.
                state = await console.session(runs.id)
                assert state.calls["b1"].status == "running"
                assert (await console.session(rests.id)).status == "idle"
                await runs.result("b1", "built")
                outcome = await console.decide(request.id, approved=True, digest=request.digest)
                assert outcome.ok, outcome.message
                assert (await waiting).outcome == "allow"
                assert (await rests.call("test", {})).outcome == "allow"

                for session in (waits.id, runs.id, rests.id):
                    events = list(await console.recorded(session))
                    assert not any("unknown" in headline(each) for each in events)
                    assert fold(events).status == "idle"
                assert (await console.session(runs.id)).calls["b1"].status == "done"
            await client.close()


class TestHook:
    @pytest.mark.slow
    @pytest.mark.timeout(180)
    async def test_continues_when_its_server_stops_answering(
        self, tmp_path: Path, shared: dict[str, str], postgresql: PostgresLocation
    ) -> None:
        """A hook whose server stops answering waits at the next server and is answered once."""
        async with (
            serving(tmp_path, *LINE, real=True, **shared) as one,
            serving(tmp_path, *LINE, **shared) as two,
        ):
            secret = read_secret(one.config / "agent.token")
            urls = f"ws://{one.where},ws://{two.where}"
            hook = Hook.at(tmp_path / "hook", INTERLOCK_URL=urls, INTERLOCK_TOKEN=secret)
            running = await hook.start(recorded("pre_bash", tool_name="deploy"))
            async with two.console() as console:
                [first] = await until(console.approvals)
                assert console.server_of(first.session) == f"ws://{one.where}"
                one.process.send_signal(signal.SIGSTOP)
                request = await request_at_own_server(console)
                outcome = await console.decide(request.id, approved=True, digest=request.digest)
                assert outcome.ok, outcome.message
                assert (await ended(running)).decision["permissionDecision"] == "allow"
                one.process.send_signal(signal.SIGCONT)
                await one.ended()
                events = await console.recorded(request.session)
                decided = [each.body for each in events if isinstance(each.body, CallDecided)]
                assert [each.outcome for each in decided] == ["allow"]
