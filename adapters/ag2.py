"""Adapter for AG2: every tool call of an agent passes the gate before it runs.

agent = gate_agent(Agent("releaser", config=config, tools=[deploy]), "deploy.rules")
reply = await agent.ask("Ship it")
"""

# The way a turn runs its tools is not a public interface, but it is the only one that all tools go
# through.
# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import copy
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from ag2 import Agent, Context
from ag2.context import ConversationContext
from ag2.events import (
    BaseEvent,
    ClientToolCallEvent,
    DataInput,
    ModelResponse,
    TextInput,
    ToolCallEvent,
    ToolCallsEvent,
    ToolErrorEvent,
    ToolResultEvent,
    ToolResultsEvent,
)
from ag2.events.tool_events import ToolResult
from ag2.middleware import BaseMiddleware
from ag2.stream import Stream
from ag2.testing import TestConfig
from ag2.tools import Toolkit, tool
from ag2.tools.builtin.tool_search import ToolSearchTool
from ag2.tools.executor import ToolExecutor
from ag2.tools.final.client_tool import ClientTool
from ag2.tools.subagents.subagent_tool import SubagentTool
from pydantic_core import to_jsonable_python

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, Probe, refuse_unseen, version_of
from .gate import Allow, Block, SessionGate, Wait, failure_text, outcome_of

FRAMEWORK = "AG2"

A = TypeVar("A", bound=Agent)
Thread: TypeAlias = "str | Callable[[Context], str] | None"
Execution: TypeAlias = "Callable[[ToolCallEvent, Context], Any]"

_PROVIDER = "the model's provider runs it; the program learns of it only afterwards"
_CLIENT = "the client runs it, after the turn"
_AGENTS = "it runs agents of its own, which have no gate"
_OWN = "its class decides itself how it runs; give it as a function"
_REMOTE = "the agent itself runs elsewhere"
_PROTOCOLS = ("ag2.ag_ui", "ag2.a2a", "ag2.a2ui", "ag2.acp")
"""Packages that serve an agent, whose turns have their own streams."""

_above: ContextVar[tuple[_GatedAgents, SessionGate] | None] = ContextVar("interlock_above", default=None)
"""Gate and session of the run whose tool is an agent: that agent's calls belong to the same session."""


class BlockedCallError(Exception):
    """A call that does not run."""


def gate_agent(
    agent: A,
    gate: GateSource = None,
    *,
    thread: Thread = None,
    pause_after: float | None = None,
    passthrough: Collection[str] = (),
) -> A:
    """Put an agent's tools behind a gate, and the tools of agents among these.

    The agent is modified in place, and returned. `gate` is a rules file, a rule set, a gate in this
    process, the URL of a server, or `None` for the server at INTERLOCK_URL. Tools of toolkits, plugins,
    MCP servers and of a single `ask` are gated when they appear.

    The session whose nets judge the calls is the conversation, by the id of its stream. `thread` selects
    another session: a text, or a function of the context. With `pause_after`, a turn whose call waits
    longer than that many seconds for an operator ends with that call in its reply's
    `response.tool_calls`: see `ask_again`.

    Raises `UnseenToolError` for tools that the model's provider or a client runs, tools that run agents
    which cannot be gated, and tools of other classes, unless `passthrough` names them. Such tools that
    appear later end the turn.
    """
    gates = Gates.of(gate, agent=agent.name)
    _GatedAgents(gates, thread, pause_after, frozenset(passthrough)).add(agent)
    return agent


