"""Messages to a working agent: accepted once recorded, and never lost (A-63)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.agents import ERR, C, SessionClosedError, T
from interlock.engine.history.fold.event_text import changes, headline
from interlock.engine.history.fold.fold import FoldError, fold
from interlock.engine.history.journal.journal import JournalError
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalRequested,
    EventBody,
    MessageAdded,
    MessageQueued,
    MessageWithdrawn,
    SessionStatus,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..history.support.recording import approval, opening, recorded
from ..hub.test_hub import full_disk
from ..support.shop import RULES, Shop, bodies, bot, check, start, until

REGISTRY = compile_rules(RULES).registry
ASK = approval("deploy")


async def asking(hub: Hub, shop: Shop, *then: object) -> str:
    """A session whose agent waits for approval; `then` are the next replies of its model."""
    events = hub.subscribe()
    session = await start(hub, shop, C(test={}), C(deploy={}), *then)
    await until(events, ApprovalRequested)
    events.close()
    return session


async def waiting(hub: Hub, session: str) -> list[str]:
    """Return the queued texts of the state, after checking them against the agent's inbox."""
    texts = [queued.text for queued in (await hub.session(session)).queued]
    assert sorted(texts) == sorted(m.text for m in hub._live.get(session)[1].waiting_messages)
    await check(hub, session)
    return texts


class TestAccepted:
    async def test_working_session_records_before_send_returns(self, hub: Hub, shop: Shop) -> None:
        """A-70: the message waits and is in the file with mode and sender when `send` returns."""
        session = await asking(hub, shop, T("done"), T("and that"))
        await hub.send(session, "then that", by="ben", mode="queue")
        [queued] = bodies(hub, session, MessageQueued)
        assert (queued.mode, queued.text, queued.by) == ("queue", "then that", "ben")
        assert await waiting(hub, session) == ["then that"]
        [asked] = await hub.approvals()
        await hub.decide(asked.id, approved=True, by="maria")
        await hub.wait(session)
        assert await waiting(hub, session) == []
        [said] = [m for m in bodies(hub, session, MessageAdded) if m.message_id is not None]
        assert (said.message_id, said.text, said.by) == (queued.message_id, "then that", "ben")

    async def test_idle_session_records_before_send_returns(self, hub: Hub, shop: Shop) -> None:
        """A-70: a message that begins a run is also in the file when `send` returns; it never waits."""
        session = await hub.open_session(bot(shop, T("hi")), SessionConfig({}))
        await hub.send(session, "hello", by="ben")
        assert next((m.text, m.by) for m in bodies(hub, session, MessageAdded)) == ("hello", "ben")
        await hub.wait(session)
        assert bodies(hub, session, MessageQueued) == []

    async def test_second_simultaneous_message_is_queued(self, hub: Hub, shop: Shop) -> None:
        """A-74: of two simultaneous messages, the first begins the run and the second is queued."""
        session = await hub.open_session(bot(shop, T("hi"), T("ho")), SessionConfig({}))
        await asyncio.gather(hub.send(session, "one"), hub.send(session, "two"))
        await hub.wait(session)
        assert [q.text for q in bodies(hub, session, MessageQueued)] == ["two"]
        said = [m.text for m in bodies(hub, session, MessageAdded) if m.role == "user"]
        assert said == ["one", "two"]

    async def test_unrecordable_message_is_refused(self, hub: Hub, shop: Shop) -> None:
        """A message that the journal refuses is refused, and none waits."""
        session = await asking(hub, shop, T("done"))
        with full_disk(), pytest.raises(JournalError):
            await hub.send(session, "rather not", by="ben")
        assert await waiting(hub, session) == []
        assert len(await hub.approvals()) == 1

    async def test_full_journal_is_an_error_for_the_sender(self, hub: Hub, shop: Shop) -> None:
        """If the journal of an idle session is full, the sender gets the error."""
        session = await hub.open_session(bot(shop, T("hi")), SessionConfig({}))
        with full_disk(), pytest.raises(JournalError):
            await hub.send(session, "hello", by="ben")
        assert bodies(hub, session, MessageAdded) == []

    async def test_send_raises_if_run_never_starts(self, hub: Hub, shop: Shop) -> None:
        """If the run of a message is never started, `send` raises instead of hanging."""
        session = await hub.open_session(bot(shop, T("hi")), SessionConfig({}))
        hub.spawn = lambda run, session_id: run.close()
        with pytest.raises(Exception, match="was stopped before it took up the message"):
            await hub.send(session, "hello", by="ben")

    async def test_unknown_mode_is_refused(self, hub: Hub, shop: Shop) -> None:
        """An unknown mode is refused before anything is recorded."""
        session = await hub.open_session(bot(shop), SessionConfig({}))
        with pytest.raises(ValueError, match="mode"):
            await hub.send(session, "hello", mode="shout")
        assert bodies(hub, session, SessionStatus) == []

    async def test_cancelled_send_withdraws_nothing(self, hub: Hub, shop: Shop) -> None:
        """Cancelling `send` does not withdraw a recorded message."""
        session = await asking(hub, shop, T("done"), T("that too"))
        sending = asyncio.create_task(hub.send(session, "then that", mode="queue"))
        await asyncio.sleep(0)
        sending.cancel()
        await hub._live.get(session)[0].record()
        await asyncio.sleep(0)
        assert sending.cancelled()
        assert await waiting(hub, session) == ["then that"]

    async def test_lone_surrogate_is_replaced(self, hub: Hub, shop: Shop) -> None:
        """A lone surrogate is replaced in the record and in the conversation."""
        session = await asking(hub, shop, T("done"))
        await hub.send(session, "half \ud800", mode="queue")
        assert await waiting(hub, session) == ["half ?"]


