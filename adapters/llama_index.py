"""Adapter for LlamaIndex: every tool call of agents and their workflows passes the gate before it runs.

agent = gate_agent(FunctionAgent(tools=[deploy], llm=model), "deploy.rules")
result = await agent.run("Ship it")
"""

# LlamaIndex is large, so the development environment does not include it.
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
"""Key in a context's store for the name of its session."""
_MEMORY = "interlock_memory"
"""Key in a context's store for its memory, which LlamaIndex does not always save."""
_NO_SESSION = Block("its context was not begun by an agent with this gate: name its thread")
_IN_CODE = "the agent's code calls it directly, wherever that code is executed"

_model_call: ContextVar[str | None] = ContextVar("interlock_model_call", default=None)
"""Id of the call that a step of the workflow makes."""


class CallWaitsEvent(Event):
    """Event in a run's stream: a call waits for an operator. The program cannot answer it."""

    call: str
    tool: str
    reason: str


class _Never(Event):
    """Event that a waiting step waits for. It is never sent: the step runs again when its run resumes."""

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

    The agent is modified in place, and returned. `gate` is a rules file, a rule set, a gate in this
    process, the URL of a server, or `None` for the server at INTERLOCK_URL. A handoff to another agent is
    a call `handoff`, and the code of a `CodeActAgent` is a call `execute`.

    The session whose nets judge the calls is that of the run's `Context`, whose name is saved with it;
    `thread` selects another session: a text, or a function of the context. With `pause_after`, a call
    that waits longer than that many seconds for an operator suspends its step: see `pause`.

    Raises `UnseenToolError` for tools called by the code of a `CodeActAgent`, unless `passthrough` names
    them.
    """
    if getattr(type(agent), "_interlock", None) is not None:
        raise ValueError("The agent has a gate already")
    name = agent.name if isinstance(agent, BaseWorkflowAgent) else agent.root_agent
    gated = _GatedAgents(Gates.of(gate, agent=name), thread, pause_after, frozenset(passthrough))
    gated.refuse_unseen(agent)
    for each in (agent, *_agents_of(agent)):
        # An agent of a workflow may also run alone, or in another workflow.
        if getattr(type(each), "_interlock", None) is None:
            each.__class__ = _gated_class(type(each), gated)
    return agent


async def pause(handler: WorkflowHandler) -> dict[str, Any] | None:
    """Follow a run until it ends, or until only waiting calls are left to do.

    In the second case the run is cancelled here, and its context is returned in a form that can be saved.
    Returns `None` if the run has ended: await the handler for its result or exception. A saved run can
    resume anywhere, and asks about the same calls again:

        handler = agent.run(ctx=Context.from_dict(agent, saved))

    Reads the events of the handler's stream, which has each event once. The program has to save a memory
    other than the agents' own, and set it at once: `await handler.ctx.store.set("memory", memory)`.
    """
    waiting = False
    async for event in handler.stream_events(expose_internal=True):
        waiting = waiting or isinstance(event, CallWaitsEvent)
        if waiting and isinstance(event, WorkflowIdleEvent):
            with warnings.catch_warnings():
                # The warning is about the memory, whose messages are saved separately.
                warnings.simplefilter("ignore", UnserializableKeyWarning)
                saved = handler.ctx.to_dict()
            await handler.cancel_run()
            return saved
    return None


async def check_coverage(agent: BaseWorkflowAgent | AgentWorkflow) -> Coverage:
    """Have a gated agent call a probe, and list what its gate sees; no model is called.

    Tools that a retriever would find are not listed. Raises `CoverageError` if the probe is not blocked,
    and `TypeError` for an agent without a gate.
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
    """A context outside of a run; it has a session, and nothing else that a call could use."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = self

    async def get(self, _: str, default: object = None) -> object:
        """Return a unique name."""
        return "interlock-probe"


@dataclass(eq=False)
class _GatedAgents:
    """The gate for the runs of an agent or a workflow."""

    gates: Gates
    thread: Thread
    pause_after: float | None
    passthrough: frozenset[str]

    def refuse_unseen(self, agent: BaseWorkflowAgent | AgentWorkflow) -> None:
        """Raise `UnseenToolError` for whatever the gate would not see."""
        refuse_unseen(FRAMEWORK, _unseen(agent), self.passthrough)

    async def session(self, context: Context) -> SessionGate | None:
        """Return the gate of a run's context; `None` for a context without a name."""
        if self.thread is None:
            key = await context.store.get(_SESSION, default=None)
        else:
            key = self.thread if isinstance(self.thread, str) else self.thread(context)
        return self.gates.session(str(key)) if key else None


