"""Adapter for LlamaIndex: every tool call of agents and their workflows passes the gate before it runs.

agent = gate_agent(FunctionAgent(tools=[deploy], llm=model), "deploy.rules")
result = await agent.run("Ship it")
"""

# LlamaIndex is large, so the development environment does not have it.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar
from uuid import uuid4

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent, CodeActAgent
from llama_index.core.agent.workflow.codeact_agent import EXECUTE_TOOL_NAME
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolOutput
from llama_index.core.workflow import Context, Event
from pydantic_core import to_jsonable_python
from workflows.context.state_store import UnserializableKeyWarning
from workflows.events import WorkflowIdleEvent
from workflows.handler import WorkflowHandler
from workflows.runtime.types.results import (
    DeleteWaiter,
    StepWorkerStateContextVar,
    WaitingForEvent,
)

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, Probe, refuse_unseen, version_of
from .gate import Allow, Block, SessionGate, Wait, failure_text, outcome_of, snapshot

FRAMEWORK = "LlamaIndex"

A = TypeVar("A", BaseWorkflowAgent, AgentWorkflow)
Thread: TypeAlias = "str | Callable[[Context], str] | None"

_SESSION = "interlock_session"
"""Key of a context's store with the name of its session."""
_MEMORY = "interlock_memory"
"""Key of a context's store with its memory, which LlamaIndex saves only where it can."""
_NO_SESSION = Block("its context was not begun by an agent with this gate: name its thread")
_IN_CODE = "the agent's code runs it where that is executed"

_model_call: ContextVar[str | None] = ContextVar("interlock_model_call", default=None)
"""Id of the call that a step of the workflow makes."""


class CallWaitsEvent(Event):
    """Event of a run's stream: a call waits for an operator. An answer from the program is none."""

    call: str
    tool: str
    reason: str


class _Never(Event):
    """Event that a waiting step waits for. Nobody sends it: the step runs again as its run goes on."""

    call: str


def gate_agent(
    agent: A,
    gate: GateSource = None,
    *,
    thread: Thread = None,
    pause_after: float | None = None,
    passthrough: Collection[str] = (),
) -> A:
    """Put the tools of an agent, or of all agents of an `AgentWorkflow`, behind a gate.

    The agent itself is changed, and returned. `gate` is a rules file, rules, a gate of this process, the
    URL of a server, or `None` for the server of INTERLOCK_URL. To hand over to another agent is a call
    `handoff`, and the code of a `CodeActAgent` one to `execute`.

    The session whose nets judge the calls is that of the run's `Context`, which keeps its name when it is
    saved; `thread` names another: a text, or a function of the context. With `pause_after` a call that
    waits longer for an operator, in seconds, suspends its step: see `pause`.

    Raises `UnseenToolError` for tools that a `CodeActAgent` has its code call, unless `passthrough` names
    them.
    """
    if getattr(type(agent), "_interlock", None) is not None:
        raise ValueError("The agent has a gate already")
    name = agent.name if isinstance(agent, BaseWorkflowAgent) else agent.root_agent
    gated = _GatedAgents(Gates.of(gate, agent=name), thread, pause_after, frozenset(passthrough))
    gated.refuse_unseen(agent)
    for each in (agent, *_agents_of(agent)):
        # One of a workflow may run alone as well, or be in another one.
        if getattr(type(each), "_interlock", None) is None:
            each.__class__ = _gated_class(type(each), gated)
    return agent


async def pause(handler: WorkflowHandler) -> dict[str, Any] | None:
    """Follow a run until it ends, or until nothing of it is left to do but calls that wait.

    Then the run is ended here, and this gives what its context has to keep. `None` where the run has
    ended by itself: await the handler for its result, or what it has raised. It goes on anywhere, and
    asks the same calls again:

        handler = agent.run(ctx=Context.from_dict(agent, saved))

    Reads the events of the handler's stream, which has each once. A memory other than the agents' own
    is the program's to keep, and to set at once: `await handler.ctx.store.set("memory", memory)`.
    """
    waiting = False
    async for event in handler.stream_events(expose_internal=True):
        waiting = waiting or isinstance(event, CallWaitsEvent)
        if waiting and isinstance(event, WorkflowIdleEvent):
            with warnings.catch_warnings():
                # Of the memory, whose messages are kept.
                warnings.simplefilter("ignore", UnserializableKeyWarning)
                saved = handler.ctx.to_dict()
            await handler.cancel_run()
            return saved
    return None


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
    pause_after: float | None
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
        await ctx.store.set(_MEMORY, None)
        await base._init_context(self, ctx, ev)

    # A step by what the decorator has noted in the original, which comes along.
    @functools.wraps(base.call_tool)
    async def call_tool(self: Any, ctx: Context, ev: Any) -> Any:
        await _restore_memory(ctx)
        # One of an earlier pause would have the step run once more after the next.
        stale = DeleteWaiter(waiter_id=_waiter(ev.tool_id))
        StepWorkerStateContextVar.get().returns.return_values.append(stale)
        token = _model_call.set(ev.tool_id or None)
        try:
            return await base.call_tool(self, ctx, ev)
        finally:
            _model_call.reset(token)

    async def _call_tool(
        self: Any, ctx: Any, tool: AsyncBaseTool, tool_input: dict[str, Any]
    ) -> ToolOutput:
        name, known = tool.metadata.get_name(), _model_call.get()
        call_id = known or uuid4().hex
        _model_call.set(None)
        gate = await gated.session(ctx)
        if gate is None:
            return _blocked(name, _NO_SESSION, tool_input)
        # Whoever reads the run's events has them as well.
        tool_input = snapshot(tool_input)
        fixed = _fixed(tool)
        wait = None if known is None else gated.pause_after
        answer = await gate.ask(call_id, name, {**fixed, **tool_input}, wait=wait)
        if isinstance(answer, Wait):
            await _keep_memory(ctx)
            ctx.write_event_to_stream(CallWaitsEvent(call=call_id, tool=name, reason=answer.reason))
            # A waiter with requirements, which are not saved, has its step run again by whoever goes on.
            await ctx.wait_for_event(
                _Never, waiter_id=_waiter(call_id), requirements={"call": call_id}, timeout=None
            )
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


def _waiter(call_id: str) -> str:
    """The name of the waiter of a call, by which its step is suspended."""
    return f"interlock {call_id}"


async def _keep_memory(context: Context) -> None:
    """Have a context that is saved now keep the agents' own memory."""
    memory, kept = await context.store.get("memory", default=None), None
    if type(memory) is ChatMemoryBuffer:
        messages = [message.model_dump(mode="json") for message in memory.get_all()]
        kept = {"token_limit": memory.token_limit, "messages": messages}
    await context.store.set(_MEMORY, kept)


async def _restore_memory(context: Context) -> None:
    """Give a run that goes on its memory, where its context came without. Raises `LookupError`."""
    if await context.store.get("memory", default=None) is not None:
        return
    kept = await context.store.get(_MEMORY, default=None)
    if kept is None:
        raise LookupError(
            "The context of the run has no memory, expected that with which it began: it is not saved. "
            'After agent.run(ctx=…) set it: await handler.ctx.store.set("memory", memory)'
        )
    messages = [ChatMessage.model_validate(each) for each in kept["messages"]]
    memory = ChatMemoryBuffer.from_defaults(messages, token_limit=kept["token_limit"])
    await context.store.set("memory", memory)


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
