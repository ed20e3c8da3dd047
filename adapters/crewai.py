"""Adapter for CrewAI: every tool call of a crew's agents passes the gate before it runs.

crew = gate_crew(Crew(agents=[releaser], tasks=[ship]), "deploy.rules")
result = crew.kickoff()
"""

# CrewAI requires an older mcp than `interlock`, so the development environment does not include it.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MethodType
from typing import Any, ClassVar, TypeAlias, TypeVar
from uuid import uuid4

from crewai.a2a.config import A2AServerConfig
from crewai.agent import Agent
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.agent_executor import AgentExecutor
from crewai.crew import Crew
from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure
from crewai.utilities.agent_utils import (
    extract_tool_call_info,
    get_tool_names,
    parse_tools,
    render_text_description_and_args,
)
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import BaseModel, PrivateAttr

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, CoverageError, Probe, refuse_unseen, version_of
from .gate import CUT_OFF, Allow, Block, SessionGate, failure_text, outcome_of

FRAMEWORK = "CrewAI"

C = TypeVar("C", bound=Crew)
A = TypeVar("A", bound=Agent)
Thread: TypeAlias = "str | Callable[[], str] | None"

_FOREIGN = "this agent is not an Agent of CrewAI, so its tools cannot be gated"
_PROVIDER = "the model's provider runs it; the program learns of it only afterwards"
_REMOTE = "its agents run elsewhere"

_model_call: ContextVar[str | None] = ContextVar("interlock_model_call", default=None)
"""Id of the call that the model made, until its tool uses it."""


def gate_crew(
    crew: C, gate: GateSource = None, *, thread: Thread = None, passthrough: Collection[str] = ()
) -> C:
    """Put the tools of all agents of a crew behind a gate, including its manager's and its tasks' tools.

    The crew and its agents are modified in place; the crew is returned. `gate` is a rules file, a rule
    set, a gate in this process, the URL of a server, or `None` for the server at INTERLOCK_URL.
    Delegating work is a call as well, and so are tools of MCP servers, memory and skills.

    `thread` names the session whose nets judge the calls: a text, or a function that returns one. Without
    it each kickoff is its own session. Results of tools are not cached: each call needs a decision.

    Raises `UnseenToolError` for tools that a model's provider runs, remote agents and agents of other
    frameworks, unless `passthrough` names them.
    """
    gates = Gates.of(gate, agent=crew.name or "crew")
    _GatedAgents(gates, thread, frozenset(passthrough)).add_crew(crew)
    return crew


def gate_agent(
    agent: A, gate: GateSource = None, *, thread: Thread = None, passthrough: Collection[str] = ()
) -> A:
    """Put the tools of one agent behind a gate, as `gate_crew` does for those of a crew.

    Without `thread` each `kickoff` of the agent is its own session; its tasks in a crew without a gate
    are one session.
    """
    gates = Gates.of(gate, agent=sanitize_tool_name(agent.role))
    _GatedAgents(gates, thread, frozenset(passthrough)).add(agent)
    return agent


def check_coverage(gated: Crew | Agent) -> Coverage:
    """Have each agent of a gated crew, or a gated agent, call a probe; no model is called.

    `gated` of the result names the present tools of agents and tasks. Raises `CoverageError` if the probe
    is not blocked, and `TypeError` for a crew or an agent without a gate.
    """
    found = _gated_agents_of(gated)
    if found is None:
        raise TypeError(f"The {type(gated).__name__.lower()} has no gate: give it to gate_crew first")
    agents, tools = [gated], list[Any]()
    if isinstance(gated, Crew):
        found.prepare(gated)
        agents = _agents_of(gated)
        tools = [tool for task in gated.tasks for tool in task.tools or []]
    for agent in agents:
        if isinstance(agent, Agent):
            _probe(agent)
            tools += agent.tools or []
    unseen = {name: why for agent in agents for name, why in _unseen(agent).items()}
    names = dict.fromkeys(sanitize_tool_name(tool.name) for tool in tools)
    return Coverage(FRAMEWORK, version_of("crewai"), tuple(names), unseen)


