"""Late requests under any order of simultaneous actions by the agent and operators."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.history.model.events import ApprovalDecided, CallDecided
from interlock.engine.hub.hub import ApprovalPolicy, CallAnswer, CallRefused, CallWithdrawn, Hub
from tests.support.laws import examples

from ..support.external_agent import check_fold, opened, recorded

RULES = "require human-approval before deploy\nblock rm"
ACTIONS = (
    "call",
    "call",
    "give up",
    "give up",
    "first",
    "approve",
    "approve",
    "deny",
    "take back",
    "switch",
    "wait",
)


class Played:
    """An agent that repeats one call, and operators, all acting at once."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.calls: list[tuple[str, asyncio.Future[CallAnswer]]] = []
        self.work: list[asyncio.Task[None]] = []

    async def act(self, action: str) -> None:
        hub = self.hub
        requests = await hub.approvals()
        match action:
            case "call":
                call_id = f"d{len(self.calls)}"
                self.calls.append((call_id, hub.submit_call("robin-1", call_id, "deploy", {})))
            case "first" if self.calls:
                # Uses the id of the first call, which may belong to another call now.
                self.calls.append(("d0", hub.submit_call("robin-1", "d0", "deploy", {})))
            case "give up" if self.calls:
                call_id, waits = self.calls[-1]
                waits.cancel()
                with suppress(CallRefused):
                    await hub.give_up_call("robin-1", call_id, "nobody decided")
            case "approve" | "deny" if requests:
                first = requests[0]
                approved = action == "approve"
                await hub.decide(first.id, approved=approved, by="ada", digest=first.digest)
            case "take back" if requests:
                await hub.take_back(requests[0].id, by="ben")
            case "switch":
                net = (await hub.session("robin-1")).nets["block-rm"]
                await hub.toggle_net("robin-1", "block-rm", not net.active, by="ben", reason="x")
            case _:
                await hub.record_message("robin-1", "assistant", "still here")


async def play(folder: Path, moves: list[tuple[str, bool]]) -> None:
    hub = Hub.open(folder / "hub.db", policy=ApprovalPolicy(late=3600.0))
    await opened(hub, RULES)
    played = Played(hub)
    for action, at_once in moves:
        task = asyncio.ensure_future(played.act(action))
        played.work.append(task)
        if not at_once:
            await asyncio.wait(played.work)
    await asyncio.wait(played.work)
    assert [task.exception() for task in played.work] == [None] * len(moves)
    await hub.record_message("robin-1", "assistant", "the end")
    over = [each for each in played.calls if each[1].done() and not each[1].cancelled()]
    allowed = {
        call for call, waits in over if not waits.exception() and waits.result().outcome == "allow"
    }
    refused = [waits.exception() for _, waits in over if waits.exception()]
    assert all(isinstance(error, CallWithdrawn) for error in refused)
    given = Counter(b.call_id for b in recorded(hub.database, ApprovalDecided) if b.approved)
    ran = Counter(b.call_id for b in recorded(hub.database, CallDecided) if b.outcome == "allow")
    # An approval that was followed by a new request is still used once.
    assert all(ran[call_id] == 1 <= given[call_id] for call_id in ran)
    # Repeated submissions under one id share one answer.
    assert len(allowed) <= sum(ran.values())
    await check_fold(hub)
    await hub.close()
    hub = Hub.open(folder / "hub.db")
    await hub.close()


class TestLaws:
    @settings(max_examples=examples(200, usual=20), deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.booleans()), min_size=3, max_size=14))
    def test_each_approval_runs_once(self, moves: list[tuple[str, bool]]) -> None:
        """LAW (G-103): no call runs without its own approval, and none gets another's."""
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(play(Path(folder), moves))
