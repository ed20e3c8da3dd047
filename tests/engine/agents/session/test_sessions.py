"""Agents, sessions and stores."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine.agents import (
    Agent,
    AssistantMessage,
    C,
    InMemorySessionStore,
    JsonlSessionStore,
    LocalRuntime,
    ProposedCall,
    ScriptedModel,
    SessionExistsError,
    SessionNotFoundError,
    SessionStore,
    T,
    ToolMessage,
    UserMessage,
)
from interlock.engine.recording.journal_store import JournalStore

from ..script import Watched, noted, transcript, watched


class TestAgent:
    async def test_defaults(self) -> None:
        """A-1: no tools, this machine, a store per agent, a hundred steps, steering."""
        one, two = Agent(ScriptedModel([])), Agent(ScriptedModel([]))
        assert one.tools == ()
        assert isinstance(one.runtime, LocalRuntime)
        assert one.runtime.cwd == Path.cwd()
        assert isinstance(one.store, InMemorySessionStore)
        assert one.store is not two.store
        assert (one.max_steps, one.send_mode, one.name) == (100, "steer", "agent")

    async def test_system_prompt_and_tools_reach_the_model(self) -> None:
        """The model gets the system prompt and each tool's name, description and parameters."""
        w = await watched(T("x"), tools=[noted([])], system_prompt="Be brief.")
        await w.say("go")
        request = w.model.requests[0]
        assert request.system_prompt == "Be brief."
        [spec] = request.tools
        assert (spec.name, spec.description) == ("note", "Note a text.")
        assert spec.parameters["additionalProperties"] is False

    async def test_unknown_mode(self) -> None:
        """An unknown send mode is an error when the agent is created."""
        with pytest.raises(ValueError, match="send_mode is 'steer' or 'queue', not 'shout'"):
            Agent(ScriptedModel([]), send_mode="shout")


class TestCreating:
    async def test_fresh_ids(self) -> None:
        """A-2: sessions without an id get different ones."""
        agent = Agent(ScriptedModel([]))
        one, two = await agent.create_session(), await agent.create_session()
        uuid4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
        assert uuid4.fullmatch(one.id)
        assert uuid4.fullmatch(two.id)
        assert one.id != two.id

    async def test_given_id_and_mode(self) -> None:
        """A-3, A-8: a session has the id and the mode it is given."""
        agent = Agent(ScriptedModel([T("A"), T("B")]))
        session = await agent.create_session(id="my-id", send_mode="queue")
        session.send("1")
        session.send("2")
        await session.wait_for_idle()
        assert session.id == "my-id"
        assert [r.role for r in session.messages] == ["user", "assistant", "user", "assistant"]

    async def test_id_that_exists(self) -> None:
        """A-4: an id that the store already has is an error; with `exist_ok` its session is continued."""
        agent = Agent(ScriptedModel([T("Hello"), T("Again")]))
        w = Watched(agent, await agent.create_session("x"))
        await w.say("Hi")
        with pytest.raises(SessionExistsError, match="Session already exists: x"):
            await agent.create_session("x")
        again = Watched(agent, await agent.create_session("x", exist_ok=True))
        await again.say("More")
        assert again.prompt(2) == ['user "Hi"', 'assistant "Hello"', 'user "More"']

    async def test_own_store_and_runtime(self, tmp_path: Path) -> None:
        """A session can have its own store and runtime."""
        agent = Agent(ScriptedModel([T("x")]))
        store = InMemorySessionStore()
        session = await agent.create_session("s", store=store, runtime=LocalRuntime(tmp_path))
        await session.prompt("go")
        assert await store.exists("s")
        assert not await agent.store.exists("s")

    async def test_unused_session_is_not_stored(self) -> None:
        """A-10: an unused session is not in the store."""
        agent = Agent(ScriptedModel([]))
        session = await agent.create_session()
        assert not await agent.store.exists(session.id)
        with pytest.raises(SessionNotFoundError):
            await agent.resume_session(session.id)


