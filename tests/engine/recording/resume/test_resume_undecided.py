"""Calls of a record that are decided again when its session is resumed, and calls that are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.engine.agents import T
from interlock.engine.history.fold.event_text import changes, headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    EventBody,
    MessageAdded,
    SessionResumed,
    SessionStatus,
)
from interlock.engine.history.model.records import CallRecord
from interlock.engine.hub.hub import DIED, Hub
from interlock.engine.recording.interrupted_calls import HOST_GONE, NOT_DECIDED, REFUSED
from interlock.engine.sessions.config import SessionConfig

from ...history.support.recording import (
    answer,
    approval,
    asks,
    decided,
    limit,
    opening,
    registry,
    request,
    step,
)
from ...support.shop import Shop, bodies, bot, check, prompt, until

ASK, TWICE = approval("deploy"), limit("test", 2)
SPENT = step(TWICE, "do-test", "test")
UNKNOWN = "Outcome unknown: the session ended before a result was recorded"
WAITING = (asks(("c1", "deploy")), request("a1", "c1", "deploy"))


@asynccontextmanager
async def hub_on_record(path: Path, *bodies: EventBody) -> AsyncIterator[Hub]:
    """A hub on the record of a session whose host died after these events."""
    with Journal.open(path / "a.db") as journal:
        said = MessageAdded(role="user", text="go")
        journal.write("s1", opening(ASK, TWICE), SessionStatus(status="running"), said, *bodies)
    hub = Hub.open(path / "a.db")
    yield hub
    await hub.close()


async def resume(hub: Hub, shop: Shop) -> Callable[[], list[str]]:
    """Resume the session; return a function that gives the model's next prompt."""
    agent = bot(shop, T("I see"))
    await hub.resume_session("s1", agent, SessionConfig(registry(ASK, TWICE), by="ben"))
    return lambda: prompt(agent)


async def resumed_request(hub: Hub, shop: Shop) -> tuple[str, Callable[[], list[str]]]:
    """Resume the session and wait for the request; return its id and the model's later prompt."""
    events = hub.subscribe()
    read = await resume(hub, shop)
    event = await until(events, ApprovalRequested)
    events.close()
    assert isinstance(event.body, ApprovalRequested)
    await check(hub, "s1")
    return event.body.approval_id, read


async def wait_until_idle(hub: Hub) -> None:
    """Wait until the session is idle; an unanswered request is an error here."""
    async with asyncio.timeout(10):
        await hub.wait("s1")


