"""The other providers of the table, each in its own protocol, with a real server on loopback."""

from __future__ import annotations

import json

import pytest

from interlock.engine.agents import (
    BashTool,
    CallChunk,
    Chunk,
    Finish,
    InputChunk,
    LitellmModel,
    ModelError,
    ModelRequest,
    TextChunk,
    ToolSpec,
    UserMessage,
)
from tests.support.wire_server import Stream, WireServer, anthropic_reply, gemini_reply, ollama_reply

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:litellm")


async def reply_of(server: WireServer, url: str) -> list[Chunk]:
    """Return the reply of the model at `url`; the server is its base if `url` has none."""
    if url.startswith("ollama"):
        host = server.base_url.removeprefix("http://")
        model = LitellmModel(url.replace("HOST", host))
    else:
        model = LitellmModel(url, api_base=server.base_url, api_key="k")
    spec = ToolSpec("bash", "Run a command.", BashTool.parameters)
    request = ModelRequest((UserMessage(text="go"),), tools=(spec,))
    return [chunk async for chunk in model.stream(request)]


WIRES = [
    ("anthropic://claude-sonnet-4-5", anthropic_reply(), "/v1/messages"),
    ("gemini://gemini-2.5-flash", gemini_reply(), "/models/gemini-2.5-flash:streamGenerateContent"),
    ("ollama://HOST/qwen3:8b", ollama_reply(), "/api/chat"),
]


class TestReply:
    @pytest.mark.variants
    @pytest.mark.parametrize(("url", "stream", "path"), WIRES, ids=["anthropic", "gemini", "ollama"])
    async def test_text_call_and_usage(self, url: str, stream: Stream, path: str) -> None:
        """P-120, P-121: text streams, then the call, and the end has the reason and the tokens."""
        with WireServer(stream) as server:
            *told, call, end = await reply_of(server, url)
        assert [chunk for chunk in told if isinstance(chunk, TextChunk)] == [
            TextChunk("hel"),
            TextChunk("lo"),
        ]
        written = [chunk for chunk in told if isinstance(chunk, InputChunk)]
        assert {(chunk.index, chunk.name) for chunk in written} == {(0, "bash")}
        assert json.loads("".join(chunk.text for chunk in written)) == {"command": "echo hi"}
        assert isinstance(call, CallChunk)
        assert (call.call.name, call.call.args) == ("bash", {"command": "echo hi"})
        assert call.call.call_id
        assert isinstance(end, Finish)
        assert end.reason == "tool-calls"
        assert (end.usage.input, end.usage.output) == (14, 12)
        assert server.paths == [path]

    async def test_cached_tokens_and_cost(self) -> None:
        """Part 2: tokens read from a cache are counted and cost less."""
        with WireServer(anthropic_reply()) as server:
            end = (await reply_of(server, "anthropic://claude-sonnet-4-5"))[-1]
        assert isinstance(end, Finish)
        assert end.usage.cached == 4
        assert end.usage.cost == pytest.approx(10 * 3e-6 + 4 * 3e-7 + 12 * 15e-6)

    async def test_without_prices(self) -> None:
        """Part 2: a model on one's own machine costs nothing."""
        with WireServer(ollama_reply()) as server:
            end = (await reply_of(server, "ollama://HOST/qwen3:8b"))[-1]
        assert isinstance(end, Finish)
        assert end.usage.cost == 0


class TestIncomplete:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("url", "stream"),
        [WIRES[0][:2], WIRES[2][:2]],
        ids=["anthropic", "ollama"],
    )
    async def test_reply_without_an_end_is_an_error(self, url: str, stream: Stream) -> None:
        """A-92: a reply without an end is an error and gives no call."""
        with (
            WireServer(stream.cut) as server,
            pytest.raises(ModelError, match="the reply ended before it was complete"),
        ):
            await reply_of(server, url)
