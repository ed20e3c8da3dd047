"""The ends of runs, and the isolation of what listeners get."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import (
    AbortSignal,
    Agent,
    AgentError,
    BashTool,
    C,
    LocalRuntime,
    LoopConfig,
    Reply,
    ScriptedModel,
    T,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    UserMessage,
    loop,
    task_tool,
)

from ..script import noted, watched


class TestStopReason:
    async def test_empty_reply_after_tools(self) -> None:
        """A-28, A-63: a run whose last reply is empty is completed, not out of steps."""
        w = await watched(C(c1=("note", {})), Reply(), tools=[noted([])])
        await w.say("go")
        assert w.turn_end.stop_reason == "completed"

    async def test_empty_reply_of_a_subagent(self) -> None:
        """A-28, A-63: a subagent that ends without text is not reported as out of steps."""
        child = Agent(ScriptedModel([C(note={}), Reply()]), name="helper", tools=[noted([])])
        w = await watched(C(c1=("task_helper", {"prompt": "do"})), T("ok"), tools=[task_tool(child)])
        assert 'result c1 ok "(no answer)"' in await w.say("go")

    @pytest.mark.parametrize("mode", ["steer", "queue"])
    async def test_message_waiting_when_steps_are_used_up(self, mode: str) -> None:
        """A-63: if the steps end a run while a message waits, the turn end says `max_steps`."""
        w = await watched(T("A"), T("B"), max_steps=1)
        w.session.on("text_delta", lambda e: w.session.send("S", mode=mode) if e.delta == "A" else None)
        await w.say("go")
        ends = [e.stop_reason for e in w.events if isinstance(e, TurnEnd)]
        assert ends == ["max_steps", "completed"]


class TestCopies:
    async def test_raw_loop_gets_a_copy_of_the_batch(self) -> None:
        """A-47, A-51: changes to a call's batch affect neither the run nor the history."""
        model = ScriptedModel([C(c1=("bash", {"command": "echo hi"})), T("ok")])
        config = LoopConfig(model=model, runtime=LocalRuntime(), tools={"bash": BashTool})
        results = []
        async for event in loop([UserMessage(text="go")], config):
            if isinstance(event, ToolCallEvent):
                event.batch[0].args["command"] = "echo changed"
            if isinstance(event, ToolResultEvent):
                results.append(event.result)
        assert results == ["hi\n"]
        assert model.requests[1].messages[1].tool_calls[0].args == {"command": "echo hi"}

    async def test_listener_gets_a_copy_of_the_metadata(self) -> None:
        """A-9: changes that a listener makes to a result's metadata are not seen by others."""
        w = await watched(C(c1=("bash", {"command": "exit 3"})), T("x"))
        stream = w.session.events()
        w.session.on("tool_result", lambda e: e.metadata.update(exit_code=0))
        await w.say("go")
        await w.session.aclose()
        told = [*w.events, *[e async for e in stream]]
        codes = [e.metadata["exit_code"] for e in told if isinstance(e, ToolResultEvent)]
        assert codes == [3, 3]


class TestListenerThatIsCancelled:
    @pytest.mark.parametrize(
        "name", ["status", "turn_start", "message", "text_delta", "step", "tool_result", "turn_end"]
    )
    async def test_self_raised_cancellation_fails_the_run(self, name: str) -> None:
        """A-32: a listener that raises a cancellation without being cancelled fails the run."""
        w = await watched(T("a") + C(c1=("note", {})), T("b"), tools=[noted([])])

        def cancelled(event: object) -> None:
            raise asyncio.CancelledError

        w.session.on(name, cancelled)
        w.session.send("go")
        with pytest.raises(AgentError, match="cancelled"):
            await w.session.wait_for_idle()
        assert isinstance(w.error.error, AgentError)
        assert w.session.status == "idle"


class TestSeveralAtOnce:
    async def test_signal_set_stops_several_messages(self) -> None:
        """A-93, A-96: if the signal is set, none of several messages reaches the model."""
        w = await watched(T("never"), T("never"))
        signal = AbortSignal()
        signal.abort("changed my mind")
        w.session.send(["1", "2"], abort=signal)
        await w.session.wait_for_idle()
        assert w.model.requests == []
        assert w.turn_end.undelivered == ("2",)
