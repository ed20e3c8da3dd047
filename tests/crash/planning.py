"""Agents with active plans, whose hub dies: the remaining uses of each plan must match the record.

Each agent has one plan after the other approved and makes its calls. The operator approves plans and
denies everything else, so every allowed call was permitted by a plan. Agents' answers are stored in a
file that outlives the hub.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import CallDecided, CallResult, GrantGiven, JournalEvent
from interlock.engine.history.model.state import SessionState
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..engine.support.external_agent import check_fold
from . import disk, planted
from .busy import database_in, often_checkpointed

NETS = compile_rules(
    "require human-approval before plan\n"
    "require human-approval before deploy\n"
    "require human-approval before push\n"
).registry
AGENTS = 2
PLANS = 8
"""Plans of each agent in a life that is not interrupted."""
STAGING = {"env": "staging"}


def names() -> list[str]:
    return [f"p{n}" for n in range(1, AGENTS + 1)]


class Planning:
    """The hub, the agents and the operator of one life."""

    def __init__(self, folder: Path, seed: int, reporting: int) -> None:
        self.database = database_in(folder)
        self.hub = Hub.open(self.database, language=LANGUAGE)
        self._seed = seed
        self._reporting = reporting
        self._heard = os.open(_heard(folder), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    async def begin(self) -> None:
        """Open the sessions, or resume them."""
        known = {line.id for line in await self.hub.history()}
        for name in names():
            agent, config = ExternalAgent(name=name), SessionConfig(NETS)
            if name in known:
                await self.hub.resume_external(name, agent, config)
            else:
                await self.hub.open_external(agent, config, session_id=name)

    async def live(self) -> None:
        """Make plans and calls until each agent has finished its plans."""
        helping = [asyncio.create_task(work) for work in (self._report(), self.operate())]
        await asyncio.gather(*map(self._agent, names()))
        for task in helping:
            task.cancel()

    async def _report(self) -> None:
        async for _ in self.hub.subscribe():
            with suppress(BlockingIOError):
                os.write(self._reporting, b".")

    async def operate(self) -> None:
        """Approve plans, deny calls."""
        while True:
            for request in await self.hub.approvals():
                approved = request.called == "plan"
                await self.hub.decide(request.id, approved=approved, by="maria", digest=request.digest)
            await asyncio.sleep(0.001)

    async def _agent(self, name: str) -> None:
        random = Random(f"{self._seed} {name}")
        for number in range(PLANS):
            steps = [
                {"tool": "deploy", "count": random.randint(1, 4), "when": 'input.env = "staging"'},
                {"tool": "push", "count": random.randint(1, 3)},
            ]
            value = {"title": f"Plan {number}", "steps": steps}
            await self.hub.call(name, f"{self._seed}.{number}", "plan", value)  # type: ignore[arg-type]
            for call in range(random.randint(1, 6)):
                call_id = f"{self._seed}.{number}.{call}"
                if await self.passes(name, call_id, random.choice(("deploy", "push"))):
                    os.write(self._heard, (json.dumps([name, call_id]) + "\n").encode())
                    if random.random() < 0.8:
                        failed = random.random() < 0.2
                        await self.hub.result(name, call_id, output="", is_error=failed)

    async def passes(self, name: str, call_id: str, tool: str) -> bool:
        """Make a call; return whether a plan permitted it."""
        answer = await self.hub.call(name, call_id, tool, dict(STAGING))
        return answer.outcome == "allow"


def _heard(folder: Path) -> Path:
    return folder / "heard.log"


def _left(database: Path) -> dict[str, list[JournalEvent]]:
    """Return the events that remain after a death, by session."""
    reader = open_reader(database)
    return {line.id: list(reader.events(line.id)) for line in reader.sessions(limit=None)}


def _uses_left(state: SessionState) -> dict[str, int]:
    """Return the remaining uses of each active grant."""
    return {key: g.net.marking["granted"] for key, g in state.grants.items() if g.net.active}


def _miscounted(name: str, events: Sequence[JournalEvent]) -> list[str]:
    """Return grants whose uses in the fold are not the given ones minus those spent."""
    bodies = [event.body for event in events]
    spent = Counter(key for b in bodies if isinstance(b, CallDecided) for key in b.granted)
    spent.subtract(s.net for b in bodies if isinstance(b, CallResult) for s in b.undone)
    given = {b.grant.key: b.grant.uses or 0 for b in bodies if isinstance(b, GrantGiven)}
    counted = {key: uses - spent[key] for key, uses in given.items()}
    found = {key: g.net.marking["granted"] for key, g in fold(events).grants.items()}
    return [] if counted == found else [f"{name}: the record counts {counted}, its fold {found}"]


def _unfounded(folder: Path, left: dict[str, list[JournalEvent]]) -> list[str]:
    """Return calls that an agent was told are allowed, but that the record does not permit by a plan."""
    path = _heard(folder)
    lines = path.read_text().splitlines() if path.exists() else []
    allowed = {
        (name, event.body.call_id)
        for name, events in left.items()
        for event in events
        if isinstance(event.body, CallDecided) and event.body.granted
    }
    heard = [tuple(json.loads(line)) for line in lines]
    return [
        f"{name}: {call_id} passed unrecorded"
        for name, call_id in heard
        if (name, call_id) not in allowed
    ]


def live(
    reporting: int, folder: str, seed: int, death: dict[str, object] | None = None
) -> dict[str, object]:
    """Run a life that should end by `death`, or from outside."""
    often_checkpointed()
    disk.arm(database_in(Path(folder)), death)

    async def main() -> None:
        world = Planning(Path(folder), seed, reporting)
        await world.begin()
        await world.live()

    asyncio.run(main())
    return {}


def go_on(reporting: int, folder: str, seed: int, plant: str = "") -> dict[str, object]:
    """Run the next life: each plan permits exactly its recorded remaining uses, then needs approval."""
    planted.plant(plant)
    here = Path(folder)
    disk.arm(database_in(here))
    left = _left(database_in(here))
    problems = [problem for name, events in left.items() for problem in _miscounted(name, events)]
    problems += _unfounded(here, left)
    uses = {name: _uses_left(fold(left[name])) if name in left else {} for name in names()}
    tools = {
        (name, e.body.grant.key): e.body.grant.tool
        for name, events in left.items()
        for e in events
        if isinstance(e.body, GrantGiven)
    }

    async def main() -> None:
        world = Planning(here, seed, reporting)
        await world.begin()
        operating = asyncio.create_task(world.operate())
        for name in names():
            gate = world.hub._live.hosted(name).manager
            found = {key: state.marking["granted"] for key, state in gate.grant_states.items()}
            if found != uses[name]:
                problems.append(f"{name}: the record has {uses[name]} left, the gate {found}")
                continue
            for tool in ("deploy", "push"):
                wanted = sum(n for key, n in uses[name].items() if tools[name, key] == tool)
                passed = 0
                for number in count():
                    if not await world.passes(name, f"{seed}.{tool}.{number}", tool):
                        break
                    passed += 1
                if passed != wanted:
                    problems.append(f"{name}: {passed} {tool} passed, and {wanted} were left")
            await check_fold(world.hub, name)
        operating.cancel()
        await world.hub.close()

    asyncio.run(main())
    remaining = sum(sum(each.values()) for each in uses.values())
    return {"problems": problems, "plans": len(tools) // 2, "remaining": remaining}