def _probe(agent: Agent) -> None:
    """Have an agent call a probe in both ways: as a native tool call, and as a call in a text."""
    known = agent.agent_executor
    agent.agent_executor = None
    probe = Probe()
    try:
        agent.create_agent_executor(tools=[_ProbeTool(probe)])
        executor: Any = agent.agent_executor
        if executor is None:
            raise CoverageError(f"The agent '{agent.role}' has no executor, so its tools cannot be gated")
        executor._setup_native_tools()
        call = {"id": "probe", "function": {"name": PROBE, "arguments": "{}"}}
        probe.check(str(executor._execute_single_native_tool_call(call)["result"]))
        [tool] = [tool for tool in executor.tools if sanitize_tool_name(tool.name) == PROBE]
        probe.check(tool.format_output_for_agent(tool.invoke({})))
    finally:
        agent.agent_executor = known


@dataclass(eq=False)
class _GatedAgents:
    """The gate shared by the agents of a crew, for one run at a time, because a crew keeps state."""

    gates: Gates
    thread: Thread
    passthrough: frozenset[str]
    _run: SessionGate | None = None

    def add_crew(self, crew: Crew) -> None:
        """Gate a crew and its agents. Raises `UnseenToolError`."""
        if _gated_agents_of(crew) is not None:
            raise ValueError(f"The crew '{crew.name}' has a gate already")
        self.prepare(crew)
        crew.__class__ = _gated_crew(type(crew), self)

    def prepare(self, crew: Crew) -> None:
        """Gate the present agents of a crew. Raises `UnseenToolError`."""
        for agent in _agents_of(crew):
            self.add(agent)

    def add(self, agent: BaseAgent) -> None:
        """Gate an agent. Raises `UnseenToolError`."""
        refuse_unseen(FRAMEWORK, _unseen(agent), self.passthrough)
        known = _gated_agents_of(agent)
        if known is self or not isinstance(agent, Agent):
            return
        if known is not None:
            raise ValueError(f"The agent '{agent.role}' has a gate already")
        agent.__class__ = _gated_agent(type(agent), self)

    def again(self) -> _GatedAgents:
        """Return the same gate for a copy, which has its own runs."""
        return _GatedAgents(self.gates, self.thread, self.passthrough)

    def begin(self) -> None:
        """Begin a run; without `thread` it is a new session."""
        if self._run is not None and self.thread is None:
            self.gates.forget(self._run.key)
        self._run = None

    def session(self) -> SessionGate:
        """Return the session of the run."""
        if self.thread is not None:
            return self.gates.session(self.thread if isinstance(self.thread, str) else self.thread())
        if self._run is None:
            self._run = self.gates.session(f"run-{uuid4().hex}")
        return self._run

    def bind(self, executor: AgentExecutor) -> None:
        """Gate everything that an executor would run, wherever its tools come from."""
        gate = self.session()
        bound = [_bound(tool, gate) for tool in executor.original_tools]
        tools = parse_tools(bound)
        executor.original_tools, executor.tools = bound, tools
        executor.tools_names = get_tool_names(tools)
        executor.tools_description = render_text_description_and_args(tools)
        # It holds tools of an earlier run, perhaps from before there was a gate.
        executor._step_executor = None
        executor._setup_native_tools()
        if executor.tools_handler is not None:
            # A result cached by another call would be returned without a decision.
            executor.tools_handler.cache = None
        if "_execute_single_native_tool_call" not in vars(executor):
            method = MethodType(_execute_with_id, executor)
            object.__setattr__(executor, "_execute_single_native_tool_call", method)


def _execute_with_id(self: AgentExecutor, tool_call: Any) -> dict[str, Any]:
    """Run a model's call, and pass the call's id to its tool, which CrewAI does not."""
    found = extract_tool_call_info(tool_call)
    token = _model_call.set(found[0] if found else None)
    try:
        return type(self)._execute_single_native_tool_call(self, tool_call)
    finally:
        _model_call.reset(token)


