"""Servers whose database stops answering and later processes the statements already sent to it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest
from pydantic import BaseModel

from interlock.engine.agents import Agent, C, ScriptedModel, T, task_tool, tool
from interlock.engine.flows import Flow, FlowBuilder
from interlock.engine.gateway.aap.provider import ApprovalProvider
from interlock.engine.gateway.aap.wire import CreateRequest
from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.batches.rows import Written
from interlock.engine.history.batches.writer import Refusal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import ApprovalDecided, CallDecided, JournalEvent
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.history.postgres import writer as writing
from interlock.engine.history.postgres.servers import lease as leasing
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ....support.postgres import PostgresServer, own_server
from ...support.external_agent import opened, resumed
from .support.hubs import RULES, asked, hub_on

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with own_server() as server:
        yield server


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that give up a write sooner than by default."""
    monkeypatch.setattr(writing, "RECONNECT_SECONDS", 1.0)
    monkeypatch.setattr(writing, "PATIENCE", 1.0)
    monkeypatch.setattr(writing, "LOOK_SECONDS", 1.0)
    monkeypatch.setattr(leasing, "PATIENCE", 1.0)


@pytest.fixture
def location(database: PostgresServer, request: pytest.FixtureRequest) -> PostgresLocation:
    return PostgresLocation(database.url, f"journal_{abs(hash(request.node.name)) % 10**8}")


async def wait_until(condition: Callable[[], Awaitable[bool]], within: float = 40.0) -> None:
    """Wait until a condition is met, with time for the servers to reconnect to the database."""
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110 - the condition is in the database
            await asyncio.sleep(0.05)


async def undecided(hub: SharedHub, database: PostgresServer) -> None:
    """Approve the one request while the database is stopped, and assert that the approval fails."""
    [request] = await hub.approvals()
    with database.paused():
        outcome = await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert not outcome.ok


