"""The Python interface of section 10: names, parameters, defaults and accepted values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from pydantic import TypeAdapter

from interlock.engine.agents import (
    Agent,
    C,
    Deny,
    ErrorEvent,
    Event,
    EventName,
    FakeRuntime,
    InMemorySessionStore,
    JsonlSessionStore,
    JustBashRuntime,
    LocalRuntime,
    MessageEvent,
    Override,
    SandboxRuntime,
    ScriptedModel,
    Session,
    StepEvent,
    T,
    TextDelta,
    ToolCallEvent,
    ToolContext,
    ToolResultEvent,
    TurnEnd,
    Usage,
    UserMessage,
    VercelSandboxRuntime,
    loop,
    tool,
)
from interlock.engine.recording.journal_store import JournalStore

from ..script import noted, watched

NEEDED = inspect.Parameter.empty


def positional(fn: Callable[..., object]) -> dict[str, object]:
    """Return the parameters that can be positional, with their defaults."""
    return _parameters(fn, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def keywords(fn: Callable[..., object]) -> dict[str, object]:
    """Return the keyword-only parameters, with their defaults."""
    return _parameters(fn, inspect.Parameter.KEYWORD_ONLY)


def _parameters(fn: Callable[..., object], kind: object) -> dict[str, object]:
    found = inspect.signature(fn).parameters.values()
    return {p.name: p.default for p in found if p.kind is kind and p.name != "self"}


class TestParameters:
    def test_agent(self) -> None:
        """§10: only the model is required; the defaults are a hundred steps, steering and no tools."""
        assert positional(Agent.__init__) == {"model": NEEDED}
        wanted = {
            "system_prompt": None,
            "tools": (),
            "runtime": None,
            "store": None,
            "max_steps": 100,
            "send_mode": "steer",
        }
        given = keywords(Agent.__init__)
        assert {name: given[name] for name in wanted} == wanted
        assert "hooks" in given

    def test_sessions(self) -> None:
        """§10: a new session can have an id, a resumed one must have it; both can have a mode."""
        assert positional(Agent.create_session) == {"id": None}
        assert positional(Agent.resume_session) == {"id": NEEDED}
        for method in (Agent.create_session, Agent.resume_session):
            assert keywords(method)["send_mode"] is None

    def test_session(self) -> None:
        """§10: the methods of a session and their parameters."""
        assert positional(Session.send) == {"text": NEEDED}
        assert keywords(Session.send).items() >= {"mode": None, "abort": None}.items()
        for method in (Session.prompt, Session.steer, Session.follow_up):
            assert positional(method) == {"text": NEEDED}
        assert positional(Session.abort) == {"reason": ""}
        assert positional(Session.wait_for_idle) == {}
        assert positional(Session.on) == {"event": NEEDED, "fn": None}
        assert positional(Session.off) == {"event": NEEDED, "fn": NEEDED}

    def test_loop(self) -> None:
        """§10: the loop takes messages, settings and an optional signal, and is an async generator."""
        assert positional(loop) == {"messages": NEEDED, "config": NEEDED, "abort": None}
        assert inspect.isasyncgenfunction(loop)

    @pytest.mark.parametrize(
        "runtime", [LocalRuntime, SandboxRuntime, JustBashRuntime, VercelSandboxRuntime, FakeRuntime]
    )
    def test_runtime(self, runtime: type) -> None:
        """§10: the methods of all runtimes have the same parameters."""
        assert positional(runtime.exec) == {"command": NEEDED}
        assert keywords(runtime.exec) == dict.fromkeys(("cwd", "timeout", "abort", "on_data"))
        assert positional(runtime.read_file) == {"path": NEEDED}
        assert positional(runtime.write_file) == {"path": NEEDED, "content": NEEDED}

    @pytest.mark.parametrize("store", [InMemorySessionStore, JsonlSessionStore, JournalStore])
    def test_store(self, store: type) -> None:
        """§10: the methods of all stores have the same parameters."""
        assert positional(store.load) == {"session_id": NEEDED}
        assert positional(store.append) == {"session_id": NEEDED, "message": NEEDED}
        assert positional(store.exists) == {"session_id": NEEDED}

    def test_directory(self, tmp_path: Path) -> None:
        """§10: a runtime's directory is a path."""
        assert LocalRuntime(str(tmp_path)).cwd == tmp_path


