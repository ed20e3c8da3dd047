"""LAW: for any actions while rules are replaced, the gate equals the fold of the record."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided
from interlock.engine.history.model.records import AppliedRules
from interlock.engine.hub.hub import Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.call_answer import CallAnswer
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.external import ExternalAgent
from interlock.engine.sessions.new_rules import NewRules
from interlock.rules import compile_rules
from tests.support.laws import examples

from ..support.external_agent import check_fold

LINES = (
    "require test before deploy",
    "require lint before deploy",
    "require human-approval before deploy",
    "require 2 human-approvals before deploy",
    "require human-approval before push risk high",
    "limit push to 2 per session",
    "limit push to 3 per test",
    "limit lint to 2 per 10m",
    "limit deploy to 1 per 5m",
    "block rm",
    "block rm after push",
    "after test require human-approval before push",
    "after push require 2 human-approvals before deploy",
    "map bash.command rm as rm",
    "map bash.command ./test as test",
    "require human-approval before anything-else",
)
TOOLS = ("test", "lint", "deploy", "push", "rm", "other")
PEOPLE = ("ada", "ben", "eve")
SESSION = "s"


class World:
    """One external session, operators and a clock with random actions."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = Random(seed)
        self.now = datetime(2026, 11, 23, 12, tzinfo=UTC)
        self.path = path
        self.journal = Journal.open(path, clock=lambda: self.now)
        self.hub = Hub(self.journal)
        self.calls: dict[str, asyncio.Task[CallAnswer]] = {}
        self.allowed: list[str] = []
        self.made = 0
        self.registry = self.rules()

    def rules(self) -> dict:
        chosen = self.random.sample(LINES, self.random.randint(0, 7))
        return compile_rules("\n".join([*chosen, ""])).registry

    async def begin(self) -> None:
        config = SessionConfig(self.registry, by="carl")
        await self.hub.open_external(ExternalAgent(name="robin"), config, session_id=SESSION)

    async def call(self) -> None:
        self.made += 1
        call_id = f"c{self.made}"
        tool = self.random.choice((*TOOLS, "bash"))
        given = {"command": self.random.choice(("rm x", "./test", "ls; rm y", "$(x)"))}
        arguments = given if tool == "bash" else {"x": 1}
        self.calls[call_id] = asyncio.create_task(self.hub.call(SESSION, call_id, tool, arguments))
        if self.random.random() < 0.5:
            await asyncio.sleep(0.002)

    async def end(self) -> None:
        for call_id, task in list(self.calls.items()):
            if task.done():
                del self.calls[call_id]
                if task.result().outcome == "allow":
                    self.allowed.append(call_id)
        if self.allowed:
            call_id = self.allowed.pop(self.random.randrange(len(self.allowed)))
            failed = self.random.random() < 0.3
            await self.hub.result(SESSION, call_id, output="", is_error=failed)

    async def answer(self) -> None:
        requests = await self.hub.approvals()
        if requests:
            request = self.random.choice(requests)
            approved = self.random.random() < 0.8
            grant = GrantTerms("names", None, None, False) if self.random.random() < 0.3 else None
            await self.hub.decide(
                request.id,
                approved=approved,
                by=self.random.choice(PEOPLE),
                digest=request.digest,
                reason="x",
                grant=grant if approved and request.may_grant else None,
            )

    async def switch(self) -> None:
        state = await self.hub.session(SESSION)
        if state.nets:
            net = self.random.choice(list(state.nets))
            seconds = self.random.choice((None, 60.0))
            active = net not in state.active
            by = self.random.choice(PEOPLE)
            terms = {"reason": "x", "seconds": None if active else seconds}
            await self.hub.toggle_net(SESSION, net, active, by=by, **terms)

    async def confirm(self) -> None:
        for change in list((await self.hub.session(SESSION)).changes.values()):
            await self.hub.confirm_change(SESSION, change.id, by=self.random.choice(PEOPLE))

    async def replace(self) -> None:
        registry = self.rules()
        *others, by = self.random.sample(PEOPLE, self.random.randint(1, 3))
        applied = AppliedRules(by=by, at=self.now, others=tuple(others), reason="x")
        required = registry if self.random.random() < 0.7 else ()
        acts = [self.hub.replace_rules(SESSION, NewRules(registry, required, applied))]
        if self.random.random() < 0.3:
            acts.append(self.hub.replace_rules(SESSION, NewRules(self.rules(), (), applied)))
        if self.random.random() < 0.5:
            await self.call()
        submit = self.journal.submit
        if self.random.random() < 0.2:
            self.journal.submit = self._refuses  # type: ignore[method-assign]
        try:
            await asyncio.gather(*acts)
        finally:
            self.journal.submit = submit  # type: ignore[method-assign]

    @staticmethod
    def _refuses(*_: object, **__: object) -> object:
        raise JournalError("the disk is full")

    async def wait(self) -> None:
        self.now += timedelta(seconds=self.random.choice((1, 30, 200)))

    async def step(self) -> None:
        acts = [self.call, self.call, self.end, self.end, self.answer, self.answer]
        acts += [self.switch, self.confirm, self.replace, self.replace, self.wait]
        with contextlib.suppress(JournalError):
            await self.random.choice(acts)()
        await self.check()

    async def check(self) -> None:
        """Check that gate and fold agree, with retries while calls are being decided."""
        for tries in range(50):
            await self.settled()
            try:
                return await check_fold(self.hub, SESSION)
            except AssertionError:
                if tries == 49:
                    raise
                await asyncio.sleep(0.005)

    async def settled(self) -> None:
        """Wait until the journal has everything that was submitted."""
        hosted = self.hub._live.hosted(SESSION)
        async with asyncio.timeout(10):
            while hosted.ledger._open or hosted.ledger.is_ahead:
                await asyncio.sleep(0.001)
                await hosted.ledger.catch_up()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(120, usual=6)))
async def test_gate_equals_the_fold_after_each_step(tmp_path: Path, seed: int) -> None:
    """LAW: after each step the gate equals the fold; no blocked call was allowed; a restart agrees."""
    world = World(tmp_path / "w.db", seed)
    await world.begin()
    try:
        for _ in range(60):
            await world.step()
        # Nets that were off for a time that is over come back with the next call or on resume.
        await world.hub._live.hosted(SESSION).catch_up()
        live = world.hub._live.hosted(SESSION).manager
        nets, probes = dict(live.nets), [ToolCall(f"p{n}", tool, {}) for n, tool in enumerate(TOOLS)]
        before = [[(v.net, v.kind) for v in live.classify(probe)] for probe in probes]
    finally:
        for task in world.calls.values():
            task.cancel()
        await asyncio.gather(*world.calls.values(), return_exceptions=True)
        await world.hub.close()
    hub = Hub(Journal.open(world.path, clock=lambda: world.now))
    try:
        events = await hub.recorded(SESSION)
        for end in range(1, len(events), 7):
            state = fold(events[:end])
            following = events[end].body
            if isinstance(following, CallDecided) and following.outcome == "allow":
                blocking = {f"block-{name}" for name in following.names}
                assert blocking.isdisjoint(state.active), following
        await hub.resume_external(SESSION, ExternalAgent(name="robin"), SessionConfig(nets))
        again = hub._live.hosted(SESSION).manager
        assert [[(v.net, v.kind) for v in again.classify(probe)] for probe in probes] == before
        await check_fold(hub, SESSION)
    finally:
        await hub.close()
