"""Tools that are async generators: they report progress, and their last value is the result."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pytest
from pydantic import BaseModel

from interlock.engine.agents import (
    C,
    Message,
    ModelTool,
    T,
    ToolContext,
    ToolOutput,
    ToolProgress,
    ToolResultEvent,
    define_tool,
    tool,
)

from .gates import Log
from .script import Watched, shown, until, watched


async def turn_with_call(made: object) -> Watched:
    """Return a finished turn with one call `c1` of the tool `made`."""
    w = await watched(C(c1=("work", {})), T("ok"), tools=[made])
    await w.say("go")
    return w


def reported_progress(w: Watched) -> str:
    """Return the progress that was reported while tools ran."""
    return "|".join(e.text for e in w.events if isinstance(e, ToolProgress))


def only_result(w: Watched) -> ToolResultEvent:
    """Return the only result."""
    [found] = [e for e in w.events if isinstance(e, ToolResultEvent)]
    return found


class TestYielded:
    async def test_texts_are_reported_and_the_last_is_the_result(self) -> None:
        """Part 2: each text is reported while the tool runs; the model reads only the last one."""
        heard = asyncio.Event()

        @tool
        async def work() -> AsyncIterator[str]:
            """Work in steps."""
            yield "one"
            await heard.wait()
            yield "two"

        w = await watched(C(c1=("work", {})), T("ok"), tools=[work])
        w.session.on("tool_progress", lambda e: heard.set())
        await w.say("go")
        assert reported_progress(w) == "one|two"
        assert (only_result(w).result, only_result(w).is_error) == ("two", False)
        kinds = [e.type for e in w.events]
        assert kinds.index("tool_call") < kinds.index("tool_progress") < kinds.index("tool_result")
        assert w.prompt(2)[-1] == 'result c1 ok "two"'

    async def test_output(self) -> None:
        """Part 2: a `ToolOutput` is the result with its metadata, even if a text follows."""

        @tool
        async def work() -> AsyncIterator[object]:
            """Work in steps."""
            yield "working"
            yield ToolOutput("all of it", metadata={"n": 1}, is_error=True)
            yield "cleaning up"

        w = await turn_with_call(work)
        assert (only_result(w).result, only_result(w).metadata, only_result(w).is_error) == (
            "all of it",
            {"n": 1},
            True,
        )
        assert reported_progress(w) == "workingcleaning up"

    async def test_other_values(self) -> None:
        """Part 2: a value that is not text is not reported, and is the result if it is the last."""

        @tool
        async def work() -> AsyncIterator[object]:
            """Work in steps."""
            yield {"half": 1}
            yield {"whole": 2}

        w = await turn_with_call(work)
        assert (reported_progress(w), only_result(w).result) == ("", '{"whole":2}')

    async def test_generator_that_yields_nothing(self) -> None:
        """Part 2: a tool that yields nothing has an empty result."""

        @tool
        async def work() -> AsyncIterator[str]:
            """Yield nothing."""
            for text in ():
                yield text

        assert only_result(await turn_with_call(work)).result == ""

    async def test_arguments_and_context(self) -> None:
        """Part 2: a generator gets its arguments and the context like any tool."""

        @tool
        async def work(ctx: ToolContext, text: str = "x") -> AsyncIterator[str]:
            """Work in steps."""
            yield f"{ctx.call_id} {text}"

        assert only_result(await turn_with_call(work)).result == "c1 x"
        assert work.parameters["properties"]["text"]["default"] == "x"

    async def test_defined_tool(self) -> None:
        """Part 2: the function given to `define_tool` can be a generator."""

        class Input(BaseModel):
            text: str = "x"

        async def execute(given: Input, ctx: ToolContext) -> AsyncGenerator[str, None]:
            yield "one"
            yield given.text

        w = await turn_with_call(define_tool("work", "Work.", Input, execute))
        assert (reported_progress(w), only_result(w).result) == ("onex", "x")

    async def test_execute_of_a_plain_object_can_yield(self) -> None:
        """Part 2, A-129: the `execute` of any object can be a generator."""

        class Work:
            name = "work"
            description = "Work."
            parameters = {"type": "object"}  # noqa: RUF012 - like a user's

            async def execute(self, args: object, ctx: ToolContext) -> AsyncIterator[str]:
                yield "one"
                yield "two"

        w = await turn_with_call(Work())
        assert (reported_progress(w), only_result(w).result) == ("onetwo", "two")

    async def test_gate_settles_the_call_once(self) -> None:
        """Part 2: the gate settles the call once, after the last value."""
        gate = Log()

        @tool
        async def work() -> AsyncIterator[str]:
            """Work in steps."""
            yield "one"
            assert gate.happened == ["decide c1"]
            yield "two"

        w = await watched(C(c1=("work", {})), T("ok"), tools=[work], gate=gate)
        await w.say("go")
        assert gate.settled == [("c1", False, "two", {})]


class TestFailing:
    async def test_exception_is_the_calls_error(self) -> None:
        """A-57: an exception in a generator is the call's error; earlier progress stays reported."""

        @tool
        async def work() -> AsyncIterator[str]:
            """Break after a while."""
            yield "one"
            raise RuntimeError("kaboom")

        w = await turn_with_call(work)
        assert (only_result(w).result, only_result(w).is_error, reported_progress(w)) == (
            "kaboom",
            True,
            "one",
        )

    async def test_abort_ends_the_generator(self) -> None:
        """A-94: an abort ends the generator where it waits, and its clean-up runs."""
        steps: list[str] = []

        @tool
        async def work() -> AsyncIterator[str]:
            """Wait for ever."""
            try:
                yield "one"
                steps.append("waiting")
                await asyncio.Event().wait()
            finally:
                steps.append("closed")

        w = await watched(C(c1=("work", {})), T("never"), tools=[work])
        w.session.send("go")
        await until(lambda: steps == ["waiting"])
        w.session.abort()
        await w.session.wait_for_idle()
        assert steps == ["waiting", "closed"]
        assert shown(only_result(w)) == 'result c1 err "The operation was aborted"'
        assert w.turn_end.stop_reason == "aborted"

    async def test_generator_is_closed_if_the_reader_raises(self) -> None:
        """Part 2: a generator is closed if the reader of its progress raises."""
        closed: list[bool] = []

        async def work() -> AsyncIterator[str]:
            try:
                yield "one"
                yield "two"
            finally:
                closed.append(True)

        def broken(text: str) -> None:
            raise RuntimeError("no screen")

        ctx = ToolContext(None, None, progress=broken)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="no screen"):
            await tool(work).execute({}, ctx)
        assert closed == [True]

    def test_generator_that_is_not_async(self) -> None:
        """Part 2: a plain generator is refused when the tool is made, with the form to use instead."""

        def work() -> object:
            yield "one"

        with pytest.raises(TypeError, match="tool work: a generator must be async; write 'async def'"):
            tool(work)