class TestHandedBack:
    async def test_by_an_abort(self, hub: Hub, shop: Shop) -> None:
        """A-94: an abort withdraws waiting messages on record; the transcript keeps their text."""
        session = await asking(hub, shop, T("never"))
        await hub.send(session, "then that", by="ben", mode="queue")
        await hub.abort(session, "enough")
        [gone] = bodies(hub, session, MessageWithdrawn)
        assert gone.reason == "the agent was stopped: enough"
        await hub.wait(session)
        assert await waiting(hub, session) == []
        [note] = [e for e in (await hub.session(session)).transcript if "not delivered" in (e.text or "")]
        assert (note.kind, note.by) == ("note", "ben")
        assert note.text == "not delivered (the agent was stopped: enough): then that"

    async def test_by_an_error(self, hub: Hub, shop: Shop) -> None:
        """A-84: a failed run withdraws its waiting messages on record."""
        session = await asking(hub, shop, ERR("boom"))
        await hub.send(session, "then that", mode="queue")
        [asked] = await hub.approvals()
        await hub.decide(asked.id, approved=True, by="maria")
        with pytest.raises(Exception, match="boom"):
            await hub.wait(session)
        assert [w.reason for w in bodies(hub, session, MessageWithdrawn)] == ["the run failed"]
        assert await waiting(hub, session) == []

    @pytest.mark.parametrize("everything", [False, True])
    async def test_by_closing(self, tmp_path: Path, shop: Shop, everything: bool) -> None:
        """Closing a session or its hub withdraws the waiting messages."""
        hub = Hub.open(tmp_path / "a.db")
        session = await asking(hub, shop, T("never"))
        await hub.send(session, "then that", mode="queue")
        if not everything:
            await hub.close_session(session, by="maria")
        await hub.close()
        state = fold(open_reader(tmp_path / "a.db").events(session))
        assert (state.status, state.queued) == ("done", [])
        assert any("then that" in (entry.text or "") for entry in state.transcript)

    async def test_closing_session_refuses_messages(self, hub: Hub, shop: Shop) -> None:
        """A-97: a message to a session that is being closed is refused."""
        session = await asking(hub, shop, T("never"))
        live = hub._live.get(session)[1]
        closing = asyncio.create_task(live.aclose())
        await asyncio.sleep(0)
        with pytest.raises(SessionClosedError):
            await hub.send(session, "wait", by="ben")
        await closing
        assert bodies(hub, session, MessageQueued) == []

    async def test_by_a_cancelled_worker(self, hub: Hub, shop: Shop) -> None:
        """Messages dropped by a worker that was cancelled repeatedly are also withdrawn."""
        workers: list[asyncio.Task[None]] = []
        hub.spawn = lambda run, session_id: workers.append(asyncio.ensure_future(run))
        session = await asking(hub, shop, T("again"))
        await hub.send(session, "then that", mode="queue")
        while not workers[0].done():
            workers[0].cancel()
            await asyncio.sleep(0)
        assert bodies(hub, session, MessageWithdrawn) == []
        await hub.send(session, "hello")
        await hub.wait(session)
        assert await waiting(hub, session) == []
        said = [m.text for m in bodies(hub, session, MessageAdded) if m.role == "user"]
        assert said == ["go", "hello"]
        assert len(bodies(hub, session, MessageWithdrawn)) == 1


