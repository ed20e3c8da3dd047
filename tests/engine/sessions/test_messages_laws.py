"""Laws of messages to a working agent whose host can die at any event."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.engine.agents import Agent, C, Message, Reply, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalRequested,
    JournalEvent,
    MessageAdded,
    MessageQueued,
    MessageWithdrawn,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.conversation import conversation
from interlock.engine.sessions.config import SessionConfig

from ...support.laws import examples
from ..history.support.recording import approval, registry

NETS = registry(approval("ask"))
CALLS = {
    "work": lambda: C(work={}),
    "ask": lambda: C(ask={}),
    "both": lambda: C(one=("work", {}), two=("ask", {}), three=("work", {})),
    "talk": lambda: T("well ", "well"),
}
REPLIES = st.lists(st.sampled_from(list(CALLS)), max_size=6)
MOVES = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 4), st.integers(0, 12)),
        st.sampled_from(("steer", "queue", "steer", "queue", "abort", "yes", "no", "rest")),
    ),
    min_size=2,
    max_size=10,
)
Moves = list[tuple[tuple[int, int], str]]


NOW, SOON, LATER = (0, 0), (0, 9), (4, 0)


async def turns(number: int) -> None:
    """Let other tasks run for some turns of the loop."""
    for _ in range(number):
        await asyncio.sleep(0)


class Life:
    """A session under its own hub, and everything sent to it."""

    def __init__(self, path: Path, replies: Sequence[str]) -> None:
        self.hub = Hub.open(path)
        self.replies = list(replies)
        self.prompts: list[Sequence[Message]] = []
        self.sent: list[tuple[str, str]] = []
        self.ran: list[str] = []
        self.sending: list[asyncio.Task[None]] = []

    def agent(self) -> Agent:
        """An agent whose model gives the scripted replies and then says that it is done."""

        def reply(messages: Sequence[Message]) -> Reply:
            self.prompts.append(tuple(messages))
            return CALLS[self.replies.pop(0)]() if self.replies else T("done")

        @tool
        async def work(ctx: ToolContext) -> str:
            """Work for a moment."""
            self.ran.append(ctx.call_id)
            await turns(20)
            return "worked"

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Do something that needs approval."""
            self.ran.append(ctx.call_id)
            return "asked"

        return Agent(ScriptedModel(reply), name="bot", tools=[work, ask])

    async def move(self, what: str) -> None:
        match what:
            case "steer" | "queue":
                text = f"{what} {len(self.sent)}"
                self.sent.append((what, text))
                send = self.hub.send("s1", text, by="maria", mode=what)
                self.sending.append(asyncio.create_task(send))
            case "abort":
                await self.hub.abort("s1", "enough")
            case "rest":
                await self.settled()
            case _:
                for request in await self.hub.approvals():
                    await self.hub.decide(request.id, approved=what == "yes", by="ben")

    async def settled(self) -> None:
        """Approve every request until the session is idle; by then all messages are accepted."""
        events = self.hub.subscribe()

        async def answer() -> None:
            async for event in events:
                if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                    await self.hub.decide(event.body.approval_id, approved=True, by="ben")

        answering = asyncio.create_task(answer())
        await self.move("yes")
        async with asyncio.timeout(30):
            await asyncio.gather(*self.sending)
            await self.hub.wait("s1")
        events.close()
        await answering

    async def check(self) -> None:
        """Check that record, inbox, conversation and prompts agree (A-77)."""
        events = await self.hub.recorded("s1")
        hosted, session = self.hub._live.get("s1")
        assert fold(events) == hosted.state
        said = await hosted.load("s1")
        assert said == list(session.messages)
        for prompt in self.prompts:
            assert list(prompt) == said[: len(prompt)]
        open_ = [m.call_id for m in said if m.role == "tool"]
        asked = [c.call_id for m in said if m.role == "assistant" for c in m.tool_calls]
        assert open_ == asked
        assert set(Counter(self.ran).values()) <= {1}
        assert hosted.state.queued == []
        assert session.waiting_messages == ()

    def watch(self) -> None:
        """After each event, check that messages waiting in the state are in the inbox or withdrawn."""
        hosted, session = self.hub._live.get("s1")
        publish = hosted.publish

        def checked(event: object, session_id: str) -> None:
            publish(event, session_id)
            asyncio.get_running_loop().call_soon(look)

        def look() -> None:
            waits = {id(m) for m in session.waiting_messages}
            sending = hosted.sending
            for queued in hosted.state.queued:
                if queued.id not in sending._ending and id(sending._waiting[queued.id]) not in waits:
                    assert session._run is None or session._run.signal.aborted

        hosted.publish = checked