class TestAskedAgain:
    async def test_waiting_call_is_requested_again(self, tmp_path: Path, shop: Shop) -> None:
        """G-63: the request is repeated with a new id for the same call; approving it runs the tool."""
        async with hub_on_record(tmp_path, *WAITING) as hub:
            approval_id, read = await resumed_request(hub, shop)
            [waiting] = await hub.approvals()
            assert (waiting.id, waiting.call_id) == (approval_id, "c1")
            assert approval_id != "a1"
            state = await hub.session("s1")
            assert [e.call.status for e in state.transcript if e.call] == ["waiting"]
            assert state.status == "waiting"
            await hub.decide(approval_id, approved=True, by="ben")
            await wait_until_idle(hub)
            assert shop.ran == ["deploy staging"]
            assert read() == ["user: go", "assistant: ", "tool: deploy staging ok"]
            state = await hub.session("s1")
            assert [e.call.status for e in state.transcript if e.call] == ["done"]
            assert state.calls["c1"].approved_by == ("ben",)
            await check(hub, "s1")

    async def test_record_names_repeated_calls(self, tmp_path: Path, shop: Shop) -> None:
        """The record and the transcript say which calls are requested again."""
        async with hub_on_record(tmp_path, *WAITING) as hub:
            await resumed_request(hub, shop)
            events = await hub.recorded("s1")
            at = next(n for n, e in enumerate(events) if isinstance(e.body, SessionResumed))
            assert events[at].body.asked_again == ("c1",)
            assert isinstance(events[at + 1].body, SessionStatus)
            assert headline(events[at]).endswith("asked again: c1  (by ben)")
            told = changes(fold(events[:at]), events[at], fold(events[: at + 1]))
            assert "asked again: deploy (call c1)" in told
            notes = [e.text for e in (await hub.session("s1")).transcript if e.kind == "note"]
            assert "resumed by ben; 1 call is asked again" in notes

    async def test_call_unknown_to_the_gate_is_decided(self, tmp_path: Path, shop: Shop) -> None:
        """A call that the gate had not seen is decided as usual."""
        async with hub_on_record(tmp_path, asks(("c1", "test"))) as hub:
            read = await resume(hub, shop)
            await wait_until_idle(hub)
            assert shop.ran == ["test"]
            assert read()[-1] == "tool: test ok"
            await check(hub, "s1")
            assert (await hub.session("s1")).nets[TWICE.name].marking["budget"] == 1

    async def test_malformed_call_is_refused(self, tmp_path: Path, shop: Shop) -> None:
        """A-49: a malformed call is refused with the reason, and its text is kept."""
        broken = CallRecord(call_id="c1", tool="test", input={}, malformed="{oops")
        async with hub_on_record(tmp_path, MessageAdded(role="assistant", calls=(broken,))) as hub:
            read = await resume(hub, shop)
            await wait_until_idle(hub)
            refused = "Invalid arguments for test: expected a JSON object, got '{oops'"
            assert read()[-1] == f"tool: {refused}"
            hosted, _ = hub._live.get("s1")
            [call] = (await hosted.load("s1"))[1].tool_calls
            assert call.malformed == "{oops"
            assert (await hub.session("s1")).calls["c1"].output == refused
            await check(hub, "s1")

    async def test_used_limit_blocks_repeated_call(self, tmp_path: Path, shop: Shop) -> None:
        """G-63: limits used before the death stay used for repeated calls."""
        spent = (asks(("c0", "test")), decided("c0", "test", SPENT, SPENT))
        told = MessageAdded(role="tool", call_id="c0", tool="test", text="?", is_error=True)
        async with hub_on_record(tmp_path, *spent, told, asks(("c1", "test"))) as hub:
            read = await resume(hub, shop)
            await wait_until_idle(hub)
            assert shop.ran == []
            assert read()[-1] == "tool: Tool 'test' is not available in the current state."

    async def test_recorded_denial_holds(self, tmp_path: Path, shop: Shop) -> None:
        """G-15: a denial recorded just before the death holds without a new request."""
        no = answer("a1", "c1", approved=False).model_copy(update={"reason": "not on Friday"})
        both = asks(("c1", "deploy"), ("c2", "test"))
        async with hub_on_record(tmp_path, both, request("a1", "c1", "deploy"), no) as hub:
            read = await resume(hub, shop)
            await wait_until_idle(hub)
            assert read()[2:] == [
                "tool: deploy was rejected by human review: not on Friday",
                "tool: test ok",
            ]
            assert shop.ran == ["test"]
            state = await hub.session("s1")
            assert state.calls["c1"].status == "blocked"
            assert [d.outcome for d in bodies(hub, "s1", CallDecided)] == ["block", "allow"]
            await check(hub, "s1")

    async def test_expired_request_stays_denied(self, tmp_path: Path, shop: Shop) -> None:
        """G-15: a request that expired just before the death is denied without a new request."""
        over = ApprovalExpired(approval_id="a1", call_id="c1", reason="nobody decided within 15 min")
        both = asks(("c1", "deploy"), ("c2", "test"))
        async with hub_on_record(tmp_path, both, request("a1", "c1", "deploy"), over) as hub:
            read = await resume(hub, shop)
            await wait_until_idle(hub)
            assert read()[2:] == [
                "tool: deploy was rejected by human review: nobody decided within 15 min",
                "tool: test ok",
            ]
            assert (await hub.approvals(), shop.ran) == ([], ["test"])
            await check(hub, "s1")

    async def test_approval_without_decision_is_requested_again(self, tmp_path: Path, shop: Shop) -> None:
        """An approval without a recorded decision ran nothing: it is requested again and runs once."""
        async with hub_on_record(tmp_path, *WAITING, answer("a1", "c1")) as hub:
            approval_id, _ = await resumed_request(hub, shop)
            assert shop.ran == []
            await hub.decide(approval_id, approved=True, by="ben")
            await wait_until_idle(hub)
            assert shop.ran == ["deploy staging"]

    async def test_calls_in_all_states_get_one_message_each(self, tmp_path: Path, shop: Shop) -> None:
        """A-56, A-77: answered, refused, unknown, blocked and waiting calls get one message each."""
        calls = asks(("c1", "test"), ("c2", "rm"), ("c3", "test"), ("c4", "rm"), ("c5", "deploy"))
        broken = CallRecord(call_id="c6", tool="test", input={}, malformed="{oops")
        calls = calls.model_copy(update={"calls": (*calls.calls, broken)})
        first = MessageAdded(role="tool", call_id="c1", tool="test", text="sure", is_error=True)
        blocked = decided("c4", "rm", outcome="block", reason="no rm")
        before = (calls, first, decided("c3", "test", SPENT), blocked)
        async with hub_on_record(tmp_path, *before, request("a1", "c5", "deploy")) as hub:
            approval_id, read = await resumed_request(hub, shop)
            [resumed] = bodies(hub, "s1", SessionResumed)
            assert resumed.asked_again == ("c5", "c6")
            await hub.decide(approval_id, approved=True, by="ben")
            await wait_until_idle(hub)
            assert read()[2:] == [
                "tool: sure",
                f"tool: {REFUSED}",
                f"tool: {UNKNOWN}",
                "tool: no rm",
                "tool: deploy staging ok",
                "tool: Invalid arguments for test: expected a JSON object, got '{oops'",
            ]
            assert shop.ran == ["deploy staging"]
            hosted, live = hub._live.get("s1")
            said = await hosted.load("s1")
            assert said == list(live.messages)
            assert [m.call_id for m in said if m.role == "tool"] == [f"c{n}" for n in range(1, 7)]
            await check(hub, "s1")

    @pytest.mark.slow
    async def test_session_closed_during_request_does_not_repeat_it(
        self, tmp_path: Path, shop: Shop
    ) -> None:
        """A session closed during its repeated request does not repeat it again."""
        async with hub_on_record(tmp_path, *WAITING) as hub:
            await resumed_request(hub, shop)
            await hub.close_session("s1", by="ben")
            assert await hub.approvals() == []
            await resume(hub, shop)
            assert bodies(hub, "s1", SessionResumed)[1].asked_again == ()
            assert (await hub.session("s1")).status == "idle"
            assert shop.ran == []

    async def test_failed_start_marks_session_failed(self, tmp_path: Path, shop: Shop) -> None:
        """If the run cannot be started, the session is recorded as failed and not left live."""
        async with hub_on_record(tmp_path, *WAITING) as hub:

            def full(run: object, session_id: str) -> object:
                raise RuntimeError("no more workers")

            hub.spawn = full
            with pytest.raises(RuntimeError, match="no more workers"):
                await resume(hub, shop)
            assert await hub.sessions() == []
            [line] = await hub.history()
            assert (line.status, line.error) == ("failed", "RuntimeError: no more workers")


