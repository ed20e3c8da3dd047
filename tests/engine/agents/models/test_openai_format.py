"""Conversations and replies in OpenAI's format."""

from __future__ import annotations

from typing import Any

from interlock.engine.agents import (
    AssistantMessage,
    CallChunk,
    Finish,
    InputChunk,
    ModelRequest,
    ProposedCall,
    TextChunk,
    ToolMessage,
    Usage,
    UserMessage,
)
from interlock.engine.agents.models.openai_format import ReplyPart, ReplyReader, wire_messages
from tests.support.openai_server import Piece, begins_call, chunk, ends, goes_on, says


def read(*pieces: Piece) -> list[Any]:
    """Return all chunks that a reader makes of `pieces`."""
    reader = ReplyReader()
    chunks = [c for piece in pieces for c in reader.read(ReplyPart.model_validate(piece))]
    return [*chunks, *reader.end()]


def calls(*pieces: Piece) -> list[tuple[str, str, dict[str, Any], str | None]]:
    """Return the calls in `pieces`."""
    return [
        (c.call.call_id, c.call.name, c.call.args, c.call.malformed)
        for c in read(*pieces)
        if isinstance(c, CallChunk)
    ]


class TestReply:
    def test_text(self) -> None:
        """Text passes unchanged, followed by the end with the tokens."""
        assert read(*says("Hel", "", "lo")) == [
            TextChunk("Hel"),
            TextChunk("lo"),
            Finish("stop", Usage(input=11, output=7)),
        ]

    def test_calls_in_pieces(self) -> None:
        """Pieces of several calls are assembled by index."""
        assert calls(
            begins_call(0, "a", "bash", '{"x"'),
            begins_call(1, "b", "note"),
            goes_on(0, ": 1}"),
            goes_on(1, '{"y": 2}'),
            *ends("tool_calls"),
        ) == [("a", "bash", {"x": 1}, None), ("b", "note", {"y": 2}, None)]

    def test_arguments_are_reported_as_written(self) -> None:
        """Section 9: each addition to a call is reported at once, with the call's index in the reply."""
        pieces = (
            begins_call(0, "a", "bash", ""),
            goes_on(0, '{"x"'),
            begins_call(0, "b", "note", "{}"),
            goes_on(0, " "),
            *ends("tool_calls"),
        )
        chunks = [c for c in read(*pieces) if isinstance(c, InputChunk)]
        assert [(c.index, c.name, c.text) for c in chunks] == [
            (0, "bash", ""),
            (0, "bash", '{"x"'),
            (1, "note", "{}"),
            (1, "note", " "),
        ]
        assert [name for _, name, _, _ in calls(*pieces)] == ["bash", "note"]

    def test_calls_at_one_index(self) -> None:
        """Some servers send complete calls, all at index 0: a different id is a different call."""
        assert calls(begins_call(0, "a", "bash", "{}"), begins_call(0, "b", "bash", '{"n": 1}')) == [
            ("a", "bash", {}, None),
            ("b", "bash", {"n": 1}, None),
        ]

    def test_call_without_index_or_id(self) -> None:
        """A piece without an index belongs to the last call."""
        piece = chunk({"tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": "{"}}]})
        more = chunk({"tool_calls": [{"function": {"arguments": "}"}}]})
        assert calls(piece, more) == [("a", "bash", {}, None)]

    def test_broken_arguments(self) -> None:
        """Arguments that are not JSON are kept as text."""
        assert calls(begins_call(0, "a", "bash", '{"x": ')) == [("a", "bash", {}, '{"x": ')]

    def test_reasons(self) -> None:
        """A-27: reasons are unified, and calls that end with `stop` count as tool calls."""
        reasons = {
            given: read(*says("x", finish=given))[-1].reason
            for given in ("stop", "length", "content_filter", "tool_calls", "eos")
        }
        assert reasons == {
            "stop": "stop",
            "length": "length",
            "content_filter": "content-filter",
            "tool_calls": "tool-calls",
            "eos": "other",
        }
        assert read(begins_call(0, "a", "bash"), *ends("stop"))[-1].reason == "tool-calls"

    def test_missing_token_count_is_zero(self) -> None:
        """A-27: a missing count is 0."""
        assert read(chunk({"content": "x"}, "stop"))[-1].usage == Usage()


class TestConversation:
    def test_messages(self) -> None:
        """Every message has its counterpart; broken arguments are sent back as empty."""
        request = ModelRequest(
            (
                UserMessage(text="go", by="maria"),
                AssistantMessage(
                    tool_calls=(
                        ProposedCall(call_id="a", name="bash", args={"x": "ü"}),
                        ProposedCall(call_id="b", name="bash", malformed="{"),
                    )
                ),
                ToolMessage(call_id="a", name="bash", text="ok"),
                AssistantMessage(text="done"),
            ),
            system_prompt="Be brief.",
        )
        system, user, called, result, done = wire_messages(request)
        assert system == {"role": "system", "content": "Be brief."}
        assert user == {"role": "user", "content": "go"}
        assert called["content"] is None
        assert [c["function"]["arguments"] for c in called["tool_calls"]] == ['{"x": "\\u00fc"}', "{}"]
        assert result == {"role": "tool", "tool_call_id": "a", "content": "ok"}
        assert done == {"role": "assistant", "content": "done"}
