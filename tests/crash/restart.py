"""A host started on what another one left: checks that everything is there, and that it continues."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from interlock.engine.agents import Reply, T
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.state import SessionState

from ..engine.support.external_agent import check_fold
from ..engine.support.shop import check as check_live
from . import disk, planted
from .agents import level_of, steps_from
from .busy import Busy, database_in, often_checkpointed
from .check import Found, found_in, unheard
from .family import at_top, below
from .flows_check import unfinished, waiting
from .marks import ran_in

PATIENCE = 20.0
"""Seconds for everything that must happen by itself."""


class Restarted:
    """The second host, and the problems it finds."""

    def __init__(self, folder: Path, seed: int, reporting: int) -> None:
        self.folder = folder
        self.left = found_in(folder, database_in(folder))
        self.problems = list(self.left.problems)
        helpers = (state for state in self.left.states.values() if state.kind == "child")
        self._tasks = {(helper.parent, helper.parent_call) for helper in helpers}
        self._stepped: set[str] = set()
        self._steps = steps_from(seed + 1)
        self.busy = Busy(folder, seed, reporting, self._one_more)

    def _one_more(self, who: str, number: int) -> Reply:
        """Let every session make one more step, then rest; helpers finish their tasks."""
        if level_of(who) == 0:
            if who in self._stepped:
                return T("done")
            self._stepped.add(who)
        return self._steps(who, number)

    async def go_on(self) -> None:
        """Resume every session, check that it is unchanged, and work until all sessions rest."""
        hub = self.busy.hub
        tops, runs = self.left.tops(), unfinished(self.left)
        listening = asyncio.create_task(self.busy.listen())
        await asyncio.gather(*map(self._resume, tops), *map(self.busy.flows.resume, runs))
        await self._asked_again()
        await self.busy.wake("maria")
        operators = asyncio.create_task(self.busy.operate("maria", {self.busy.answer: 1}))
        for session in (*tops, *runs):
            try:
                async with asyncio.timeout(PATIENCE):
                    await (hub.flow_ended(session) if session in runs else hub.wait(session))
            except Exception as error:
                self.problems.append(f"{session} does not come to rest: {type(error).__name__}: {error}")
        operators.cancel()
        listening.cancel()
        for session in (*tops, *runs):
            try:
                await (check_fold(hub, session) if session in runs else check_live(hub, session))
            except AssertionError as error:
                self.problems.append(f"{session}: the live session is not the fold: {error}")
        for helper in await hub.sessions():
            if helper.kind == "child" and fold(await hub.recorded(helper.id)) != helper:
                self.problems.append(f"{helper.id}: the helper's live session is not the fold")
        await hub.close()

    async def _resume(self, session: str) -> None:
        """Resume a session; check that its nets, switches and calls without a result are unchanged."""
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
            self._check_unknown(state, call_id)

    def _check_unknown(self, state: SessionState, call_id: str) -> None:
        """Check that a call without a result has an unknown outcome, unless it is a continuing task."""
        session, status = state.id, state.calls[call_id].status
        if status != "unknown" and below(self.left.states, session, call_id) not in self._tasks:
            self.problems.append(f"{session}: call {call_id} has no result and is shown as {status}")

    async def _asked_again(self) -> None:
        """Check that every open request is open again for the same call, once nothing moves any longer.

        Exception: its call waits for a call that came to the gate before it this time (G-68).
        """
        hub, wanted = self.busy.hub, self.left.unanswered() | waiting(self.left)
        try:
            async with asyncio.timeout(PATIENCE):
                while _moving(await hub.sessions()):
                    self.busy.moved.clear()
                    await self.busy.moved.wait()
        except TimeoutError:
            self.problems.append(
                "after a restart nothing happens, and not all who work wait for anything"
            )
        live = {state.id: state for state in await hub.sessions()}
        asked = {(a.session, a.call_id) for a in await hub.approvals()}
        if missing := {name for name in wanted - asked if not _competes(live, *name)}:
            self.problems.append(f"questions that were open are not asked again: {sorted(missing)}")

    def judge(self) -> dict[str, object]:
        """Check at the end that the record is complete, and that no call without a result ran again."""
        after = found_in(self.folder, database_in(self.folder))
        after.problems += unheard(after)
        for run in unfinished(after):
            state = after.states[run]
            after.problems.append(f"{run}: it has not ended, it is {state.status}: {state.error}")
        self.problems += [p for p in after.problems if p not in self.problems]
        again = {(m.session, m.call_id) for m in ran_in(self.folder)[len(self.left.ran) :]}
        lost = self.left.without_result()
        tops = {at_top(after.states, *call): call for call in again if call[0] in after.states}
        ran = again & lost | {call for name, call in tops.items() if name in lost}
        self.problems += [f"{s}: call {c} ran again" for s, c in sorted(ran)]
        for session, call_id in lost:
            if session in after.states:
                self._check_unknown(after.states[session], call_id)
        return {"problems": self.problems, **_seen(self.left)}


def _competes(live: dict[str, SessionState], session: str, call_id: str) -> bool:
    """Return whether a call waits for the decision on another."""
    maker, own_id = below(live, session, call_id)
    call = live[maker].calls.get(own_id)
    return call is not None and call.status == "proposed" and bool(call.waits_for)


def _moving(live: Sequence[SessionState]) -> bool:
    """Return whether some session is working without waiting.

    A session may wait for a person, for all helpers that it started, or for the decision on another call.
    """
    asking = {a.via or a.session for state in live for a in state.approvals.values()}
    at_work = [s for s in live if s.phase == "running" or (s.kind == "child" and s.phase == "idle")]
    helpers = Counter(state.parent for state in at_work)

    def waits(state: SessionState) -> bool:
        own = (call for call in state.calls.values() if "/" not in call.call_id)
        tasks = [call for call in own if call.status == "running" and call.tool.startswith("task_")]
        if any(call.status == "proposed" and call.waits_for for call in state.calls.values()):
            return True
        return state.id in asking or 0 < len(tasks) <= helpers[state.id]

    return not all(waits(state) for state in at_work)


def _seen(left: Found) -> dict[str, int]:
    """Return how much could have been lost."""
    return {
        "sessions": len(left.states),
        "ran": len(left.ran),
        "unanswered": len(left.unanswered()),
        "without_result": len(left.without_result()),
        "deferred": sum(len(state.pending) for state in left.states.values()),
        "helpers": len(left.at_work()),
        "flows": len(unfinished(left)),
        "flows_waiting": len(waiting(left)),
        "branches": sum(state.kind == "branch" for state in left.states.values()),
        "queued": sum(len(state.queued) for state in left.states.values()),
        "modes": len(Counter(state.mode for state in left.states.values())),
    }


def restart(
    reporting: int, folder: str, seed: int, death: dict[str, object] | None = None, plant: str = ""
) -> dict[str, object]:
    """Run a life that resumes what was left, unless it dies as well; return problems and totals."""
    often_checkpointed()
    planted.plant(plant)
    disk.arm(database_in(Path(folder)), death)

    async def main() -> dict[str, object]:
        restarted = Restarted(Path(folder), seed, reporting)
        await restarted.go_on()
        return restarted.judge()

    return asyncio.run(main())
