"""The adapter for Google ADK, with a fake model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("google.adk", reason="pip install 'interlock[google-adk]'")

from google.adk.agents import LiveRequestQueue, LlmAgent, ManagedAgent
from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext, google_search
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import Workflow
from google.genai import types

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, CoverageError, UnseenToolError
from interlock.adapters.google_adk import CONFIRMATION, GatePlugin, ask_again, check_coverage
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules

from ..engine.gateway.served import until
from .contract import (
    EDITED,
    NOTICE,
    RULES,
    AdapterContract,
    Call,
    Driver,
    Operator,
    Run,
    Setup,
    Tools,
    place,
)

USER = "ada"


def part_of(call: Call) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call.id, name=call.tool, args=dict(call.input)))


class FakeModel(BaseLlm):
    """Makes calls in its first answers, one list after the other, and then ends."""

    model: str = "gemini-2.5-flash"
    answers: list[Any] = []  # noqa: RUF012 - a pydantic field

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse]:
        parts = [types.Part(text="done")]
        if self.answers:
            parts = [part_of(call) for call in self.answers.pop(0)]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def model_of(*answers: Sequence[Call]) -> FakeModel:
    return FakeModel(answers=[list(each) for each in answers if each])


def tell_error(tool: Any, args: Any, tool_context: Any, error: Exception) -> Any:
    """Return a tool's exception to the model; otherwise it ends the run."""
    return {"error": str(error)}


def agent_of(tools: Tools, /, *answers: Sequence[Call], **more: Any) -> LlmAgent:
    more = {"name": "bot", "tools": tools.functions(), **more}
    return LlmAgent(model=model_of(*answers), on_tool_error_callback=tell_error, **more)