class TestLateApproval:
    @pytest.mark.parametrize("servers", [1, 2])
    async def test_call_of_external_agent_waits_again(
        self, database: PostgresServer, location: PostgresLocation, short_limits: None, servers: int
    ) -> None:
        """The server ends the session from its record. After a resume, the call waits again."""
        hubs = [await hub_on(location) for _ in range(servers)]
        hub, other = hubs[0], hubs[-1]
        try:
            waiting = await asked(hub, other)
            anew, warned = list[str](), list[str]()
            hub.begun_anew, hub.warn_operators = anew.append, warned.append
            await undecided(hub, database)

            async def begun() -> bool:
                return bool(anew)

            await wait_until(begun)
            await resumed(hub, rules=RULES)
            assert anew == ["robin-1"]
            assert len([each for each in warned if "resumed from its record" in each]) == 1
            assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], Exception)
            again = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))

            async def pending() -> bool:
                return [each.call_id for each in await other.approvals()] == ["d1"]

            await wait_until(pending)
            assert not again.done()
            [request] = await other.approvals()
            outcome = await other.decide(request.id, approved=True, by="ben", digest=request.digest)
            assert outcome.ok, outcome.message
            assert (await again).outcome == "allow"
            events = await hub.recorded("robin-1")
            bodies = [each.body for each in events]
            assert [each.by for each in bodies if isinstance(each, ApprovalDecided)] == ["ada", "ben"]
            assert len([each for each in bodies if isinstance(each, CallDecided)]) == 1
            assert fold(events) == await hub.session("robin-1")
        finally:
            for each in hubs:
                await each.close()

    async def test_client_reconnects_and_repeats_the_call(
        self, database: PostgresServer, location: PostgresLocation, short_limits: None, tmp_path: Path
    ) -> None:
        """A client without an answer reconnects, resumes its session and repeats the call by itself."""
        hub = await hub_on(location)
        tokens = TokenFile(tmp_path / "tokens.json")
        secret = tokens.issue("agent", "bot")
        gateway = Gateway(hub, tokens, rules=RuleSets.of(compile_rules(RULES).registry))
        hub.begun_anew = gateway.call_back
        try:
            address = await gateway.start(Address(port=0))
            async with AgentClient(address.url, secret) as client, client.session("robin") as session:
                waiting = asyncio.ensure_future(session.call("deploy", {"env": "prod"}))

                async def pending() -> bool:
                    return bool(await hub.approvals())

                await wait_until(pending)
                [first] = await hub.approvals()
                await undecided(hub, database)

                async def again() -> bool:
                    return [each.id for each in await hub.approvals()] not in ([], [first.id])

                await wait_until(again)
                [request] = await hub.approvals()
                outcome = await hub.decide(request.id, approved=True, by="ben", digest=request.digest)
                assert outcome.ok, outcome.message
                answer = await waiting
                assert (answer.outcome, answer.approved_by) == ("allow", ("ben",))
        finally:
            await gateway.close()
            await hub.close()

    async def test_protocol_request_can_be_decided_again(
        self, database: PostgresServer, location: PostgresLocation, short_limits: None, tmp_path: Path
    ) -> None:
        """The provider resumes the session without a client, and the request can be decided again."""
        hub = await hub_on(location)
        tokens = TokenFile(tmp_path / "tokens.json")
        identity = tokens.find(tokens.issue("agent", "bot"))
        assert identity is not None
        gateway = Gateway(hub, tokens, rules=RuleSets.of(compile_rules(RULES).registry))
        provider = ApprovalProvider(gateway.sessions, tokens)
        hub.begun_anew, hub.ended_with_server = gateway.call_back, provider.take
        try:
            await gateway.start(Address(port=0))
            await provider.start()
            message = CreateRequest(tool="deploy", arguments={"env": "prod"}, timeout="1h")
            made, _ = await provider.create(identity, "key", message)
            [first] = await hub.approvals()
            await undecided(hub, database)

            async def again() -> bool:
                return [each.id for each in await hub.approvals()] not in ([], [first.id])

            await wait_until(again)
            [request] = await hub.approvals()
            outcome = await hub.decide(request.id, approved=True, by="ben", digest=request.digest)
            assert outcome.ok, outcome.message
            found = await provider.get(identity, made.id, wait=20.0)
            assert found.decision is not None
            assert found.decision.status == "approved"
        finally:
            await provider.close()
            await gateway.close()
            await hub.close()

    async def test_hosted_call_runs_only_if_decision_is_recorded(
        self, database: PostgresServer, location: PostgresLocation, short_limits: None
    ) -> None:
        """The hub ends its session for a takeover; its call runs only if a decision is recorded."""
        ran = list[str]()

        @tool
        async def deploy() -> str:
            """Deploy."""
            ran.append("deploy")
            return "deployed"

        def agent(*script: object) -> Agent:
            return Agent(ScriptedModel([*script]), name="bot", tools=[deploy])

        hub = await hub_on(location)
        try:
            taken = list[str]()
            hub.taken_over = lambda line: taken.append(line.id)
            config = SessionConfig(compile_rules(RULES).registry)
            session = await hub.open_session(agent(C(d1=("deploy", {})), "done"), config)
            await hub.send(session, "go")

            async def pending() -> bool:
                return bool(await hub.approvals())

            await wait_until(pending)
            await undecided(hub, database)

            async def over() -> bool:
                return taken == [session]

            await wait_until(over)
            assert session not in hub._live
            assert await hub.resume_session(session, agent("done", "done"), config) == session
            events = await hub.recorded(session)
            assert fold(events) == await hub.session(session)
            assert len([each for each in events if isinstance(each.body, ApprovalDecided)]) == 1
            runs = [each for each in events if isinstance(each.body, CallDecided)]
            assert ran == ["deploy"] * len(runs)
        finally:
            await hub.close()

    async def test_subagent_call_waits_again_and_runs_once(
        self, database: PostgresServer, location: PostgresLocation, short_limits: None
    ) -> None:
        """Its session and its parent's are resumed together. The call waits again and runs once."""
        ran = list[str]()

        @tool
        async def deploy() -> str:
            """Deploy."""
            ran.append("deploy")
            return "deployed"

        def boss(first: bool) -> Agent:
            low = ScriptedModel([C(c1=("deploy", {})), T("low done")] if first else [T("low done")])
            task = C(t1=("task_low", {"prompt": "work"}))
            script = ScriptedModel([task, T("done")] if first else [T("done")])
            below = Agent(low, tell_rules=False, name="low", tools=[deploy])
            return Agent(script, tell_rules=False, name="boss", tools=[task_tool(below)])

        hub = await hub_on(location)
        try:
            taken = list[str]()
            hub.taken_over = lambda line: taken.append(line.id)
            config = SessionConfig(compile_rules(RULES).registry)
            session = await hub.open_session(boss(True), config)
            await hub.send(session, "go")

            async def pending() -> bool:
                return bool(await hub.approvals())

            await wait_until(pending)
            [child] = [each.id for each in hub._live if each.kind == "child"]
            await undecided(hub, database)

            async def over() -> bool:
                return {*taken} == {session, child}

            await wait_until(over)
            assert not {session, child} & {each.id for each in hub._live}
            await hub.resume_session(session, boss(False), config)
            await wait_until(pending)
            [request] = await hub.approvals()
            outcome = await hub.decide(request.id, approved=True, by="ben", digest=request.digest)
            assert outcome.ok, outcome.message
            await hub.wait(session)
            assert ran == ["deploy"]
            for each in (session, child):
                assert fold(await hub.recorded(each)) == await hub.session(each)
        finally:
            await hub.close()


