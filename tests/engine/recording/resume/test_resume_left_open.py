"""Calls that a dead host left open, and how a resumed session ends them."""

from __future__ import annotations

from pathlib import Path

from interlock.engine.agents import T
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    CallDecided,
    CallResult,
    EventBody,
    MessageAdded,
    SessionStatus,
)
from interlock.engine.history.model.records import StepRecord
from interlock.engine.hub.hub import DIED, Hub
from interlock.engine.sessions.config import SessionConfig

from ...history.support.recording import asks, opening, registry, sequence, step
from ...support.shop import Shop, bodies, bot, check, prompt

UNKNOWN = "Outcome unknown: the session ended before a result was recorded"


FIRST = sequence("test", "deploy")
DO_TEST = step(FIRST, "do-test", "test", deferred=True)


class TestLeftOpen:
    """Calls that a dead host left open, written event by event."""

    async def resumed(self, path: Path, shop: Shop, *left: EventBody) -> tuple[Hub, list[str]]:
        """Resume a session with these events; return the hub and the model's next prompt."""
        with Journal.open(path) as journal:
            said = MessageAdded(role="user", text="go")
            journal.write("s1", opening(FIRST), SessionStatus(status="running"), said, *left)
        hub = Hub.open(path)
        agent = bot(shop, T("I see"))
        await hub.resume_session("s1", agent, SessionConfig(registry(FIRST)))
        await check(hub, "s1")
        await hub.send("s1", "go on")
        await hub.wait("s1")
        await check(hub, "s1")
        return hub, prompt(agent)

    def allowed(self, call_id: str, *steps: StepRecord) -> CallDecided:
        return CallDecided(
            call_id=call_id,
            tool="test",
            input={},
            names=("test",),
            outcome="allow",
            mode="enforce",
            steps=steps,
        )

    async def test_running_call_has_unknown_outcome(self, tmp_path: Path, shop: Shop) -> None:
        """A running call gets an unknown outcome, and its deferred transition is dropped."""
        left = asks(("c1", "test")), self.allowed("c1", DO_TEST)
        hub, read = await self.resumed(tmp_path / "a.db", shop, *left)
        assert read == ["user: go", "assistant: ", f"tool: {UNKNOWN}", "user: go on"]
        state = await hub.session("s1")
        assert (state.calls["c1"].status, state.calls["c1"].output) == ("unknown", UNKNOWN)
        assert (state.pending, state.nets[FIRST.name].marking["gate"]) == ([], 0)
        [result] = bodies(hub, "s1", CallResult)
        assert (result.unknown, result.is_error, result.dropped) == (True, True, (DO_TEST,))
        assert shop.ran == []
        await hub.close()

    async def test_recorded_result_reaches_the_model(self, tmp_path: Path, shop: Shop) -> None:
        """A recorded result reaches the model unchanged, beside a call without one."""
        ok = CallResult(call_id="c1", tool="test", output="12 passed", is_error=False, fired=(DO_TEST,))
        both = asks(("c1", "test"), ("c2", "test"))
        left = both, self.allowed("c1", DO_TEST), self.allowed("c2"), ok
        hub, read = await self.resumed(tmp_path / "a.db", shop, *left)
        assert read[2:4] == ["tool: 12 passed", f"tool: {UNKNOWN}"]
        state = await hub.session("s1")
        assert [c.status for c in state.calls.values()] == ["done", "unknown"]
        assert state.nets[FIRST.name].marking["gate"] == 1
        await hub.close()

    async def test_blocked_call_is_answered_with_reason(self, tmp_path: Path, shop: Shop) -> None:
        """A blocked call is answered with its reason."""
        no = self.allowed("c1").model_copy(update={"outcome": "block", "reason": "not on Friday"})
        hub, read = await self.resumed(tmp_path / "a.db", shop, asks(("c1", "test")), no)
        assert read[2] == "tool: not on Friday"
        assert (await hub.session("s1")).calls["c1"].status == "blocked"
        await hub.close()

    async def test_sessions_of_dead_host_are_marked_failed(self, tmp_path: Path) -> None:
        """Opening the journal marks sessions of a dead host as failed; they can be resumed."""
        with Journal.open(tmp_path / "a.db") as journal:
            journal.write("s1", opening(FIRST), SessionStatus(status="running"))
        hub = Hub.open(tmp_path / "a.db")
        [line] = await hub.history()
        assert (line.status, line.error) == ("failed", DIED)
        await hub.close()
