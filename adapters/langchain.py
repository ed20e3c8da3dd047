"""Adapter for LangChain and LangGraph: a middleware whose agents' tool calls pass the gate.

    agent = create_agent("openai:gpt-5", [deploy], middleware=[GateMiddleware("deploy.rules")])

In a graph of your own the same object is the wrapper of a tool node:

    gate = GateMiddleware("deploy.rules")
    node = ToolNode([deploy], wrap_tool_call=gate.wrap_tool_call, awrap_tool_call=gate.awrap_tool_call)
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeAlias, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.graph import END, START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, Probe, refuse_unseen, version_of
from .gate import (
    Allow,
    Answer,
    Block,
    Outcome,
    SessionGate,
    Wait,
    failure_text,
    outcome_of,
    snapshot,
)

FRAMEWORK = "LangChain"

Result: TypeAlias = "ToolMessage | Command[Any]"

Question: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""Id, tool and input of a call."""

_NO_SESSION = Block("it has no id, or its run has neither a thread_id nor messages")
_PROVIDER = "the model's provider runs it; the program learns of it only afterwards"
_ALONE = "__pregel_push"
"""First part of the path of a task that runs a single call."""
_EXECUTION = "__pregel_scratchpad"
"""Configuration key shared by all calls of one execution of a node."""


