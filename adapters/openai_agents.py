"""Adapter for the OpenAI Agents SDK: every tool of an agent passes the gate before it runs.

agent = gate_agent(Agent(name="release-bot", tools=[deploy]), "deploy.rules")
result = await Runner.run(agent, "Ship it")
"""

from __future__ import annotations

import copy
import json
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast
from uuid import uuid4

from agents import (
    Agent,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    Handoff,
    LocalShellTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ShellTool,
    Tool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
)
from agents.agent import AgentBase
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool import (
    resolve_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext

from ..engine.core.json_values import unique
from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, Probe, refuse_unseen, version_of
from .gate import Allow, Answer, Block, SessionGate, Wait, failure_text, outcome_of

FRAMEWORK = "OpenAI Agents SDK"

A = TypeVar("A", bound=AgentBase[Any])
Thread: TypeAlias = "str | Callable[[Any], str] | None"

_STRUCTURED = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
_RUN_HERE = (ApplyPatchTool, ComputerTool, CustomTool, LocalShellTool, ShellTool)
_HERE = "the SDK does not run it as a function tool; give it as one"
_ELSEWHERE = "OpenAI runs it; the program learns of it only afterwards"

_thread_above: ContextVar[str | None] = ContextVar("interlock_thread", default=None)
"""Thread of the run whose tool is an agent: that agent's calls belong to the same session."""


def gate_agent(
    agent: A,
    gate: GateSource = None,
    *,
    thread: Thread = None,
    pause_after: float | None = None,
    passthrough: Collection[str] = (),
) -> A:
    """Put an agent's tools behind a gate, with those of its handoffs and of agents among its tools.

    The agent is modified in place, and returned. `gate` is a rules file, a rule set, a gate in this
    process, the URL of a server, or `None` for the server at INTERLOCK_URL. Tools of MCP servers are
    gated when they are listed.

    `thread` names the session whose nets judge the calls: a text, or a function of the run's context. A
    run without one is its own session. With `pause_after`, a run whose call waits longer than that many
    seconds for an operator stops with an interruption: see `ask_again`.

    Raises `UnseenToolError` for tools that OpenAI runs itself, and for tools that this SDK runs without
    `FunctionTool`, unless `passthrough` names them; `ValueError` for `pause_after` without `thread`.
    """
    if pause_after is not None and thread is None:
        raise ValueError("pause_after needs thread=: a resumed run has to find its session again")
    gates = Gates.of(gate, agent=agent.name)
    _GatedAgents(gates, thread, pause_after, frozenset(passthrough)).add(agent)
    return agent


async def ask_again(agent: AgentBase[Any], state: RunState[Any, Any]) -> bool:
    """Request decisions on the calls at which a run stopped; return true once no operator is awaited.

    `state` is that of the run of the gated `agent`. When the run resumes, decided calls run, or give the
    model their reason; the others stop it again.

        state = await RunState.from_string(agent, saved)
        if await ask_again(agent, state):
            result = await Runner.run(agent, state)
    """
    waiting = False
    for item in state.get_interruptions():
        owner = item.agent or agent
        context = state._context or RunContextWrapper(context=None)  # pyright: ignore[reportPrivateUsage]
        tools = await owner.get_all_tools(context)
        tool = next((tool for tool in tools if tool.name == item.name), None)
        gated = None if tool is None else _GatedTool.of_tool(tool)
        tool_input = _parsed(item.arguments or "")
        if gated is None or tool_input is None or item.call_id is None:
            continue
        if isinstance(await gated.ask(item.call_id, tool_input), Wait):
            waiting = True
        elif not await gated.wants_approval(context, dict(tool_input), item.call_id):
            state.approve(item)
    return not waiting


async def check_coverage(agent: AgentBase[Any]) -> Coverage:
    """Have a gated agent call a probe, and list what its gate sees; no model is called.

    Raises `CoverageError` if the probe is not blocked, and `TypeError` for an agent without a gate.
    """
    gated = getattr(agent, "_interlock", None)
    if not isinstance(gated, _GatedAgents) or not isinstance(agent, Agent):
        raise TypeError(f"The agent '{agent.name}' has no gate: give it to gate_agent first")
    tools = await agent.get_all_tools(RunContextWrapper(context=None))
    unseen = _all_unseen(tools)
    probe = Probe()

    async def run(_: ToolContext[Any], __: str) -> str:
        return probe.run()

    probing = cast("Agent[Any]", agent).clone(
        model=ScriptedModel([[function_call(PROBE, {}, call_id="probe")], [assistant_message("done")]]),
        tools=[FunctionTool(PROBE, "Do nothing", {}, run, strict_json_schema=False)],
        handoffs=[],
        mcp_servers=[],
        input_guardrails=[],
        output_guardrails=[],
        output_type=None,
        instructions=None,
    )
    result = await Runner.run(probing, "probe", run_config=RunConfig(tracing_disabled=True))
    outputs = [str(getattr(item, "output", "")) for item in result.new_items]
    probe.check("\n".join(outputs))
    return Coverage(
        FRAMEWORK,
        version_of("openai-agents"),
        tuple(tool.name for tool in tools if isinstance(tool, FunctionTool)),
        unseen,
    )


@dataclass(eq=False)
class _GatedAgents:
    """The gate shared by an agent and those that it hands over to."""

    gates: Gates
    thread: Thread
    pause_after: float | None
    passthrough: frozenset[str]
    _runs: dict[int, str] = field(default_factory=dict[int, str])

    def add(self, agent: AgentBase[Any]) -> None:
        """Gate an agent and all agents that it can reach."""
        known = getattr(agent, "_interlock", None)
        if known is self:
            return
        if known is not None:
            raise ValueError(f"The agent '{agent.name}' has a gate already")
        refuse_unseen(FRAMEWORK, _all_unseen(agent.tools), self.passthrough)
        # Through its class: the runner works on copies, which keep their class but no attributes of ours.
        agent.__class__ = _gated_class(type(agent), self)
        for tool in agent.tools:
            self._add_agent_of(tool)
        for handoff in cast("list[object]", getattr(agent, "handoffs", [])):
            if isinstance(handoff, AgentBase):
                self.add(cast("AgentBase[Any]", handoff))
            elif isinstance(handoff, Handoff):
                self._follow(cast("Handoff[Any, Any]", handoff))

    def _add_agent_of(self, tool: Tool) -> None:
        """Gate the agent behind a tool made by `as_tool`."""
        inside = getattr(tool, "_agent_instance", None)
        if isinstance(inside, AgentBase):
            self.add(cast("AgentBase[Any]", inside))

    def _follow(self, handoff: Handoff[Any, Any]) -> None:
        """Gate the agent that a handoff leads to, before it takes over."""
        invoke = handoff.on_invoke_handoff

        async def gated(context: RunContextWrapper[Any], arguments: str) -> AgentBase[Any]:
            agent = await invoke(context, arguments)
            self.add(agent)
            return agent

        handoff.on_invoke_handoff = gated

    def wrap(self, tools: list[Tool], context: RunContextWrapper[Any]) -> list[Tool]:
        """Return the tools of one run behind the gate. Raises `UnseenToolError` for new ones."""
        refuse_unseen(FRAMEWORK, _all_unseen(tools), self.passthrough)
        for tool in tools:
            self._add_agent_of(tool)
        gate = self.gates.session(self._key(context))
        return [
            _GatedTool(tool, gate, self.pause_after).listed() if isinstance(tool, FunctionTool) else tool
            for tool in tools
        ]

    def _key(self, context: RunContextWrapper[Any]) -> str:
        """Return the session's name: that of the thread, or one generated for the run."""
        if (above := _thread_above.get()) is not None:
            return above
        if self.thread is not None:
            return self.thread if isinstance(self.thread, str) else str(self.thread(context.context))
        # All contexts of a run share the object that counts its tokens.
        run = id(context.usage)
        if run not in self._runs:
            self._runs[run] = f"run-{uuid4().hex}"
            weakref.finalize(context.usage, self._forget, run)
        return self._runs[run]

    def _forget(self, run: int) -> None:
        """Drop the state of a run without a thread, which has ended."""
        self.gates.forget(self._runs.pop(run))


def _gated_class(base: type[AgentBase[Any]], gated: _GatedAgents) -> type[AgentBase[Any]]:
    """Return a class like `base` whose agents list gated tools."""

    async def get_all_tools(self: AgentBase[Any], run_context: RunContextWrapper[Any]) -> list[Tool]:
        return gated.wrap(await base.get_all_tools(self, run_context), run_context)

    members = {"get_all_tools": get_all_tools, "_interlock": gated, "__module__": base.__module__}
    return type(base.__name__, (base,), members)


class _GatedTool:
    """A tool of one session that asks the gate before it runs."""

    def __init__(self, tool: FunctionTool, gate: SessionGate, pause_after: float | None) -> None:
        self.name = tool.qualified_name
        self.gate = gate
        self.pause_after = pause_after
        self._inner = copy.copy(tool)
        self._own_approval = tool.needs_approval
        self._error: ContextVar[Exception | None] = ContextVar("interlock_tool_error", default=None)
        # Within `on_invoke_tool` errors become ordinary texts; this records the original error.
        formatter = resolve_function_tool_failure_error_function(tool)
        if formatter is not None:

            def note(context: RunContextWrapper[Any], error: Exception) -> Any:
                self._error.set(error)
                return formatter(context, error)

            set_function_tool_failure_error_function(self._inner, note)

    @classmethod
    def of_tool(cls, tool: Tool) -> _GatedTool | None:
        """Return the gated tool behind a listed tool, if any."""
        invoker = getattr(tool, "on_invoke_tool", None)
        found = getattr(invoker, "__self__", None)
        return found if isinstance(found, cls) else None

    def listed(self) -> FunctionTool:
        """Return the tool as listed by the agent."""
        gated = copy.copy(self._inner)
        gated.on_invoke_tool = self.invoke
        if self.pause_after is not None:
            gated.needs_approval = self.needs_approval
        return gated

    async def wants_approval(
        self, context: RunContextWrapper[Any], tool_input: dict[str, Any], call_id: str
    ) -> bool:
        """Return whether the tool itself, apart from its gate, requires the program's approval."""
        own = self._own_approval
        return await own(context, tool_input, call_id) if callable(own) else own

    async def needs_approval(
        self, context: RunContextWrapper[Any], tool_input: dict[str, Any], call_id: str
    ) -> bool:
        """Return whether the run has to stop: the call waits, or the tool itself requires approval."""
        must_wait = isinstance(await self.ask(call_id, tool_input), Wait)
        return must_wait or await self.wants_approval(context, tool_input, call_id)

    async def ask(self, call_id: str, tool_input: Mapping[str, object]) -> Answer:
        """Return the gate's answer, for as long as a run waits without stopping."""
        return await self.gate.ask(call_id, self.name, tool_input, wait=self.pause_after)

    async def invoke(self, context: ToolContext[Any], arguments: str) -> Any:
        """Run the tool with the approved input, or give the model the reason."""
        tool_input = _parsed(arguments)
        if tool_input is None:
            return Block("its arguments are not a JSON object with unique keys").tell(self.name)
        answer = await self.gate.ask(context.tool_call_id, self.name, tool_input)
        if not isinstance(answer, Allow):
            return Block(answer.reason).tell(self.name)
        if answer.edited:
            arguments = context.tool_arguments = json.dumps(answer.input)
        value = await self._run(context, arguments)
        return _with_notice(value, answer) if answer.edited else value

    async def _run(self, context: ToolContext[Any], arguments: str) -> Any:
        gate, call_id = self.gate, context.tool_call_id
        above, error = _thread_above.set(gate.key), self._error.set(None)
        try:
            async with gate.reporting_errors(call_id):
                value = await self._inner.on_invoke_tool(context, arguments)
        finally:
            handled = self._error.get()
            self._error.reset(error)
            _thread_above.reset(above)
        if handled is None:
            await gate.done(call_id, value, outcome_of(self.name, value))
        else:
            await gate.done(call_id, failure_text(handled), "failed")
        return value


def _with_notice(value: object, answer: Allow) -> object:
    """Return a tool's value for the model, with a notice of the operator's edit."""
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    if items and all(isinstance(item, _STRUCTURED) for item in items):
        return [*items, ToolOutputText(text=answer.notice or "")]
    return answer.tell(str(cast("object", value)))


def _all_unseen(tools: Iterable[Tool]) -> dict[str, str]:
    """Return tools that are not run by `on_invoke_tool`, by name, with the reason."""
    return {
        tool.name: _HERE if isinstance(tool, _RUN_HERE) else _ELSEWHERE
        for tool in tools
        if not isinstance(tool, FunctionTool)
    }


def _parsed(arguments: str) -> Mapping[str, object] | None:
    """Return the arguments of a call; `None` if they are not a JSON object, or repeat a key."""
    try:
        found = json.loads(arguments or "{}", object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else None
