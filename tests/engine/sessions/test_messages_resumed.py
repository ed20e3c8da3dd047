"""Messages that waited when a host died are delivered when the session is resumed (A-63)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, ScriptedModel, T
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalRequested,
    EventBody,
    MessageAdded,
    MessageWithdrawn,
    SessionStatus,
)
from interlock.engine.hub.hub import Hub, ResumeError
from interlock.engine.sessions.config import SessionConfig

from ..history.support.recording import approval, asks, opening, registry, request
from ..support.shop import Shop, bodies, bot, check, prompt, until
from .test_messages import queued, waiting

ASK = approval("deploy")


@asynccontextmanager
async def hub_on_record(path: Path, *after: EventBody) -> AsyncIterator[Hub]:
    """A hub on the record of a session whose host died after these events."""
    with Journal.open(path / "a.db") as journal:
        said = MessageAdded(role="user", text="go")
        journal.write("s1", opening(ASK), SessionStatus(status="running"), said, *after)
    hub = Hub.open(path / "a.db")
    yield hub
    await hub.close()


async def resume_until_idle(hub: Hub, shop: Shop, *replies: object) -> Agent:
    """Resume the session and wait until it is idle."""
    agent = bot(shop, *replies)
    await hub.resume_session("s1", agent, SessionConfig(registry(ASK), by="ben"))
    async with asyncio.timeout(10):
        await hub.wait("s1")
    await check(hub, "s1")
    assert (await hub.session("s1")).queued == []
    return agent


SAID = MessageAdded(role="assistant", text="sure")
WAITED = asks(("c1", "deploy")), request("a1", "c1", "deploy")


class TestResumed:
    async def test_interrupted_turn_completes_before_queued_messages(
        self, tmp_path: Path, shop: Shop
    ) -> None:
        """A-79, A-80: the turn is completed first, then the queued messages follow one by one."""
        async with hub_on_record(tmp_path, queued("m1"), queued("m2")) as hub:
            agent = await resume_until_idle(hub, shop, T("A"), T("B"), T("C"))
            assert prompt(agent) == ["user: go"]
            assert prompt(agent, 1) == ["user: go", "assistant: A", "user: m1"]
            assert prompt(agent, 2)[-2:] == ["assistant: B", "user: m2"]

    async def test_steering_joins_before_the_next_model_call(self, tmp_path: Path, shop: Shop) -> None:
        """A-72: steering messages join before the next model call, ahead of queued ones."""
        async with hub_on_record(
            tmp_path, queued("m1"), queued("m2", "steer"), queued("m3", "steer")
        ) as hub:
            agent = await resume_until_idle(hub, shop, T("A"), T("B"))
            assert prompt(agent) == ["user: go", "user: m2", "user: m3"]
            assert prompt(agent, 1)[-2:] == ["assistant: A", "user: m1"]

    async def test_waiting_message_begins_the_next_turn(self, tmp_path: Path, shop: Shop) -> None:
        """If the model spoke last, the first waiting message begins the next turn."""
        async with hub_on_record(tmp_path, SAID, queued("m1"), queued("m2")) as hub:
            agent = await resume_until_idle(hub, shop, T("A"), T("B"))
            assert prompt(agent) == ["user: go", "assistant: sure", "user: m1"]
            assert prompt(agent, 1)[-2:] == ["assistant: A", "user: m2"]
            said = [m for m in bodies(hub, "s1", MessageAdded) if m.message_id is not None]
            assert [(m.message_id, m.by) for m in said] == [("m1", "ben"), ("m2", "ben")]

    async def test_steering_withdraws_the_open_request(self, tmp_path: Path, shop: Shop) -> None:
        """A-78: a steering message withdraws an open request, also if its host died in between."""
        async with hub_on_record(tmp_path, *WAITED, queued("rather not", "steer")) as hub:
            agent = await resume_until_idle(hub, shop, T("all right"))
            skipped = "tool: Skipped: user sent a new message"
            assert prompt(agent)[2:] == [skipped, "user: rather not"]
            assert len(bodies(hub, "s1", ApprovalRequested)) == 1

    async def test_queued_message_keeps_the_open_request(self, tmp_path: Path, shop: Shop) -> None:
        """A queued message leaves the open request; the request is repeated and answered first."""
        async with hub_on_record(tmp_path, *WAITED, queued("m1")) as hub:
            agent = bot(shop, T("A"), T("B"))
            events = hub.subscribe()
            await hub.resume_session("s1", agent, SessionConfig(registry(ASK)))
            await until(events, ApprovalRequested)
            assert await waiting(hub, "s1") == ["m1"]
            [asked] = await hub.approvals()
            await hub.decide(asked.id, approved=True, by="ben")
            await hub.wait("s1")
            assert prompt(agent)[-1] == "tool: deploy staging ok"
            assert prompt(agent, 1)[-2:] == ["assistant: A", "user: m1"]

    async def test_delivered_messages_are_not_delivered_again(self, tmp_path: Path, shop: Shop) -> None:
        """Messages that were withdrawn or delivered before the death are not delivered again."""
        taken = MessageAdded(role="user", text="m1", by="ben", message_id="m1")
        gone = MessageWithdrawn(message_id="m2", reason="the agent was stopped")
        async with hub_on_record(tmp_path, queued("m1"), queued("m2"), taken, gone, queued("m3")) as hub:
            agent = await resume_until_idle(hub, shop, T("A"), T("B"))
            assert prompt(agent) == ["user: go", "user: m1"]
            assert prompt(agent, 1)[-1] == "user: m3"

    async def test_ended_record_lists_waiting_messages(self, tmp_path: Path) -> None:
        """A record that ended with its host still lists the waiting messages."""
        async with hub_on_record(tmp_path, queued("m1")):
            state = fold(open_reader(tmp_path / "a.db").events("s1"))
            assert (state.status, [q.text for q in state.queued]) == ("failed", ["m1"])

    async def test_must_go_on_refuses_without_open_work(self, tmp_path: Path, shop: Shop) -> None:
        """With `must_go_on`, resuming a session without open work is refused and not recorded."""
        async with hub_on_record(tmp_path, SAID) as hub:
            before = list(await hub.recorded("s1"))
            with pytest.raises(ResumeError, match="nothing open to continue with"):
                await hub.resume_session("s1", bot(shop), SessionConfig(registry(ASK)), must_go_on=True)
            assert list(await hub.recorded("s1")) == before
            await hub.resume_session("s1", bot(shop), SessionConfig(registry(ASK)))


DYING = """
import asyncio, os, signal, sys
from interlock.engine.agents import Agent, C, ScriptedModel, tool
from interlock.engine.hub.hub import Hub, SessionConfig

