"""Adapter for Strands Agents: hooks with which every tool of an agent passes the gate before it runs.

agent = Agent(tools=[deploy], hooks=[GateHooks("deploy.rules")])
"""

# Strands requires an older mcp than the tested one, so the development environment does not include it.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import Any, Literal, cast
from uuid import uuid4

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python
from strands.agent._agent_as_tool import _AgentAsTool
from strands.agent.agent import Agent
from strands.hooks import (
    AgentInitializedEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    HookOrder,
    HookProvider,
    HookRegistry,
)
from strands.interrupt import Interrupt, InterruptException
from strands.middleware.stages import ExecuteToolStage
from strands.types._events import ToolInterruptEvent, ToolResultEvent, ToolStreamEvent
from strands.types.tools import AgentTool, ToolResult, ToolSpec, ToolUse

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, Probe, refuse_unseen, version_of
from .gate import (
    CUT_OFF,
    Allow,
    Block,
    Outcome,
    SessionGate,
    Wait,
    failure_text,
    gate_by_class,
    outcome_of,
)

FRAMEWORK = "Strands"

_PROVIDER = "the model's provider runs it; the program learns of it only afterwards"
_ELSEWHERE = "it is an agent that runs its tools elsewhere"
_PROVIDER_KEYS = ("anthropic_tools", "gemini_tools")
"""Settings of models that hold tools of their providers."""

_NO_AGENT = Block("it is not known which agent makes the call")


