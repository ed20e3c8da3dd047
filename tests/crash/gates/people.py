"""Agents that call many kinds of tools, and operators who answer at other servers than the agents'."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random

from pydantic import JsonValue

from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway import AgentClient, GatewayError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.errors import JournalError
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import UnknownSessionError

from .servers import PEOPLE, SERVERS, Team

AGENTS = 6
TOOLS = ("read", "deploy", "deploy", "ship", "danger", "pay", "spend", "spend", "rm", "plan")


@dataclass
class Answer:
    """An agent's answer to a call, with the times of request and answer in seconds since 1970."""

    session: str
    call: str
    tool: str
    outcome: str
    input: dict[str, JsonValue]
    asked: float
    heard: float


@dataclass
class Memory:
    """Answers received by agents and operators, with which the record is compared."""

    answers: list[Answer] = field(default_factory=list[Answer])
    freezes: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    taken_back: dict[str, float] = field(default_factory=dict[str, float])
    acts: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    """Acknowledged actions: the kind, its request or session, and the operator."""
    done: Counter[str] = field(default_factory=Counter[str])
    frozen_at: float | None = None


class People:
    """All agents and operators at work until `stop`; `memory` has the answers they received."""

    def __init__(self, team: Team, seed: str) -> None:
        self._team = team
        self._random = Random(seed)
        self.memory = Memory()
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._numbers = count(1)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        work = [self._agent(n) for n in range(AGENTS)]
        work += [self._operator(name, n) for n, name in enumerate(PEOPLE)]
        work.append(self._freezer())
        self._tasks = [asyncio.ensure_future(each) for each in work]
        try:
            yield
        finally:
            self._stopping.set()
            ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in ended:
            if isinstance(each, BaseException):
                raise each

    async def go_on(self, seconds: float = 90.0) -> None:
        """Wait until every agent was answered again, and some call was allowed."""
        since, until = time.time(), time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(0.1)
            for each in self._tasks:
                if each.done():
                    await each
            fresh = [each for each in self.memory.answers if each.asked > since]
            sessions = {each.session for each in fresh}
            if len(sessions) == AGENTS and any(each.outcome == "allow" for each in fresh):
                return
        raise AssertionError("agents do not go on")

    # Agents

    async def _agent(self, number: int) -> None:
        random = Random(f"{number} {self._random.random()}")
        client = AgentClient(
            self._team.urls(number % SERVERS), self._team.agent, name=f"bot{number}", patience=90
        )
        gate = await client.open(f"bot{number}", session=f"bot{number}")
        while not self._stopping.is_set():
            tool = random.choice(TOOLS)
            given = self._input(tool, random)
            call, asked = f"c{number}-{next(self._numbers)}", time.time()
            answer = await gate.call(tool, given, call_id=call, wait=20.0)
            heard = time.time()
            told = Answer(gate.id, call, tool, answer.outcome, dict(answer.input), asked, heard)
            self.memory.answers.append(told)
            self.memory.done[f"{tool} {answer.outcome}"] += 1
            with suppress(GatewayError):
                if answer.outcome == "allow":
                    await gate.result(call, answer.reason or "done")
                elif answer.outcome == "waiting":
                    await gate.withdraw(call)
            await asyncio.sleep(random.uniform(0.0, 0.1))
        await client.close()

    @staticmethod
    def _input(tool: str, random: Random) -> dict[str, JsonValue]:
        if tool == "plan":
            steps: list[JsonValue] = [
                {"tool": "ship", "count": random.randint(1, 3)},
                {"tool": "deploy", "count": 2, "when": 'input.env = "a"'},
            ]
            return {"title": "ship it", "steps": steps}
        return {"env": random.choice("ab")}

    # Operators

    async def _operator(self, name: str, first: int) -> None:
        random = Random(f"{name} {self._random.random()}")
        console = await self._console(name, first)
        while not self._stopping.is_set():
            await asyncio.sleep(random.uniform(0.02, 0.15))
            with suppress(GatewayError, UnknownSessionError, JournalError, LookupError):
                await self._act(console, random, name)
        await console.close()

    async def _console(self, name: str, first: int) -> ConsoleClient:
        console = ConsoleClient(self._team.urls(first), self._team.people[name])
        while True:
            try:
                await console.open()
            except GatewayError:
                await asyncio.sleep(0.2)
            else:
                return console

    async def _act(self, console: ConsoleClient, random: Random, name: str) -> None:
        waiting = await console.approvals()
        if random.random() < 0.05 and (sessions := await console.sessions()):
            state = random.choice(sessions)
            on = "block-rm" not in state.active
            if (await console.toggle_net(state.id, "block-rm", on, by="it", reason="a test")).ok:
                self.memory.done["toggle"] += 1
                self.memory.acts.add(("on" if on else "off", state.id, name))
        if random.random() < 0.02 and (sessions := await console.sessions()):
            await console.abort(random.choice(sessions).id)
            self.memory.done["abort"] += 1
        if not waiting:
            return
        request = random.choice(waiting)
        if request.fuse is not None:
            if random.random() < 0.1 and (await console.take_back(request.id, by="it")).ok:
                self.memory.taken_back[request.id] = time.time()
                self.memory.done["take_back"] += 1
                self.memory.acts.add(("taken back", request.id, name))
            return
        if random.random() < 0.1 and (await console.claim(request.id, by="it")).ok:
            self.memory.done["claim"] += 1
            self.memory.acts.add(("claimed", request.id, name))
        approved = random.random() < 0.8
        terms, edited = self._terms(request, random) if approved else (None, None)
        outcome = await console.decide(
            request.id,
            approved=approved,
            by="it",  # the server takes the operator's name from the token
            digest=request.digest,
            grant=terms,
            input=edited,
            reason="a test",
            stop=not approved and random.random() < 0.2,
        )
        if outcome.ok:
            kind = "grant" if terms else "edited" if edited else "approved" if approved else "denied"
            self.memory.done[kind] += 1
            if edited is None:  # an edited call may need another approval first
                act = "approved" if approved else "denied"
                self.memory.acts.add((act, request.id, name))

    @staticmethod
    def _terms(
        request: ApprovalState, random: Random
    ) -> tuple[GrantTerms | None, dict[str, JsonValue] | None]:
        roll = random.random()
        if request.tool == "deploy" and roll < 0.25:
            return GrantTerms("input", uses=random.randint(1, 4)), None
        if request.tool == "deploy" and roll < 0.4:
            return GrantTerms("input", seconds=random.choice((0.5, 2.0))), None
        if request.tool in ("deploy", "danger") and roll < 0.6:
            return None, {"env": "canary"}
        return None, None

    async def _freezer(self) -> None:
        """Freeze all agents now and then, and lift the freeze at another server."""
        random = Random(f"freezer {self._random.random()}")
        consoles = [await self._console("cyd", n) for n in range(SERVERS)]
        memory = self.memory
        while not self._stopping.is_set():
            await asyncio.sleep(random.uniform(0.5, 2.5))
            with suppress(GatewayError, JournalError):
                if (await random.choice(consoles).freeze(by="cyd", reason="a test")).ok:
                    memory.frozen_at = time.time()
                    memory.done["freeze"] += 1
            await asyncio.sleep(random.uniform(0.1, 1.0))
            await self._lift(consoles, random)
        for each in consoles:
            await each.close()

    async def _lift(self, consoles: list[ConsoleClient], random: Random) -> None:
        """Lift the freeze, if there is one, at any server that reports it."""
        memory = self.memory
        if memory.frozen_at is not None:
            memory.freezes.append((memory.frozen_at, time.time()))
            memory.frozen_at = None
        for _ in range(200):
            with suppress(GatewayError, JournalError):
                lifted = await random.choice(consoles).lift_freeze(by="cyd", reason="a test")
                if lifted.ok or lifted.message == "Nothing is frozen":
                    memory.done["lift"] += lifted.ok
                    return
            await asyncio.sleep(0.1)
        raise AssertionError("a freeze cannot be lifted")