def message(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


async def run_app(
    app: App, sessions: InMemorySessionService, thread: str, given: types.Content, **how: Any
) -> list[Any]:
    """Run the app and return the events."""
    runner = Runner(app=app, session_service=sessions)
    if await sessions.get_session(app_name=app.name, user_id=USER, session_id=thread) is None:
        await sessions.create_session(app_name=app.name, user_id=USER, session_id=thread)
    found = runner.run_async(user_id=USER, session_id=thread, new_message=given, **how)
    return [event async for event in found]


def outputs_of(events: Sequence[Any]) -> dict[str, str]:
    return {
        str(response.id): str(response.response)
        for event in events
        for response in event.get_function_responses()
    }


def is_pause(event: Any) -> bool:
    return any(call.name == CONFIRMATION for call in event.get_function_calls())


class AdkDriver(Driver):
    """An agent of an app; the saved state of a paused run is its session service."""

    pauses = True
    how: ClassVar[dict[str, Any]] = {}

    def app(
        self, tools: Tools, gate: Gates, calls: Sequence[Call], pause_after: float | None = None
    ) -> App:
        plugin = GatePlugin(gate, thread=lambda session: session.id, pause_after=pause_after)
        return App(name="app", root_agent=self.agent(tools, calls), plugins=[plugin])

    def agent(self, tools: Tools, calls: Sequence[Call]) -> Any:
        return agent_of(tools, calls)

    async def run(self, setup: Setup) -> Run:
        sessions = InMemorySessionService()
        app = self.app(setup.tools, setup.gate, setup.calls, setup.pause_after)
        events = await run_app(app, sessions, setup.thread, message("go"), **self.how)
        return self.read(events, sessions)

    async def resume(self, setup: Setup, paused: object) -> Run:
        assert isinstance(paused, InMemorySessionService)
        app = self.app(setup.tools, setup.gate, [], 0.0)
        session = await paused.get_session(app_name="app", user_id=USER, session_id=setup.thread)
        assert session is not None
        again = await ask_again(app, session)
        if again is None:
            return Run({}, paused)
        return self.read(await run_app(app, paused, setup.thread, again, **self.how), paused)

    def read(self, events: Sequence[Any], sessions: InMemorySessionService) -> Run:
        return Run(outputs_of(events), sessions if any(map(is_pause, events)) else None)

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        return await check_coverage(self.app(tools, gate, []))


class TestAgent(AdapterContract):
    driver = AdkDriver()


class PoolDriver(AdkDriver):
    """An app whose tools run in threads, with an event loop for each call."""

    how: ClassVar[dict[str, Any]] = {
        "run_config": RunConfig(tool_thread_pool_config=ToolThreadPoolConfig(max_workers=4))
    }

    def agent(self, tools: Tools, calls: Sequence[Call]) -> Any:
        return agent_of(tools, calls, tools=[PlainTool(each) for each in tools.functions()])


class TestThreadPool(AdapterContract):
    driver = PoolDriver()


class PlainTool(BaseTool):
    """A tool of an unknown class."""

    def __init__(self, function: Any) -> None:
        super().__init__(name=function.__name__, description=function.__doc__)
        self.function = function

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return self.function(**args)


def plugin_of(rules: str = RULES, **how: Any) -> GatePlugin:
    return GatePlugin(create_gate(compile_rules(rules).registry), **how)


def app_of(agent: Any, *plugins: Any) -> App:
    return App(name="app", root_agent=agent, plugins=[*plugins])


async def outputs(app: App, *, thread: str = "t1", **how: Any) -> dict[str, str]:
    """Return the results of a run's calls as the model reads them, by their ids."""
    return outputs_of(await run_app(app, InMemorySessionService(), thread, message("go"), **how))


class TestCallbacks:
    @pytest.mark.parametrize("where", ["plugin", "agent"])
    async def test_gate_judges_the_final_arguments(self, where: str) -> None:
        """An operator sees and edits the arguments as a later callback changed them."""

        def change(given: dict[str, Any]) -> None:
            given["env"] = "prod"

        class Changing(BasePlugin):
            async def before_tool_callback(self, *, tool_args: dict[str, Any], **_: Any) -> None:
                change(tool_args)

        def before(tool: Any, args: dict[str, Any], tool_context: Any) -> None:
            change(args)

        tools, operator = Tools(), Operator({"deploy": ApprovalAnswer(True, input=EDITED)})
        gate = GatePlugin(create_gate(compile_rules(RULES).registry, confirm=operator.confirm))
        calls = [Call("c1", "deploy", {"env": "dev"})]
        if where == "agent":
            app = app_of(agent_of(tools, calls, before_tool_callback=before), gate)
        else:
            app = app_of(agent_of(tools, calls), gate, Changing("changing"))
        found = await outputs(app)
        assert NOTICE in found["c1"]
        assert tools.ran == [("deploy", EDITED)]

    async def test_plugin_runs_the_gated_tool(self) -> None:
        """A plugin before the gate that runs a tool itself runs the gated tool."""

        class Running(BasePlugin):
            async def before_tool_callback(
                self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
            ) -> Any:
                return await tool.run_async(args=tool_args, tool_context=tool_context)

        tools = Tools()
        app = app_of(agent_of(tools, [Call("c1", "rm", {"path": "/"})]), Running("r"), plugin_of())
        assert "blocked" in (await outputs(app))["c1"]
        assert tools.ran == []

    async def test_tool_with_its_own_run_ends_the_run(self) -> None:
        """A tool object with its own `run_async` ends the run before the model is asked."""
        tools = Tools()
        tool = PlainTool(tools.functions()[1])
        tool.run_async = tool.run_async  # type: ignore[method-assign]
        app = app_of(agent_of(tools, [Call("c1", "rm", {"path": "/"})], tools=[tool]), plugin_of())
        with pytest.raises(RuntimeError, match="'rm' has its run_async as an attribute"):
            await outputs(app)
        assert tools.ran == []

    async def test_replaced_run_method_is_refused(self) -> None:
        """A tool that gets its own `run_async` after it was gated is refused, too."""
        tools = Tools()
        tool = PlainTool(tools.functions()[1])
        app = app_of(agent_of(tools, [Call("c1", "rm", {"path": "/"})], tools=[tool]), plugin_of())
        assert "blocked" in (await outputs(app))["c1"]
        base = type(tool).__mro__[1]
        tool.run_async = partial(base.run_async, tool)  # type: ignore[method-assign]
        again = agent_of(tools, [Call("c2", "rm", {"path": "/"})], tools=[tool])
        with pytest.raises(RuntimeError, match="'rm' has its run_async as an attribute"):
            await outputs(app_of(again, plugin_of()))
        assert tools.ran == []


class TestAgents:
    async def test_agent_as_a_tool_shares_the_session(self) -> None:
        """The calls of an agent that is a tool belong to the outer agent's session."""
        tools = Tools(fails=False)
        inner = agent_of(tools, [Call("i1", "rm", {"path": "/"}), Call("i2", "test")], name="inner")
        tool = AgentTool(inner)
        outer = agent_of(
            tools,
            [Call("c1", "inner", {"request": "x"})],
            [Call("c2", "release")],
            tools=[tool, *tools.functions()],
        )
        found = await outputs(app_of(outer, plugin_of()))
        assert "released" in found["c2"]
        assert tools.names() == ["release", "test"]

    async def test_agent_without_plugins_is_refused(self) -> None:
        """An agent that is a tool and would run without the gate is refused."""
        tools = Tools()
        tool = AgentTool(agent_of(tools, name="inner"), include_plugins=False)
        app = app_of(agent_of(tools, tools=[tool]), plugin_of())
        with pytest.raises(RuntimeError, match="'inner': it runs an agent without the plugins"):
            await outputs(app)
        with pytest.raises(UnseenToolError):
            await check_coverage(app)

    async def test_sub_agent_and_handover_are_gated(self) -> None:
        """A sub-agent is gated, and so is the handover to it."""
        tools = Tools()
        inner = agent_of(tools, [Call("c2", "rm", {"path": "/"})], name="inner")
        handover = Call("c1", "transfer_to_agent", {"agent_name": "inner"})
        app = app_of(agent_of(tools, [handover], sub_agents=[inner]), plugin_of())
        assert "blocked" in (await outputs(app))["c2"]
        inner = agent_of(tools, [Call("c2", "lookup", {"text": "a"})], name="inner")
        held = plugin_of("block transfer_to_agent")
        app = app_of(agent_of(tools, [handover], sub_agents=[inner]), held)
        assert "blocked" in (await outputs(app))["c1"]
        assert tools.ran == []

    async def test_workflow_tool_is_gated(self) -> None:
        """A tool that a workflow runs without a model is gated."""
        tools = Tools()
        flow = Workflow(name="flow", edges=[("START", FunctionTool(tools.functions()[1]))])
        app = app_of(flow, plugin_of())
        sessions = InMemorySessionService()
        given = types.Content(role="user", parts=[types.Part(text='{"path": "/"}')])
        events = await run_app(app, sessions, "t1", given)
        assert any("blocked" in str(event.output) for event in events)
        assert tools.ran == []
        assert (await check_coverage(app)).gated == ("rm",)

    async def test_users_have_separate_sessions(self) -> None:
        """Sessions of two users with one id do not share nets."""
        tools, gate = Tools(fails=False), plugin_of()
        for user, call in (("ada", Call("c1", "test")), ("ben", Call("c2", "release"))):
            app = app_of(agent_of(tools, [call]), gate)
            runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
            async for _ in runner.run_async(user_id=user, session_id="s", new_message=message("go")):
                pass
        assert tools.names() == ["test"]


class TestUnseenTools:
    async def test_provider_tool_is_refused(self) -> None:
        """A tool that Gemini runs is refused before the model is asked, unless `passthrough` names it."""
        agent = agent_of(Tools(), tools=[google_search])
        with pytest.raises(RuntimeError, match="'google_search': the model's provider runs it"):
            await outputs(app_of(agent, plugin_of()))
        assert await outputs(app_of(agent, plugin_of(passthrough=("google_search",)))) == {}
        with pytest.raises(UnseenToolError):
            await check_coverage(app_of(agent, plugin_of()))

    async def test_tool_in_a_request_ends_the_run(self) -> None:
        """Such a tool that only appears in the request ends the run, too."""

        class Searching(BasePlugin):
            async def before_model_callback(self, *, llm_request: LlmRequest, **_: Any) -> None:
                llm_request.config.tools = [types.Tool(url_context=types.UrlContext())]

        app = app_of(agent_of(Tools()), Searching("s"), plugin_of())
        with pytest.raises(RuntimeError, match="'url_context': the model's provider runs it"):
            await outputs(app)

    async def test_code_executor_is_refused(self) -> None:
        """A code executor is refused, because its code is no call."""
        agent = agent_of(Tools(), code_executor=UnsafeLocalCodeExecutor())
        with pytest.raises(RuntimeError, match="'code_executor': it runs code"):
            await outputs(app_of(agent, plugin_of()))

    async def test_workflow_agent_with_a_code_executor_is_refused(self) -> None:
        """A workflow's agent with a code executor is refused before the model is asked."""
        agent = agent_of(Tools(), name="inner", code_executor=UnsafeLocalCodeExecutor())
        app = app_of(Workflow(name="flow", edges=[("START", agent)]), plugin_of())
        with pytest.raises(RuntimeError, match="'code_executor': it runs code"):
            await outputs(app)

    async def test_remote_agent_is_refused_by_name(self) -> None:
        """An agent that runs its tools at a service is refused by name."""
        away = ManagedAgent(name="away", agent_id="agents/a")
        app = app_of(agent_of(Tools(), sub_agents=[away]), plugin_of())
        with pytest.raises(RuntimeError, match="'away': it runs its tools elsewhere"):
            await outputs(app)

    async def test_missing_plugin_is_reported(self) -> None:
        """An app without the plugin is reported."""
        with pytest.raises(CoverageError, match="no call is gated"):
            await check_coverage(app_of(agent_of(Tools())))


class TestOutcomes:
    async def test_long_running_tool_has_an_unknown_outcome(self, tmp_path: Path) -> None:
        """The outcome of a long-running tool is unknown, which unlocks nothing."""
        tools = Tools(fails=False)
        test = LongRunningFunctionTool(tools.functions()[4])
        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            gate = GatePlugin(where.gates(), thread=lambda session: session.id)
            agent = agent_of(
                tools, [Call("c1", "test")], [Call("c2", "release")], tools=[test, *tools.functions()[5:]]
            )
            found = await outputs(app_of(agent, gate))
            state = await where.server.hub.session("bot:t1")
        assert "blocked" in found["c2"]
        assert state.calls["c1"].status == "unknown"

    async def test_interrupted_call_has_an_unknown_outcome(self, tmp_path: Path) -> None:
        """A tool's exception ends the run, and the outcome of a simultaneous call is unknown."""
        running = asyncio.Event()

        async def slow() -> str:
            """Take long."""
            running.set()
            await asyncio.sleep(60)
            return "done"

        async def bad() -> str:
            """Raise."""
            await running.wait()
            raise RuntimeError("no")

        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            gate = GatePlugin(where.gates(), thread=lambda session: session.id)
            model = model_of([Call("c1", "slow"), Call("c2", "bad")])
            agent = LlmAgent(name="bot", model=model, tools=[slow, bad])
            with pytest.raises(RuntimeError, match="no"):
                await outputs(app_of(agent, gate))
            state = await where.server.hub.session("bot:t1")
        assert {call.call_id: call.status for call in state.calls.values()} == {
            "c1": "unknown",
            "c2": "failed",
        }


class TestConfirmations:
    @pytest.mark.parametrize("confirmed", [True, False])
    async def test_tool_confirmation_comes_first(self, confirmed: bool) -> None:
        """A tool's own confirmation comes first, and the gate judges the confirmed call."""
        tools, sessions = Tools(), InMemorySessionService()
        rm, lookup = (FunctionTool(tools.functions()[n], require_confirmation=True) for n in (1, 0))
        calls = [Call("c1", "rm", {"path": "/"}), Call("c2", "lookup", {"text": "a"})]
        app = app_of(agent_of(tools, calls, tools=[rm, lookup]), plugin_of())
        events = await run_app(app, sessions, "t1", message("go"))
        asked = [c for event in events for c in event.get_function_calls() if c.name == CONFIRMATION]
        assert tools.ran == []
        answers = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=CONFIRMATION, response={"confirmed": confirmed}
                )
            )
            for call in asked
        ]
        found = outputs_of(await run_app(app, sessions, "t1", types.Content(role="user", parts=answers)))
        assert tools.names() == (["lookup"] if confirmed else [])
        assert ("blocked" in found["c1"]) is confirmed

    @pytest.mark.parametrize("confirmed", [True, False])
    async def test_a_pause_confirms_nothing(self, confirmed: bool) -> None:
        """The answer to a pause does not count as a tool's own confirmation; a refusal ends the call."""
        seen: list[object] = []

        def push(branch: str, tool_context: ToolContext) -> str:
            """Push a branch."""
            seen.append(tool_context.tool_confirmation)
            return f"pushed {branch}"

        operator, sessions = Operator(), InMemorySessionService()
        source = create_gate(compile_rules(RULES).registry, confirm=operator.confirm)
        gate = GatePlugin(source, pause_after=0.01)
        agent = LlmAgent(name="bot", model=model_of([Call("c1", "push", {"branch": "b"})]), tools=[push])
        app = app_of(agent, gate)
        await run_app(app, sessions, "t1", message("go"))
        session = await sessions.get_session(app_name="app", user_id=USER, session_id="t1")
        assert session is not None
        assert await ask_again(app, session) is None
        operator.answers["push"] = ApprovalAnswer(True)
        again = await until(lambda: ask_again(app, session))
        assert again.parts is not None
        for part in again.parts:
            assert part.function_response is not None
            part.function_response.response = {"confirmed": confirmed}
        found = outputs_of(await run_app(app, sessions, "t1", again))
        assert seen == ([None] if confirmed else [])
        assert ("pushed b" if confirmed else "blocked") in found["c1"]


