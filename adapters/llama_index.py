"""Adapter for LlamaIndex: every tool call of agents and their workflows passes the gate before it runs.

agent = gate_agent(FunctionAgent(tools=[deploy], llm=model), "deploy.rules")
result = await agent.run("Ship it")
"""

# LlamaIndex is large, so the development environment does not have it.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar
from uuid import uuid4

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent, CodeActAgent
from llama_index.core.agent.workflow.codeact_agent import EXECUTE_TOOL_NAME
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolOutput
from llama_index.core.workflow import Context
from pydantic_core import to_jsonable_python
from workflows.runtime.types.results import WaitingForEvent

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, Probe, refuse_unseen, version_of
from .gate import Allow, Block, SessionGate, failure_text, outcome_of

FRAMEWORK = "LlamaIndex"

A = TypeVar("A", BaseWorkflowAgent, AgentWorkflow)
Thread: TypeAlias = "str | Callable[[Context], str] | None"

_SESSION = "interlock_session"
"""Key of a context's store with the name of its session."""
_NO_SESSION = Block("its context was not begun by an agent with this gate: name its thread")
_IN_CODE = "the agent's code runs it where that is executed"

_model_call: ContextVar[str | None] = ContextVar("interlock_model_call", default=None)
"""Id of the call that a step of the workflow makes."""


def gate_agent(
    agent: A, gate: GateSource = None, *, thread: Thread = None, passthrough: Collection[str] = ()
) -> A:
    """Put the tools of an agent, or of all agents of an `AgentWorkflow`, behind a gate.

    The agent itself is changed, and returned. `gate` is a rules file, rules, a gate of this process, the
    URL of a server, or `None` for the server of INTERLOCK_URL. To hand over to another agent is a call
    `handoff`, and the code of a `CodeActAgent` one to `execute`.

    The session whose nets judge the calls is that of the run's `Context`, which keeps its name when it is
    saved; `thread` names another: a text, or a function of the context.

    Raises `UnseenToolError` for tools that a `CodeActAgent` has its code call, unless `passthrough` names
    them.
    """
    if getattr(type(agent), "_interlock", None) is not None:
        raise ValueError("The agent has a gate already")
    name = agent.name if isinstance(agent, BaseWorkflowAgent) else agent.root_agent
    gated = _GatedAgents(Gates.of(gate, agent=name), thread, frozenset(passthrough))
    gated.refuse_unseen(agent)
    agent.__class__ = _gated_class(type(agent), gated)
    return agent


async def check_coverage(agent: BaseWorkflowAgent | AgentWorkflow) -> Coverage:
    """Have a gated agent call a probe, and list what its gate sees; asks no model.

    Tools that a retriever would find are not listed. Raises `CoverageError` where the probe is not
    blocked, and `TypeError` for an agent without a gate.
    """
    gated = getattr(type(agent), "_interlock", None)
    if not isinstance(gated, _GatedAgents):
        raise TypeError("The agent has no gate: give it to gate_agent first")
    probe, context = Probe(), Context(agent)
    tool = FunctionTool.from_defaults(probe.run, name=PROBE, description="Do nothing")
    token = _model_call.set("probe")
    try:
        output = await agent._call_tool(_ProbeContext(context), tool, {})
    finally:
        _model_call.reset(token)
    probe.check(output.content)
    names = dict.fromkeys(
        str(tool.metadata.name) for each in _agents_of(agent) for tool in _tools_of(each)
    )
    unseen = _unseen(agent)
    return Coverage(
        FRAMEWORK,
        version_of("llama-index-core"),
        tuple(name for name in names if name not in unseen),
        unseen,
    )


class _ProbeContext:
    """A context outside of a run: it has a session, and nothing else that a call could use."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = self

    async def get(self, _: str, default: object = None) -> object:
        """A name of its own."""
        return "interlock-probe"


@dataclass(eq=False)
class _GatedAgents:
    """The gate of an agent's, or a workflow's, runs."""

    gates: Gates
    thread: Thread
    passthrough: frozenset[str]

    def refuse_unseen(self, agent: BaseWorkflowAgent | AgentWorkflow) -> None:
        """Raise `UnseenToolError` for what the gate would not see."""
        refuse_unseen(FRAMEWORK, _unseen(agent), self.passthrough)

    async def session(self, context: Context) -> SessionGate | None:
        """The gate of a run's context; `None` for one that has no name."""
        if self.thread is None:
            key = await context.store.get(_SESSION, default=None)
        else:
            key = self.thread if isinstance(self.thread, str) else self.thread(context)
        return self.gates.session(str(key)) if key else None


