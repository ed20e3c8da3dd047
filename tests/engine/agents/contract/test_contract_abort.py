"""Aborting and closing at moments that other tests do not cover."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine.agents import (
    AbortSignal,
    Agent,
    BashTool,
    C,
    CallChunk,
    Chunk,
    Event,
    Hooks,
    LocalRuntime,
    LoopConfig,
    MessageEvent,
    ModelRequest,
    ProposedCall,
    ScriptedModel,
    T,
    TextChunk,
    ToolProgress,
    UserMessage,
    loop,
)

from ..script import Watched, alive, noted, pid_in, shown, until, watched


class TestBeforeAnything:
    async def test_no_step_begins(self) -> None:
        """A-93: if the signal is already set, no model call begins and no hook is called."""
        asked: list[ModelRequest] = []
        w = await watched(T("never"), hooks=Hooks(before_model_call=asked.append))
        stop = AbortSignal()
        stop.abort()
        w.session.send("go", abort=stop)
        await w.session.wait_for_idle()
        assert [shown(event) for event in w.events] == [
            "status busy",
            "turn_start",
            'user "go"',
            'turn_end("")',
            "status idle",
        ]
        assert (asked, w.model.requests) == ([], [])


class TestWhileTheModelSpeaks:
    async def test_complete_call_of_a_cut_reply_is_dropped(self) -> None:
        """A-95: if a reply is cut short, a call that is already complete is dropped as well."""

        class Stuck:
            name = "stuck"

            async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
                yield TextChunk("a")
                yield CallChunk(ProposedCall(call_id="c1", name="note"))
                yield TextChunk("b")
                await asyncio.Event().wait()

        ran: list[str] = []
        agent = Agent(Stuck(), tools=[noted(ran)])
        w = Watched(agent, await agent.create_session())
        w.session.on("text_delta", lambda e: w.session.abort() if e.delta == "b" else None)
        seen = await w.say("go")
        assert seen == ['user "go"', 'delta "a"', 'delta "b"', 'assistant "ab"', 'turn_end("ab")']
        assert await w.stored() == ['user "go"', 'assistant "ab"']
        assert ran == []


class TestBetweenReplyAndTools:
    @pytest.mark.parametrize(
        ("moment", "decided"),
        [("message", []), ("step", []), ("tool_call", ["tool_call c1"])],
    )
    async def test_no_tool_starts(self, moment: str, decided: list[str]) -> None:
        """A-96: after an abort no call is decided, none starts, and each result is `Aborted`."""
        ran: list[str] = []
        w = await watched(T("x") + C(c1=("note", {}), c2=("note", {})), T("never"), tools=[noted(ran)])

        def stop(event: Event) -> None:
            if not (isinstance(event, MessageEvent) and event.message.role == "user"):
                w.session.abort()

        w.session.on(moment, stop)
        assert (await w.say("go"))[4:] == [
            *decided,
            'result c1 err "Aborted"',
            'result c2 err "Aborted"',
            'turn_end("x")',
        ]
        assert ran == []
        assert (len(w.model.requests), w.turn_end.stop_reason) == (1, "aborted")


class TestClosingTheLoop:
    async def test_ends_running_tools(self, tmp_path: Path) -> None:
        """A-97: closing the generator in the middle of a step ends its running tools."""
        command = "echo $$ > pid; echo started; exec sleep 1000"
        config = LoopConfig(
            model=ScriptedModel([C(bash={"command": command})]),
            runtime=LocalRuntime(tmp_path),
            tools={"bash": BashTool},
        )
        events = loop([UserMessage(text="go")], config)
        async for event in events:
            if isinstance(event, ToolProgress):
                break
        pid = await pid_in(tmp_path / "pid")
        assert alive(pid)
        await events.aclose()
        await until(lambda: not alive(pid))

    async def test_closes_the_models_stream(self) -> None:
        """A-97: closing the generator in the middle of a reply closes the model's stream."""
        left = asyncio.Event()

        class Speaks:
            name = "speaks"

            async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
                try:
                    yield TextChunk("a")
                    await asyncio.Event().wait()
                finally:
                    left.set()

        events = loop([UserMessage(text="go")], LoopConfig(model=Speaks(), runtime=LocalRuntime()))
        await anext(events)
        await events.aclose()
        assert left.is_set()
