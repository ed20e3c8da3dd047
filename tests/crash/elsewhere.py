"""External agents whose hub dies: they remember the answers they received, and ask again.

Each makes one call after the other under fixed ids, and reports the results of allowed calls. Its answers
are stored in a separate file, as they would be in the memory of another process. After a death it repeats
the call without an answer, and reports the results that were not acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.model.events import CallDecided, CallResult
from interlock.engine.hub.hub import CallAnswer, ExternalAgent, Hub, UnknownSessionError
from interlock.engine.sessions.config import SessionConfig

from ..engine.support.external_agent import check_fold, recorded
from . import disk
from .agents import NETS, TOOLS
from .busy import SWITCHED, database_in, often_checkpointed

AGENTS = 6
STEPS = 60
"""Calls of each agent in a life that is not interrupted."""
MORE = 4
"""Calls of each agent in the next life."""


@dataclass
class Memory:
    """Answers received by one agent, by call, and the results that were acknowledged."""

    answers: dict[str, CallAnswer] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)


class Memories:
    """Answers received by all agents, in a file that outlives the hub's process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "elsewhere.log"
        self.of = {name: Memory() for name in names()}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                name, call_id, answer = json.loads(line)
                if answer is None:
                    self.of[name].settled.add(call_id)
                else:
                    self.of[name].answers[call_id] = CallAnswer.model_validate(answer)
        self._log = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def told(self, name: str, call_id: str, answer: CallAnswer | None) -> None:
        """Record that an agent received a call's answer, or that its result was acknowledged."""
        said = None if answer is None else answer.model_dump(mode="json")
        os.write(self._log, (json.dumps([name, call_id, said]) + "\n").encode())
        if answer is None:
            self.of[name].settled.add(call_id)
        else:
            self.of[name].answers[call_id] = answer


def names() -> list[str]:
    return [f"e{n}" for n in range(1, AGENTS + 1)]


def nth_call(name: str, number: int) -> tuple[str, str, dict[str, str]]:
    """Return an agent's call by its number: id, tool and input, the same in every life."""
    random = Random(f"{name} {number}")
    return (
        f"{name}.{number}",
        random.choice(TOOLS),
        {"env": random.choice(("staging", "production"))},
    )


def fails(call_id: str) -> bool:
    return Random(call_id).random() < 0.2