async def test_duplicate_id_is_allowed_only_once() -> None:
    """Of two calls with one id, a permission allows only one."""
    tools = Tools()
    calls = [Call("p1", "publish"), Call("p1", "publish")]
    await outputs(app_of(agent_of(tools, calls), plugin_of()))
    assert tools.names() == ["publish"]


class LiveConnection(BaseLlmConnection):
    """A live model that makes its calls once and ends when each has its last result."""

    def __init__(self, calls: Sequence[Call], results: dict[str, list[str]]) -> None:
        self.calls = calls
        self.results = results
        self.ended = asyncio.Event()

    async def send_history(self, history: list[types.Content]) -> None: ...

    async def _send_content(self, content: types.Content, *, partial: bool = False) -> None:
        for part in content.parts or []:
            if (response := part.function_response) is not None:
                self.results.setdefault(str(response.id), []).append(str(response.response))
        ends = ("found a", "blocked", NOTICE, "blocked")
        if all(end in str(self.results.get(call.id)) for call, end in zip(self.calls, ends, strict=True)):
            self.ended.set()

    async def send_realtime(self, blob: types.Blob) -> None: ...

    async def receive(self) -> AsyncGenerator[LlmResponse]:
        yield LlmResponse(content=types.Content(role="model", parts=[part_of(c) for c in self.calls]))
        await self.ended.wait()
        raise ConnectionResetError("ended")

    async def close(self) -> None: ...


