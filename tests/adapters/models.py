"""Fake models of the frameworks for the programs of their pages: each calls `deploy` and then ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

GIVEN = {"env": "prod"}


def openai_agents() -> object:
    """Return the SDK's own scripted model."""
    from agents.testing import ScriptedModel, assistant_message, function_call

    return ScriptedModel([[function_call("deploy", GIVEN, call_id="c1")], [assistant_message("done")]])


def pydantic_ai() -> object:
    """Return a function model."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: list[object], _: object) -> ModelResponse:
        return ModelResponse([TextPart("done") if len(messages) > 1 else ToolCallPart("deploy", GIVEN)])

    return FunctionModel(answer)  # type: ignore[arg-type]


def langchain() -> object:
    """Return a fake chat model that accepts tools."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolCall

    class FakeModel(GenericFakeChatModel):
        def bind_tools(self, *_: object, **__: object) -> FakeModel:  # type: ignore[override]
            return self

    call = ToolCall(name="deploy", args=GIVEN, id="c1", type="tool_call")
    return FakeModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))


def smolagents() -> object:
    """Return a model that writes code."""
    from smolagents.models import ChatMessage, MessageRole, Model

    class FakeModel(Model):
        answers = iter(['deploy("prod")', 'final_answer("done")'])

        def generate(self, *_: object, **__: object) -> ChatMessage:  # type: ignore[override]
            return ChatMessage(MessageRole.ASSISTANT, f"<code>{next(self.answers)}</code>")

    return FakeModel()


def google_adk() -> object:
    """Return a model of ADK's class."""
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class FakeModel(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:  # type: ignore[override]
            parts = [types.Part(text="done")]
            if not any(p.function_response for c in llm_request.contents for p in c.parts):
                call = types.FunctionCall(id="c1", name="deploy", args=GIVEN)
                parts = [types.Part(function_call=call)]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    return FakeModel(model="fake")


def ag2() -> object:
    """Return the configuration of AG2's own test client."""
    from ag2.events import ToolCallEvent
    from ag2.testing import TestConfig

    call = ToolCallEvent("deploy", arguments=json.dumps(GIVEN))
    return TestConfig(call, "done", raise_tool_errors=False)


def strands() -> object:
    """Return a model of the class of Strands."""
    from strands.models import Model

    class FakeModel(Model):
        calls = iter([GIVEN])

        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *_: Any, **__: Any) -> Any: ...

        async def stream(self, *_: Any, **__: Any) -> Any:
            given = next(self.calls, None)
            start = {} if given is None else {"toolUse": {"toolUseId": "c1", "name": "deploy"}}
            part = {"text": "done"} if given is None else {"toolUse": {"input": json.dumps(given)}}
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": part}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if given is None else "tool_use"}}

    return FakeModel()


MODELS: dict[str, Callable[[], object]] = {
    "ag2": ag2,
    "google-adk": google_adk,
    "langchain": langchain,
    "openai-agents": openai_agents,
    "pydantic-ai": pydantic_ai,
    "smolagents": smolagents,
    "strands": strands,
}


def fake_model(page: str) -> object:
    """Return the model of a page in docs/how-to/adapters. Raises `KeyError` for a page without one."""
    return MODELS[page]()
