"""Adapter for Google ADK: a plugin with which the tool calls of all agents of an app pass the gate.

app = App(name="release_bot", root_agent=agent, plugins=[GatePlugin("deploy.rules")])
"""

# ADK requires older versions of libraries than those tested otherwise, so the development environment
# does not include it.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Literal, cast
from uuid import uuid4

from google.adk.agents import LlmAgent
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps import App
from google.adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.sessions import Session
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import BaseNode
from google.adk.workflow._errors import NodeInterruptedError
from google.genai import types
from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, Probe, refuse_unseen, version_of
from .gate import CUT_OFF, Allow, Block, SessionGate, Wait, gate_by_class, outcome_of

FRAMEWORK = "Google ADK"

CONFIRMATION = "adk_request_confirmation"
"""Call with which ADK requests confirmation from the program; a pause is such a call, too."""

_PROVIDER = "the model's provider runs it; the program learns of it only afterwards"
_CLIENT = "the model's client runs it, without the tools of ADK"
_CODE = "it runs code from the model's answers, which is not a tool call"
_NO_PLUGINS = "it runs an agent without the plugins of the app (include_plugins=False)"
_ELSEWHERE = "it runs its tools elsewhere, without the plugins of the app"
_DELEGATED = "the delegation to it; its own tools are gated"

_GATED_AGENTS = {"BaseAgent", "LlmAgent", "LoopAgent", "ParallelAgent", "SequentialAgent"}
"""Classes of ADK whose agents run their tools here, through the app's plugins."""
_PROMPT_TOOLS = {"ExampleTool", "PreloadMemoryTool"}
"""Classes of ADK whose tools only add to the prompt, and cannot be called."""
_DECLARATIONS = {"function_declarations", "computer_use"}
"""Members of a request for tools whose calls are returned to the program."""

_above: ContextVar[tuple[GatePlugin, SessionGate, ToolContext] | None] = ContextVar(
    "interlock_above", default=None
)
"""The gated call whose tool is running: calls of an agent inside it belong to the same session."""


