"""The adapter for LangChain and LangGraph, with a fake chat model and a checkpointer."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="pip install 'interlock[langchain]'")

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, CoverageError, UnseenToolError
from interlock.adapters.langchain import GateMiddleware, check_coverage
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules

from .contract import RULES, AdapterContract, Call, Driver, Run, Setup, Tools, place


class FakeModel(GenericFakeChatModel):
    """A chat model that accepts tools and returns the given messages."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def answer_of(calls: Sequence[Call]) -> AIMessage:
    """Return a model's answer with these calls."""
    made = [ToolCall(name=c.tool, args=dict(c.input), id=c.id, type="tool_call") for c in calls]
    return AIMessage("", tool_calls=made)


def model_of(calls: Sequence[Call]) -> FakeModel:
    """Return a model that makes these calls in one answer and then ends."""
    messages = [*([answer_of(calls)] if calls else []), AIMessage("done")]
    return FakeModel(messages=iter(messages))


def tools_of(tools: Tools) -> list[BaseTool]:
    """Return tools whose exceptions the model reads; others would end the run."""

    def failing(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def tool(**given: Any) -> str:
            try:
                return function(**given)
            except RuntimeError as error:
                raise ToolException(str(error)) from error

        return tool

    return [
        StructuredTool.from_function(failing(each), handle_tool_error=True) for each in tools.functions()
    ]


def config_of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def read(found: Any, paused: object) -> Run:
    outputs = {
        message.tool_call_id: str(message.content)
        for message in found["messages"]
        if isinstance(message, ToolMessage)
    }
    return Run(outputs, paused if found.get("__interrupt__") else None)


class AgentDriver(Driver):
    """An agent of `create_agent`: each call is a separate task."""

    pauses = True

    def agent(
        self, tools: Tools, gate: Gates, calls: Sequence[Call], kept: object, pause_after: float | None
    ) -> Any:
        middleware = GateMiddleware(gate, pause_after=pause_after)
        return create_agent(model_of(calls), tools_of(tools), middleware=[middleware], checkpointer=kept)  # type: ignore[call-overload]

    async def invoke(self, agent: Any, given: Any, thread: str) -> Any:
        return await agent.ainvoke(given, config_of(thread))

    async def run(self, setup: Setup) -> Run:
        kept = InMemorySaver()
        agent = self.agent(setup.tools, setup.gate, setup.calls, kept, setup.pause_after)
        return read(await self.invoke(agent, {"messages": [("user", "go")]}, setup.thread), kept)

    async def resume(self, setup: Setup, paused: object) -> Run:
        agent = self.agent(setup.tools, setup.gate, [], paused, 0.0)
        return read(await self.invoke(agent, Command(resume=True), setup.thread), paused)

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        agent = self.agent(tools, gate, [], None, None)
        return await asyncio.to_thread(check_coverage, agent)


class SyncDriver(AgentDriver):
    """The same agent, invoked without an event loop."""

    async def invoke(self, agent: Any, given: Any, thread: str) -> Any:
        return await asyncio.to_thread(agent.invoke, given, config_of(thread))


class NodeDriver(AgentDriver):
    """A custom graph whose tool node runs all calls of an answer in one task."""

    def agent(
        self, tools: Tools, gate: Gates, calls: Sequence[Call], kept: object, pause_after: float | None
    ) -> Any:
        middleware = GateMiddleware(gate, pause_after=pause_after)
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda _: {"messages": [answer_of(calls)]})
        graph.add_node(
            "tools",
            ToolNode(
                tools_of(tools),
                wrap_tool_call=middleware.wrap_tool_call,
                awrap_tool_call=middleware.awrap_tool_call,
            ),
        )
        graph.add_edge(START, "model")
        graph.add_edge("model", "tools")
        graph.add_edge("tools", END)
        return graph.compile(checkpointer=kept)  # type: ignore[arg-type]


class SyncNodeDriver(NodeDriver, SyncDriver):
    """The same graph, invoked without an event loop."""


class TestAgent(AdapterContract):
    driver = AgentDriver()


@pytest.mark.slow
class TestAgentWithoutLoop(AdapterContract):
    driver = SyncDriver()


@pytest.mark.slow
class TestNode(AdapterContract):
    driver = NodeDriver()


class TestNodeWithoutLoop(AdapterContract):
    driver = SyncNodeDriver()


def gated(**how: Any) -> GateMiddleware:
    return GateMiddleware(create_gate(compile_rules(RULES).registry), **how)


class TestUnseenTools:
    async def test_provider_tool_ends_the_run(self) -> None:
        """A tool that the provider runs ends the run before the model is asked."""
        search = {"type": "web_search"}
        agent = create_agent(model_of([]), [search], middleware=[gated()])
        with pytest.raises(UnseenToolError, match="'web_search': the model's provider runs it"):
            await agent.ainvoke({"messages": [("user", "go")]})
        agent = create_agent(model_of([]), [search], middleware=[gated(passthrough=("web_search",))])
        await agent.ainvoke({"messages": [("user", "go")]})

    def test_missing_middleware_is_reported(self) -> None:
        """An agent without the middleware is reported."""
        with pytest.raises(CoverageError, match="not because of the gate"):
            check_coverage(create_agent(model_of([]), tools_of(Tools())))


class TestRuns:
    async def test_run_without_a_thread_is_its_own_session(self) -> None:
        """A success unlocks calls within its run only, if the runs have no thread."""
        tools = Tools(fails=False)
        middleware = gated()

        async def run(*answers: Sequence[Call]) -> None:
            model = FakeModel(messages=iter([*map(answer_of, answers), AIMessage("done")]))
            agent = create_agent(model, tools_of(tools), middleware=[middleware])
            await agent.ainvoke({"messages": [("user", "go")]})

        await run([Call("c1", "test")])
        await run([Call("c2", "release")])
        assert tools.names() == ["test"]
        await run([Call("c3", "test")], [Call("c4", "release")])
        assert tools.names() == ["release", "test", "test"]


@pytest.mark.parametrize("driver", [TestAgent.driver, TestAgentWithoutLoop.driver, TestNode.driver])
async def test_duplicate_id_is_allowed_only_once(driver: AgentDriver, tmp_path: Path) -> None:
    """Of two calls with one id, a permission allows only one."""
    tools = Tools()
    async with place("here", tmp_path) as where:
        calls = [Call("p1", "publish"), Call("p1", "publish")]
        await driver.run(Setup(tools, where.gates(), calls))
    assert tools.names() == ["publish"]


class TestCalls:
    async def test_arguments_changed_during_the_decision_have_no_effect(self) -> None:
        """A call runs with the approved arguments although the model's message changes in between."""
        ran, target = list[Any](), {"env": "test"}

        def deploy(target: dict[str, str]) -> str:
            """Deploy."""
            ran.append(dict(target))
            return "deployed"

        def confirm(_: object) -> ApprovalAnswer:
            target["env"] = "prod"
            return ApprovalAnswer(True)

        def agent() -> Any:
            gate = create_gate(compile_rules(RULES).registry, confirm=confirm)
            target["env"] = "test"
            model = model_of([Call("c1", "deploy", {"target": target})])
            return create_agent(model, [deploy], middleware=[GateMiddleware(gate)])

        given = {"messages": [("user", "go")]}
        await agent().ainvoke(given)
        await asyncio.to_thread(agent().invoke, given)
        assert ran == [{"env": "test"}, {"env": "test"}]