def _gated_crew(base: type[Crew], gated: _GatedAgents) -> type[Crew]:
    """Return a class like `base` whose crews gate their agents in every run."""

    def begin(self: Crew) -> None:
        gated.prepare(self)
        gated.begin()

    def regated(crew: Crew) -> Crew:
        for agent in _agents_of(crew):
            _ungate(agent)
        gated.again().add_crew(crew)
        return crew

    def kickoff(self: Crew, *args: Any, **options: Any) -> Any:
        begin(self)
        return base.kickoff(self, *args, **options)

    async def akickoff(self: Crew, *args: Any, **options: Any) -> Any:
        begin(self)
        return await base.akickoff(self, *args, **options)

    def replay(self: Crew, *args: Any, **options: Any) -> Any:
        begin(self)
        return base.replay(self, *args, **options)

    def create_manager(self: Crew) -> None:
        base._create_manager_agent(self)
        gated.prepare(self)

    def copy(self: Crew) -> Crew:
        return regated(base.copy(self))

    def from_checkpoint(_: type[Crew], *args: Any, **options: Any) -> Crew:
        return regated(base.from_checkpoint(*args, **options))

    members = {
        "kickoff": kickoff,
        "akickoff": akickoff,
        "replay": replay,
        "_create_manager_agent": create_manager,
        "copy": copy,
        "from_checkpoint": classmethod(from_checkpoint),
    }
    return _class(base, gated, members)


def _gated_agent(base: type[Agent], gated: _GatedAgents) -> type[Agent]:
    """Return a class like `base` whose agents' executors have only gated tools."""

    def create_agent_executor(self: Agent, *args: Any, **options: Any) -> None:
        refuse_unseen(FRAMEWORK, _unseen(self), gated.passthrough)
        base.create_agent_executor(self, *args, **options)
        if self.agent_executor is not None:
            gated.bind(self.agent_executor)

    def prepare_kickoff(self: Agent, *args: Any, **options: Any) -> Any:
        refuse_unseen(FRAMEWORK, _unseen(self), gated.passthrough)
        executor, inputs, info, _ = base._prepare_kickoff(self, *args, **options)
        if self.crew is None:
            gated.begin()
        gated.bind(executor)
        inputs |= {"tool_names": executor.tools_names, "tools": executor.tools_description}
        return executor, inputs, info, executor.tools

    def from_checkpoint(_: type[Agent], *args: Any, **options: Any) -> Agent:
        agent = base.from_checkpoint(*args, **options)
        gated.again().add(agent)
        return agent

    members = {
        "create_agent_executor": create_agent_executor,
        "_prepare_kickoff": prepare_kickoff,
        "from_checkpoint": classmethod(from_checkpoint),
    }
    return _class(base, gated, members)


def _class(base: type[Any], gated: _GatedAgents, members: dict[str, Any]) -> type[Any]:
    known = {
        "_interlock": gated,
        "_ungated": base,
        "__annotations__": {"_interlock": ClassVar[Any], "_ungated": ClassVar[Any]},
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
    }
    metaclass: Any = type(base)
    return metaclass(base.__name__, (base,), {**members, **known})


