"""Laws of agents and consoles at a server, for any behaviour of the network and the operators."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.engine.gateway import GatewayError
from interlock.engine.gateway.client.agent import AgentClient, AgentSession
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.agent_methods import CallAnswer
from interlock.engine.history.model.events import (
    ApprovalDecided,
    CallDecided,
    CallResult,
    JournalEvent,
    MessageAdded,
)
from interlock.engine.history.model.positions import Positions
from interlock.engine.hub.hub import Subscription
from tests.support.laws import examples

from ..mcp.proxy import Proxy, proxy, through
from ..served import Served, served

RULES = """\
require human-approval before deploy
require test before release
block rm
limit push to 2 per session
"""
TOOLS = ("deploy", "test", "release", "rm", "push")

Step: TypeAlias = (
    tuple[Literal["call"], int, int]
    | tuple[Literal["ask again"], int]
    | tuple[Literal["take back"], int]
    | tuple[Literal["result"], int, bool]
    | tuple[Literal["decide"], int, bool, bool]
    | tuple[Literal["cut", "hold", "let go", "restart", "pause"]]
)
some = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("call"), st.integers(0, 1), st.integers(0, len(TOOLS) - 1)),
    st.tuples(st.just("call"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("ask again"), some),
    st.tuples(st.just("take back"), some),
    st.tuples(st.just("result"), some, st.booleans()),
    st.tuples(st.just("decide"), some, st.booleans(), st.booleans()),
    st.tuples(st.sampled_from(["cut", "cut", "hold", "let go", "restart", "pause", "pause"])),
)


@dataclass
class Call:
    """One call id, and all answers to it."""

    session: AgentSession
    id: str
    tool: str
    input: dict[str, int]
    answers: list[CallAnswer] = field(default_factory=list)


@dataclass
class World:
    """A server behind an unreliable network, two agents' sessions and two consoles."""

    directory: Path
    network: Proxy
    server: Served
    life: AsyncExitStack
    sessions: list[AgentSession]
    consoles: list[ConsoleClient]
    told: list[Subscription]
    calls: list[Call] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def spawn(self, work: Awaitable[object]) -> None:
        async def run() -> None:
            with suppress(GatewayError):
                await work

        self.tasks.append(asyncio.create_task(run()))

    async def restart(self) -> None:
        address = self.server.address
        await self.life.aclose()
        self.server = await self.life.enter_async_context(
            served(self.directory, rules=RULES, address=address, hosts=[self.network.name])
        )

    async def ask(self, call: Call) -> None:
        answer = await call.session.call(call.tool, dict(call.input), call_id=call.id)
        call.answers.append(answer)

    async def decide(self, which: int, approved: bool, both: bool) -> None:
        """Decide at one console, or at both at once with opposite decisions."""
        for number, console in enumerate(self.consoles[: 2 if both else 1]):
            seen = await console.approvals()
            if seen:
                request = seen[which % len(seen)]
                said = approved if number == 0 else not approved
                self.spawn(console.decide(request.id, approved=said, digest=request.digest))

    async def take(self, step: Step) -> None:
        match step:
            case ("call", session, tool):
                number = len(self.calls)
                call = Call(self.sessions[session], f"c{number}", TOOLS[tool], {"n": number})
                self.calls.append(call)
                self.spawn(self.ask(call))
            case ("ask again", which) if self.calls:
                self.spawn(self.ask(self.calls[which % len(self.calls)]))
            case ("take back", which) if self.calls:
                call = self.calls[which % len(self.calls)]
                self.spawn(call.session.withdraw(call.id))
            case ("result", which, failed) if self.calls:
                call = self.calls[which % len(self.calls)]
                self.spawn(call.session.result(call.id, "done", is_error=failed))
            case ("decide", which, approved, both):
                self.spawn(self.decide(which, approved, both))
            case ("cut",):
                self.network.cut()
            case ("hold",):
                self.network.hold()
            case ("let go",):
                self.network.let_go()
            case ("restart",):
                self.network.let_go()
                await self.restart()
            case ("pause",):
                await asyncio.sleep(0.02)
            case _:
                pass
        await asyncio.sleep(0)

    async def rest(self) -> None:
        """Restore the network and deny requests until no task waits."""
        self.network.let_go()

        async def over() -> bool:
            for request in await self.server.hub.approvals():
                await self.server.hub.decide(request.id, approved=False, by="ada")
            return all(task.done() for task in self.tasks)

        await eventually(over)


