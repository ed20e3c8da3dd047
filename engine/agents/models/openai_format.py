"""Conversations and streamed replies in the format of OpenAI's chat API, which litellm uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from ..events import FinishReason, Usage
from ..messages import AssistantMessage, Message, SummaryMessage, ToolMessage, UserMessage
from ..turn.compaction import as_user
from .base import (
    CallChunk,
    Chunk,
    Finish,
    InputChunk,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    parse_call,
)

Wire: TypeAlias = dict[str, JsonValue]

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
    "error": "error",
}


def wire_messages(request: ModelRequest) -> list[JsonValue]:
    """The conversation, with the system prompt first."""
    system: list[JsonValue] = []
    if request.system_prompt:
        system.append({"role": "system", "content": request.system_prompt})
    return [*system, *(_wire_message(message) for message in request.messages)]


def _wire_message(message: Message) -> JsonValue:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case SummaryMessage():
            return _wire_message(as_user(message))
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case AssistantMessage():
            wire: Wire = {"role": "assistant", "content": message.text or None}
            if message.tool_calls:
                wire["tool_calls"] = [
                    {
                        "id": call.call_id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": json.dumps(call.args)},
                    }
                    for call in message.tool_calls
                ]
            return wire


def wire_tools(request: ModelRequest) -> list[JsonValue]:
    """The tools that a model may call."""
    return [
        {
            "type": "function",
            "function": {
                "name": spec.name,
                "description": spec.description,
                "parameters": spec.parameters,
            },
        }
        for spec in request.tools
    ]


class _Wire(BaseModel):
    model_config = ConfigDict(from_attributes=True, extra="ignore")


class _Function(_Wire):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(_Wire):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(_Wire):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(_Wire):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _InputTokens(_Wire):
    cached_tokens: int | None = None


class _Tokens(_Wire):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputTokens | None = None


class ReplyPart(_Wire):
    """One part of a streamed reply."""

    choices: list[_Choice] = []
    usage: _Tokens | None = None


class _PartialCall(BaseModel):
    index: int
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class ReplyReader:
    """Assembles a streamed reply: text at once, calls and the end when it is complete."""

    def __init__(self) -> None:
        self._calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}
        self._usage = Usage()
        self._reason: str | None = None

    @property
    def complete(self) -> bool:
        """True if the provider reported the end of the reply."""
        return self._reason is not None

    def read(self, part: ReplyPart) -> Iterator[TextChunk | ReasoningChunk | InputChunk]:
        """Read a part; yield its reasoning, its text and its additions to calls."""
        if part.usage is not None:
            details = part.usage.prompt_tokens_details
            self._usage = Usage(
                input=part.usage.prompt_tokens or 0,
                output=part.usage.completion_tokens or 0,
                cached=(details.cached_tokens if details is not None else None) or 0,
            )
        for choice in part.choices[:1]:
            self._reason = choice.finish_reason or self._reason
            if choice.delta is None:
                continue
            if choice.delta.reasoning_content:
                yield ReasoningChunk(choice.delta.reasoning_content)
            if choice.delta.content:
                yield TextChunk(choice.delta.content)
            for delta in choice.delta.tool_calls or []:
                if (chunk := self._add_delta(delta)) is not None:
                    yield chunk

    def end(self, cost: float = 0.0, *, priced: bool = True) -> Iterator[Chunk]:
        """Yield the calls in the order of their start, and the end. `cost` is in US dollars, if known."""
        for call in self._calls:
            yield CallChunk(parse_call(call.call_id, call.name, call.arguments))
        reason = _REASONS.get(self._reason or "", "other")
        # Some servers report "stop" after tool calls; the presence of calls decides.
        usage = self._usage.model_copy(update={"cost": cost})
        reason = "tool-calls" if self._calls and reason == "stop" else reason
        yield Finish(reason, usage, priced=priced)

    def _add_delta(self, delta: _CallDelta) -> InputChunk | None:
        """Add to the call at the delta's index; another id at the same index starts another call."""
        index = delta.index if delta.index is not None else max(self._by_index, default=0)
        call = self._by_index.get(index)
        if call is None or (delta.id and call.call_id and delta.id != call.call_id):
            call = self._by_index[index] = _PartialCall(index=len(self._calls))
            self._calls.append(call)
        call.call_id = call.call_id or delta.id or ""
        if delta.function is None:
            return None
        call.name = call.name or delta.function.name or ""
        fragment = delta.function.arguments or ""
        call.arguments += fragment
        return InputChunk(call.index, call.name, fragment)