class _GatedTool(BaseTool):
    """A tool that asks the gate before it runs, about the call's arguments as parsed by its schema."""

    _inner: BaseTool = PrivateAttr()
    _gate: SessionGate = PrivateAttr()

    def _run(self, *args: Any, **tool_input: Any) -> Any:
        """Run the tool with the approved input, or give the model the reason as a failure."""
        name, call_id = sanitize_tool_name(self.name), _model_call.get() or uuid4().hex
        # Calls made by the tool's own code do not have the id of the model's call.
        _model_call.set(None)
        if args:
            return _blocked(name, Block("its arguments have no names"))
        gate = self._gate
        answer = gate.ask_now(call_id, name, tool_input)
        if not isinstance(answer, Allow):
            return _blocked(name, Block(answer.reason))
        if (twice := gate.start(call_id)) is not None:
            return _blocked(name, twice)
        if answer.edited:
            try:
                tool_input = self._inner._validate_kwargs(dict(answer.input))
            except ValueError as error:
                block = Block(f"its edited input does not fit: {error}")
                gate.done_now(call_id, block.reason, "failed")
                return _blocked(name, block)
        try:
            value = self._inner._run(**tool_input)
            if asyncio.iscoroutine(value):
                value = asyncio.run(value)
        except Exception as error:
            gate.done_now(call_id, failure_text(error), "failed")
            raise
        except BaseException:
            gate.done_now(call_id, CUT_OFF, "unknown")
            raise
        text = self._inner.format_output_for_agent(value)
        failed = isinstance(value, ToolFailure)
        gate.done_now(call_id, text, "failed" if failed else outcome_of(name, value))
        if not answer.edited:
            return value
        if failed:
            return value.model_copy(update={"message": answer.tell(value.message)})
        return _Text(answer.tell(text))

    def format_output_for_agent(self, raw_result: Any) -> str:
        """Return the tool's own text; a result with a notice is already a text."""
        if isinstance(raw_result, _Text):
            return str(raw_result)
        return self._inner.format_output_for_agent(raw_result)


class _Text(str):
    """A result with a notice of the operator's edit."""

    __slots__ = ()


def _bound(tool: BaseTool, gate: SessionGate) -> _GatedTool:
    """Return a tool behind the gate of a run.

    The tool is copied, because another agent may use it as well.
    """
    if isinstance(tool, _GatedTool):
        tool = tool._inner
    gated = _GatedTool(
        name=tool.name,
        description=tool.description,
        env_vars=tool.env_vars,
        args_schema=tool.args_schema,
        result_schema=tool.result_schema,
        cache_function=_never,
        result_as_answer=tool.result_as_answer,
        max_usage_count=tool.max_usage_count,
        tool_failure_policy=tool.tool_failure_policy,
    )
    gated._inner, gated._gate = tool, gate
    return gated


def _never(*_: Any) -> bool:
    """Return `False`: results are not cached, because the next identical call needs a decision."""
    return False


def _blocked(name: str, block: Block) -> ToolFailure:
    return ToolFailure(message=block.tell(name))


class _NoArguments(BaseModel):
    """Arguments of the probe."""


class _ProbeTool(BaseTool):
    """The probe as a tool."""

    name: str = PROBE
    description: str = "Do nothing"
    args_schema: type[BaseModel] = _NoArguments
    _probe: Probe = PrivateAttr()

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self._probe = probe

    def _run(self) -> str:
        return self._probe.run()


def _gated_agents_of(owner: Crew | BaseAgent) -> _GatedAgents | None:
    found = getattr(type(owner), "_interlock", None)
    return found if isinstance(found, _GatedAgents) else None


def _ungate(agent: BaseAgent) -> None:
    """Remove the gate from an agent that was copied with it, before the agent gets its own."""
    if _gated_agents_of(agent) is not None:
        agent.__class__ = type(agent)._ungated


def _agents_of(crew: Crew) -> list[BaseAgent]:
    """Return the agents of a crew: its own, those of its tasks, and its manager."""
    found: Iterable[BaseAgent | None] = (
        *crew.agents,
        *(task.agent for task in crew.tasks),
        crew.manager_agent,
    )
    return list({id(agent): agent for agent in found if agent is not None}.values())


def _unseen(agent: BaseAgent) -> Mapping[str, str]:
    """Return an agent's ways to act that are not tools of its executor, by name, with the reason."""
    if not isinstance(agent, Agent):
        return {agent.role: _FOREIGN}
    unseen = dict.fromkeys(getattr(agent.llm, "builtin_tools", None) or (), _PROVIDER)
    remote = agent.a2a if isinstance(agent.a2a, list) else [agent.a2a]
    return unseen | ({"a2a": _REMOTE} if any(_is_client(each) for each in remote) else {})


def _is_client(config: object) -> bool:
    """Return whether a configuration has an agent ask others, not others ask the agent."""
    return config is not None and not isinstance(config, A2AServerConfig)
