"""Interface of models for the loop, independent of their provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

from pydantic import JsonValue

from ..events import FinishReason, Usage
from ..messages import Message, ProposedCall


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


Purpose: TypeAlias = Literal["turn", "summary"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model: the conversation so far and the tools it may use.

    `purpose` distinguishes a step of a turn from the request for a summary, with which a session is
    compacted. A request for a summary has its own system prompt, one user message and no tools.
    """

    messages: tuple[Message, ...]
    system_prompt: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    session_id: str = ""
    purpose: Purpose = "turn"


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A fragment of text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningChunk:
    """A fragment of the model's reasoning before its reply; never part of the conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class InputChunk:
    """A fragment of a tool call's arguments while they are written; the whole `CallChunk` follows.

    `index` counts the calls of the reply from 0. A call's first fragment may be empty to mark its start.
    Streamed, but never part of the conversation.
    """

    index: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class CallChunk:
    """A complete tool call. The loop replaces an empty or already used call id."""

    call: ProposedCall


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of the reply; always the last chunk.

    `priced` is false if the cost of the reply is unknown: a session with a cost limit does not continue
    then.
    """

    reason: FinishReason = "stop"
    usage: Usage = field(default_factory=Usage)
    priced: bool = True


Chunk: TypeAlias = TextChunk | ReasoningChunk | InputChunk | CallChunk | Finish


@runtime_checkable
class Model(Protocol):
    """A language model.

    `stream` yields the reply's chunks as they arrive, and raises errors before or between them. It is
    closed early if the run is aborted.
    """

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]: ...


@runtime_checkable
class PricedModel(Protocol):
    """A model that can check whether its replies have a known cost; only such a model can have a limit.

    `check_price` raises `ModelError` with the reason if the cost will be unknown. It may take seconds,
    and is called in another thread.
    """

    def check_price(self) -> None: ...


def parse_call(call_id: str, name: str, arguments: str) -> ProposedCall:
    """Parse a call from the arguments' text, which may be anything.

    Empty text means no arguments. Text that is not a JSON object, or that UTF-8 cannot encode, is kept as
    `malformed`, for the model to correct.
    """
    if not arguments.strip():
        return ProposedCall(call_id=call_id, name=name)
    try:
        document: object = json.loads(arguments, parse_constant=_reject_constant)
        json.dumps(document, ensure_ascii=False).encode()
        if isinstance(document, dict):
            args = cast("dict[str, JsonValue]", document)
            return ProposedCall(call_id=call_id, name=name, args=args)
    except (ValueError, RecursionError):
        pass
    return ProposedCall(call_id=call_id, name=name, malformed=arguments)


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