def _gated_class(base: type[Any], gated: _GatedAgents) -> type[Any]:
    """Return a class like `base` whose calls pass the gate before they run."""

    async def _init_context(self: Any, ctx: Context, ev: Any) -> None:
        gated.refuse_unseen(self)
        if not await ctx.store.get(_SESSION, default=None):
            await ctx.store.set(_SESSION, f"run-{uuid4().hex}")
        await ctx.store.set(_MEMORY, None)
        await base._init_context(self, ctx, ev)

    # `wraps` copies the decorator's attributes from the original, which make this a step.
    @functools.wraps(base.call_tool)
    async def call_tool(self: Any, ctx: Context, ev: Any) -> Any:
        await _restore_memory(ctx)
        # Remove the waiter of an earlier pause: it would make the step run once more after the next one.
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
        # Copied, because readers of the run's events share it.
        tool_input = snapshot(tool_input)
        fixed = _fixed(tool)
        wait = None if known is None else gated.pause_after
        answer = await gate.ask(call_id, name, {**fixed, **tool_input}, wait=wait)
        if isinstance(answer, Wait):
            await _keep_memory(ctx)
            ctx.write_event_to_stream(CallWaitsEvent(call=call_id, tool=name, reason=answer.reason))
            # Requirements of a waiter are not saved, so a resumed run executes its step again.
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
                block = Block(
                    f"its edited input lacks arguments that the tool presets: {', '.join(missing)}"
                )
                await gate.done(call_id, block.reason, "failed")
                return _blocked(name, block, tool_input)
        try:
            async with gate.reporting_errors(call_id, passing=(WaitingForEvent,)):
                output = await base._call_tool(self, ctx, tool, tool_input)
        except WaitingForEvent:
            # The tool waits for its own event. Its step runs again, and gets the same answer.
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
    """Return the name of the waiter that suspends a call's step."""
    return f"interlock {call_id}"


async def _keep_memory(context: Context) -> None:
    """Store the agents' own memory in a context that is about to be saved."""
    memory, stored = await context.store.get("memory", default=None), None
    if type(memory) is ChatMemoryBuffer:
        messages = [message.model_dump(mode="json") for message in memory.get_all()]
        stored = {"token_limit": memory.token_limit, "messages": messages}
    await context.store.set(_MEMORY, stored)


async def _restore_memory(context: Context) -> None:
    """Restore the memory of a resumed run if its context lacks it. Raises `LookupError`."""
    if await context.store.get("memory", default=None) is not None:
        return
    stored = await context.store.get(_MEMORY, default=None)
    if stored is None:
        raise LookupError(
            "The context of the run has no memory, expected the one it started with: that is not saved. "
            'After agent.run(ctx=…) set it: await handler.ctx.store.set("memory", memory)'
        )
    messages = [ChatMessage.model_validate(each) for each in stored["messages"]]
    memory = ChatMemoryBuffer.from_defaults(messages, token_limit=stored["token_limit"])
    await context.store.set("memory", memory)


def _blocked(name: str, block: Block, tool_input: dict[str, Any]) -> ToolOutput:
    text = block.tell(name)
    return ToolOutput(tool_name=name, content=text, raw_input=tool_input, raw_output=text, is_error=True)


def _fixed(tool: AsyncBaseTool) -> dict[str, Any]:
    """Return the arguments that the program has preset, as far as they can be JSON."""
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
    """Return tools that an agent's code calls directly, by name, with the reason."""
    return {
        str(tool.metadata.name): _IN_CODE
        for each in _agents_of(agent)
        if isinstance(each, CodeActAgent)
        for tool in _tools_of(each)
        if tool.metadata.name != EXECUTE_TOOL_NAME
    }
