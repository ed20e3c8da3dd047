"""Client of an agent node: one reply to a conversation, from any model of the agents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from pydantic import BaseModel, JsonValue

from ...agents.errors import ModelError
from ...agents.events import Usage
from ...agents.messages import Message, ProposedCall
from ...agents.models.base import CallChunk, Finish, Model, ModelRequest, TextChunk, ToolSpec
from ...agents.models.litellm_model import LitellmModel
from ...agents.models.model_url import parse_model_name

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ...agents.models.base import Chunk

NATIVE_SCHEMA = frozenset({"openai", "anthropic", "gemini", "ollama_chat"})
"""Providers that accept a schema for the reply; others get it as text (P-139)."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of every call: the system prompt, and either tools or the model of the reply."""

    preamble: str
    tools: tuple[ToolSpec, ...] = ()
    output: type[BaseModel] | None = None
    session_id: str = ""

    @property
    def output_schema(self) -> dict[str, JsonValue] | None:
        """JSON Schema of the reply, if it must be JSON."""
        return None if self.output is None else self.output.model_json_schema()


@dataclass(frozen=True, slots=True)
class ClientReply:
    """Text of the model's reply, and the calls it proposes."""

    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    usage: Usage = field(default_factory=Usage)


class Client(Protocol):
    """A model as seen by one agent. `execute` raises the model's errors."""

    async def execute(self, messages: Sequence[Message]) -> ClientReply: ...


class ClientFactory(Protocol):
    """Creates clients; a flow's own factory replaces the models that its agents name (P-59)."""

    def create(self, model_url: str, options: ClientOptions) -> Client: ...


class ModelClients:
    """Default factory, which creates litellm's models by URL. Raises `InvalidModelUrlError`."""

    def create(self, model_url: str, options: ClientOptions) -> Client:
        target = parse_model_name(model_url)
        native = target.model.partition("/")[0] in NATIVE_SCHEMA
        if options.output is None or not native:
            return ModelClient(LitellmModel(model_url), options)
        # litellm takes the class itself and converts it to the form that each provider needs.
        model = LitellmModel(model_url, response_format=cast("JsonValue", options.output))
        return ModelClient(model, options, describe_output=False)


class ModelClient:
    """A client for any model of the agents; `describe_output` puts the reply's schema into words."""

    def __init__(self, model: Model, options: ClientOptions, *, describe_output: bool = True) -> None:
        self._model = model
        self._options = options
        self._prompt = options.preamble
        if describe_output and options.output is not None:
            schema = json.dumps(options.output_schema, ensure_ascii=False)
            self._prompt += f"\n\nAnswer with nothing but JSON that fits this JSON Schema:\n{schema}"

    async def execute(self, messages: Sequence[Message]) -> ClientReply:
        """Call the model once. Raises the model's errors."""
        request = ModelRequest(
            messages=tuple(messages),
            system_prompt=self._prompt,
            tools=self._options.tools,
            session_id=self._options.session_id,
        )
        text = ""
        calls: list[ProposedCall] = []
        finish: Finish | None = None
        stream = cast("AsyncGenerator[Chunk, None]", self._model.stream(request))
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextChunk():
                        text += chunk.text
                    case CallChunk():
                        calls.append(chunk.call)
                    case Finish():
                        finish = chunk
                    case _:
                        pass
        if finish is None:
            raise ModelError(f"{self._model.name}: the reply ended before it was complete")
        return ClientReply(text, tuple(calls), finish.usage)
