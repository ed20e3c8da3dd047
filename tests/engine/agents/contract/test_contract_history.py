"""The contract's agents, sessions and stores: each clause with a case that could break it."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import (
    Agent,
    AssistantMessage,
    C,
    InMemorySessionStore,
    LocalRuntime,
    Message,
    ProposedCall,
    ScriptedModel,
    SessionExistsError,
    SessionNotFoundError,
    T,
    ToolMessage,
    UserMessage,
)

from ..script import Slow, Watched, noted, transcript, watched


class TestCreating:
    async def test_each_agent_has_its_own_store(self) -> None:
        """A-1: each agent has its own store, so another agent does not know its sessions."""
        one, two = Agent(ScriptedModel([T("x")])), Agent(ScriptedModel([]))
        await (await one.create_session("s")).prompt("go")
        assert await one.store.exists("s")
        with pytest.raises(SessionNotFoundError):
            await two.resume_session("s")

    async def test_default_limit_is_a_hundred_steps(self) -> None:
        """A-1, A-62: by default a run has at most a hundred model calls."""
        model = ScriptedModel(lambda messages: C(note={}))
        agent = Agent(model, tools=[noted([])])
        session = await agent.create_session()
        await session.prompt("go")
        assert len(model.requests) == 100

    async def test_default_working_directory_is_the_process_directory(
        self, tmp_path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A-1: without a runtime, tools work on this machine, in the process's directory."""
        monkeypatch.chdir(tmp_path)
        w = await watched(C(c1=("bash", {"command": "pwd"})), T("ok"))
        assert isinstance(w.agent.runtime, LocalRuntime)
        assert f'result c1 ok "{tmp_path.resolve()}\n"' in await w.say("go")

    async def test_taken_id_does_not_change_the_store(self) -> None:
        """A-4: requesting a taken id changes nothing, and the conversation can be resumed."""
        agent = Agent(ScriptedModel([T("Hello"), T("Again")]))
        await (await agent.create_session("x")).prompt("Hi")
        with pytest.raises(SessionExistsError):
            await agent.create_session("x")
        assert transcript(await agent.store.load("x")) == ['user "Hi"', 'assistant "Hello"']
        await (await agent.resume_session("x")).prompt("More")
        assert len(await agent.store.load("x")) == 4

    async def test_unused_session_is_not_stored(self) -> None:
        """A-10: waiting on and closing an unused session stores nothing either."""
        agent = Agent(ScriptedModel([]))
        async with await agent.create_session("quiet") as session:
            await session.wait_for_idle()
        assert not await agent.store.exists("quiet")
        with pytest.raises(SessionNotFoundError, match=r"^Session not found: quiet$"):
            await agent.resume_session("quiet")


class TestResuming:
    async def test_history_without_existence(self) -> None:
        """A-6: only a session that has no history and does not exist cannot be resumed."""

        class Forgetful(InMemorySessionStore):
            async def exists(self, session_id: str) -> bool:
                return False

        store = Forgetful()
        await store.append("s", UserMessage(text="Hi"))
        session = await Agent(ScriptedModel([]), store=store).resume_session("s")
        assert transcript(session.messages) == ['user "Hi"']

    async def test_another_agent_continues_the_stored_messages(self) -> None:
        """A-7: another agent on the same store continues with exactly the stored messages as prompt."""
        store = InMemorySessionStore()
        first = Agent(ScriptedModel([T("Hello back")]), store=store)
        await (await first.create_session("sess-1")).prompt("Hi")
        second = Agent(ScriptedModel([T("again")]), store=store)
        w = Watched(second, await second.resume_session("sess-1"))
        await w.say("Hello again")
        assert w.prompt(1) == ['user "Hi"', 'assistant "Hello back"', 'user "Hello again"']
        assert w.model.requests[0].messages == (
            UserMessage(text="Hi"),
            AssistantMessage(text="Hello back"),
            UserMessage(text="Hello again"),
        )

    async def test_mode_of_a_resumed_session(self) -> None:
        """A-8: a resumed session can have its own mode; by default it has the agent's."""
        store = InMemorySessionStore()
        await store.append("s", UserMessage(text="0"))
        prompts: list[int] = []
        for mode in ("steer", None):
            model = ScriptedModel([T("a"), T("b")])
            session = await Agent(model, store=store, send_mode="queue").resume_session(
                "s", send_mode=mode
            )
            before = len(session.messages)
            session.send("1")
            session.send("2")
            await session.wait_for_idle()
            prompts.append(len(model.requests[0].messages) - before)
        assert prompts == [2, 1]


