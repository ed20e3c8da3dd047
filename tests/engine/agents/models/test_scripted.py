"""The scripted model."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.engine.agents import (
    C,
    CallChunk,
    Chunk,
    Finish,
    Message,
    ModelRequest,
    Reply,
    ScriptedModel,
    T,
    TextChunk,
    ToolMessage,
    Usage,
    UserMessage,
)

from ..script import watched


async def chunks(model: ScriptedModel, *messages: Message) -> list[Chunk]:
    """Return the chunks of one reply."""
    return [chunk async for chunk in model.stream(ModelRequest(messages))]


class TestScript:
    async def test_text_and_calls(self) -> None:
        """A reply gives its deltas, calls and end; each reply uses ten tokens in and five out."""
        model = ScriptedModel([T("a", "b") + C(c1=("bash", {"command": "ls"}))])
        text_a, text_b, call, end = await chunks(model)
        assert (text_a, text_b) == (TextChunk("a"), TextChunk("b"))
        assert isinstance(call, CallChunk)
        assert (call.call.call_id, call.call.name, call.call.args) == ("c1", "bash", {"command": "ls"})
        assert end == Finish("tool-calls", Usage(input=10, output=5))

    async def test_ids(self) -> None:
        """Calls without an id are numbered over the lifetime of the model."""
        model = ScriptedModel([C(bash={}) + C(bash={}), C(bash={})])
        ids = [
            c.call.call_id for c in await chunks(model) + await chunks(model) if isinstance(c, CallChunk)
        ]
        assert ids == ["call-1", "call-2", "call-3"]

    async def test_own_ending(self) -> None:
        """A reply can end with another reason and usage."""
        [end] = await chunks(ScriptedModel([Reply(finish="length", usage=Usage(input=1, output=2))]))
        assert end == Finish("length", Usage(input=1, output=2))


class TestPolicy:
    async def test_function_chooses_the_reply(self) -> None:
        """A function chooses the reply by the conversation so far."""

        def policy(messages: Sequence[Message]) -> Reply:
            match messages[-1]:
                case UserMessage(text=text):
                    return C(bash={"command": f"echo {text}"})
                case ToolMessage(text=text):
                    return T(f"it said {text.strip()}")
                case _:
                    return T("?")

        w = await watched()
        w.agent.model = ScriptedModel(policy)
        session = await w.agent.create_session()
        assert await session.prompt("moo") == "it said moo"
        assert len(w.model.requests) == 2
