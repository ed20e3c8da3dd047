"""A busy host: twenty sessions, and operators who answer, switch nets and modes, interrupt and close.

All of it is random from a seed. It goes on until the process dies.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from pydantic import JsonValue

from interlock.engine.agents import (
    Agent,
    AgentError,
    AssistantMessage,
    Message,
    Reply,
    ScriptedModel,
    T,
    ToolContext,
)
from interlock.engine.agents.scripted import ScriptedCall
from interlock.engine.history import writer
from interlock.engine.history.events import ApprovalRequested, JournalEvent
from interlock.engine.hub import Hub, UnknownSessionError
from interlock.rules import compile_rules
from tests.crash import disk, planted
from tests.crash.marks import Marks

SESSIONS = 20
MOST_EVENTS = 20_000
"""After so many a life ends by itself, and the harness has failed to end it."""

RULES = """
require test before deploy
require human-approval before deploy
require human-approval before publish
limit deploy to 40 per session
limit push to 2 per test
block remove
"""
TOOLS = ("look", "test", "push", "deploy", "publish", "remove")
SWITCHED = ("block-remove", "approve-before-publish", "require-test-before-deploy")

NewCalls = Callable[[str, int], Reply]
"""What an agent does in its step of this number in this session."""


def database_in(folder: Path) -> Path:
    """The database of the lives in `folder`."""
    return folder.resolve() / "journal.db"


NETS = compile_rules(RULES).registry
"""The nets of every session."""


def often_checkpointed() -> None:
    """Have SQLite empty its log after some pages, not after a thousand: lives are too short for that."""
    connect = writer.connect_writing

    def connected(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA wal_autocheckpoint = 60")
        return connection

    writer.connect_writing = connected


def steps_from(seed: int) -> NewCalls:
    """Up to three calls a step, or the turn's end; always the same for the same step of a session."""

    def step(session: str, number: int) -> Reply:
        random = Random(f"{seed} {session} {number}")
        if random.random() < 0.1:
            return T("done")
        calls: list[ScriptedCall] = []
        for n in range(random.choice((1, 1, 2, 3))):
            name = random.choices(TOOLS, (3, 5, 3, 5, 4, 1))[0]
            env = random.choice(("staging", "production"))
            calls.append(ScriptedCall(name, {"env": env}, f"{session}.{number}.{n}"))
        return Reply(calls=tuple(calls))

    return step


@dataclass(frozen=True, slots=True)
class MarkingTool:
    """A tool that leaves a mark when it starts, and fails one time in five."""

    name: str
    marks: Marks
    description: str = "Do it."
    parameters: dict[str, JsonValue] = field(
        default_factory=lambda: {"type": "object", "properties": {"env": {"type": "string"}}}
    )

    async def execute(self, args: dict[str, JsonValue], ctx: ToolContext) -> str:
        """Takes some turns of the loop."""
        self.marks.ran(ctx.session_id, ctx.call_id, self.name, str(args.get("env")))
        luck = Random(ctx.call_id)
        for _ in range(luck.randrange(40)):
            await asyncio.sleep(0)
        if luck.random() < 0.2:
            raise ValueError(f"{self.name} failed")
        return f"{self.name} ok"


def agent(session: str, marks: Marks, step: NewCalls) -> Agent:
    """The agent of a session, whose conversation says which step is next."""

    def reply(messages: Sequence[Message]) -> Reply:
        return step(session, sum(isinstance(message, AssistantMessage) for message in messages))

    tools = [MarkingTool(name, marks) for name in TOOLS]
    return Agent(ScriptedModel(reply), name=session, tools=tools, max_steps=1000)


