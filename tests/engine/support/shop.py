"""A shop whose tools remember what really ran, and sessions of it under a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from interlock.engine.agents import Agent, Reply, ScriptedModel, ToolContext, tool
from interlock.engine.agents.rules_notice import RULES_SENDER
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import JournalEvent
from interlock.engine.hub.hub import Hub, Subscription
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

RULES = """
require test before deploy
require human-approval before deploy
limit deploy to 2 per session
block rm
"""


class Shop:
    """Tools that remember what really ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.before_run: Callable[[str], None] = lambda name: None

    def tools(self) -> list[object]:
        """`test`, `deploy` and `rm`, all of which succeed."""

        def ran(name: str) -> str:
            self.before_run(name)
            self.ran.append(name)
            return f"{name} ok"

        @tool(name="test")
        async def run_tests(ctx: ToolContext) -> str:
            """Run the tests."""
            return ran("test")

        @tool
        async def deploy(ctx: ToolContext, env: str = "staging") -> str:
            """Deploy."""
            return ran(f"deploy {env}")

        @tool
        async def rm(ctx: ToolContext) -> str:
            """Remove."""
            return ran("rm")

        return [run_tests, deploy, rm]


async def start(hub: Hub, shop: Shop, *replies: Reply, mode: str = "enforce", rules: str = RULES) -> str:
    """A session whose model gives `replies`, already working on a task."""
    agent = Agent(ScriptedModel(list(replies)), name="bot", tools=shop.tools())
    session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry, mode=mode))
    await hub.send(session, "go", by="maria")
    return session


async def becomes(found: Callable[[], Awaitable[object]]) -> None:
    """Wait until something is so."""
    for _ in range(4000):
        if await found():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


async def until(subscription: Subscription, kind: type) -> JournalEvent:
    """The next event with a body of `kind`."""
    async with asyncio.timeout(10):
        async for event in subscription:
            if isinstance(event, JournalEvent) and isinstance(event.body, kind):
                return event
    raise AssertionError(f"the hub closed before a {kind.__name__}")


def bodies(hub: Hub, session: str, kind: type) -> list:
    """What the journal's file holds of one kind, read by a connection of its own."""
    reader = open_reader(hub.database)
    return [e.body for e in reader.events(session) if isinstance(e.body, kind)]


def bot(shop: Shop, *replies: Reply, name: str = "bot") -> Agent:
    """An agent of the shop; its model is named after it."""
    return Agent(ScriptedModel(list(replies), name=f"{name}-model"), name=name, tools=shop.tools())


def prompt(agent: Agent, call: int = 0) -> list[str]:
    """Messages that the agent's model read at one of its calls, without notes on rules: role and text."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    messages = model.requests[call].messages
    return [f"{m.role}: {m.text}" for m in messages if getattr(m, "by", None) != RULES_SENDER]


async def check(hub: Hub, session: str) -> None:
    """The live state and the live gate are the fold of the journal."""
    async with asyncio.timeout(10):
        # A session may go on while its record is read: both are compared after the same event.
        while (folded := fold(await hub.recorded(session))).seq != (await hub.session(session)).seq:
            pass
    assert folded == await hub.session(session)
    gate = hub._live.get(session)[0].manager
    assert {k: n.marking for k, n in folded.nets.items()} == {
        k: s.marking for k, s in gate.states.items()
    }
    assert (tuple(folded.active), folded.mode) == (gate.active, gate.mode)
    assert {p.call_id for p in folded.pending} == {
        call_id for state in gate.states.values() for call_id in state.pending
    }
