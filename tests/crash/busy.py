"""A busy host: twenty sessions with helpers, flows, and operators who answer, switch and branch.

All of it is random from a seed, and continues until the process dies.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

from interlock.engine.agents import AgentError
from interlock.engine.history.journal import writer
from interlock.engine.history.model.events import ApprovalRequested, JournalEvent
from interlock.engine.history.model.state import SessionState
from interlock.engine.hub.hub import BranchError, Hub, UnknownSessionError
from interlock.engine.sessions.config import SessionConfig

from . import disk, planted
from .agents import NETS, Agents, Step, steps_from
from .flows import LANES, Flows, filled_in, is_run
from .marks import Marks

SESSIONS = 20
MOST_BRANCHES = 8
MOST_EVENTS = 20_000
"""Number of events after which a life ends by itself, because the harness has failed to end it."""

SWITCHED = ("block-remove", "approve-before-publish", "require-test-before-deploy")


Act: TypeAlias = Callable[[str], Awaitable[None]]
"""Action of an operator with a given name."""


def database_in(folder: Path) -> Path:
    """Return the database of the lives in `folder`."""
    return folder.resolve() / "journal.db"


def often_checkpointed() -> None:
    """Make SQLite checkpoint its log after a few pages instead of a thousand: lives are short."""
    connect = writer.connect_writing

    def connected(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA wal_autocheckpoint = 60")
        return connection

    writer.connect_writing = connected


class Busy:
    """The hub, its sessions and its operators."""

    def __init__(self, folder: Path, seed: int, reporting: int, step: Step | None = None) -> None:
        self.random = Random(seed)
        self.marks = Marks(folder)
        self.hub = Hub.open(database_in(folder))
        self.agents = Agents(self.marks, step or steps_from(seed))
        self.flows = Flows(self.hub, self.marks)
        self.events = 0
        self._said = count(1)
        self._branches = count(1)
        self.moved = asyncio.Event()
        self._closing: set[str] = set()
        self._reporting = reporting

    async def begin(self) -> None:
        """Resume every recorded session and open the missing ones, concurrently."""
        recorded = {line.id for line in await self.hub.history()}
        await asyncio.gather(*(self._begin(name, name in recorded) for name in names()))

    async def _begin(self, session: str, recorded: bool) -> None:
        if recorded:
            await self.resume(session)
        else:
            await self.hub.open_session(self.agents.of(session), SessionConfig(NETS), session_id=session)
            self.marks.told("opened", session)

    async def resume(self, session: str) -> None:
        await self.hub.resume_session(session, self.agents.of(session), SessionConfig(NETS, by="maria"))

    # Operators

    async def listen(self) -> None:
        """Record every approval request as an operator sees it, and report each event."""
        async for event in self.hub.subscribe():
            self.events += 1
            self.moved.set()
            with suppress(BlockingIOError):
                os.write(self._reporting, b".")
            if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                self.marks.told("asked", event.session, event.body.call_id, event.body.approval_id)

    async def operate(self, by: str, odds: Mapping[Act, int]) -> None:
        """Perform an operator's actions, with frequencies in proportion to `odds`."""
        acts, weights = list(odds), list(odds.values())
        while self.events < MOST_EVENTS:
            await asyncio.sleep(0.001)
            [act] = self.random.choices(acts, weights)
            with suppress(UnknownSessionError):
                await act(by)

    async def rest(self, by: str) -> None:
        """Do nothing."""

    async def answer(self, by: str) -> None:
        """Decide one open request, if any: two in three are approved, some with an edited input."""
        waiting = [a for a in await self.hub.approvals() if a.session not in self._closing]
        if not waiting:
            return
        flows = [a for a in waiting if is_run(a.session)]
        request = self.random.choice(flows if flows and self.random.random() < 0.5 else waiting)
        approved = self.random.random() < 0.67
        edited = {"env": "canary"} if approved and self.random.random() < 0.2 else None
        if (given := filled_in(request)) is not None:
            approved, edited = True, given
        outcome = await self.hub.decide(request.id, approved=approved, by=by, input=edited)
        if outcome.ok:
            self.marks.told("decided", request.session, request.id, "yes" if approved else "no")

    async def toggle(self, by: str) -> None:
        """Switch a net on or off."""
        state, net = await self._any(), self.random.choice(SWITCHED)
        active = net not in state.active
        if (await self.hub.toggle_net(state.id, net, active, by=by, reason="a test")).ok:
            self.marks.told("toggled", state.id, net, "on" if active else "off")

    async def change_mode(self, by: str) -> None:
        """Switch a session to shadow mode, or back to enforce mode."""
        state = await self._any()
        mode = "shadow" if state.mode == "enforce" else "enforce"
        if (await self.hub.set_mode(state.id, mode, by=by, reason="a test")).ok:
            self.marks.told("mode", state.id, mode)

    async def speak(self, by: str) -> None:
        """Send a message to a working agent, often a helper: as steering, or queued."""
        live = [s for s in await self.hub.sessions() if s.kind != "flow"]
        working = [s.id for s in live if s.status in ("running", "waiting")]
        mode = self.random.choice(("steer", "queue", "queue"))
        await self._say(self.random.choice([*working, names()[0]]), "hurry", by, mode)

    async def close(self, by: str) -> None:
        """Close a session and resume it."""
        session = (await self._any()).id
        self._closing.add(session)
        await self.hub.close_session(session, by=by)
        self.marks.told("closed", session)
        await self.resume(session)
        self._closing.remove(session)

    async def halt(self, by: str) -> None:
        """Close a flow's run and resume it."""
        runs = [s.id for s in await self.hub.sessions() if s.kind == "flow" and s.status != "done"]
        if runs:
            run = self.random.choice(runs)
            await self.hub.close_session(run, by=by)
            self.marks.told("closed", run)
            await self.flows.resume(run)

    async def branch(self, by: str) -> None:
        """Branch a session from an earlier event of another one, and start it."""
        number = next(self._branches)
        if number > MOST_BRANCHES:
            return
        state = await self._any()
        name, at = f"{state.id}-b{number}", self.random.randint(1, state.seq)
        try:
            await self._branch_at(state.id, at, name, by)
        except BranchError as error:
            await self._branch_at(state.id, error.nearest[0], name, by)
        await self._say(name, "go", by)

    async def _any(self) -> SessionState:
        """Return an agent's session that is not a helper's."""
        kinds = "child", "flow"
        return self.random.choice([s for s in await self.hub.sessions() if s.kind not in kinds])

    async def _branch_at(self, session: str, at: int, name: str, by: str) -> None:
        agent = self.agents.of(name)
        await self.hub.branch_session(session, at, agent, SessionConfig(NETS, by=by), branch_id=name)
        self.marks.told("opened", name)

    async def wake(self, by: str) -> None:
        """Give every idle session a task."""
        for state in await self.hub.sessions():
            if state.status in ("idle", "failed") and state.kind not in ("child", "flow"):
                await self._say(state.id, "go", by)

    async def _say(
        self, session: str, word: str, by: str, mode: Literal["steer", "queue"] = "steer"
    ) -> None:
        """Send a unique text."""
        text = f"{word}-{os.getpid()}-{next(self._said)}"
        with suppress(UnknownSessionError, AgentError):
            await self.hub.send(session, text, by=by, mode=mode)
            self.marks.told("said", session, text)

    async def day(self) -> None:
        """Run everything concurrently, until the process dies or `MOST_EVENTS` is reached."""
        listening = asyncio.create_task(self.listen())
        lanes = [asyncio.create_task(self.flows.lane(lane)) for lane in range(LANES)]
        await self.begin()
        await self.wake("maria")
        changes = {self.toggle: 7, self.change_mode: 3, self.close: 3, self.wake: 5}
        await asyncio.gather(
            self.operate("maria", {self.rest: 50, self.answer: 25, **changes}),
            self.operate("ben", {self.rest: 75, self.answer: 25}),
            self.operate("noor", {self.rest: 50, self.speak: 35, self.branch: 15, self.halt: 3}),
            *lanes,
        )
        listening.cancel()


def names() -> list[str]:
    """Return the ids of the sessions."""
    return [f"s{n:02}" for n in range(1, SESSIONS + 1)]


def live(
    reporting: int, folder: str, seed: int, death: dict[str, object] | None = None, plant: str = ""
) -> dict[str, object]:
    """Run a life that should end by `death`, or from outside; return how far it came."""
    often_checkpointed()
    planted.plant(plant)
    disk.arm(database_in(Path(folder)), death)

    async def main() -> dict[str, object]:
        busy = Busy(Path(folder), seed, reporting)
        await busy.day()
        return {"events": busy.events, "operations": disk.operations()}

    return asyncio.run(main())