class GateHooks(HookProvider):
    """Gate around the tools of an agent, and of the agents among its tools.

    `gate` is a rules file, a rule set, a gate in this process, the URL of a server, or `None` for the
    server at INTERLOCK_URL, where `agent` is the agent's name. The session is that of the session
    manager; `thread` is a function of the agent that returns another name. An agent with neither is its
    own session. With `pause_after`, a run whose call waits longer than that many seconds for an operator
    stops with an interrupt: see `ask_again`.

    The gate is placed around `stream` of each tool, so no hook and no middleware comes after it. Tools
    that the model's provider runs, and remote agents, make creating or running an agent fail with
    `UnseenToolError`, unless `passthrough` names them.
    """

    def __init__(
        self,
        gate: GateSource = None,
        *,
        agent: str = "agent",
        thread: Callable[[Agent], str] | None = None,
        pause_after: float | None = None,
        passthrough: Collection[str] = (),
    ) -> None:
        self._gates = Gates.of(gate, agent=agent)
        self._thread = thread
        self.pause_after = pause_after
        self._passthrough = passthrough
        self._keys: weakref.WeakKeyDictionary[Agent, str] = weakref.WeakKeyDictionary()

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        """Register callbacks that gate the agent's tools when they appear."""
        registry.add_callback(AgentInitializedEvent, self._prepare, order=HookOrder.SDK_LAST)
        registry.add_callback(BeforeInvocationEvent, self._prepare, order=HookOrder.SDK_LAST)
        registry.add_callback(BeforeModelCallEvent, self._prepare, order=HookOrder.SDK_LAST)
        registry.add_callback(BeforeToolCallEvent, self._before_call, order=HookOrder.SDK_LAST)

    def _prepare(self, event: Any) -> None:
        """Gate the present tools of an agent. Raises `UnseenToolError`."""
        self.add(event.agent)

    def _before_call(self, event: BeforeToolCallEvent[Any]) -> None:
        """Gate the tool that runs, with which other hooks may have replaced the model's choice."""
        self.add(event.agent)
        if event.selected_tool is not None:
            _gate_tool(event.selected_tool)

    def add(self, agent: Agent, above: Agent | None = None) -> None:
        """Gate an agent; its calls belong to the session of `above`, the agent that has it as a tool."""
        known = getattr(agent, "_interlock", None)
        if isinstance(known, _Gated) and known.hooks is not self:
            raise ValueError(f"The agent '{agent.name}' has a gate already")
        refuse_unseen(FRAMEWORK, _unseen(agent), self._passthrough)
        if known is None:
            agent._interlock = _Gated(self, above)  # type: ignore[attr-defined]
            middleware = agent._middleware_registry
            gate_by_class(middleware, f"Middleware of '{agent.name}'", "compose", _gated_compose)
        for tool in _tools(agent):
            _gate_tool(tool)
            inner: Any = tool.agent if isinstance(tool, _AgentAsTool) else None
            if isinstance(inner, Agent) and getattr(inner, "_interlock", None) is None:
                self.add(inner, agent)
                cast("Any", inner).hooks.add_hook(self)

    def session(self, agent: Agent) -> SessionGate:
        """Return the gate of an agent's session."""
        gated = cast("_Gated", agent._interlock)  # type: ignore[attr-defined]
        while (above := gated.above) is not None:
            agent, gated = above, cast("_Gated", above._interlock)  # type: ignore[attr-defined]
        if self._thread is not None:
            return self._gates.session(self._thread(agent))
        key = getattr(agent._session_manager, "session_id", None)
        if key is None:
            key = self._keys.get(agent)
        if key is None:
            key = self._keys[agent] = f"run-{uuid4().hex}"
            weakref.finalize(agent, self._gates.forget, key)
        return self._gates.session(str(key))

    async def run_tool(
        self,
        tool: AgentTool,
        base: type[AgentTool],
        use: ToolUse,
        state: dict[str, Any],
        more: dict[str, Any],
    ) -> AsyncGenerator[Any]:
        """Ask the gate, and run a call with the approved input through the tool's class `base`."""
        agent: Agent = state["agent"]
        name, call_id, gate = tool.tool_name, str(use.get("toolUseId") or ""), self.session(agent)
        try:
            tool_input = copy.deepcopy(dict(use["input"]))
        except Exception:
            yield _blocked(use, name, Block("its arguments are not an object that can be copied"))
            return
        interrupt_id = f"v1:interlock:{call_id}"
        answer = await gate.ask(
            call_id,
            name,
            tool_input,
            wait=self.pause_after if _can_pause(agent, interrupt_id, state, more) else None,
        )
        if isinstance(answer, Wait):
            shown_input = to_jsonable_python(tool_input, inf_nan_mode="strings")
            paused = _Pause(interlock="waits", call=call_id, tool=name, input=shown_input)
            raise InterruptException(Interrupt(interrupt_id, f"interlock {call_id}", paused.model_dump()))
        block = answer if isinstance(answer, Block) else gate.start(call_id)
        if block is not None:
            yield _blocked(use, name, block)
            return
        assert isinstance(answer, Allow)
        approved = cast("ToolUse", {**use, "input": dict(answer.input) if answer.edited else tool_input})
        parts = base.stream(tool, approved, state, **more)
        async for part in _reported(gate, call_id, name, answer, parts):
            yield part


class _Gated:
    """The gate of an agent, and the agent that has it as a tool."""

    def __init__(self, hooks: GateHooks, above: Agent | None) -> None:
        self.hooks = hooks
        self._above = None if above is None else weakref.ref(above)

    @property
    def above(self) -> Agent | None:
        return None if self._above is None else self._above()


class _Pause(BaseModel):
    """A call that stopped its run, as the reason of an interrupt."""

    interlock: Literal["waits"]
    call: str
    tool: str
    input: dict[str, JsonValue]


