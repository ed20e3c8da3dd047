"""Cost of an adapter: a run whose fake model makes many calls at once, with a gate and without.

Each framework's own time for a call is measured in the same run, in alternation; the gate is in this
process, with one rule that applies to every call and two that apply to none. Frameworks that are not
installed are left out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from importlib.util import find_spec
from statistics import median
from typing import Any

from interlock.engine import create_gate
from interlock.rules import compile_rules

CALLS = 40
TURNS = 15
RULES = "require look before deploy\nblock rm\nlimit look to 1000000 per session\n"

Turn = Callable[[], Coroutine[object, object, object]]


def look(text: str) -> str:
    """Look something up."""
    return text


def _gate() -> Any:
    return create_gate(compile_rules(RULES).registry)


def _openai_agents() -> tuple[Turn, Turn]:
    from agents import Agent, RunConfig, Runner, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    from interlock.adapters.openai_agents import gate_agent

    quiet, gate = RunConfig(tracing_disabled=True), _gate()
    tool = function_tool(look)

    def agent() -> Any:
        calls = [function_call("look", {"text": "a"}, call_id=f"c{n}") for n in range(CALLS)]
        return Agent(name="bot", model=ScriptedModel([calls, [assistant_message("done")]]), tools=[tool])

    return (
        lambda: Runner.run(agent(), "go", run_config=quiet),
        lambda: Runner.run(gate_agent(agent(), gate), "go", run_config=quiet),
    )


def _pydantic_ai() -> tuple[Turn, Turn]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from interlock.adapters.pydantic_ai import GateCapability

    def answer(messages: list[Any], _: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("look", {"text": "a"}, f"c{n}") for n in range(CALLS)])

    bare: Any = Agent(FunctionModel(answer), tools=[look])
    gated: Any = Agent(FunctionModel(answer), tools=[look], capabilities=[GateCapability(_gate())])
    return lambda: bare.run("go"), lambda: gated.run("go")


def _langchain() -> tuple[Turn, Turn]:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolCall

    from interlock.adapters.langchain import GateMiddleware

    class FakeModel(GenericFakeChatModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

    middleware = GateMiddleware(_gate())

    def run(*more: Any) -> Coroutine[object, object, object]:
        calls = [
            ToolCall(name="look", args={"text": "a"}, id=f"c{n}", type="tool_call") for n in range(CALLS)
        ]
        model = FakeModel(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
        agent: Any = create_agent(model, [look], middleware=more)
        return agent.ainvoke({"messages": [("user", "go")]})

    return run, lambda: run(middleware)


def _google_adk() -> tuple[Turn, Turn]:
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from interlock.adapters.google_adk import GatePlugin

    # It warns about a model that does not report its tokens.
    logging.getLogger("google_adk").setLevel(logging.ERROR)

    class FakeModel(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            parts = [types.Part(text="done")]
            if not any(part.function_response for each in llm_request.contents for part in each.parts):
                calls = (
                    types.FunctionCall(id=f"c{n}", name="look", args={"text": "a"}) for n in range(CALLS)
                )
                parts = [types.Part(function_call=call) for call in calls]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    async def run(*plugins: Any) -> None:
        agent = LlmAgent(name="bot", model=FakeModel(model="fake"), tools=[look])
        runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[*plugins]))
        session = await runner.session_service.create_session(app_name="app", user_id="ada")
        message = types.Content(role="user", parts=[types.Part(text="go")])
        async for _ in runner.run_async(user_id="ada", session_id=session.id, new_message=message):
            pass

    plugin = GatePlugin(_gate())
    return run, lambda: run(plugin)


def _ag2() -> tuple[Turn, Turn]:
    from ag2 import Agent
    from ag2.events import ToolCallEvent
    from ag2.testing import TestConfig

    from interlock.adapters.ag2 import gate_agent

    bare = Agent("bot", tools=[look])
    gated = gate_agent(Agent("bot", tools=[look]), _gate())

    def run(agent: Any) -> Coroutine[object, object, object]:
        calls = [ToolCallEvent("look", id=f"c{n}", arguments='{"text": "a"}') for n in range(CALLS)]
        return agent.ask("go", config=TestConfig(calls, "done"))

    return lambda: run(bare), lambda: run(gated)


def _strands() -> tuple[Turn, Turn]:
    from strands import Agent, tool
    from strands.models import Model

    from interlock.adapters.strands import GateHooks

    class FakeModel(Model):
        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *_: Any, **__: Any) -> Any: ...

        async def stream(self, messages: Any, *_: Any, **__: Any) -> Any:
            yield {"messageStart": {"role": "assistant"}}
            calls = CALLS if len(messages) == 1 else 0
            for number in range(calls):
                use = {"toolUseId": f"c{number}", "name": "look"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"text": "a"}'}}}}
                yield {"contentBlockStop": {}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

    tools, gate = [tool(look)], _gate()

    def run(*hooks: Any) -> Coroutine[object, object, object]:
        agent = Agent(model=FakeModel(), tools=[*tools], hooks=[*hooks], callback_handler=None)
        return agent.invoke_async("go")

    return run, lambda: run(GateHooks(gate))


FRAMEWORKS: dict[str, Callable[[], tuple[Turn, Turn]]] = {
    "agents": _openai_agents,
    "pydantic_ai": _pydantic_ai,
    "langchain": _langchain,
    "google.adk": _google_adk,
    "ag2": _ag2,
    "strands": _strands,
}


async def _turns(bare: Turn, gated: Turn) -> tuple[float, float]:
    """Return the median microseconds per call, without a gate and with one."""
    found: tuple[list[float], list[float]] = [], []
    for turn in range(TURNS + 2):
        for times, run in zip(found, (bare, gated), strict=True):
            began = time.perf_counter()
            await run()
            if turn > 1:
                times.append((time.perf_counter() - began) / CALLS * 1e6)
    return median(found[0]), median(found[1])


def measure() -> Iterator[tuple[str, float, str]]:
    """Yield the time of a call in each framework, and what the adapter adds to it."""
    for package, prepared in FRAMEWORKS.items():
        if find_spec(package) is None:
            continue
        bare, gated = asyncio.run(_turns(*prepared()))
        yield f"adapters {package} bare", bare, "us/call"
        yield f"adapters {package} gated", gated, "us/call"
        yield f"adapters {package} gated/bare", gated / bare, "times"