async def ask_again(agent: Agent, stream: Stream) -> list[BaseEvent] | None:
    """Request decisions on the calls at which a turn stopped; return the events with which it resumes.

    `stream` has the turn's history. Returns `None` while one of the calls waits for an operator, or if no
    call has stopped. The events approve nothing: the gate decides again when the calls run.

        events = await ask_again(agent, stream)
        if events is not None:
            reply = await agent.resume(*events, stream=stream)
    """
    executor = agent._tool_executor
    if not isinstance(executor, _GatedExecutor):
        raise TypeError(f"The agent '{agent.name}' has no gate: give it to gate_agent first")
    if any(isinstance(each, ClientTool) for each in _leaves(_tools_of(agent))):
        return None
    events = list(await stream.history.get_events())
    calling = list(_calling(events))
    if not calling or not calling[-1][1].response_force:
        return None
    stop, waiting = calling[-1][0], {call.id: call for call in calling[-1][1].tool_calls.calls}
    last_call = next((each for _, each in reversed(calling) if not each.response_force), None)
    calls = [
        each
        for each in (last_call.tool_calls.calls if last_call is not None else ())
        if each.id in waiting
    ]
    if len(calls) != len(waiting):
        return None
    gate, wait = executor.agents.session(ConversationContext(stream)), executor.agents.pause_after
    questions = (gate.ask(c.id, c.name, c.serialized_arguments, wait=wait) for c in waiting.values())
    if any(isinstance(answer, Wait) for answer in await asyncio.gather(*questions)):
        return None
    # Restores the history as if the turn had not stopped: the model made these calls only once.
    others = (each for place, each in enumerate(events) if place != stop)
    history = [
        each for each in others if not (isinstance(each, ClientToolCallEvent) and each.id in waiting)
    ]
    return [*history, ToolCallsEvent([copy.copy(call) for call in calls])]


def _calling(events: Iterable[BaseEvent]) -> Iterator[tuple[int, ModelResponse]]:
    """Yield responses that make calls, with their positions.

    A response that ends a turn is marked as forced, and is not the model's.
    """
    for place, each in enumerate(events):
        if isinstance(each, ModelResponse) and each.tool_calls:
            yield place, each


async def check_coverage(agent: Agent) -> Coverage:
    """Have a gated agent call a probe, and list what its gate sees; no model is called.

    Tools that plugins and MCP servers add to a turn are not listed. Raises `CoverageError` if the probe
    is not blocked, and `TypeError` for an agent without a gate.
    """
    executor = agent._tool_executor
    if not isinstance(executor, _GatedExecutor):
        raise TypeError(f"The agent '{agent.name}' has no gate: give it to gate_agent first")
    probe = Probe()
    config = TestConfig(ToolCallEvent(PROBE, id="probe"), "done", raise_tool_errors=False)
    reply = await agent.ask(
        "probe", config=config, tools=[tool(probe.run, name=PROBE, description="Do nothing")]
    )
    events = await reply.context.stream.history.get_events()
    results = [each for each in events if isinstance(each, ToolResultEvent) and each.parent_id == "probe"]
    probe.check("\n".join(_text(each) for each in results))
    found = list(_leaves(_tools_of(agent)))
    unseen = _unseen(agent, found)
    names = dict.fromkeys(each.name for each in found if each.name not in unseen)
    return Coverage(FRAMEWORK, version_of("ag2"), tuple(names), unseen)


@dataclass(eq=False)
class _GatedAgents:
    """The gate shared by an agent and the agents among its tools."""

    gates: Gates
    thread: Thread
    pause_after: float | None
    passthrough: frozenset[str]

    def add(self, agent: Agent) -> None:
        """Gate an agent, and the agents among its tools. Raises `UnseenToolError`."""
        known = agent._tool_executor
        if isinstance(known, _GatedExecutor):
            if known.agents is self:
                return
            raise ValueError(f"The agent '{agent.name}' has a gate already")
        self.prepare(agent, _tools_of(agent))
        agent._tool_executor = _GatedExecutor(known, self, agent)

    def prepare(self, agent: Agent, tools: Iterable[Any]) -> None:
        """Gate the agents among tools. Raises `UnseenToolError` for tools that the gate would not see."""
        found = list(_leaves(tools))
        refuse_unseen(FRAMEWORK, _unseen(agent, found), self.passthrough)
        for each in found:
            if isinstance(each, SubagentTool):
                self.add(each.agent)

    def session(self, context: Context) -> SessionGate:
        """Return the session that a call belongs to."""
        if (above := _above.get()) is not None and above[0] is self:
            return above[1]
        if self.thread is None:
            return self.gates.session(str(context.stream.id))
        return self.gates.session(self.thread if isinstance(self.thread, str) else self.thread(context))


