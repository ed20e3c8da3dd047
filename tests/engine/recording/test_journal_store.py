"""Stores load what was appended, in memory and in a journal."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.agents import (
    Agent,
    AssistantMessage,
    C,
    InMemorySessionStore,
    Message,
    ProposedCall,
    ScriptedModel,
    SessionExistsError,
    T,
    ToolContext,
    ToolMessage,
    UserMessage,
    tool,
)
from interlock.engine.agents.stores.base import StoredSession
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import JournalError
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.journal_store import JournalStore
from interlock.engine.sessions.config import SessionConfig

from ...support.laws import examples
from ..history.support.recording import limit, registry

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.one_of(st.sampled_from(["bash", "deploy"]), TEXTS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.builds(
    ProposedCall,
    call_id=st.sampled_from(["c1", "c2"]) | TEXTS,
    name=NAMES,
    args=st.dictionaries(TEXTS, JSON, max_size=3),
    malformed=st.none() | TEXTS,
)
MESSAGES = st.lists(
    st.one_of(
        st.builds(UserMessage, text=TEXTS, by=st.none() | TEXTS),
        st.builds(AssistantMessage, text=TEXTS, tool_calls=st.lists(CALLS, max_size=3).map(tuple)),
        st.builds(
            ToolMessage,
            call_id=st.sampled_from(["c1", "c2"]) | TEXTS,
            name=NAMES,
            text=TEXTS,
            is_error=st.booleans(),
            ran=st.none() | st.dictionaries(TEXTS, JSON, max_size=3),
        ),
    ),
    max_size=8,
)


@tool
async def note(ctx: ToolContext, text: str = "") -> str:
    """Note a text."""
    return f"noted {text}"


class TestRoundTrip:
    @pytest.mark.slow
    @settings(max_examples=examples(60), deadline=None)
    @given(MESSAGES)
    def test_any_conversation_is_loaded_unchanged(self, empty: Path, messages: list[Message]) -> None:
        """A-9: any appended conversation is loaded unchanged, also by another store."""

        async def both(path: Path) -> None:
            store = JournalStore.open(path)
            for message in messages:
                await store.append("s", message)
            assert await store.load("s") == messages
            assert await store.exists("s") == bool(messages)
            await store.close()
            again = JournalStore.open(path)
            assert await again.load("s") == messages
            await again.close()

        with tempfile.TemporaryDirectory() as folder:
            path = Path(shutil.copy(empty, Path(folder) / "j.db"))
            asyncio.run(both(path))
            if messages:
                assert fold(open_reader(path).events("s")).status == "done"

    async def test_loaded_messages_are_copies(self) -> None:
        """A-9: changing loaded messages does not change the stored ones."""
        store = InMemorySessionStore()
        await store.append("s", UserMessage(text="hi"))
        (await store.load("s")).clear()
        assert await store.load("s") == [UserMessage(text="hi")]


class TestAgentOnAJournal:
    async def test_store_equals_the_next_prompt(self, tmp_path: Path) -> None:
        """A-7, A-77: after a steered run, the store equals the next prompt, in order."""
        store = JournalStore.open(tmp_path / "j.db")
        model = ScriptedModel([C(note={"text": "a"}), T("one"), C(note="[]"), T("two"), T("three")])
        agent = Agent(model, tools=[note], store=store)
        session = await agent.create_session("s")
        session.send("start")
        session.send("and quickly", by="maria")
        session.send("later", mode="queue")
        await session.wait_for_idle()
        assert await store.load("s") == list(session.messages)
        again = await agent.resume_session("s")
        await again.prompt("once more")
        assert list(model.requests[-1].messages) == [*session.messages, UserMessage(text="once more")]
        assert any(
            c.malformed == "[]"
            for m in model.requests[-1].messages
            if isinstance(m, AssistantMessage)
            for c in m.tool_calls
        )
        await store.close()

    async def test_session_of_another_store_can_be_continued(self, tmp_path: Path) -> None:
        """A-4, A-6: a session that another store wrote exists, is listed and can be continued."""
        for word in ("one", "two"):
            store = JournalStore.open(tmp_path / "j.db", agent="writer", model="m")
            agent = Agent(ScriptedModel([T(word)]), store=store)
            session = await agent.create_session("s", exist_ok=True)
            assert await session.prompt(f"say {word}") == word
            with pytest.raises(SessionExistsError):
                await agent.create_session("s")
            await store.close()
        [line] = open_reader(tmp_path / "j.db").sessions()
        assert (line.id, line.agent, line.model, line.status) == ("s", "writer", "m", "done")
        state = fold(open_reader(tmp_path / "j.db").events("s"))
        assert [e.text for e in state.transcript if e.kind != "note"] == [
            "say one",
            "one",
            "say two",
            "two",
        ]

    async def test_replay_shows_outcomes_without_a_gate(self, tmp_path: Path) -> None:
        """Without a gate, a replay still shows whether a call succeeded."""
        store = JournalStore.open(tmp_path / "j.db")
        agent = Agent(ScriptedModel([C(note={}, gone={}), T("ok")]), tools=[note], store=store)
        await (await agent.create_session("s")).prompt("go")
        await store.close()
        state = fold(open_reader(tmp_path / "j.db").events("s"))
        assert [(c.tool, c.status) for c in state.calls.values()] == [
            ("note", "done"),
            ("gone", "failed"),
        ]

    async def test_gated_session_can_be_read_but_not_continued(self, tmp_path: Path) -> None:
        """A session recorded by a hub under nets can be read by a store, but not continued."""
        hub = Hub.open(tmp_path / "j.db")
        agent = Agent(ScriptedModel([T("hello")]), name="bot")
        session = await hub.open_session(agent, SessionConfig(registry(limit("note", 1))), session_id="g")
        await hub.send(session, "hi")
        await hub.wait(session)
        await hub.close()
        store = JournalStore.open(tmp_path / "j.db")
        assert [m.text for m in await store.load("g")] == ["hi", "hello"]
        with pytest.raises(JournalError, match=r"'g' was recorded under 1 net; .* Hub\.resume_session"):
            await store.append("g", UserMessage(text="more"))
        assert len(await store.load("g")) == 2
        await store.close()

    async def test_simultaneous_appends_are_all_kept(self, tmp_path: Path) -> None:
        """Messages appended simultaneously are all kept, and the session is opened once."""
        store = JournalStore.open(tmp_path / "j.db")
        texts = [str(n) for n in range(20)]
        await asyncio.gather(*(store.append("s", UserMessage(text=text)) for text in texts))
        assert sorted(m.text for m in await store.load("s")) == sorted(texts)
        await store.close()


class TestList:
    async def test_in_memory(self) -> None:
        """The list has id, first text, number of messages and time, the latest change first."""
        noon = datetime(2026, 3, 14, 12, tzinfo=UTC)
        times = iter(noon + timedelta(minutes=n) for n in range(9))
        store = InMemorySessionStore(clock=lambda: next(times))
        assert await store.list() == []
        await store.append("a", UserMessage(text="first"))
        await store.append("b", AssistantMessage(text="nobody spoke"))
        await store.append("a", AssistantMessage(text="hello"))
        assert await store.list() == [
            StoredSession("a", "first", 2, noon + timedelta(minutes=2)),
            StoredSession("b", "", 1, noon + timedelta(minutes=1)),
        ]

    async def test_in_a_journal(self, tmp_path: Path) -> None:
        """A journal's list has the same format and omits sessions without messages."""
        hub = Hub.open(tmp_path / "j.db")
        await hub.open_session(Agent(ScriptedModel([]), name="bot"), SessionConfig({}))
        await hub.close()
        store = JournalStore.open(tmp_path / "j.db")
        await store.append("a", AssistantMessage(text="before"))
        await store.append("a", UserMessage(text="first"))
        await store.append("b", UserMessage(text="other"))
        await store.append("a", UserMessage(text="second"))
        listed = await store.list()
        assert [(s.id, s.first_text, s.messages) for s in listed] == [
            ("a", "first", 3),
            ("b", "other", 1),
        ]
        assert listed[0].updated == open_reader(tmp_path / "j.db").session("a").updated
        await store.close()
