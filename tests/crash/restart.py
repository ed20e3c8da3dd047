"""A host that is started on what another one left: is everything there, and does it go on from there?"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from interlock.engine.agents import Reply, T
from tests.crash import disk, planted
from tests.crash.busy import Busy, database_in, often_checkpointed, steps_from
from tests.crash.check import Found, found_in, unheard
from tests.crash.marks import ran_in
from tests.engine.shop import check as check_live

PATIENCE = 20.0
"""Seconds for everything that must happen by itself."""


class Restarted:
    """The second host, and what it finds wrong."""

    def __init__(self, folder: Path, seed: int, reporting: int) -> None:
        self.folder = folder
        self.left = found_in(folder, database_in(folder))
        self.problems = list(self.left.problems)
        self._stepped: set[str] = set()
        self._steps = steps_from(seed + 1)
        self.busy = Busy(folder, seed, reporting, self._one_more)

    def _one_more(self, session: str, number: int) -> Reply:
        """Every session does one more step, then rests."""
        if session in self._stepped:
            return T("done")
        self._stepped.add(session)
        return self._steps(session, number)

    async def go_on(self) -> None:
        """Resume every session, see that it is where it was, and work until all of them rest."""
        hub = self.busy.hub
        listening = asyncio.create_task(self.busy.listen())
        await asyncio.gather(*(self._resume(session) for session in self.left.states))
        await self._asked_again()
        await self.busy.wake()
        operators = asyncio.create_task(self.busy.operate("maria", switches=False))
        for session in self.left.states:
            try:
                async with asyncio.timeout(PATIENCE):
                    await hub.wait(session)
            except Exception as error:
                self.problems.append(f"{session} does not come to rest: {type(error).__name__}: {error}")
        operators.cancel()
        listening.cancel()
        for session in self.left.states:
            try:
                await check_live(hub, session)
            except AssertionError as error:
                self.problems.append(f"{session}: the live session is not the fold: {error}")
        await hub.close()

    async def _resume(self, session: str) -> None:
        """Resume it; its nets, switches and calls without a result are as they were left."""
        left = self.left.states[session]
        await self.busy.resume(session)
        hosted, _ = self.busy.hub._live.get(session)
        gate, state = hosted.manager, hosted.state
        markings = {key: net.marking for key, net in left.nets.items()}
        for what, now in (("gate", gate.states), ("state", state.nets)):
            if {key: net.marking for key, net in now.items()} != markings:
                self.problems.append(f"{session}: the {what}'s markings are not those that were left")
        for active, mode in ((gate.active, gate.mode), (tuple(state.active), state.mode)):
            if (active, mode) != (tuple(left.active), left.mode):
                self.problems.append(f"{session}: switches are {active} {mode}, not as they were left")
        for _, call_id in (pair for pair in self.left.without_result() if pair[0] == session):
            if (status := state.calls[call_id].status) != "unknown":
                self.problems.append(f"{session}: call {call_id} has no result and is shown as {status}")

    async def _asked_again(self) -> None:
        """Every question that was open is open again, on the same call, when nothing moves any more."""
        hub, wanted = self.busy.hub, self.left.unanswered()
        async with asyncio.timeout(PATIENCE):
            while any(s.status == "running" and not s.approvals for s in await hub.sessions()):
                self.busy.moved.clear()
                await self.busy.moved.wait()
        if missing := wanted - {(a.session, a.call_id) for a in await hub.approvals()}:
            self.problems.append(f"questions that were open are not asked again: {sorted(missing)}")

    def judge(self) -> dict[str, object]:
        """After the end: the record is whole, and nothing without a result ran again."""
        after = found_in(self.folder, database_in(self.folder))
        after.problems += unheard(after)
        self.problems += [p for p in after.problems if p not in self.problems]
        again = {(m.session, m.call_id) for m in ran_in(self.folder)[len(self.left.ran) :]}
        self.problems += [f"{s}: call {c} ran again" for s, c in again & self.left.without_result()]
        return {"problems": self.problems, **_seen(self.left)}


def _seen(left: Found) -> dict[str, int]:
    """How much there was to lose."""
    return {
        "sessions": len(left.states),
        "ran": len(left.ran),
        "unanswered": len(left.unanswered()),
        "without_result": len(left.without_result()),
        "deferred": sum(len(state.pending) for state in left.states.values()),
        "modes": len(Counter(state.mode for state in left.states.values())),
    }


def restart(
    reporting: int, folder: str, seed: int, death: dict[str, object] | None = None, plant: str = ""
) -> dict[str, object]:
    """A life that goes on with what was left, unless it dies as well: problems, and what there was."""
    often_checkpointed()
    planted.plant(plant)
    disk.arm(database_in(Path(folder)), death)

    async def main() -> dict[str, object]:
        restarted = Restarted(Path(folder), seed, reporting)
        await restarted.go_on()
        return restarted.judge()

    return asyncio.run(main())