class TestResuming:
    async def test_unknown_session_is_an_error(self) -> None:
        """A-5: resuming an unknown session is an error with its id."""
        with pytest.raises(SessionNotFoundError, match=r"^Session not found: nonexistent$"):
            await Agent(ScriptedModel([])).resume_session("nonexistent")

    async def test_empty_session_can_be_resumed(self) -> None:
        """A-6: an empty session that exists can be resumed."""

        class Empty(InMemorySessionStore):
            async def exists(self, session_id: str) -> bool:
                return True

        session = await Agent(ScriptedModel([]), store=Empty()).resume_session("s")
        assert session.messages == ()

    async def test_history_reaches_the_model(self) -> None:
        """A-7: the model gets the stored conversation and the new message."""
        agent = Agent(ScriptedModel([T("Hello back"), T("x")]))
        await Watched(agent, await agent.create_session("sess-1")).say("Hi")
        w = Watched(agent, await agent.resume_session("sess-1"))
        await w.say("Hello again")
        assert w.prompt(2) == ['user "Hi"', 'assistant "Hello back"', 'user "Hello again"']

    async def test_call_without_a_result(self) -> None:
        """A-32: a call without a stored result gets one before the model is called."""
        store = InMemorySessionStore()
        await store.append("s", UserMessage(text="go"))
        calls = (ProposedCall(call_id="c1", name="bash"), ProposedCall(call_id="c2", name="bash"))
        await store.append("s", AssistantMessage(text="", tool_calls=calls))
        await store.append("s", ToolMessage(call_id="c1", name="bash", text="done"))
        agent = Agent(ScriptedModel([T("ok")]), store=store)
        w = Watched(agent, await agent.resume_session("s"))
        await w.say("and?")
        assert w.prompt(1)[2:] == [
            'result c1 ok "done"',
            'result c2 err "Outcome unknown: the session ended before a result was recorded"',
            'user "and?"',
        ]
        assert transcript(w.turn_end.messages) == ['user "and?"', 'assistant "ok"']


@pytest.fixture(params=["memory", "files", "journal"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    """An empty store, of each kind."""
    match request.param:
        case "memory":
            yield InMemorySessionStore()
        case "files":
            yield JsonlSessionStore(tmp_path)
        case _:
            journal = JournalStore.open(tmp_path / "j.db")
            yield journal
            await journal.close()


class TestStore:
    async def test_round_trip(self, store: SessionStore) -> None:
        """A-9: an unknown id is empty; an appended message is loaded, and the id exists from then on."""
        assert await store.load("x") == []
        assert not await store.exists("x")
        await store.append("x", UserMessage(text="Hi"))
        assert await store.exists("x")
        assert await store.load("x") == [UserMessage(text="Hi")]
        assert not await store.exists("y")

    async def test_store_keeps_its_own_copies(self, store: SessionStore) -> None:
        """A-9: changes to appended or loaded lists and messages do not reach the store."""
        call = ProposedCall(call_id="c", name="bash", args={"command": "ls", "deep": {"a": [1]}})
        message = AssistantMessage(tool_calls=(call,))
        await store.append("x", message)
        message.tool_calls[0].args["command"] = "rm"
        loaded = await store.load("x")
        loaded[0].tool_calls[0].args["deep"]["a"].append(2)
        loaded.clear()
        [kept] = await store.load("x")
        assert kept.tool_calls[0].args == {"command": "ls", "deep": {"a": [1]}}

    async def test_session_continues_from_stored_messages(self, store: SessionStore) -> None:
        """A-4, A-7: a session continues from the stored messages, and can be created only once."""
        agent = Agent(ScriptedModel([T("Hello"), T("Again")]), store=store)
        w = Watched(agent, await agent.create_session("x"))
        await w.say("Hi")
        with pytest.raises(SessionExistsError, match="Session already exists: x"):
            await agent.create_session("x")
        again = Watched(agent, await agent.resume_session("x"))
        await again.say("More")
        assert again.prompt(2) == ['user "Hi"', 'assistant "Hello"', 'user "More"']
        assert await again.stored() == [*again.prompt(2), 'assistant "Again"']

    async def test_message_is_stored_before_its_event(self) -> None:
        """A-11: when an event is reported, its message is already stored."""
        w = await watched(C(note={}), T("ok"), tools=[noted([])])
        stored: list[int] = []

        async def look(event: object) -> None:
            stored.append(len(await w.stored()))

        w.session.on("message", look)
        w.session.on("tool_result", look)
        await w.say("go")
        assert stored == [1, 2, 3, 4]

    async def test_history_is_private(self) -> None:
        """A-12: the conversation cannot be changed from outside."""
        w = await watched(T("x"))
        await w.say("go")
        assert isinstance(w.session.messages, tuple)
        assert w.session.messages[0] is not w.session.messages[0]


@pytest.mark.slow
class TestImport:
    def test_needs_no_model_library(self) -> None:
        """Importing the agents imports neither litellm nor an HTTP client."""
        code = (
            "import sys, interlock.engine.agents as a; a.LitellmModel('openai/gpt-4o'); "
            "print([m for m in ('litellm', 'httpx', 'mcp', 'textual') if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"
