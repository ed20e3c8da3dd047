"""A family of sessions whose host dies at any event: the calls that are continued or never repeated."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T, ToolContext, task_tool, tool
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    JournalEvent,
    SessionOpened,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.laws import THOROUGH

RULES = """
require task_mid before deploy
require human-approval before publish
limit test to 2 per session
"""
UNKNOWN = "Outcome unknown: the session ended before a result was recorded"
EACH = 1 if THOROUGH else 3
"""A host dies after every third event, in the thorough run after each event."""
NO = "publish was rejected by human review: no"


class Family:
    """Three agents whose replies depend only on how often they have spoken."""

    def __init__(self, path: Path) -> None:
        self.hub = Hub.open(path)
        self.ran: list[str] = []

    def agent(self) -> Agent:
        """Build `boss`, which delegates to `mid`, which delegates to `low`."""

        def made(name: str) -> object:
            @tool(name=name)
            async def run(ctx: ToolContext) -> str:
                """Run and remember the call."""
                self.ran.append(f"{ctx.session_id}/{ctx.call_id}")
                return f"{name} ok"

            return run

        def model(*replies: Reply) -> ScriptedModel:
            def reply(messages: Sequence[object]) -> Reply:
                spoken = sum(getattr(m, "role", "") == "assistant" for m in messages)
                return replies[min(spoken, len(replies) - 1)]

            return ScriptedModel(reply)

        tools = [made(name) for name in ("test", "publish", "deploy")]
        step = C(c2=("publish", {}), c3=("test", {}))
        low = Agent(model(C(c1=("test", {})), step, T("low done")), name="low", tools=tools)
        task = C(c1=("task_low", {"prompt": "low work"}))
        mid = Agent(model(task, T("mid done")), name="mid", tools=[task_tool(low)])
        tasks = C(c1=("task_mid", {"prompt": "mid work"}), c2=("nope", {}))
        boss = model(tasks, C(c3=("deploy", {})), T("fine"))
        return Agent(boss, name="boss", tools=[*tools, task_tool(mid)])

    async def rest(self, *, approved: bool) -> None:
        """Give every request the same answer until the session is idle."""
        events = self.hub.subscribe()

        async def answer() -> None:
            async for event in events:
                if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                    asked = event.body.approval_id
                    await self.hub.decide(asked, approved=approved, by="ben", reason="no")

        answering = asyncio.create_task(answer())
        for request in await self.hub.approvals():
            await self.hub.decide(request.id, approved=approved, by="ben", reason="no")
        async with asyncio.timeout(30):
            await self.hub.wait("s1")
        events.close()
        await answering


@cache
def events_without_death(folder: Path, approved: bool) -> list[JournalEvent]:
    """Return all events of a family whose host did not die, in recorded order."""

    async def live() -> list[JournalEvent]:
        family = Family(folder / f"{approved}.db")
        registry = compile_rules(RULES).registry
        await family.hub.open_session(family.agent(), SessionConfig(registry), session_id="s1")
        await family.hub.send("s1", "ship it", by="maria")
        await family.rest(approved=approved)
        ids = [line.id for line in await family.hub.history()]
        await family.hub.close()
        found = [event for i in ids for event in await asyncio.to_thread(recorded, family.hub, i)]
        return sorted(found, key=lambda event: event.cursor)

    return asyncio.run(live())


def recorded(hub: Hub, session: str) -> list[JournalEvent]:
    return hub._recorded(session)


NUMBERS = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families")


def names(events: Sequence[JournalEvent]) -> dict[str, str]:
    """Return the ids of the sessions by agent."""
    return {e.body.agent: e.session for e in events if isinstance(e.body, SessionOpened)}


@pytest.mark.slow
@pytest.mark.parametrize("approved", [True, False])
class TestEveryDeath:
    def test_family_can_be_resumed(self, folder: Path, approved: bool) -> None:
        """G-15, G-53, G-63: a family can be resumed from its records after a death at any event.

        Decided calls are neither decided nor run again, and a denial holds. A call has an unknown outcome
        only if it was allowed and left no result, or no record shows its subagent. Every record equals
        its live session.
        """
        events = events_without_death(folder, approved)
        assert len(events) > 30
        for last in range(len(events), 3, -EACH):
            asyncio.run(self.die(folder / f"{next(NUMBERS)}.db", events[:last], approved))

    async def die(self, path: Path, events: Sequence[JournalEvent], approved: bool) -> None:
        with Journal.open(path) as journal:
            for session in names(events).values():
                journal.write(session, *(event.body for event in events if event.session == session))
        family = Family(path)
        registry = compile_rules(RULES).registry
        await family.hub.resume_session("s1", family.agent(), SessionConfig(registry))
        state = await family.hub.session("s1")
        if state.phase != "running":
            await family.hub.send("s1", "go on")
        await family.rest(approved=approved)
        where = f"after {len(events)} events, the last {events[-1].body.type} of {events[-1].session}"

        top = [e.body for e in events if e.session == "s1"]
        ids = names(events)
        allowed = {
            self.full(body.call_id) for body in top if isinstance(body, CallDecided) and not body.reason
        }
        assert not allowed & {self.full(call) for call in family.ran}, where
        assert set(Counter(family.ran).values()) <= {1}, where
        if any(isinstance(body, ApprovalDecided) and not body.approved for body in top):
            assert not any(call.endswith("/c2") for call in family.ran), where

        calls = (await family.hub.session("s1")).calls
        if "c1" in calls and calls["c1"].output is not None and "s1/c1" in allowed:
            told = "mid done" if "mid" in ids else UNKNOWN
            assert calls["c1"].output == told, where
        live = {hosted.id: hosted for hosted in family.hub._live}
        for session_id, hosted in live.items():
            assert fold(await family.hub.recorded(session_id)) == hosted.state, where
            assert hosted.state.pending == [], where
            assert hosted.session is not None
            assert await hosted.load(session_id) == list(hosted.session.messages), where
            shown = [e.call.call_id for e in hosted.state.transcript if e.call is not None]
            assert len(set(shown)) == len(shown), where
        gate = live["s1"].manager
        markings = {key: net.marking for key, net in live["s1"].state.nets.items()}
        assert markings == {key: now.marking for key, now in gate.states.items()}, where
        if not approved:
            for hosted in live.values():
                assert "publish ok" not in {call.output for call in hosted.state.calls.values()}, where
        if "low" in ids and ids["low"] in live:
            step = [c.output for c in live[ids["low"]].state.calls.values() if c.call_id == "c2"]
            assert set(step) <= {"publish ok" if approved else NO, None, UNKNOWN}, where
        await family.hub.close()

    def full(self, call: str) -> str:
        """Return a call as its session and id, without the outer part of the gate's name."""
        return "/".join(("s1", *call.split("/"))[-2:])