class Busy:
    """The hub, its sessions and its operators."""

    def __init__(self, folder: Path, seed: int, reporting: int, step: NewCalls | None = None) -> None:
        self.random = Random(seed)
        self.marks = Marks(folder)
        self.hub = Hub.open(database_in(folder))
        self.step = step or steps_from(seed)
        self.events = 0
        self._said = count(1)
        self.moved = asyncio.Event()
        self._closing: set[str] = set()
        self._reporting = reporting

    def agent(self, session: str) -> Agent:
        return agent(session, self.marks, self.step)

    async def begin(self) -> None:
        """Go on with every session that is recorded, then open those that are missing, side by side."""
        recorded = {line.id for line in await self.hub.history()}
        await asyncio.gather(*(self._begin(name, name in recorded) for name in names()))

    async def _begin(self, session: str, recorded: bool) -> None:
        if recorded:
            await self.resume(session)
        else:
            await self.hub.open_session(self.agent(session), registry=NETS, session_id=session)
            self.marks.told("opened", session)

    async def resume(self, session: str) -> None:
        await self.hub.resume_session(session, self.agent(session), registry=NETS, by="maria")

    # Operators

    async def listen(self) -> None:
        """Note every question as an operator sees it, and report that something happened."""
        async for event in self.hub.subscribe():
            self.events += 1
            self.moved.set()
            with suppress(BlockingIOError):
                os.write(self._reporting, b".")
            if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                self.marks.told("asked", event.session, event.body.call_id, event.body.approval_id)

    async def operate(self, by: str, *, switches: bool) -> None:
        """One operator's day: mostly answers; one of them also switches, interrupts and closes."""
        while self.events < MOST_EVENTS:
            await asyncio.sleep(0.001)
            luck = self.random.random()
            if luck < 0.25:
                await self.answer(by)
            elif switches and luck > 0.75:
                await self._switch(luck)

    async def answer(self, by: str) -> None:
        """Decide one open question, if there is one: two in three are approved, some with other input."""
        waiting = [a for a in await self.hub.approvals() if a.session not in self._closing]
        if not waiting:
            return
        request = self.random.choice(waiting)
        approved = self.random.random() < 0.67
        edited = {"env": "canary"} if approved and self.random.random() < 0.2 else None
        outcome = await self.hub.decide(request.id, approved=approved, by=by, input=edited)
        if outcome.ok:
            self.marks.told("decided", request.session, request.id, "yes" if approved else "no")

    async def _switch(self, luck: float) -> None:
        state = self.random.choice(await self.hub.sessions())
        session = state.id
        with suppress(UnknownSessionError):
            if luck < 0.83:
                net = self.random.choice(SWITCHED)
                active = net not in state.active
                if (await self.hub.toggle_net(session, net, active, by="maria")).ok:
                    self.marks.told("toggled", session, net, "on" if active else "off")
            elif luck < 0.86:
                mode = "shadow" if state.mode == "enforce" else "enforce"
                if (await self.hub.set_mode(session, mode, by="maria")).ok:
                    self.marks.told("mode", session, mode)
            elif luck < 0.9:
                await self._say(session, "hurry")
            elif luck < 0.94:
                await self._close(session)
            else:
                await self.wake()

    async def _close(self, session: str) -> None:
        """Close a session and go on with it."""
        self._closing.add(session)
        await self.hub.close_session(session, by="maria")
        self.marks.told("closed", session)
        await self.resume(session)
        self._closing.remove(session)

    async def wake(self) -> None:
        """Give every session that rests something to do."""
        for state in await self.hub.sessions():
            if state.status in ("idle", "failed"):
                await self._say(state.id, "go")

    async def _say(self, session: str, word: str) -> None:
        """Send a text that nobody sends again."""
        text = f"{word}-{os.getpid()}-{next(self._said)}"
        with suppress(UnknownSessionError, AgentError):
            await self.hub.send(session, text, by="maria")
            self.marks.told("said", session, text)

    async def day(self) -> None:
        """Everything at once, until the process dies or far too much has happened."""
        listening = asyncio.create_task(self.listen())
        await self.begin()
        await self.wake()
        await asyncio.gather(self.operate("maria", switches=True), self.operate("ben", switches=False))
        listening.cancel()


def names() -> list[str]:
    """The sessions' ids."""
    return [f"s{n:02}" for n in range(1, SESSIONS + 1)]


def live(
    reporting: int, folder: str, seed: int, death: dict[str, object] | None = None, plant: str = ""
) -> dict[str, object]:
    """A life that is meant to end by `death`, or from outside; what it returns is how far it came."""
    often_checkpointed()
    planted.plant(plant)
    disk.arm(database_in(Path(folder)), death)

    async def main() -> dict[str, object]:
        busy = Busy(Path(folder), seed, reporting)
        await busy.day()
        return {"events": busy.events, "operations": disk.operations()}

    return asyncio.run(main())