class GatePlugin(BasePlugin):
    """Gate around all tools of an app's agents, whichever toolset, sub-agent or workflow they belong to.

    `gate` is a rules file, a rule set, a gate in this process, the URL of a server, or `None` for the
    server at INTERLOCK_URL, where `agent` is the agent's name. The session is that of ADK, by its user
    and id; `thread` is a function of the ADK session that returns another name. With `pause_after`, a run
    whose call waits longer than that many seconds for an operator ends with a request for confirmation:
    see `ask_again`.

    The gate is placed around `run_async` of each tool, so no callback comes after it. Tools that the
    model's provider runs, code executors, and agents that run elsewhere or without plugins end a run
    before a model is called, with an error that names them, unless `passthrough` names them.
    """

    def __init__(
        self,
        gate: GateSource = None,
        *,
        agent: str = "agent",
        thread: Callable[[Session], str] | None = None,
        pause_after: float | None = None,
        passthrough: Collection[str] = (),
    ) -> None:
        super().__init__("interlock")
        self._gates = Gates.of(gate, agent=agent)
        self._thread = thread
        self.pause_after = pause_after
        self.passthrough = passthrough

    # Tools that the gate does not see

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Refuse whatever the gate would not see of the agents that may run."""
        agent = cast("BaseAgent | None", invocation_context.agent)
        # A workflow's run names no agent: its agents are checked when they begin.
        unseen = {} if agent is None else _unseen(_nodes(agent.root_agent))
        config = invocation_context.run_config
        if config is not None and config.support_cfc:
            unseen["support_cfc"] = _PROVIDER
        refuse_unseen(FRAMEWORK, unseen, self.passthrough)

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """Refuse whatever the gate would not see of an agent, and of those that it may run."""
        refuse_unseen(FRAMEWORK, _unseen(_nodes(agent)), self.passthrough)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Refuse those of a request's tools that the gate would not see; gate the others."""
        refuse_unseen(FRAMEWORK, _unseen_of_request(llm_request), self.passthrough)
        for tool in llm_request.tools_dict.values():
            _gate_tool(tool)

    # Calls

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Gate a tool that was in no request, such as one of a workflow."""
        _gate_tool(tool)

    async def run_tool(
        self, tool: BaseTool, base: type[BaseTool], args: dict[str, Any], context: ToolContext
    ) -> Any:
        """Ask the gate, and run a tool's call with the approved input through the tool's class `base`."""
        name, above = tool.name, _above.get()
        call_id = context.function_call_id or ""
        if above is not None and above[2] is context:
            # A tool called by another tool's code: a separate call, though ADK has only one id.
            call_id = f"{call_id}.{uuid4().hex}"
        try:
            tool_input = copy.deepcopy(args)
        except Exception:
            return _blocked(name, Block("its arguments cannot be copied, so what runs may be changed"))
        confirmed = context.tool_confirmation
        if confirmed is not None and _is_paused(context):
            # The answer to our pause is not an answer to the tool's own request for confirmation.
            context.tool_confirmation = None
            if not confirmed.confirmed:
                return _blocked(name, Block("the program did not confirm it"))
        gate = self.session(context.session)
        wait = self.pause_after
        if above is not None or confirmed is not None or not (wait is None or _can_pause(context)):
            wait = None
        answer = await gate.ask(call_id, name, tool_input, wait=wait)
        if isinstance(answer, Wait):
            return _pause(name, tool_input, answer, context)
        if isinstance(answer, Block):
            return _blocked(name, answer)
        if (twice := gate.start(call_id)) is not None:
            return _blocked(name, twice)
        if answer.edited:
            tool_input = dict(answer.input)
        token = _above.set((self, gate, context))
        try:
            async with gate.reporting_errors(call_id, passing=(NodeInterruptedError,)):
                value: object = await base.run_async(tool, args=tool_input, tool_context=context)
        except NodeInterruptedError:
            # The tool's own workflow stopped to ask the user: ADK repeats this call.
            gate.put_off(call_id)
            raise
        finally:
            _above.reset(token)
        if inspect.isasyncgen(value):
            return _streamed(gate, call_id, answer, cast("AsyncGenerator[object]", value))
        actions, own_id = context.actions, context.function_call_id
        if own_id in actions.requested_auth_configs or own_id in actions.requested_tool_confirmations:
            # The tool has not run, because it first needs the user's login or confirmation.
            gate.put_off(call_id)
            return value
        # The result of a long-running tool may arrive later, as a message of the user.
        await gate.done(call_id, value, "unknown" if tool.is_long_running else outcome_of(name, value))
        return value if tool.is_long_running and not value else _with_notice(value, answer)

    def session(self, session: Session) -> SessionGate:
        """Return the gate of an ADK session, or of a call whose tool runs an agent in its own session."""
        above = _above.get()
        if above is not None and above[0] is self:
            return above[1]
        key = f"{session.user_id}:{session.id}" if self._thread is None else self._thread(session)
        return self._gates.session(key)


async def ask_again(app: App, session: Session) -> types.Content | None:
    """Request decisions on the calls at which a run ended; return the message with which it resumes.

    Returns `None` while one of them waits for an operator, or if no call has stopped. The message
    approves nothing: the gate decides again when the calls run.

        message = await ask_again(app, session)
        if message is not None:
            runner.run_async(user_id=…, session_id=session.id, new_message=message)
    """
    plugin = next((each for each in app.plugins if isinstance(each, GatePlugin)), None)
    if plugin is None:
        raise TypeError(f"The app '{app.name}' has no gate: give it a GatePlugin")
    paused: dict[str, _Pause] = {}
    for event in session.events:
        for call in event.get_function_calls():
            if call.id and (found := _pause_of(call)) is not None:
                paused[call.id] = found
        for response in event.get_function_responses():
            paused.pop(response.id or "", None)
    gate = plugin.session(session)
    questions = (
        gate.ask(each.call, each.tool, each.input, wait=plugin.pause_after) for each in paused.values()
    )
    if not paused or any(isinstance(answer, Wait) for answer in await asyncio.gather(*questions)):
        return None
    answers = [
        types.FunctionResponse(id=each, name=CONFIRMATION, response={"confirmed": True})
        for each in paused
    ]
    return types.Content(role="user", parts=[types.Part(function_response=each) for each in answers])


async def check_coverage(app: App) -> Coverage:
    """Have an agent with an app's plugins call a probe, and list what the gate sees; no model is called.

    Raises `CoverageError` if the probe is not blocked, and `UnseenToolError` as a run would.
    """
    probe = Probe()
    agent = LlmAgent(name="interlock_agent", model=_ProbeModel(model="probe"), tools=[_ProbeTool(probe)])
    runner = InMemoryRunner(app=App(name=app.name, root_agent=agent, plugins=app.plugins))
    session = await runner.session_service.create_session(app_name=app.name, user_id="interlock")
    message = types.Content(role="user", parts=[types.Part(text="probe")])
    answers: list[str] = []
    async for event in runner.run_async(user_id="interlock", session_id=session.id, new_message=message):
        answers += [str(response.response) for response in event.get_function_responses()]
    probe.check("\n".join(answers))
    assert app.root_agent is not None
    nodes = [*_nodes(app.root_agent)]
    unseen = _unseen(nodes)
    for plugin in app.plugins:
        if isinstance(plugin, GatePlugin):
            refuse_unseen(FRAMEWORK, unseen, plugin.passthrough)
    gated: dict[str, None] = {}
    for node in nodes:
        for tool in await _tools(node):
            if tool._defers_response:  # pyright: ignore[reportPrivateUsage]
                unseen[tool.name] = _DELEGATED
            elif tool.name not in unseen and type(tool).__name__ not in _PROMPT_TOOLS:
                gated[tool.name] = None
    return Coverage(FRAMEWORK, version_of("google-adk"), tuple(gated), unseen)


# Gated tools


def _gate_tool(tool: BaseTool) -> None:
    """Put a tool behind the gate of the app that it runs in. Raises `TypeError`; see `gate_by_class`."""
    if not tool._defers_response:  # pyright: ignore[reportPrivateUsage]
        gate_by_class(tool, f"The tool '{tool.name}'", "run_async", _gated_run)


def _gated_run(base: type[BaseTool]) -> Callable[..., object]:
    """Return a `run_async` that asks the gate before it runs a tool through the class `base`."""

    async def run_async(self: BaseTool, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        plugins = tool_context.get_invocation_context().plugin_manager.plugins
        plugin = next((each for each in plugins if isinstance(each, GatePlugin)), None)
        if plugin is None:
            # The tool is also used by an app without a gate.
            return await base.run_async(self, args=args, tool_context=tool_context)
        return await plugin.run_tool(self, base, args, tool_context)

    return run_async


async def _streamed(
    gate: SessionGate, call_id: str, answer: Allow, parts: AsyncGenerator[object]
) -> AsyncGenerator[object]:
    """Yield the parts of a result in a live run; the call ends with the last part."""
    last: object = None
    try:
        async with gate.reporting_errors(call_id, passing=(GeneratorExit,)):
            async for part in parts:
                last = part
                yield part
    except GeneratorExit:
        await gate.done(call_id, CUT_OFF, "unknown")
        raise
    finally:
        await parts.aclose()
    await gate.done(call_id, last)
    if answer.notice is not None:
        yield answer.notice


def _blocked(tool: str, block: Block) -> dict[str, Any]:
    return {"error": block.tell(tool)}


def _with_notice(value: object, answer: Allow) -> object:
    """Return a tool's value for the model, with a notice of the operator's edit."""
    match value:
        case _ if not answer.edited:
            return value
        case str():
            return answer.tell(value)
        case dict():
            return {**cast("dict[str, Any]", value), "notice": answer.notice}
        case _:
            return {"result": value, "notice": answer.notice}


# Pauses


def _can_pause(context: ToolContext) -> bool:
    """Return whether ADK repeats a call: it is in the session's record, and the run is not live."""
    run = context.get_invocation_context()
    if run.live_request_queue is not None:
        return False
    calls = (call for event in reversed(run.session.events) for call in event.get_function_calls())
    return any(call.id == context.function_call_id for call in calls)