async def ask_again(agent: Agent) -> list[Any] | None:
    """Request decisions on the calls at which an agent stopped; return the prompt with which it resumes.

    Returns `None` while one of them waits for an operator, or if no call has stopped. The prompt approves
    nothing: the gate decides again when the calls run. Interrupts of other kinds have to be answered by
    the program; add their answers.

        prompt = await ask_again(agent)
        if prompt is not None:
            await agent.invoke_async(prompt)
    """
    gated = getattr(agent, "_interlock", None)
    if not isinstance(gated, _Gated):
        raise TypeError(f"The agent '{agent.name}' has no gate: give it GateHooks")
    state = agent._interrupt_state
    paused = {
        each.id: _Pause.model_validate(each.reason)
        for each in state.interrupts.values()
        if state.activated and isinstance(each.reason, Mapping) and "interlock" in each.reason
    }
    gate, wait = gated.hooks.session(agent), gated.hooks.pause_after
    questions = (gate.ask(each.call, each.tool, each.input, wait=wait) for each in paused.values())
    if not paused or any(isinstance(answer, Wait) for answer in await asyncio.gather(*questions)):
        return None
    return [{"interruptResponse": {"interruptId": each, "response": "ask again"}} for each in paused]


def check_coverage(agent: Agent) -> Coverage:
    """Have an agent call a probe, and list what its gate sees; no model is called.

    Raises `CoverageError` if the probe is not blocked.
    """
    probe, registry = Probe(), agent.tool_registry.registry
    registry[PROBE] = _ProbeTool(probe)
    try:
        result = getattr(agent.tool, PROBE)(record_direct_tool_call=False)
    finally:
        del registry[PROBE]
    probe.check(str(result))
    unseen = _unseen(agent)
    names = tuple(tool.tool_name for tool in _tools(agent) if tool.tool_name not in unseen)
    return Coverage(FRAMEWORK, version_of("strands-agents"), names, unseen)


# Gated tools


def _gate_tool(tool: AgentTool) -> None:
    """Put a tool behind the gate of the agent that it runs for. Raises the errors of `gate_by_class`."""
    gate_by_class(tool, f"The tool '{tool.tool_name}'", "stream", _gated_stream)


def _gated_stream(base: type[AgentTool]) -> Callable[..., object]:
    """Return a `stream` that asks the gate before it runs a tool through the class `base`."""

    async def stream(
        self: AgentTool, tool_use: ToolUse, invocation_state: dict[str, Any], **more: Any
    ) -> AsyncGenerator[Any]:
        agent = invocation_state.get("agent")
        if agent is None:
            yield _blocked(tool_use, self.tool_name, _NO_AGENT)
            return
        gated = getattr(agent, "_interlock", None)
        if isinstance(gated, _Gated):
            parts = gated.hooks.run_tool(self, base, tool_use, invocation_state, more)
        else:
            # The tool is also used by an agent without a gate.
            parts = base.stream(self, tool_use, invocation_state, **more)
        async for part in parts:
            yield part

    return stream


def _gated_compose(base: type[Any]) -> Callable[..., object]:
    """Return a `compose` that gates whatever tool the last middleware selects."""

    def compose(self: Any, stage: Any, terminal: Callable[[Any], AsyncGenerator[Any]]) -> Any:
        def run(context: Any) -> AsyncGenerator[Any]:
            if context.tool is not None:
                _gate_tool(context.tool)
            # Middleware must not attribute the call to another agent.
            context.invocation_state["agent"] = context.agent
            return terminal(context)

        return base.compose(self, stage, run if stage is ExecuteToolStage else terminal)

    return compose