class Elsewhere:
    """The hub, the agents that use it, and an operator."""

    def __init__(self, folder: Path, seed: int, reporting: int) -> None:
        self.database = database_in(folder)
        self.memories = Memories(folder)
        self.hub = Hub.open(self.database)
        self.random = Random(seed)
        self.problems: list[str] = []
        self._reporting = reporting

    async def begin(self) -> None:
        """Open the sessions, or resume them."""
        known = {line.id for line in await self.hub.history()}
        await asyncio.gather(*(self._begin(name, name in known) for name in names()))

    async def _begin(self, name: str, known: bool) -> None:
        agent = ExternalAgent(name=name)
        if known:
            await self.hub.resume_external(name, agent, SessionConfig(NETS))
        else:
            await self.hub.open_external(agent, SessionConfig(NETS), session_id=name)

    async def live(self, steps: int, *besides: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run agents, an operator and `besides`, until the agents have made their steps."""
        reporting = asyncio.create_task(self._report())
        others = [asyncio.create_task(work) for work in (self._operate(), *(each() for each in besides))]
        await asyncio.gather(*(self._agent(name, steps) for name in names()))
        for task in (*others, reporting):
            task.cancel()
        await asyncio.gather(*others, reporting, return_exceptions=True)

    async def _report(self) -> None:
        async for _ in self.hub.subscribe():
            with suppress(BlockingIOError):
                os.write(self._reporting, b".")

    async def _agent(self, name: str, steps: int) -> None:
        memory, done = self.memories.of[name], 0
        for call_id, answer in list(memory.answers.items()):
            if answer.outcome == "allow" and call_id not in memory.settled:
                await self._settle(name, call_id)
        for number in count():
            call_id, tool, arguments = nth_call(name, number)
            if call_id in memory.answers:
                continue
            if done == steps:
                return
            done += 1
            answer = await self._asked(name, call_id, tool, arguments)
            self.memories.told(name, call_id, answer)
            if answer.outcome == "allow":
                await self._settle(name, call_id)

    async def _asked(self, name: str, call_id: str, tool: str, arguments: dict[str, str]) -> CallAnswer:
        """Request a decision, repeatedly if needed: sessions are closed now and then."""
        while True:
            try:
                return await self.hub.call(name, call_id, tool, dict(arguments))
            except UnknownSessionError:
                await asyncio.sleep(0.001)

    async def _settle(self, name: str, call_id: str) -> None:
        failed = fails(call_id)
        while True:
            try:
                await self.hub.result(name, call_id, output="failed" if failed else "ok", is_error=failed)
            except UnknownSessionError:
                await asyncio.sleep(0.001)
            else:
                self.memories.told(name, call_id, None)
                return

    async def _operate(self) -> None:
        """Decide one request after the other, some with an edited input."""
        while True:
            await asyncio.sleep(0.001)
            waiting = await self.hub.approvals()
            if waiting:
                request, luck = self.random.choice(waiting), self.random.random()
                edited = {"env": "canary"} if luck < 0.2 else None
                await self.hub.decide(request.id, approved=luck < 0.7, by="maria", input=edited)

    async def switch(self) -> None:
        """Switch nets and modes, and close sessions that are resumed at once."""
        while True:
            await asyncio.sleep(0.004)
            name, act = self.random.choice(names()), self.random.random()
            with suppress(UnknownSessionError):
                state = await self.hub.session(name)
                if act < 0.6:
                    net = self.random.choice(SWITCHED)
                    await self.hub.toggle_net(
                        name, net, net not in state.active, by="maria", reason="a test"
                    )
                elif act < 0.8:
                    other = "shadow" if state.mode == "enforce" else "enforce"
                    await self.hub.set_mode(name, other, by="maria", reason="a test")
                else:
                    await self.hub.close_session(name, by="maria")
                    await self._begin(name, True)

    async def compare(self) -> None:
        """Check that every answer an agent received is still given, and recorded with its result.

        It is given again while its call has no result; after that the id may be used for another call.
        """
        for name, memory in self.memories.of.items():
            decided = {d.call_id: d for d in recorded(self.database, CallDecided, name)}
            ended = {r.call_id: r.output for r in recorded(self.database, CallResult, name)}
            for number in count():
                call_id, tool, arguments = nth_call(name, number)
                told = memory.answers.get(call_id)
                if told is None:
                    break
                if call_id not in decided:
                    self.problems.append(f"{call_id} was answered, and the record does not know")
                    continue
                if ended.get(call_id) in ("failed", "ok"):
                    if (decided[call_id].outcome, decided[call_id].input) != self._as_told(told):
                        self.problems.append(f"{call_id} was answered {told}, not {decided[call_id]}")
                    continue
                again = await self.hub.call(name, call_id, tool, dict(arguments))
                if again != told.model_copy(update={"repeated": True}):
                    self.problems.append(f"{call_id} was answered {told} and then {again}")
            self.problems += [
                f"{i} ended, and the record has {ended.get(i)}"
                for i in memory.settled
                if ended.get(i) != ("failed" if fails(i) else "ok")
            ]
            await self._once(name)

    @staticmethod
    def _as_told(answer: CallAnswer) -> tuple[str, object]:
        """Return the recorded form of a call's answer."""
        return answer.would or answer.outcome, answer.input

    async def _once(self, name: str) -> None:
        for kind in (CallDecided, CallResult):
            found = Counter(body.call_id for body in recorded(self.database, kind, name))
            self.problems += [f"{i} has {n} of {kind.__name__}" for i, n in found.items() if n > 1]
        try:
            await check_fold(self.hub, name)
        except AssertionError as error:
            self.problems.append(f"{name}: the live session is not the fold: {error}")


def live(
    reporting: int, folder: str, seed: int, death: dict[str, object] | None = None
) -> dict[str, object]:
    """Run a life that should end by `death`, or from outside."""
    often_checkpointed()
    disk.arm(database_in(Path(folder)), death)

    async def main() -> dict[str, object]:
        world = Elsewhere(Path(folder), seed, reporting)
        await world.begin()
        await world.live(STEPS, world.switch)
        return {"operations": disk.operations()}

    return asyncio.run(main())


def go_on(reporting: int, folder: str, seed: int) -> dict[str, object]:
    """Run the next life: check that the record agrees with the agents' memory, and continue."""
    disk.arm(database_in(Path(folder)))

    async def main() -> dict[str, object]:
        world = Elsewhere(Path(folder), seed, reporting)
        await world.begin()
        left = {
            "answers": sum(len(m.answers) for m in world.memories.of.values()),
            "unsettled": sum(
                a.outcome == "allow" and i not in m.settled
                for m in world.memories.of.values()
                for i, a in m.answers.items()
            ),
            "unheard": sum(
                d.call_id not in m.answers
                for name, m in world.memories.of.items()
                for d in recorded(world.database, CallDecided, name)
            ),
        }
        await world.compare()
        await world.live(MORE)
        await world.compare()
        await world.hub.close()
        world.problems += [str(c.fault) for c in verify_journal(world.database) if c.fault]
        return {"problems": world.problems, **left}

    return asyncio.run(main())