class TestLiveRuns:
    async def test_calls_pass_the_gate(self, tmp_path: Path) -> None:
        """Calls of a live run are gated, also with streamed results, and none pauses."""
        tools, results = Tools(), dict[str, list[str]]()
        calls = [
            Call("c1", "lookup", {"text": "a"}),
            Call("c2", "release"),
            Call("c3", "deploy", {"env": "prod"}),
            Call("c4", "rm", {"path": "/"}),
        ]

        async def deploy(env: str) -> AsyncGenerator[str]:
            """Deploy bit by bit."""
            tools.note("deploy", env=env)
            for number in range(3):
                yield f"{number + 1} of 3"

        async def rm(path: str) -> AsyncGenerator[str]:
            """Remove bit by bit."""
            tools.note("rm", path=path)
            yield "removed"

        class LiveModel(FakeModel):
            @asynccontextmanager
            async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection]:
                yield LiveConnection(calls, results)

        lookup, _, _, _, _, release, _ = tools.functions()
        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            where.operator.answers["deploy"] = ApprovalAnswer(True, input=EDITED)
            gate = GatePlugin(where.gates(), thread=lambda session: session.id, pause_after=0.0)
            agent = LlmAgent(name="bot", model=LiveModel(), tools=[lookup, deploy, rm, release])
            runner = Runner(
                app=app_of(agent, gate),
                session_service=InMemorySessionService(),
                auto_create_session=True,
            )
            run = runner.run_live(
                user_id=USER,
                session_id="t1",
                live_request_queue=LiveRequestQueue(),
                run_config=RunConfig(),
            )
            with contextlib.suppress(ConnectionResetError):
                async for _event in run:
                    pass
            state = await where.server.hub.session("bot:t1")
        assert tools.ran == [("lookup", {"text": "a"}), ("deploy", EDITED)]
        assert any("3 of 3" in each for each in results["c3"])
        assert {call.call_id: call.status for call in state.calls.values()} == {
            "c1": "done",
            "c2": "blocked",
            "c3": "done",
            "c4": "blocked",
        }