async def main():
    hub = Hub.open(sys.argv[1])

    @tool
    async def work() -> str:
        \"\"\"Work until everything has been said.\"\"\"
        for mode, text in (("queue", "third"), ("steer", "second"), ("queue", "fourth")):
            await hub.send("s1", text, by="ben", mode=mode)
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    agent = Agent(ScriptedModel([C(c1=("work", {}))]), name="bot", tools=[work])
    await hub.open_session(agent, SessionConfig({}), session_id="s1")
    await hub.send("s1", "first", by="maria")
    await hub.wait("s1")

asyncio.run(main())
"""


@pytest.mark.slow
class TestKilled:
    async def test_accepted_messages_reach_the_model(self, tmp_path: Path, shop: Shop) -> None:
        """A-63: after `kill -9`, accepted messages reach the model in the order of their modes."""
        command = [sys.executable, "-c", DYING, str(tmp_path / "a.db")]
        died = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
        assert died.returncode == -signal.SIGKILL, died.stderr
        hub = Hub.open(tmp_path / "a.db")
        agent = bot(shop, T("A"), T("B"), T("C"))
        await hub.resume_session("s1", agent, SessionConfig({}))
        await hub.wait("s1")
        unknown = "tool: Outcome unknown: the session ended before a result was recorded"
        assert prompt(agent) == ["user: first", "assistant: ", unknown, "user: second"]
        assert prompt(agent, 1)[-1] == "user: third"
        assert prompt(agent, 2)[-1] == "user: fourth"
        assert isinstance(agent.model, ScriptedModel)
        assert [m.by for m in agent.model.requests[2].messages if m.role == "user"] == [
            "maria",
            "ben",
            "ben",
            "ben",
        ]
        await hub.close()
