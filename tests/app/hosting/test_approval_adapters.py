"""The Agent Approval Protocol's adapters for frameworks, with real frameworks and scripted models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engine.gateway.served import until

from .aap_server import AapServer, aap_server

CALLS = [("look", "c1"), ("rm", "c2"), ("deploy", "c3")]


class TestPydanticAI:
    """`ApprovalCapability` of pydantic-ai."""

    async def test_allowed_blocked_and_approved(self, tmp_path: Path) -> None:
        """Of three calls in one step the blocked one does not run, and the model reads the reason."""
        pytest.importorskip("pydantic_ai")
        from agentapprovalprotocol.pydantic_ai import ApprovalCapability
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        ran: list[str] = []
        read: list[str] = []

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            if len(messages) == 1:
                return ModelResponse([ToolCallPart(name, {"path": "x"}, key) for name, key in CALLS])
            read.extend(str(part.content) for part in messages[-1].parts)  # type: ignore[union-attr]
            return ModelResponse([TextPart("done")])

        async with aap_server(tmp_path) as server:
            approvals = ApprovalCapability(server.url, server.served.agent)
            agent = Agent(FunctionModel(model), capabilities=[approvals])
            for name, _ in CALLS:
                agent.tool_plain(_tool(name, ran), name=name)
            running = asyncio.create_task(agent.run("go"))
            await server.decide(approved=True)
            assert (await running).output == "done"
            assert sorted(ran) == ["deploy", "look"]
            assert any("rm" in text and "denied" in text for text in read)
            await check_outcomes(server, 2)


class TestLangGraph:
    """`ApprovalMiddleware` of LangChain."""

    async def test_allowed_and_denied(self, tmp_path: Path) -> None:
        """A denied call does not run, and the model reads the operator's reason."""
        pytest.importorskip("langchain.agents")
        from agentapprovalprotocol.langgraph import ApprovalMiddleware
        from langchain.agents import create_agent
        from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
        from langchain_core.messages import AIMessage
        from langchain_core.tools import StructuredTool

        class Scripted(GenericFakeChatModel):
            def bind_tools(self, tools: Sequence[object], **_: object) -> Any:
                return self

        calls = [{"name": name, "args": {"path": "x"}, "id": key} for name, key in CALLS]
        said = iter([AIMessage("", tool_calls=calls), AIMessage("done")])
        ran: list[str] = []
        tools = [StructuredTool.from_function(coroutine=_tool(name, ran), name=name) for name, _ in CALLS]
        async with aap_server(tmp_path) as server:
            approvals = ApprovalMiddleware(server.url, server.served.agent)
            agent = create_agent(Scripted(messages=said), tools=tools, middleware=[approvals])
            running = asyncio.create_task(agent.ainvoke({"messages": [("user", "go")]}))
            await server.decide(approved=False, reason="not today")
            state = await running
            assert ran == ["look"]
            texts = [str(each.content) for each in state["messages"]]
            assert any("not today" in text for text in texts)
            await check_outcomes(server, 1)


class TestOpenAIAgents:
    """`Approvals` of the OpenAI Agents SDK."""

    async def test_allowed_and_blocked(self, tmp_path: Path) -> None:
        """A protected agent's tools run if the rules allow it."""
        pytest.importorskip("agents")
        from agentapprovalprotocol.openai_agents import Approvals
        from agents import Agent, FunctionTool, ModelResponse, Runner, Usage, set_tracing_disabled
        from agents.models.interface import Model
        from openai.types.responses import (
            ResponseFunctionToolCall,
            ResponseOutputMessage,
            ResponseOutputText,
        )

        class Scripted(Model):
            def __init__(self) -> None:
                self.turn = 0

            async def get_response(self, *_: object, **__: object) -> ModelResponse:
                self.turn += 1
                if self.turn == 1:
                    output: list[Any] = [
                        ResponseFunctionToolCall(
                            type="function_call", name=name, call_id=key, arguments='{"path": "x"}'
                        )
                        for name, key in CALLS[:2]
                    ]
                else:
                    text = ResponseOutputText(type="output_text", text="done", annotations=[])
                    output = [
                        ResponseOutputMessage(
                            id="m", type="message", role="assistant", status="completed", content=[text]
                        )
                    ]
                return ModelResponse(output=output, usage=Usage(), response_id=None)

            def stream_response(self, *_: object, **__: object) -> Any:
                raise NotImplementedError

        set_tracing_disabled(True)
        ran: list[str] = []

        def tool(name: str) -> FunctionTool:
            async def invoke(_: object, __: str) -> str:
                ran.append(name)
                return "ok"

            schema = {"type": "object", "properties": {"path": {"type": "string"}}}
            return FunctionTool(name, "", schema, invoke, strict_json_schema=False)

        async with aap_server(tmp_path) as server:
            approvals = Approvals(server.url, server.served.agent)
            agent = approvals.protect(
                Agent("a", model=Scripted(), tools=[tool(name) for name, _ in CALLS[:2]])
            )
            result = await Runner.run(agent, "go")
            assert (result.final_output, ran) == ("done", ["look"])
            await check_outcomes(server, 1)


def _tool(name: str, ran: list[str]) -> Any:
    async def run(path: str) -> str:
        ran.append(name)
        return f"{name} {path}"

    run.__name__ = name
    run.__doc__ = f"{name} a path."
    return run


async def check_outcomes(server: AapServer, count: int) -> None:
    """Check that this many calls have an outcome, and that only these approvals were used."""
    from interlock.engine.history.model.events import CallResult, RequestStep

    async def settled() -> bool:
        return sum(isinstance(each, CallResult) for each in await server.bodies()) == count

    assert await until(settled)
    used = [e for e in await server.bodies() if isinstance(e, RequestStep) and e.step == "consumed"]
    assert len(used) == count