async def eventually(found: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await found():  # noqa: ASYNC110 - nothing tells of all that is waited for
            await asyncio.sleep(0.01)


async def run_script(directory: Path, script: list[Step]) -> None:
    async with AsyncExitStack() as ends, proxy() as network:
        life = await ends.enter_async_context(AsyncExitStack())
        address = Address(port=0)
        server = await life.enter_async_context(
            served(directory, rules=RULES, address=address, hosts=[network.name])
        )
        through(network, server)
        agents = [AgentClient(network.url, server.agent, patience=30.0) for _ in range(2)]
        for agent in agents:
            ends.push_async_callback(agent.close)
        sessions = [await agent.open("bot", session=f"s-{n}") for n, agent in enumerate(agents)]
        consoles = [ConsoleClient(network.url, token) for token in (server.ada, server.ben)]
        for console in consoles:
            await console.open()
            ends.push_async_callback(console.close)
        first = max((await server.hub.positions()).cursors)
        told = [console.subscribe() for console in consoles]
        world = World(directory, network, server, life, sessions, consoles, told)
        for step in script:
            await world.take(step)
        await world.rest()
        await check_laws(world, first)


async def check_laws(world: World, first: int) -> None:
    recorded = await world.server.hub.since(Positions(), 100_000)
    for call in world.calls:
        mine = [event.body for event in recorded if event.session == call.session.id]
        ids = {
            each.call_id
            for body in mine
            if isinstance(body, MessageAdded)
            for each in body.calls
            if (each.made_as or each.call_id) == call.id
        }
        decided = [body for body in mine if isinstance(body, CallDecided) and body.call_id in ids]
        over = [
            body for body in mine if isinstance(body, CallResult) and body.call_id in ids and body.tool
        ]
        assert len(decided) == len({body.call_id for body in decided}), "a call is decided once"
        assert len(decided) <= len(over) + 1, "a call is another one only after its result"
        answered = {(each.outcome, str(each.input)) for each in call.answers}
        assert answered <= {(body.outcome, str(body.input)) for body in decided}, "one answer"
        for answer in call.answers:
            if answer.outcome == "allow":
                assert answer.input == call.input
                assert call.tool != "rm"
    by_request = [event.body.approval_id for event in recorded if isinstance(event.body, ApprovalDecided)]
    assert len(by_request) == len(set(by_request)), "a request is decided once"
    for session in world.sessions:
        pushed = [
            event
            for event in recorded
            if event.session == session.id
            and isinstance(event.body, CallDecided)
            and (event.body.tool, event.body.outcome) == ("push", "allow")
        ]
        assert len(pushed) <= 2, "a budget outlives losses and restarts"
    for console, subscription in zip(world.consoles, world.told, strict=True):
        await check_console_catches_up(
            world, console, subscription, [e for e in recorded if e.cursor > first]
        )


async def check_console_catches_up(
    world: World, console: ConsoleClient, subscription: Subscription, expected: list[JournalEvent]
) -> None:
    """Check that a console got all events since its subscription and shows the hub's sessions."""

    async def same() -> bool:
        here = {state.id: state.model_dump_json() for state in await console.sessions()}
        return here == {state.id: state.model_dump_json() for state in await world.server.hub.sessions()}

    await eventually(same)
    heard: list[JournalEvent] = []
    coming = aiter(subscription)
    async with asyncio.timeout(20):
        while len(heard) < len(expected):
            event = await anext(coming)
            if isinstance(event, JournalEvent):
                heard.append(event)
    subscription.close()
    heard += [event async for event in coming if isinstance(event, JournalEvent)]
    assert [event.cursor for event in heard] == [event.cursor for event in expected]
    assert heard == expected


class TestAnyScheduleOfLosses:
    @given(st.lists(steps, max_size=25))
    @example([("call", 1, 0), ("restart",), ("decide", 0, False, True)])
    @settings(
        max_examples=examples(15, usual=5), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    def test_laws(self, script: list[Step]) -> None:
        """A call gets one answer, each allowed call is recorded, and consoles miss no event."""
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(run_script(Path(directory), script))