class Asked(BaseModel):
    """Input of a flow."""


class Built(BaseModel):
    """Result of the first step."""


class Checked(BaseModel):
    """Result of the second step."""


class Shipped(BaseModel):
    """Output of the flow."""


class TestFlow:
    @pytest.mark.parametrize("servers", [1, 2])
    @pytest.mark.parametrize("recorded", [True, False])
    async def test_continues_after_late_step_and_repeats_lost_step(
        self,
        database: PostgresServer,
        location: PostgresLocation,
        short_limits: None,
        recorded: bool,
        servers: int,
    ) -> None:
        """A resumed flow continues after a step that was recorded late, and repeats a lost step."""
        taken, begun, done = list[str](), asyncio.Event(), asyncio.Event()

        async def build(asked: Asked) -> Built:
            taken.append("build")
            return Built()

        async def check(built: Built) -> Checked:
            taken.append("check")
            begun.set()
            await done.wait()
            return Checked()

        async def ship(checked: Checked) -> Shipped:
            taken.append("ship")
            return Shipped()

        class Release(Flow[Asked, Shipped]):
            @classmethod
            def build(cls, g: FlowBuilder[Asked, Shipped]) -> FlowBuilder[Asked, Shipped]:
                return g.work(build).work(check).work(ship)

        hubs = [await hub_on(location) for _ in range(servers)]
        hub = hubs[0]
        try:
            came = asyncio.Queue[tuple[SharedHub, str]]()
            for each in hubs:
                each.taken_over = lambda line, each=each: came.put_nowait((each, line.id))
            session = await hub.open_flow(Release, Asked(), SessionConfig({}))
            await begun.wait()
            if recorded:  # once the database continues
                with database.paused():
                    done.set()
                    await hub.flow_ended(session)
            else:
                database.stop(signal.SIGQUIT)
                done.set()
                await hub.flow_ended(session)
                database.start()
            async with asyncio.timeout(40):
                successor, resumed = await came.get()
            assert resumed == session
            assert session not in hub._live
            await successor.resume_flow(session, Release, SessionConfig({}))
            await successor.flow_ended(session)
            assert taken == ["build", "check", *([] if recorded else ["check"]), "ship"]
            events = await successor.recorded(session)
            assert fold(events).status == "done"
            steps = [each.body.step for each in events if isinstance(each.body, FlowStepped)]
            assert steps == [0, 1, 2, 3]
            assert came.empty()
        finally:
            for each in hubs:
                await each.close()

    async def test_rejected_step_is_repeated_once(
        self, location: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the database rejects only the event of a step, the step is repeated once, not endlessly."""
        taken = list[str]()

        async def build(asked: Asked) -> Shipped:
            taken.append("build")
            return Shipped()

        class Release(Flow[Asked, Shipped]):
            @classmethod
            def build(cls, g: FlowBuilder[Asked, Shipped]) -> FlowBuilder[Asked, Shipped]:
                return g.work(build)

        hub = await hub_on(location)
        try:
            writer = hub._journal._writer
            commit = writer.commit

            def rejecting(batch: Sequence[Written]) -> Mapping[str, Refusal]:
                if any(
                    isinstance(each.event.body, FlowStepped) and each.event.body.step for each in batch
                ):
                    raise psycopg.errors.DiskFull("No space left")
                return commit(batch)

            monkeypatch.setattr(writer, "commit", rejecting)
            resumed = asyncio.Queue[str]()
            hub.taken_over = lambda line: resumed.put_nowait(line.id)
            session = await hub.open_flow(Release, Asked(), SessionConfig({}))
            async with asyncio.timeout(40):
                assert await resumed.get() == session
            await hub.resume_flow(session, Release, SessionConfig({}))
            await hub.flow_ended(session)
            assert hub._live.hosted(session).has_unrecorded_end

            async def seen() -> bool:
                return not hub._live.hosted(session).has_unrecorded_end

            await wait_until(seen)
            assert hub.current_outage() is None
            assert (taken, resumed.empty()) == (["build", "build"], True)
        finally:
            await hub.close()


class TestConsole:
    @pytest.mark.parametrize("paused", [False, pytest.param(True, marks=pytest.mark.variants)])
    async def test_connects_during_an_outage(
        self,
        database: PostgresServer,
        location: PostgresLocation,
        short_limits: None,
        tmp_path: Path,
        paused: bool,
    ) -> None:
        """It shows the outage and what waits, and once the database answers it decides as any other."""
        hub = await hub_on(location)
        other = await hub_on(location)
        tokens = TokenFile(tmp_path / "tokens.json")
        secret = tokens.issue("operator", "ada")
        gateway = Gateway(hub, tokens, rules=RuleSets.of(compile_rules(RULES).registry))
        try:
            address = await gateway.start(Address(port=0))
            waiting = await asked(other, hub)

            async def has_outage() -> bool:
                return hub.current_outage() is not None

            async with AsyncExitStack() as stack:
                with database.paused() if paused else database.away():
                    await wait_until(has_outage)
                    async with asyncio.timeout(10):
                        console = await stack.enter_async_context(ConsoleClient(address.url, secret))
                    assert console.current_outage() is not None
                    [request] = await console.approvals()
                    events = console.subscribe()

                async def is_over() -> bool:
                    return console.current_outage() is None

                await wait_until(is_over)

                async def approved() -> bool:
                    return (
                        await console.decide(request.id, approved=True, by="", digest=request.digest)
                    ).ok

                await wait_until(approved)
                async with asyncio.timeout(10):
                    async for event in events:
                        if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalDecided):
                            break
                await waiting
        finally:
            await gateway.close()
            await other.close()
            await hub.close()


class TestServerThatIsToldToEnd:
    async def test_ends_without_waiting_for_the_database(
        self,
        database: PostgresServer,
        location: PostgresLocation,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The server does not wait for the database. The log names the sessions that may stay open."""
        hub = await hub_on(location)
        await opened(hub, RULES)
        with database.paused():

            async def out() -> bool:
                return hub.current_outage() is not None

            await wait_until(out)
            begun = time.monotonic()
            await hub.close()
            took = time.monotonic() - begun
        assert took < 8, took
        assert [each for each in caplog.messages if "may not be recorded" in each and "robin-1" in each]
        after = await hub_on(location)
        try:
            await wait_until(lambda: _ended(after))
            await resumed(after, rules=RULES)
        finally:
            await after.close()


async def _ended(hub: SharedHub) -> bool:
    """Tell whether any server has recorded the end of the session."""
    [line] = await hub.history()
    return line.status in ("done", "failed")