def queued(name: str, mode: str = "queue") -> MessageQueued:
    return MessageQueued.model_validate({"message_id": name, "mode": mode, "text": name, "by": "ben"})


class TestBranch:
    async def test_branch_omits_waiting_messages(self, hub: Hub, shop: Shop) -> None:
        """A branch has the delivered messages, but not those that waited."""
        session = await asking(hub, shop, T("done"), T("that too"))
        await hub.send(session, "then that", mode="queue")
        [asked] = await hub.approvals()
        await hub.decide(asked.id, approved=True, by="maria")
        await hub.wait(session)
        events = await hub.recorded(session)
        queued = next(e.seq for e in events if isinstance(e.body, MessageQueued))
        said = [e.seq for e in events if isinstance(e.body, MessageAdded) and e.body.message_id]
        for at, users in ((said[0] - 1, ["go"]), (said[0], ["go", "then that"])):
            assert at > queued
            branch = await hub.branch_session(session, at, bot(shop), SessionConfig(REGISTRY))
            state = await hub.session(branch)
            assert state.queued == []
            assert [e.text for e in state.transcript if e.kind == "user"] == users
            await check(hub, branch)


class TestRecord:
    @pytest.mark.parametrize(
        ("ends", "what"),
        [
            (MessageAdded(role="user", text="x", message_id="m9"), "message 'm9' does not wait"),
            (MessageWithdrawn(message_id="m9", reason="x"), "message 'm9' does not wait"),
            (queued("m1"), "message 'm1' waits already"),
        ],
    )
    def test_record_with_impossible_message_is_invalid(self, ends: EventBody, what: str) -> None:
        """A record in which a message waits twice, or ends without waiting, is invalid."""
        with pytest.raises(FoldError, match=what):
            fold(recorded(opening(), queued("m1"), ends))

    def test_list_and_replay_name_messages(self) -> None:
        """The list and the replay name waiting, delivered and withdrawn messages, with the delay."""
        taken = MessageAdded(role="user", text="m1", message_id="m1")
        gone = MessageWithdrawn(message_id="m2", reason="the run failed")
        events = recorded(opening(), queued("m1", "steer"), queued("m2"), taken, gone)
        assert [headline(e) for e in events[1:]] == [
            "message.queued  steer (by ben)  m1",
            "message.queued  queue (by ben)  m2",
            "message  user  m1",
            "message.withdrawn  message m2  the run failed",
        ]
        told = [changes(fold(events[:n]), events[n], fold(events[: n + 1])) for n in range(1, 5)]
        assert told == [
            ["message waits for the next model call"],
            ["message waits for the turn's end"],
            ["message taken up after 2.0 s"],
            ["message not delivered, the run failed: m2"],
        ]