class TestEvents:
    EXAMPLES = (
        TextDelta(delta="x"),
        MessageEvent(message=UserMessage(text="x")),
        ToolCallEvent(call_id="c", name="n", args={"a": 1}),
        ToolResultEvent(call_id="c", name="n", result="r", is_error=False),
        StepEvent(usage=Usage(input=1, output=2), finish_reason="stop"),
        TurnEnd(messages=(), text="t"),
    )

    @pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.type)
    def test_event_is_parsed_by_its_type(self, event: Event) -> None:
        """§10: an event has its type, which is the listeners' event name, and is parsed by it."""
        assert event.type in get_args(EventName)
        reading: TypeAdapter[Event] = TypeAdapter(Event)
        assert reading.validate_json(event.model_dump_json()) == event

    def test_fields(self) -> None:
        """§10: the fields of each event of the reference."""
        fields = {event.type: set(type(event).model_fields) - {"type"} for event in self.EXAMPLES}
        fields["error"] = set(ErrorEvent.model_fields) - {"type"}
        wanted = {
            "text_delta": {"delta"},
            "message": {"message"},
            "tool_call": {"call_id", "name", "args", "batch", "index"},
            "tool_result": {"call_id", "name", "result", "is_error", "metadata"},
            "step": {"usage", "finish_reason"},
            "turn_end": {"messages", "text", "stop_reason", "undelivered"},
            "error": {"error", "partial_text", "undelivered"},
        }
        assert {name for name in wanted if not wanted[name] <= fields[name]} == set()


class TestListener:
    async def test_decorator(self) -> None:
        """§10: `on` without a function is a decorator that returns the function unchanged."""
        w = await watched(T("x"))

        def heard(event: TextDelta) -> None:
            said.append(event.delta)

        said: list[str] = []
        assert w.session.on("text_delta")(heard) is heard
        assert w.session.on("step", lambda event: None) is w.session
        await w.say("go")
        assert said == ["x"]

    @pytest.mark.parametrize(
        ("answer", "shown"),
        [
            (Deny(reason="no"), 'result c1 err "no"'),
            ({"deny": "no"}, 'result c1 err "no"'),
            (Override(args={"text": "y"}), 'result c1 ok "noted y"'),
            ({"args": {"text": "y"}}, 'result c1 ok "noted y"'),
            (None, 'result c1 ok "noted x"'),
        ],
    )
    async def test_async_listener_decides_calls(self, answer: object, shown: str) -> None:
        """§10: an async listener of calls decides with decision classes or plain dictionaries."""
        w = await watched(C(c1=("note", {"text": "x"})), T("ok"), tools=[noted([])])

        @w.session.on("tool_call")
        async def gate(event: ToolCallEvent) -> object:
            return answer

        assert shown in await w.say("go")


class TestTool:
    async def test_tool_made_from_a_function(self) -> None:
        """§10: name, description and schema come from the function, without the context parameter."""

        @tool(needs_approval=True)
        async def greet(ctx: ToolContext, name: str) -> str:
            """Say hello."""
            return f"Hello, {name}, in {ctx.session_id}"

        assert (greet.name, greet.description, greet.needs_approval) == ("greet", "Say hello.", True)
        assert list(greet.parameters["properties"]) == ["name"]
        w = await watched(C(c1=("greet", {"name": "Ada"})), T("ok"), tools=[greet])
        assert f'result c1 ok "Hello, Ada, in {w.session.id}"' in await w.say("go")
        [call] = [event for event in w.events if isinstance(event, ToolCallEvent)]
        assert call.needs_approval


class TestSession:
    async def test_async_with_closes_the_session(self) -> None:
        """§10: `async with` closes a session; its status, messages and usage can still be read."""
        agent = Agent(ScriptedModel([T("x")]))
        async with await agent.create_session("s") as session:
            assert (session.id, session.status, session.messages) == ("s", "idle", ())
            assert await session.prompt("go") == "x"
        assert session.closed
        assert [message.role for message in session.messages] == ["user", "assistant"]
        assert session.usage == Usage(input=10, output=5)