class _Pause(BaseModel):
    """A call that ended its run, as the payload of a request for confirmation."""

    interlock: Literal["waits"]
    call: str
    tool: str
    input: dict[str, JsonValue]


def _pause(
    tool: str, tool_input: Mapping[str, Any], answer: Wait, context: ToolContext
) -> dict[str, Any]:
    """End the run with a request to confirm the call, which `ask_again` answers."""
    shown_input = to_jsonable_python(dict(tool_input), inf_nan_mode="strings")
    paused = _Pause(interlock="waits", call=context.function_call_id or "", tool=tool, input=shown_input)
    context.request_confirmation(
        hint=f"{tool} waits for an operator's decision: confirming repeats the request.",
        payload=paused.model_dump(),
    )
    # Otherwise the model would be called again, and might repeat the call.
    context.actions.skip_summarization = True
    return {"error": f"Tool '{tool}' has not run: {answer.reason}"}


def _pause_of(call: types.FunctionCall) -> _Pause | None:
    """Return the pause in a request for confirmation; `None` for a tool's own request."""
    match call.args:
        case {"toolConfirmation": {"payload": {"interlock": _} as payload}} if call.name == CONFIRMATION:
            return _Pause.model_validate(payload)
        case _:
            return None


def _is_paused(context: ToolContext) -> bool:
    """Return whether the latest request to confirm a call was a pause."""
    for event in reversed(context.session.events):
        for call in event.get_function_calls():
            match call.args:
                case {"originalFunctionCall": {"id": context.function_call_id}}:
                    return _pause_of(call) is not None
                case _:
                    pass
    return False


