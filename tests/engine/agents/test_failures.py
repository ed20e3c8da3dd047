"""Models that fail, before and during their reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from interlock.engine.agents import (
    ERR,
    Agent,
    C,
    Chunk,
    ErrorEvent,
    Finish,
    ModelError,
    ModelRequest,
    ScriptedModel,
    T,
    TextChunk,
)

from .script import Watched, watched


class TestModelThatRaises:
    async def test_one_error_event(self) -> None:
        """A-90: there is exactly one error event, waiting raises, and there is no turn end."""
        w = await watched(ERR("model crashed"))
        w.session.send("go")
        with pytest.raises(RuntimeError, match="model crashed"):
            await w.session.wait_for_idle()
        assert w.seen == ['user "go"', "error(model crashed)"]

    async def test_original_exception(self) -> None:
        """A-91: the error is the original exception, and nothing of the reply is stored."""
        cause = ConnectionError("refused")
        w = await watched(ERR(cause))
        w.session.send("go")
        with pytest.raises(ConnectionError):
            await w.session.wait_for_idle()
        assert w.error.error is cause
        assert await w.stored() == ['user "go"']

    async def test_failure_during_the_reply(self) -> None:
        """A-92: the run fails; the event has the text so far, which is not stored."""
        w = await watched(T("par", "tial") + ERR("cut off"), T("ok"))
        w.session.send("go")
        with pytest.raises(RuntimeError, match="cut off"):
            await w.session.wait_for_idle()
        assert w.seen == ['user "go"', 'delta "par"', 'delta "tial"', "error(cut off)"]
        assert w.error.partial_text == "partial"
        assert await w.stored() == ['user "go"']
        await w.say("again")
        assert w.prompt(2) == ['user "go"', 'user "again"']

    async def test_text_of_completed_replies_is_not_partial(self) -> None:
        """A-92: text of completed replies is not partial text."""
        w = await watched(T("let me") + C(bash={"command": "true"}), ERR("boom"))
        w.session.send("go")
        with pytest.raises(RuntimeError, match="boom"):
            await w.session.wait_for_idle()
        assert w.error.partial_text == ""

    async def test_raising_delta_listener_fails_the_run(self) -> None:
        """A-32, A-92: a listener that raises on a delta fails the run; its text is not stored."""
        w = await watched(T("par", "tial"))

        def broken(event: object) -> None:
            raise RuntimeError("screen gone")

        w.session.on("text_delta", broken)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="screen gone"):
            await w.session.wait_for_idle()
        assert w.error.partial_text == "par"
        assert await w.stored() == ['user "go"']

    async def test_reply_without_an_end(self) -> None:
        """A stream that ends early is an error, so that an incomplete call never runs."""

        class Stops:
            name = "stops"

            async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
                yield TextChunk("half a")

        agent = Agent(Stops())
        w = Watched(agent, await agent.create_session())
        w.session.send("go")
        with pytest.raises(ModelError, match="stops: the reply ended before it was complete"):
            await w.session.wait_for_idle()
        assert w.error.partial_text == "half a"

    async def test_reply_that_cancels_itself(self) -> None:
        """A cancellation raised by a model is a failure, not an abort."""

        class Cancels:
            name = "cancels"

            async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
                raise asyncio.CancelledError
                yield Finish()

        agent = Agent(Cancels())
        w = Watched(agent, await agent.create_session())
        w.session.send("go")
        with pytest.raises(ModelError, match="cancels: the reply was cancelled"):
            await w.session.wait_for_idle()

    async def test_script_that_runs_out(self) -> None:
        """A scripted model without a reply left raises an error."""
        w = await watched()
        w.session.send("go")
        with pytest.raises(ModelError, match="The script has no reply left"):
            await w.session.wait_for_idle()

    async def test_error_event_as_json(self) -> None:
        """An error event can be serialized."""
        event = ErrorEvent(error=ValueError("x"), partial_text="y")
        assert event.model_dump(mode="json")["error"] == "ValueError: x"


class TestBackPressure:
    async def test_model_waits_for_listeners(self) -> None:
        """A-30: a model is at most one chunk ahead of its listeners."""
        produced: list[int] = []
        ahead: list[int] = []

        class Counting:
            name = "counting"

            async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
                for n in range(5):
                    produced.append(n)
                    yield TextChunk(str(n))
                yield Finish()

        agent = Agent(Counting())
        session = await agent.create_session()

        async def listener(event: object) -> None:
            for _ in range(10):
                await asyncio.sleep(0)
            ahead.append(len(produced))

        session.on("text_delta", listener)
        session.send("go")
        await session.wait_for_idle()
        assert all(n <= heard + 2 for heard, n in enumerate(ahead))


class TestAgentSettings:
    async def test_object_that_cannot_stream_is_refused(self) -> None:
        """An object that cannot stream is refused as model."""
        with pytest.raises(TypeError, match="int is not a model"):
            Agent(3)

    async def test_object_without_a_name_is_refused(self) -> None:
        """An object without a name is refused as tool."""
        with pytest.raises(TypeError, match="is not a tool: it has no 'name'"):
            Agent(ScriptedModel([]), tools=[object()])