async def _reported(
    gate: SessionGate, call_id: str, tool: str, answer: Allow, parts: AsyncGenerator[Any]
) -> AsyncGenerator[Any]:
    """Yield the parts of an allowed call's result; the last one ends it, and has a notice of an edit."""
    last: Any = None
    try:
        async with gate.reporting_errors(call_id, passing=(GeneratorExit, InterruptException)):
            async for part in parts:
                if isinstance(part, ToolInterruptEvent):
                    # An agent inside the tool has stopped to ask: Strands repeats this call.
                    gate.put_off(call_id)
                    yield part
                    return
                # Tools may yield plain values instead of a `ToolResultEvent`; then the last part is the
                # result.
                if last is not None:
                    yield last
                last = None
                if isinstance(part, ToolStreamEvent):
                    yield part
                else:
                    last = part
                    if isinstance(part, ToolResultEvent):
                        break
    except GeneratorExit:
        await gate.done(call_id, CUT_OFF, "unknown")
        raise
    except InterruptException:
        gate.put_off(call_id)
        raise
    finally:
        await parts.aclose()
    error = last.exception if isinstance(last, ToolResultEvent) else None
    result: Any = last.tool_result if isinstance(last, ToolResultEvent) else last
    content = result.get("content", result) if isinstance(result, dict) else result
    outcome: Outcome = outcome_of(tool, _plain(content))
    if error is not None or (isinstance(result, dict) and result.get("status") == "error"):
        outcome = "failed"
    await gate.done(call_id, _plain(content) if error is None else failure_text(error), outcome)
    if answer.notice is not None and isinstance(result, dict) and isinstance(content, list):
        reported = cast("ToolResult", {**result, "content": [*content, {"text": answer.notice}]})
        last = (
            ToolResultEvent(reported, exception=error) if isinstance(last, ToolResultEvent) else reported
        )
    if last is not None:
        yield last


def _plain(content: object) -> object:
    """Return the single value of a result's content, if there is only one."""
    match content:
        case [{"text": value}] | [{"json": value}]:
            return value
        case _:
            return content


def _blocked(use: ToolUse, tool: str, block: Block) -> ToolResultEvent:
    result = {
        "toolUseId": str(use.get("toolUseId")),
        "status": "error",
        "content": [{"text": block.tell(tool)}],
    }
    return ToolResultEvent(cast("ToolResult", result))


def _can_pause(
    agent: Agent, interrupt_id: str, state: Mapping[str, Any], more: Mapping[str, Any]
) -> bool:
    """Return whether a call may stop its run and be asked about again: once, and not in the background.

    Calls made by the program itself, and by agents among tools, wait where they are.
    """
    gated: _Gated = agent._interlock  # type: ignore[attr-defined]
    of_model = "event_loop_cycle_id" in state and more.get("_tool_context") is None
    return of_model and gated.above is None and interrupt_id not in agent._interrupt_state.interrupts


def _tools(agent: Agent) -> list[AgentTool]:
    """Return the present tools of an agent."""
    registry = agent.tool_registry
    return [*registry.registry.values(), *registry.dynamic_tools.values()]


def _unseen(agent: Agent) -> dict[str, str]:
    """Return tools that are not run by `stream` in this program, by name, with the reason."""
    settings: Any = agent.model.get_config() or {}
    params = settings.get("params") or {}
    schemas = [each for key in _PROVIDER_KEYS for each in settings.get(key) or ()]
    schemas += params.get("tools") or () if isinstance(params, Mapping) else ()
    unseen = {_name_of(each): _PROVIDER for each in schemas}
    for tool in _tools(agent):
        if isinstance(tool, _AgentAsTool) and not isinstance(tool.agent, Agent):
            unseen[tool.tool_name] = _ELSEWHERE
    return unseen


def _name_of(tool: object) -> str:
    """Return the name of a provider's tool as written in its settings."""
    if isinstance(tool, Mapping):
        return str(tool.get("name") or tool.get("type") or tool)
    if isinstance(tool, BaseModel):
        return ", ".join(tool.model_dump(exclude_none=True)) or str(tool)
    return str(tool)


class _ProbeTool(AgentTool):
    """The probe as a tool."""

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self._probe = probe

    @property
    def tool_name(self) -> str:
        return PROBE

    @property
    def tool_spec(self) -> ToolSpec:
        return {"name": PROBE, "description": "Do nothing", "inputSchema": {"json": {"type": "object"}}}

    @property
    def tool_type(self) -> str:
        return "probe"

    async def stream(
        self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any
    ) -> AsyncGenerator[Any]:
        """Record that the probe ran."""
        text = self._probe.run()
        result = {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": text}]}
        yield ToolResultEvent(cast("ToolResult", result))