class _GatedExecutor(ToolExecutor):
    """Executor of an agent's turns that asks the gate before a tool runs."""

    def __init__(self, inner: ToolExecutor, agents: _GatedAgents, agent: Agent) -> None:
        self.inner = inner
        self.agents = agents
        self.agent = agent

    def register(
        self,
        stack: Any,
        context: Context,
        *,
        tools: Iterable[Any] = (),
        known_tools: Iterable[str] = (),
        middleware: Iterable[BaseMiddleware] = (),
    ) -> None:
        """Register a turn's tools, with the gate directly around them. Raises `UnseenToolError`."""
        tools = list(tools)
        self.agents.prepare(self.agent, tools)
        # No pause if there is a client: it would be sent the waiting call, too, as if the call were for
        # the client.
        pauses = not any(isinstance(each, ClientTool) for each in tools) and not _is_served(context)
        # The first middleware is the innermost.
        gated = _Innermost(self.agents, context, self.agents.pause_after if pauses else None)
        completed = context.stream.where(ToolResultsEvent).sub_scope(_completed, interrupt=True)
        stack.enter_context(completed)
        self.inner.register(
            stack, context, tools=tools, known_tools=known_tools, middleware=[gated, *middleware]
        )


class _Innermost(BaseMiddleware):
    """The gate of a turn, inside all other middleware: it judges a call as they have changed it."""

    def __init__(self, agents: _GatedAgents, context: Context, pause_after: float | None) -> None:
        super().__init__(ToolCallEvent(PROBE), context)
        self.agents = agents
        # A turn of an agent that is a tool cannot be resumed by the program.
        self.pause_after = None if _above.get() is not None else pause_after

    async def on_tool_execution(
        self, call_next: Execution, event: ToolCallEvent, context: Context
    ) -> Any:
        """Run the call, with the tool's own middleware outside the gate, too."""
        hooks, run = _unwound(call_next)
        if run is None:
            return _blocked(event, event.name, Block("it is not known what runs it"))
        execution: Execution = partial(self._run, run)
        for hook in reversed(hooks):
            execution = partial(hook, execution)
        return await execution(event, context)

    async def _run(self, run: Any, event: ToolCallEvent, context: Context) -> Any:
        """Ask the gate, and run the tool with the approved input."""
        name, agents = str(run.name), self.agents
        if isinstance(run, ClientTool) and name in agents.passthrough:
            return await run(event, context)
        try:
            # Copied, because others that saw the event could change its arguments while the gate decides.
            gate, tool_input = agents.session(context), copy.deepcopy(event.serialized_arguments)
            answer = await gate.ask(event.id, name, tool_input, wait=self.pause_after)
            if isinstance(answer, Wait):
                # An event that ends a turn with calls to be made elsewhere.
                shown_input = json.dumps(to_jsonable_python(tool_input, inf_nan_mode="strings"))
                return ClientToolCallEvent(name, id=event.id, arguments=shown_input)
        except Exception as error:  # whatever the error, the call does not run
            answer = Block(f"its arguments or its session cannot be determined: {error}")
            return _blocked(event, name, answer)
        if not isinstance(answer, Allow):
            return _blocked(event, name, answer)
        if (twice := gate.start(event.id)) is not None:
            return _blocked(event, name, twice)
        event = copy.copy(event)
        event.serialized_arguments = dict(answer.input) if answer.edited else tool_input
        if answer.edited:
            event.arguments = json.dumps(answer.input)
        above = _above.set((agents, gate))
        try:
            async with gate.reporting_errors(event.id):
                result = await run(event, context)
        finally:
            _above.reset(above)
        if isinstance(result, ToolErrorEvent):
            await gate.done(event.id, failure_text(result.error), "failed")
        elif isinstance(result, ToolResultEvent):
            await gate.done(event.id, _text(result), outcome_of(name, _value(result)))
        else:
            await gate.done(event.id, "The call was passed on", "unknown")
        return _with_notice(result, answer) if answer.edited else result


def _unwound(execution: Any) -> tuple[list[Any], Any]:
    """Return a tool's middleware, outermost first, and the tool itself; `None` if it is unknown."""
    hooks: list[Any] = []
    while not hasattr(cast("type[object]", type(execution)), "register"):
        if not inspect.isfunction(execution):
            return hooks, None
        inside = inspect.getclosurevars(execution).nonlocals
        if set(inside) != {"hook", "inner"}:
            return hooks, None
        hooks.append(inside["hook"])
        execution = inside["inner"]
    return hooks, execution