DIED_ = SessionStatus(status="failed", error=DIED)
INTERRUPTED = ApprovalWithdrawn(approval_id="a1", call_id="c1", reason="the agent was interrupted")
NOT_AGAIN: dict[str, tuple[EventBody, ...]] = {
    "closed by an operator": (*WAITING, INTERRUPTED, SessionStatus(status="done", by="maria")),
    "ended": (*WAITING, SessionStatus(status="done")),
    "failed by itself": (*WAITING, INTERRUPTED, SessionStatus(status="failed", error="OSError: full")),
    "interrupted, then its host died": (*WAITING, INTERRUPTED),
    "interrupted, then its host died twice": (
        *WAITING,
        INTERRUPTED,
        DIED_,
        SessionResumed(agent="bot", model="m", mode="enforce", active=(ASK.name, TWICE.name), by="maria"),
    ),
}


class TestNotAskedAgain:
    @pytest.mark.parametrize("how", NOT_AGAIN)
    async def test_stopped_or_failed_session_stays_so(self, tmp_path: Path, shop: Shop, how: str) -> None:
        """A session that was stopped, closed or failed does not continue by itself when resumed."""
        async with hub_on_record(tmp_path, *NOT_AGAIN[how]) as hub:
            read = await resume(hub, shop)
            [*_, resumed] = bodies(hub, "s1", SessionResumed)
            assert resumed.asked_again == ()
            assert (await hub.session("s1")).status == "idle"
            assert await hub.approvals() == []
            await hub.send("s1", "go on")
            await wait_until_idle(hub)
            assert read()[2:] == [f"tool: {NOT_DECIDED}", "user: go on"]
            assert shop.ran == []
            await check(hub, "s1")

    async def test_second_host_death_repeats_the_request(self, tmp_path: Path, shop: Shop) -> None:
        """If two hosts died during a request, the request is repeated again."""
        gone = ApprovalWithdrawn(approval_id="a1", call_id="c1", reason=HOST_GONE)
        back = SessionResumed(
            agent="bot",
            model="m",
            mode="enforce",
            active=(ASK.name, TWICE.name),
            asked_again=("c1",),
        )
        running = SessionStatus(status="running")
        again = request("a2", "c1", "deploy")
        async with hub_on_record(tmp_path, *WAITING, gone, DIED_, back, running, again) as hub:
            approval_id, _ = await resumed_request(hub, shop)
            assert [w.approval_id for w in bodies(hub, "s1", ApprovalWithdrawn)] == ["a1", "a2"]
            await hub.decide(approval_id, approved=False, by="ben")
            await wait_until_idle(hub)
            state = await hub.session("s1")
            assert [e.call.status for e in state.transcript if e.call] == ["blocked"]

    async def test_message_withdraws_the_repeated_request(self, tmp_path: Path, shop: Shop) -> None:
        """A-78: a message withdraws the repeated request; the model reads it after the call's answer."""
        async with hub_on_record(tmp_path, *WAITING) as hub:
            _, read = await resumed_request(hub, shop)
            await hub.send("s1", "rather not", by="ben")
            await wait_until_idle(hub)
            assert read()[2:] == ["tool: Skipped: user sent a new message", "user: rather not"]
            assert (await hub.approvals(), shop.ran) == ([], [])
            await check(hub, "s1")