class _Task:
    """One execution of a node: it either runs calls or is interrupted.

    After an interrupt the whole node runs again, and calls that were running would not be stopped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: Literal["new", "running", "interrupted"] = "new"

    def stop(self, question: Question) -> None:
        """Interrupt the graph; return normally if calls are running, so that this one has to wait."""
        with self._lock:
            if self._state == "running":
                return
            self._state = "interrupted"
        _interrupt(question)

    def start(self, call: ToolCall) -> None:
        """Record that a call runs. Interrupts the graph if another call has done so."""
        with self._lock:
            if self._state != "interrupted":
                self._state = "running"
                return
        _interrupt((call["id"] or "", call["name"], call["args"]))


def _interrupt(question: Question) -> NoReturn:
    """Interrupt the graph, also if it was resumed with values before: the gate was asked again."""
    while True:
        interrupt({"interlock": "waits for an operator", "call": question[0], "tool": question[1]})


class GateMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gate around the tools of an agent or a tool node; must be the last of the agent's middleware.

    `gate` is a rules file, a rule set, a gate in this process, the URL of a server, or `None` for the
    server at INTERLOCK_URL, where `agent` is the agent's name. The session is the graph's thread,
    `thread_id` in its configuration; without one each run is its own session. With `pause_after`, a call
    that waits longer than that many seconds for an operator interrupts the graph, which needs a
    checkpointer: invoke it with `Command(resume=True)` to ask again.

    Tools that the model's provider runs, given as a dict, end a run with `UnseenToolError` before a model
    is called, unless `passthrough` names them.
    """

    def __init__(
        self,
        gate: GateSource = None,
        *,
        agent: str = "agent",
        pause_after: float | None = None,
        passthrough: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._gates = Gates.of(gate, agent=agent)
        self._pause_after = pause_after
        self._passthrough = passthrough
        self._tasks: weakref.WeakKeyDictionary[Any, _Task] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    # Tools that the gate does not see

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Refuse tools that the gate would not see."""
        refuse_unseen(FRAMEWORK, _unseen(request.tools), self._passthrough)
        return handler(request)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Refuse tools that the gate would not see."""
        refuse_unseen(FRAMEWORK, _unseen(request.tools), self._passthrough)
        return await handler(request)

    # Calls

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """Ask the gate, and run the call with the approved input."""
        request = _own(request)
        call, gate = request.tool_call, self._session(request)
        if gate is None or not call["id"]:
            return _blocked(call, _NO_SESSION)
        answer: Answer = _NO_SESSION
        task, wait = self._task(request), self._pause_after
        for each in self._questions(request):
            answer = gate.ask_now(*each, wait=wait)
            if isinstance(answer, Wait):
                task.stop(each)
                answer = gate.ask_now(*each)
        if not isinstance(answer, Allow):
            return _blocked(call, answer)
        task.start(call)
        if (twice := gate.start(call["id"])) is not None:
            return _blocked(call, twice)
        try:
            result = handler(_approved(request, answer))
        except GraphBubbleUp:
            # The tool itself has interrupted the graph; when asked again, the call gets the same answer.
            gate.put_off(call["id"])
            raise
        except BaseException as error:
            outcome: Outcome = "failed" if isinstance(error, Exception) else "unknown"
            gate.done_now(call["id"], failure_text(error), outcome)
            raise
        gate.done_now(call["id"], *_outcome(call, result))
        return _with_notice(result, call, answer)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Ask the gate, and run the call with the approved input."""
        request = _own(request)
        call, gate = request.tool_call, self._session(request)
        if gate is None or not call["id"]:
            return _blocked(call, _NO_SESSION)
        answer: Answer = _NO_SESSION
        task, wait = self._task(request), self._pause_after
        for each in self._questions(request):
            answer = await gate.ask(*each, wait=wait)
            if isinstance(answer, Wait):
                task.stop(each)
                answer = await gate.ask(*each)
        if not isinstance(answer, Allow):
            return _blocked(call, answer)
        task.start(call)
        if (twice := gate.start(call["id"])) is not None:
            return _blocked(call, twice)
        try:
            async with gate.reporting_errors(call["id"], passing=(GraphBubbleUp,)):
                result = await handler(_approved(request, answer))
        except GraphBubbleUp:
            # As in `wrap_tool_call`.
            gate.put_off(call["id"])
            raise
        await gate.done(call["id"], *_outcome(call, result))
        return _with_notice(result, call, answer)

    def _session(self, request: ToolCallRequest) -> SessionGate | None:
        """Return the gate of the graph's thread, or of the run, identified by its first message."""
        config = _config(request)
        key = config.get("configurable", {}).get("thread_id") or config.get("run_id")
        messages = _messages(request.state)
        key = key or (messages[0].id if messages else None)
        return self._gates.session(str(key)) if key else None

    def _task(self, request: ToolCallRequest) -> _Task:
        """Return the execution of a node that this call belongs to."""
        configured = _config(request).get("configurable", {})
        # A bound function identifies the execution; the scratchpad object itself cannot be weakly
        # referenced.
        execution = getattr(configured.get(_EXECUTION), "get_null_resume", None)
        if self._pause_after is None or execution is None or _is_alone(request):
            return _Task()
        with self._lock:
            return self._tasks.setdefault(execution, _Task())

    def _questions(self, request: ToolCallRequest) -> Sequence[Question]:
        """Return the calls to ask about, this one last.

        If a node runs all calls of an answer in one task, an interrupt would make the allowed calls run
        again. So each call first asks about all of them.
        """
        call = request.tool_call
        own = (call["id"] or "", call["name"], call["args"])
        if self._pause_after is None or _is_alone(request):
            return (own,)
        last = next((m for m in reversed(_messages(request.state)) if isinstance(m, AIMessage)), None)
        others = () if last is None else (c for c in last.tool_calls if c["id"] and c["id"] != own[0])
        return (*((c["id"] or "", c["name"], c["args"]) for c in others), own)


def check_coverage(agent: Any) -> Coverage:
    """Have an agent or a tool node call a probe, and list what its gate sees; no model is called.

    `agent` is the result of `create_agent`, or a `ToolNode`. Tools of the provider appear only when a
    model is called: they end that run. Raises `CoverageError` if the probe is not blocked, and
    `TypeError` for something without a tool node.
    """
    node = (
        agent
        if isinstance(agent, ToolNode)
        else getattr(getattr(agent, "nodes", {}).get("tools"), "bound", None)
    )
    if not isinstance(node, ToolNode):
        raise TypeError(f"Expected an agent with tools, or a ToolNode, not {agent!r}")
    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    call = ToolCall(name=PROBE, args={}, id="probe", type="tool_call")
    found = graph.compile().invoke({"messages": [AIMessage("", tool_calls=[call])]})
    Probe().check(str(found["messages"][-1].content))
    return Coverage(FRAMEWORK, version_of("langchain"), tuple(node.tools_by_name))


def _unseen(tools: Sequence[object]) -> dict[str, str]:
    """Return tools that the model's provider runs, by name, with the reason."""
    schemas = [cast("Mapping[str, object]", tool) for tool in tools if isinstance(tool, Mapping)]
    own = [tool for tool in schemas if "function" not in tool and "input_schema" not in tool]
    return {str(tool.get("name") or tool.get("type") or tool): _PROVIDER for tool in own}


def _messages(state: Any) -> Sequence[Any]:
    """Return the messages of a graph's state."""
    match state:
        case list():
            found: object = cast("object", state)
        case {"messages": found}:
            pass
        case _:
            found = getattr(state, "messages", None)
    return cast("Sequence[Any]", found) if isinstance(found, Sequence) else ()


def _config(request: ToolCallRequest) -> Mapping[str, Any]:
    """Return the configuration of the task that a call belongs to."""
    return cast("Any", request).runtime.config


def _is_alone(request: ToolCallRequest) -> bool:
    """Return whether a call is the only one of its task, as in agents of `create_agent`."""
    path = _config(request).get("metadata", {}).get("langgraph_path", ())
    return tuple(path)[:1] == (_ALONE,)


def _blocked(call: ToolCall, answer: Block | Wait) -> ToolMessage:
    reason = Block(answer.reason).tell(call["name"])
    return ToolMessage(reason, tool_call_id=call["id"] or "", name=call["name"], status="error")


def _own(request: ToolCallRequest) -> ToolCallRequest:
    """Return a request with copied arguments: those in the graph's message are shared."""
    call = request.tool_call
    return request.override(tool_call={**call, "args": snapshot(call["args"])})


def _approved(request: ToolCallRequest, answer: Allow) -> ToolCallRequest:
    if not answer.edited:
        return request
    return request.override(tool_call={**request.tool_call, "args": dict(answer.input)})


def _outcome(call: ToolCall, result: Result) -> tuple[object, Outcome]:
    """Return the result of a call, and its outcome."""
    message = _own_message(result, call)
    if message is None:
        return str(result), "done"
    content = cast("object", message.content)
    return content, "failed" if message.status == "error" else outcome_of(call["name"], content)


def _own_message(result: Result, call: ToolCall) -> ToolMessage | None:
    """Return the message for the model, which may be inside a command."""
    if isinstance(result, ToolMessage):
        return result
    messages = _messages(result.update)
    own = (m for m in messages if isinstance(m, ToolMessage) and m.tool_call_id == call["id"])
    return next(own, None)


def _with_notice(result: Result, call: ToolCall, answer: Allow) -> Result:
    """Return a call's result for the model, with a notice of the operator's edit."""
    message = _own_message(result, call)
    if message is None or answer.notice is None:
        return result
    if isinstance(message.content, str):
        message.content = answer.tell(message.content)
    else:
        message.content = [*message.content, {"type": "text", "text": answer.notice}]
    return result