class TestStore:
    async def test_sessions_are_kept_apart(self) -> None:
        """A-9: messages exist only under the id they were appended to, in the order of appending."""
        store = InMemorySessionStore()
        said: list[Message] = [
            UserMessage(text="1"),
            AssistantMessage(tool_calls=(ProposedCall(call_id="c", name="bash"),)),
            ToolMessage(call_id="c", name="bash", text="2"),
        ]
        for message in said:
            await store.append("a", message)
        await store.append("b", UserMessage(text="other"))
        assert await store.load("a") == said
        assert [m.text for m in await store.load("b")] == ["other"]
        assert not await store.exists("c")

    async def test_loading_creates_nothing(self) -> None:
        """A-9: loading an unknown session does not create it."""
        store = InMemorySessionStore()
        await store.load("x")
        assert not await store.exists("x")

    async def test_messages_of_session_are_a_copy(self) -> None:
        """A-9, A-12: `session.messages` is a copy of the messages that the store returned."""
        store = InMemorySessionStore()
        call = ProposedCall(call_id="c", name="bash", args={"deep": {"a": [1]}})
        await store.append("s", AssistantMessage(tool_calls=(call,)))
        await store.append("s", ToolMessage(call_id="c", name="bash", text="ok"))
        w = Watched(agent := Agent(ScriptedModel([T("x")]), store=store), await agent.resume_session("s"))
        w.session.messages[0].tool_calls[0].args["deep"]["a"].append(2)
        await w.say("go")
        assert w.model.requests[0].messages[0].tool_calls[0].args == {"deep": {"a": [1]}}

    async def test_changes_to_turn_end_messages_have_no_effect(self) -> None:
        """A-9, A-12: changes to a turn end's messages affect neither the store nor the next prompt."""
        w = await watched(C(c1=("bash", {"command": "echo hi"})), T("ok"), T("ok"))

        def change(event: object) -> None:
            for message in event.messages:
                for call in getattr(message, "tool_calls", ()):
                    call.args["command"] = "echo changed"

        w.session.on("turn_end", change)
        await w.say("go")
        await w.say("again")
        for messages in (await w.agent.store.load(w.session.id), w.model.requests[2].messages):
            assert messages[1].tool_calls[0].args == {"command": "echo hi"}


class TestOrder:
    async def test_prompt_equals_the_store(self) -> None:
        """A-12: each prompt equals the content of the store at the time of the model call."""
        store = InMemorySessionStore()
        held: list[list[str]] = []

        async def look(event: object) -> None:
            held.append(transcript(await store.load("s")))

        agent = Agent(
            ScriptedModel([T("let me") + C(c1=("note", {}), c2=("nope", {})), T("done"), T("more")]),
            tools=[noted([])],
            store=store,
        )
        w = Watched(agent, await agent.create_session("s"))
        w.session.on("step_start", look)
        await w.say("1")
        await w.say("2")
        assert held == [w.prompt(1), w.prompt(2), w.prompt(3)]


class TestSending:
    async def test_message_is_routed_when_send_returns(self) -> None:
        """A-70: when `send` returns, a message has started a run, steers it, or is queued."""
        w = await watched(T("A"), T("B"))
        assert w.session.waiting == ()
        w.session.send("go")
        assert (w.session.status, w.session.waiting) == ("busy", ("go",))
        w.session.send("q", mode="queue")
        w.session.send("s", mode="steer")
        assert w.session.waiting == ("go", "s", "q")
        await w.session.wait_for_idle()
        assert w.prompt(1) == ['user "go"', 'user "s"']
        assert w.prompt(2)[-1] == 'user "q"'

    async def test_idle_session_runs_without_a_waiter(self) -> None:
        """A-70: an idle session runs without a waiter."""
        w = await watched(T("x"))
        ended = asyncio.Event()
        w.session.on("turn_end", lambda e: ended.set())
        w.session.send("go")
        async with asyncio.timeout(10):
            await ended.wait()
        assert w.turn_end.text == "x"

    @pytest.mark.parametrize("mode", ["steer", "queue"])
    async def test_idle_session_starts_in_either_mode(self, mode: str) -> None:
        """A-70: for an idle session the mode is irrelevant: the message starts a run."""
        w = await watched(T("x"))
        assert w.session.send("go", mode=mode) is None
        await w.session.wait_for_idle()
        assert w.prompt(1) == ['user "go"']

    async def test_never_blocks_while_a_tool_runs(self) -> None:
        """A-70: sending in either mode while a tool runs returns None and starts no second run."""
        slow = Slow()
        w = await watched(C(c1=("slow", {})), T("A"), T("B"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        assert w.session.send("q", mode="queue") is None
        assert w.session.send("s", mode="steer") is None
        assert w.session.waiting == ("s", "q")
        assert len(w.model.requests) == 1
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert len([e for e in w.events if e.type == "turn_end"]) == 1
