"""LAW: for any acts on plans, the live gate equals the fold of the record, also after a restart."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, GrantGiven
from interlock.engine.hub.hub import CallAnswer, Hub
from tests.support.laws import examples

from ..gateway.served import until
from ..support.external_agent import check_fold, opened, resumed

RULES = """require human-approval before plan
require human-approval before deploy
require human-approval before deploy when input.env = "prod"
require human-approval before push risk high
require human-approval before ship
limit ship to 4 per session
"""
TOOLS = ("deploy", "deploy", "push", "ship")
SESSION = "robin-1"


class World:
    """An external session whose requests are answered at random, and a host that restarts."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = Random(seed)
        self.path = path
        self.made = 0
        self.hub = self._hub()

    def _hub(self) -> Hub:
        return Hub(Journal.open(self.path), language=LANGUAGE)

    async def call(self, tool: str, given: dict[str, Any], approves: bool | None = None) -> CallAnswer:
        """Make a call and answer its requests; return its answer."""
        self.made += 1
        call = asyncio.ensure_future(self.hub.call(SESSION, f"c{self.made}", tool, given))
        asked = asyncio.ensure_future(until(self.hub.approvals))
        yes = self.random.random() < 0.7 if approves is None else approves
        while True:
            await asyncio.wait((call, asked), return_when=asyncio.FIRST_COMPLETED, timeout=10)
            if call.done():
                asked.cancel()
                return call.result()
            for request in await self.hub.approvals():
                await self.hub.decide(request.id, approved=yes, by="jo", digest=request.digest)
            asked = asyncio.ensure_future(until(self.hub.approvals))

    async def some_call(self) -> None:
        tool, env = self.random.choice(TOOLS), self.random.choice(("prod", "test"))
        answer = await self.call(tool, {"env": env})
        if answer.outcome == "allow" and self.random.random() < 0.8:
            failed = self.random.random() < 0.3
            await self.hub.result(SESSION, f"c{self.made}", output="", is_error=failed)

    async def plan(self) -> None:
        chosen = self.random.sample(("deploy", "push", "ship"), self.random.randint(1, 3))
        steps: list[dict[str, Any]] = [
            {"tool": tool, "count": self.random.randint(1, 3)} for tool in chosen
        ]
        if self.random.random() < 0.4:
            steps[0]["when"] = f'input.env = "{self.random.choice(("prod", "test"))}"'
        await self.call("plan", {"title": "Release", "steps": steps})

    async def revoke(self) -> None:
        grants = (await self.hub.session(SESSION)).grants
        if grants:
            await self.hub.revoke_grant(SESSION, self.random.choice(list(grants)), by="ada")

    async def switch(self) -> None:
        state = await self.hub.session(SESSION)
        net = self.random.choice(list(state.nets))
        await self.hub.toggle_net(SESSION, net, net not in state.active, by="ada", reason="x")

    async def restart(self) -> None:
        """Restart the host; the grants must be unchanged."""
        before = self.hub._live.hosted(SESSION).manager
        grants, states = before.grants, {k: s.marking for k, s in before.grant_states.items()}
        await self.hub.close()
        self.hub = self._hub()
        await resumed(self.hub, SESSION, RULES)
        after = self.hub._live.hosted(SESSION).manager
        assert after.grants == grants
        assert {k: s.marking for k, s in after.grant_states.items()} == states


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(60, usual=4)))
async def test_gate_equals_the_fold_after_each_act(tmp_path: Path, seed: int) -> None:
    """LAW (G-110): after each act the gate equals the fold; no step covers more calls than it has."""
    world = World(tmp_path / "w.db", seed)
    try:
        await opened(world.hub, RULES)
        await world.call("plan", {"title": "x", "steps": [{"tool": "deploy"}]}, approves=True)
        assert (await world.call("deploy", {"env": "prod"}, approves=False)).outcome == "allow"
        for _ in range(30):
            calls = [world.some_call] * 6
            await world.random.choice([*calls, world.plan, world.plan, world.restart, world.switch])()
            if world.random.random() < 0.1:
                await world.revoke()
            await check_fold(world.hub, SESSION)
        events = await world.hub.recorded(SESSION)
        bodies = [event.body for event in events]
        used = Counter(key for b in bodies if isinstance(b, CallDecided) for key in b.granted)
        most = {b.grant.key: b.grant.uses or 0 for b in bodies if isinstance(b, GrantGiven)}
        assert used
        assert all(used[key] <= most[key] for key in used)
        for end in range(1, len(events), 5):
            fold(events[:end])
    finally:
        await world.hub.close()