async def _completed(event: ToolResultsEvent, context: Context) -> ToolResultsEvent:
    """Return the results of a resumed turn, including those that other calls had before the stop."""
    events = list(await context.stream.history.get_events())
    start, response = next(reversed(list(_calling(events))), (0, None))
    calls = response.tool_calls.calls if response is not None else []
    if not {each.parent_id for each in event.results} < {call.id for call in calls}:
        return event
    known = (each for each in events[start:] if isinstance(each, ToolResultEvent))
    found = {each.parent_id: each for each in (*known, *event.results)}
    return ToolResultsEvent([found[call.id] for call in calls if call.id in found])


def _blocked(event: ToolCallEvent, name: str, answer: Block | Wait) -> ToolErrorEvent:
    text = Block(answer.reason).tell(name)
    return ToolErrorEvent(
        parent_id=event.id, name=event.name, error=BlockedCallError(text), result=ToolResult(text)
    )


def _text(result: ToolResultEvent) -> str:
    """Return the text of a result, as recorded."""
    return "\n".join(
        each.content if isinstance(each, TextInput) else str(getattr(each, "data", each))
        for each in result.result.parts
    )


def _value(result: ToolResultEvent) -> object:
    """Return the single value that a tool returned, otherwise its parts."""
    match result.result.parts:
        case [TextInput(content=content)]:
            return content
        case [DataInput(data=data)]:
            return data
        case parts:
            return parts


def _with_notice(result: Any, answer: Allow) -> Any:
    """Return a call's result for the model, with a notice of the operator's edit."""
    found = getattr(result, "result", None)
    if not isinstance(found, ToolResult):
        return result
    notice = TextInput(answer.notice or "")
    match found.parts:
        case [TextInput(content=content)]:
            found.parts = [TextInput(answer.tell(content))]
        case [*parts] if not found.final:
            found.parts = [*parts, notice]
        case _:
            # It ends the turn as a single value, which no model reads.
            pass
    return result


def _is_served(context: Context) -> bool:
    """Return whether a protocol of AG2 such as AG-UI or A2A forwards a turn's events to a client."""
    found: Any = context.stream
    while (inside := getattr(found, "_parent", None)) is not None:
        found = inside
    handlers = [model.call for _, model in getattr(found, "_subscribers", {}).values()]
    return any(getattr(each, "__module__", "").startswith(_PROTOCOLS) for each in handlers)


def _tools_of(agent: Agent) -> tuple[Any, ...]:
    """Return the tools that an agent has in every turn."""
    return (*agent.tools, *agent._additional_tools)


def _leaves(tools: Iterable[Any]) -> Iterator[Any]:
    """Yield tools, and those of the toolkits among them."""
    for each in tools:
        if isinstance(each, Toolkit):
            yield from _leaves(each.tools)
            continue
        yield each
        if isinstance(each, ToolSearchTool):
            yield from _leaves(each.tools)


def _unseen(agent: Agent, tools: Iterable[Any]) -> Mapping[str, str]:
    """Return tools that run outside the gate, by name, with the reason."""
    unseen = {each.name: why for each in tools if (why := _reason(each)) is not None}
    module = type(agent.config).__module__
    return unseen | ({"config": _REMOTE} if module.startswith(("ag2.a2a", "ag2.acp")) else {})


def _reason(each: Any) -> str | None:
    """Return the reason why a tool is not seen, if any."""
    if isinstance(each, ToolSearchTool):
        return None
    if isinstance(each, ClientTool):
        return _CLIENT
    register = getattr(cast("type[object]", type(each)), "register", None)
    module = getattr(register, "__module__", "")
    if not module.startswith("ag2.tools."):
        return _OWN
    if module.startswith("ag2.tools.builtin.") and not callable(each):
        return _PROVIDER
    function = getattr(getattr(each, "model", None), "call", None)
    function = inspect.unwrap(function) if function is not None else None
    if isinstance(each, SubagentTool) or function is None:
        return None
    maker = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    inside = ("ag2.tools.subagents.", "ag2.agent._build_subtask_toolkit")
    return _AGENTS if maker.startswith(inside) else None