def _gated_class(base: type[Any], gated: _GatedAgents) -> type[Any]:
    """A class like `base` whose calls ask before they run."""

    async def _init_context(self: Any, ctx: Context, ev: Any) -> None:
        gated.refuse_unseen(self)
        if not await ctx.store.get(_SESSION, default=None):
            await ctx.store.set(_SESSION, f"run-{uuid4().hex}")
        await base._init_context(self, ctx, ev)

    # A step by what the decorator has noted in the original, which comes along.
    @functools.wraps(base.call_tool)
    async def call_tool(self: Any, ctx: Context, ev: Any) -> Any:
        token = _model_call.set(ev.tool_id or None)
        try:
            return await base.call_tool(self, ctx, ev)
        finally:
            _model_call.reset(token)

    async def _call_tool(
        self: Any, ctx: Any, tool: AsyncBaseTool, tool_input: dict[str, Any]
    ) -> ToolOutput:
        name, call_id = tool.metadata.get_name(), _model_call.get() or uuid4().hex
        _model_call.set(None)
        gate = await gated.session(ctx)
        if gate is None:
            return _blocked(name, _NO_SESSION, tool_input)
        fixed = _fixed(tool)
        answer = await gate.ask(call_id, name, {**fixed, **tool_input})
        if not isinstance(answer, Allow):
            return _blocked(name, Block(answer.reason), tool_input)
        if (twice := gate.start(call_id)) is not None:
            return _blocked(name, twice, tool_input)
        if answer.edited:
            tool_input = dict(answer.input)
            if missing := fixed.keys() - tool_input.keys():
                block = Block(f"its edited input leaves out what the tool fixes: {', '.join(missing)}")
                await gate.done(call_id, block.reason, "failed")
                return _blocked(name, block, tool_input)
        try:
            async with gate.reporting_errors(call_id, passing=(WaitingForEvent,)):
                output = await base._call_tool(self, ctx, tool, tool_input)
        except WaitingForEvent:
            # The tool waits for an event of its own; its step runs again, and gets the same answer.
            gate.put_off(call_id)
            raise
        if output.exception is not None:
            await gate.done(call_id, failure_text(output.exception), "failed")
        else:
            failed = output.is_error
            await gate.done(
                call_id, output.content, "failed" if failed else outcome_of(name, output.raw_output)
            )
        if answer.notice is not None:
            output.blocks = [*output.blocks, TextBlock(text=answer.notice)]
        return output

    members = {
        "_init_context": _init_context,
        "call_tool": call_tool,
        "_call_tool": _call_tool,
        "_interlock": gated,
        "__annotations__": {"_interlock": ClassVar[Any]},
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
    }
    metaclass: Any = type(base)
    return metaclass(base.__name__, (base,), members)


def _blocked(name: str, block: Block, given: dict[str, Any]) -> ToolOutput:
    text = block.tell(name)
    return ToolOutput(tool_name=name, content=text, raw_input=given, raw_output=text, is_error=True)


def _fixed(tool: AsyncBaseTool) -> dict[str, Any]:
    """Arguments that the program has set beforehand, as far as they are JSON."""
    found: dict[str, Any] = {}
    for name, value in (getattr(tool, "partial_params", None) or {}).items():
        try:
            found[name] = to_jsonable_python(value, inf_nan_mode="strings")
        except ValueError:
            # An object of the program, such as a client.
            continue
    return found


def _agents_of(agent: BaseWorkflowAgent | AgentWorkflow) -> Iterable[BaseWorkflowAgent]:
    return (agent,) if isinstance(agent, BaseWorkflowAgent) else tuple(agent.agents.values())


def _tools_of(agent: BaseWorkflowAgent) -> Iterable[Any]:
    return agent.tools or ()


def _unseen(agent: BaseWorkflowAgent | AgentWorkflow) -> Mapping[str, str]:
    """Tools that an agent's code calls by itself, by name, with the reason."""
    return {
        str(tool.metadata.name): _IN_CODE
        for each in _agents_of(agent)
        if isinstance(each, CodeActAgent)
        for tool in _tools_of(each)
        if tool.metadata.name != EXECUTE_TOOL_NAME
    }