# Agents and their tools


def _nodes(root: BaseNode) -> Iterator[BaseNode]:
    """Yield an agent or workflow, and everything that it may run."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack += node._iter_static_children()  # pyright: ignore[reportPrivateUsage]
        stack += [tool.agent for tool in _own_tools(node) if isinstance(tool, AgentTool)]


def _own_tools(node: BaseNode) -> list[BaseTool]:
    """Return the tools that were given to a node itself, or that it consists of."""
    tools = cast("list[object]", getattr(node, "tools", None) or [getattr(node, "tool", None)])
    return [tool for tool in tools if isinstance(tool, BaseTool)]


async def _tools(node: BaseNode) -> list[BaseTool]:
    """Return all tools of a node, including those in toolsets."""
    return await node.canonical_tools() if isinstance(node, LlmAgent) else _own_tools(node)


def _unseen(nodes: Iterable[BaseNode]) -> dict[str, str]:
    """Return tools and agents that act without a tool's `run_async` here, by name, with the reason."""
    unseen: dict[str, str] = {}
    for node in nodes:
        classes = (each for each in type(node).__mro__ if each.__module__.startswith("google.adk."))
        if isinstance(node, BaseAgent) and next(classes).__name__ not in _GATED_AGENTS:
            unseen[node.name] = _ELSEWHERE
        if isinstance(node, LlmAgent) and node.code_executor is not None:
            built_in = isinstance(node.code_executor, BuiltInCodeExecutor)
            unseen |= {"code_execution": _PROVIDER} if built_in else {"code_executor": _CODE}
        for tool in _own_tools(node):
            if isinstance(tool, AgentTool) and not tool.include_plugins:
                unseen[tool.name] = _NO_PLUGINS
            elif _is_of_provider(type(tool)):
                unseen[tool.name] = _PROVIDER
    return unseen


def _is_of_provider(kind: type[BaseTool]) -> bool:
    """Return whether a class of ADK leaves running its tools to the model."""
    own = kind.__module__.startswith("google.adk.") and kind.__name__ not in _PROMPT_TOOLS
    return own and kind.run_async is BaseTool.run_async


def _unseen_of_request(request: LlmRequest) -> dict[str, str]:
    """Return a request's tools whose calls are not returned to the program, by name, with the reason."""
    unseen: dict[str, str] = {}
    for tool in request.config.tools or []:
        if isinstance(tool, types.Tool):
            unseen |= dict.fromkeys(set(tool.model_dump(exclude_none=True)) - _DECLARATIONS, _PROVIDER)
        else:
            unseen[str(getattr(tool, "__name__", tool))] = _CLIENT
    return unseen


# The probe


class _ProbeTool(BaseTool):
    """The probe as a tool."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(name=PROBE, description="Do nothing")
        self._probe = probe

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Record that the probe ran."""
        return self._probe.run()


class _ProbeModel(BaseLlm):
    """A model that calls the probe, and then ends."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse]:
        """Answer with the call, and with a text once the call has a result."""
        called = any(part.function_response for each in llm_request.contents for part in each.parts or [])
        call = types.FunctionCall(id="probe", name=PROBE, args={})
        part = types.Part(text="done") if called else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))