class TestSeen:
    async def test_tool_can_read_the_conversation(self) -> None:
        """Part 2: a tool can read the conversation up to this step's calls, but not change it."""
        got: list[ToolContext] = []

        @tool
        async def work(ctx: ToolContext) -> str:
            """Look back."""
            got.append(ctx)
            assert ctx.messages[-1].tool_calls[0].args == {}
            ctx.messages[-1].tool_calls[0].args["changed"] = True
            return "ok"

        w = await watched(T("Hello"), C(c1=("work", {})), T("ok"), tools=[work])
        await w.say("Hi")
        await w.say("look")
        [ctx] = got
        assert list(ctx.messages) == list(w.session.messages[:4])
        assert [m.role for m in ctx.messages] == ["user", "assistant", "user", "assistant"]
        assert w.session.messages[3].tool_calls[0].args == {}
        assert ctx.session_id == w.session.id

    async def test_conversation_is_not_copied_unless_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Part 2: the conversation is not copied for a tool that does not read it."""
        looks: list[int] = []

        def first(history: Sequence[Message], count: int) -> Sequence[Message]:
            looks.append(count)
            return history[:count]

        monkeypatch.setattr(importlib.import_module("interlock.engine.agents.turn.loop"), "_first", first)

        @tool(name="work")
        async def blind() -> str:
            """Look at nothing."""
            return "ok"

        @tool(name="work")
        async def curious(ctx: ToolContext) -> str:
            """Look back."""
            return str(len(ctx.messages))

        await turn_with_call(blind)
        assert looks == []
        assert only_result(await turn_with_call(curious)).result == "2"
        assert looks == [2]

    def test_label(self) -> None:
        """Part 2: a tool can have a label for display."""

        class Input(BaseModel):
            pass

        async def work() -> str:
            """Work."""
            return ""

        async def execute(given: Input, ctx: ToolContext) -> str:
            return ""

        made: list[ModelTool] = [
            tool(label="Hard work")(work),
            define_tool("work", "Work.", Input, execute, label="Hard work"),
        ]
        assert [(m.name, m.label) for m in made] == [("work", "Hard work")] * 2
        assert tool(work).label is None