def accepted_and_withdrawn(events: Sequence[JournalEvent]) -> tuple[list[str], list[str]]:
    """Return the texts that a record accepted, and those it withdrew."""
    texts: dict[str, str] = {}
    accepted: list[str] = []
    back: list[str] = []
    for event in events:
        match event.body:
            case MessageQueued(message_id=i, text=text):
                texts[i] = text
                accepted.append(text)
            case MessageAdded(role="user", message_id=None, text=str(text)):
                accepted.append(text)
            case MessageWithdrawn(message_id=i):
                back.append(texts[i])
            case _:
                pass
    return accepted, back


def user_texts(messages: Sequence[Message]) -> list[str]:
    return [m.text for m in messages if m.role == "user"]


def in_order(texts: Sequence[str], sent: Sequence[str]) -> bool:
    """Return whether the texts of each mode are in the order in which they were sent."""
    return all(
        [t for t in texts if t.startswith(mode)] == [t for t in sent if t.startswith(mode) and t in texts]
        for mode in ("steer", "queue")
    )


def moment(events: Sequence[JournalEvent], death: float, amid: bool) -> int:
    """Return after how many events the host dies; `amid` means while most messages wait."""
    waits = [len(fold(events[: n + 1]).queued) for n in range(len(events))]
    found = [n for n, number in enumerate(waits, 1) if not amid or number == max(waits)]
    return found[round(death * (len(found) - 1))]


class TestLaws:
    # A message of each mode waits during an open request, and the host dies at that moment.
    @example(["ask"], [(NOW, "steer"), (LATER, "queue"), (SOON, "queue")], 1.0, True, ["talk"])
    @example(["both"], [(NOW, "queue"), (LATER, "abort"), (NOW, "steer")], 0.4, False, [])
    @settings(max_examples=examples(60, usual=8), deadline=None)
    @given(REPLIES, MOVES, st.floats(0, 1), st.booleans(), REPLIES)
    def test_each_message_is_delivered_once(
        self, empty: Path, replies: list[str], moves: Moves, death: float, amid: bool, then: list[str]
    ) -> None:
        """A-63, A-70, A-77: the record contains exactly the accepted messages. After a death at any
        event, each is in the conversation exactly once, in the order of its mode, unless it was
        withdrawn."""

        async def play(folder: Path) -> None:
            life = Life(Path(shutil.copy(empty, folder / "a.db")), replies)
            await life.hub.open_session(life.agent(), SessionConfig(NETS), session_id="s1")
            life.watch()
            for (commits, ticks), what in moves:
                for _ in range(commits):
                    await life.hub._live.get("s1")[0].record()  # takes as long as a commit
                await turns(ticks)
                await life.move(what)
            await life.settled()
            await life.check()
            events = await life.hub.recorded("s1")
            await life.hub.close()
            accepted, back = accepted_and_withdrawn(events)
            sent = [text for _, text in life.sent]
            assert sorted(accepted) == sorted(sent)
            said = user_texts(conversation(events))
            assert Counter(said) == Counter(accepted) - Counter(back)
            assert in_order(said, sent)

            last = moment(events, death, amid)
            with Journal.open(shutil.copy(empty, folder / "b.db")) as journal:
                for event in events[:last]:
                    journal.write("s1", event.body)
            second = Life(folder / "b.db", then)
            accepted, back = accepted_and_withdrawn(events[:last])
            await second.hub.resume_session("s1", second.agent(), SessionConfig(NETS))
            second.watch()
            await second.settled()
            await second.check()
            session = second.hub._live.get("s1")[1]
            said = user_texts(session.messages)
            assert Counter(said) == Counter(accepted) - Counter(back)
            assert in_order(said, sent)
            await second.hub.close()

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(play(Path(folder)))
