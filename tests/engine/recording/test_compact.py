"""Compaction under the hub: the record, the state, and prompts of resumed or branched sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from interlock.engine.agents import (
    ERR,
    Agent,
    C,
    Chunk,
    Finish,
    ModelRequest,
    ScriptedModel,
    T,
    TextChunk,
    prompt_of,
)
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.replay import Replay
from interlock.engine.history.model.events import JournalEvent, MessageAdded, SessionStatus, StepEnded
from interlock.engine.hub.hub import Hub, UnknownSessionError
from interlock.engine.recording.conversation import conversation
from interlock.engine.recording.journal_store import JournalStore
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.raw_database import raw_database

from ..support.shop import RULES, Shop, bodies, bot, check, prompt, start

REGISTRY = compile_rules(RULES).registry
STEPS = (C(test={}, rm={}), T("tested"))


async def worked_session(hub: Hub, agent: Agent) -> str:
    """A session with one completed turn: a call that ran, a blocked one and an answer."""
    session = await hub.open_session(agent, SessionConfig(REGISTRY))
    await hub.send(session, "go", by="maria")
    await hub.wait(session)
    return session


def statuses(hub: Hub, session: str) -> list[str]:
    return [body.status for body in bodies(hub, session, SessionStatus)]


class Held:
    """A model whose reply waits until it is released."""

    name = "held"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.asked.set()
        await self.go_on.wait()
        yield TextChunk("said")
        yield Finish()


class TestRecord:
    async def test_summary_is_a_recorded_message(self, hub: Hub, shop: Shop) -> None:
        """Section 9: the summary is a recorded message with its operator and the kept messages."""
        session = await worked_session(hub, bot(shop, *STEPS, T("It was tested.")))
        outcome = await hub.compact(session, by="ben", keep_last=1)
        assert (outcome.ok, outcome.message) == (
            True,
            f"Compacted {session}: a summary and the last 1 message",
        )
        added = bodies(hub, session, MessageAdded)
        assert [body.role for body in added] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "summary",
        ]
        assert added[-1] == MessageAdded(role="summary", text="It was tested.", by="ben", kept=1)
        assert len(bodies(hub, session, StepEnded)) == 3
        assert statuses(hub, session) == ["running", "idle", "running", "idle"]
        await check(hub, session)

    async def test_transcript_and_replay_have_the_summary(self, hub: Hub, shop: Shop) -> None:
        """Section 9: the transcript contains the summary, and a replay describes it."""
        session = await worked_session(hub, bot(shop, *STEPS, T("It was tested.")))
        before = list((await hub.session(session)).transcript)
        await hub.compact(session, by="ben", keep_last=1)
        *rest, shown = (await hub.session(session)).transcript
        assert rest == before
        assert (shown.kind, shown.text, shown.by) == ("summary", "It was tested.", "ben")
        events = await hub.recorded(session)
        [at] = [e.seq for e in events if isinstance(e.body, MessageAdded) and e.body.role == "summary"]
        assert headline(events[at - 1]) == "message  summary (by ben)  (1 kept)  It was tested."
        replay = Replay(events)
        replay.goto(at)
        assert replay.changes == [
            "compacted: the model reads this summary of what was said before the last 1 message"
        ]

    async def test_nets_are_unchanged(self, hub: Hub, shop: Shop) -> None:
        """Section 9: compaction does not change the nets."""
        agent = bot(shop, *STEPS, T("S"), C(rm={}), T("no"))
        session = await worked_session(hub, agent)
        before = dict((await hub.session(session)).nets)
        await hub.compact(session, by="ben", keep_last=0)
        assert (await hub.session(session)).nets == before
        await hub.send(session, "again", by="ben")
        await hub.wait(session)
        assert shop.ran == ["test"]
        assert prompt(agent, 4)[0] == "user: <summary>\nS\n</summary>"
        await check(hub, session)


class TestRefusing:
    async def test_short_conversation_is_not_compacted(self, hub: Hub, shop: Shop) -> None:
        """Section 9: a short conversation is not compacted, and nothing is recorded."""
        session = await start(hub, shop, T("hi"))
        await hub.wait(session)
        events = len(await hub.recorded(session))
        outcome = await hub.compact(session, by="ben")
        assert (outcome.ok, outcome.message) == (False, f"Nothing to compact yet in {session}")
        assert len(await hub.recorded(session)) == events

    async def test_failed_model_changes_nothing(self, hub: Hub, shop: Shop) -> None:
        """Section 9: if the model fails, nothing changes and the session is idle, not failed."""
        session = await worked_session(hub, bot(shop, *STEPS, ERR("overloaded"), T("fine")))
        outcome = await hub.compact(session, by="ben", keep_last=0)
        assert (outcome.ok, outcome.message) == (
            False,
            f"Session '{session}' was not compacted: overloaded",
        )
        assert statuses(hub, session)[-1] == "idle"
        await hub.send(session, "go on", by="ben")
        await hub.wait(session)
        assert [b.role for b in bodies(hub, session, MessageAdded)][-2:] == ["user", "assistant"]

    async def test_unknown_session_raises(self, hub: Hub) -> None:
        """Section 9: compacting an unknown session raises."""
        with pytest.raises(UnknownSessionError):
            await hub.compact("nobody", by="ben")


class TestMeanwhile:
    async def test_message_is_answered_after_compaction(self, hub: Hub) -> None:
        """Section 9: a message sent during compaction is answered afterwards; the session is running."""
        model = Held()
        session = await hub.open_session(Agent(model, name="bot"), SessionConfig({}))
        await hub.send(session, "go")
        model.go_on.set()
        await hub.wait(session)
        model.asked.clear()
        model.go_on.clear()
        compacting = asyncio.create_task(hub.compact(session, by="ben", keep_last=1))
        await model.asked.wait()
        assert (await hub.session(session)).status == "running"
        await hub.send(session, "wait", by="ben")
        busy = await hub.compact(session, by="maria")
        assert (busy.ok, busy.message) == (
            False,
            f"Session '{session}' is busy; compact it when it is idle",
        )
        model.go_on.set()
        assert (await compacting).ok
        await hub.wait(session)
        said = [(b.role, b.text) for b in bodies(hub, session, MessageAdded)]
        assert said[2:] == [("summary", "said"), ("user", "wait"), ("assistant", "said")]
        assert statuses(hub, session) == ["running", "idle", "running", "idle"]
        await check(hub, session)

    async def test_compaction_can_be_stopped(self, hub: Hub) -> None:
        """Section 9: an operator can stop compaction, and the session is idle."""
        model = Held()
        session = await hub.open_session(Agent(model, name="bot"), SessionConfig({}))
        await hub.send(session, "go")
        model.go_on.set()
        await hub.wait(session)
        model.asked.clear()
        model.go_on.clear()
        compacting = asyncio.create_task(hub.compact(session, by="ben", keep_last=1))
        await model.asked.wait()
        await hub.abort(session, "stopped by maria")
        outcome = await compacting
        assert not outcome.ok
        assert "it was stopped (stopped by maria)" in outcome.message
        assert (await hub.session(session)).status == "idle"


class TestGoingOn:
    async def test_resumed_session_sends_the_live_prompt(self, hub: Hub, shop: Shop) -> None:
        """A-77: a session resumed after compaction sends exactly what the live one would have sent."""
        agent = bot(shop, *STEPS, T("S"), T("on"))
        session = await worked_session(hub, agent)
        await hub.compact(session, by="ben", keep_last=2)
        await hub.send(session, "go on", by="ben")
        await hub.wait(session)
        live = hub._live.get(session)[1].messages
        await hub.close_session(session, by="ben")
        other = bot(shop, T("back"))
        await hub.resume_session(session, other, SessionConfig(REGISTRY))
        assert hub._live.get(session)[1].messages == live
        await hub.send(session, "and now", by="ben")
        await hub.wait(session)
        [sent] = other.model.requests
        assert list(sent.messages[:-1]) == prompt_of(live)
        assert prompt(other)[0] == "user: <summary>\nS\n</summary>"
        assert agent.model.requests[-1].messages == sent.messages[:-2]
        await check(hub, session)

    @pytest.mark.slow
    async def test_branch_after_summary_starts_with_it(self, hub: Hub, shop: Shop) -> None:
        """A-77: a branch after the summary starts with it; one before it has the full conversation."""
        session = await worked_session(hub, bot(shop, *STEPS, T("S")))
        before = (await hub.session(session)).seq
        await hub.compact(session, by="ben", keep_last=1)
        after = (await hub.session(session)).seq
        prompts: list[list[str]] = []
        for at in (before, after):
            agent = bot(shop, T("ok"))
            branch = await hub.branch_session(session, at, agent, SessionConfig(REGISTRY))
            await hub.send(branch, "try")
            await hub.wait(branch)
            prompts.append([line.split(":")[0] for line in prompt(agent)])
            await check(hub, branch)
        assert prompts == [
            ["user", "assistant", "tool", "tool", "assistant", "user"],
            ["user", "assistant", "user"],
        ]

    async def test_host_death_during_compaction_can_be_resumed(self, tmp_path: Path) -> None:
        """Section 9: if the host dies during compaction, the session can be resumed."""
        first = Hub.open(tmp_path / "hub.db")
        model = Held()
        session = await first.open_session(Agent(model, name="bot"), SessionConfig({}))
        await first.send(session, "go")
        model.go_on.set()
        await first.wait(session)
        model.asked.clear()
        model.go_on.clear()
        compacting = asyncio.create_task(first.compact(session, by="ben", keep_last=0))
        await model.asked.wait()
        copy = tmp_path / "copy.db"
        await asyncio.to_thread(_backup, first.database, copy)
        await first.abort(session)
        await compacting
        await first.close()

        hub = Hub.open(copy)
        agent = Agent(ScriptedModel([T("back")]), name="bot")
        await hub.resume_session(session, agent, SessionConfig({}))
        await hub.send(session, "again")
        await hub.wait(session)
        assert prompt(agent) == ["user: go", "assistant: said", "user: again"]
        await hub.close()


def _backup(source: Path, target: Path) -> None:
    with closing(raw_database(source)) as one, closing(raw_database(target)) as other:
        one.backup(other)


class TestStore:
    async def test_session_with_journal_store_is_compacted(self, tmp_path: Path) -> None:
        """A-77: a session with its own journal store is compacted and resumed in the same way."""
        store = JournalStore.open(tmp_path / "own.db")
        session = await Agent(ScriptedModel([T("a1"), T("S")]), store=store).create_session("s")
        await session.prompt("u1")
        await session.compact(1, by="ben")
        assert await store.load("s") == list(session.messages)
        model = ScriptedModel([T("a2")])
        resumed = await Agent(model, store=store).resume_session("s")
        await resumed.prompt("u2")
        assert [m.text for m in model.requests[0].messages] == ["<summary>\nS\n</summary>", "a1", "u2"]
        await store.close()

    def test_older_record_is_read_unchanged(self) -> None:
        """A-77: a message recorded before summaries existed is read unchanged and keeps nothing."""
        old = '{"cursor":1,"session":"s","seq":1,"at":"2026-01-02T03:04:05Z","body":%s}'
        event = JournalEvent.model_validate_json(old % '{"type":"message","role":"user","text":"hi"}')
        [message] = conversation([event])
        assert (message.role, message.text, event.body.kept) == ("user", "hi", None)
