"""Adapter for smolagents: an agent's tools, and the code that it writes, pass the gate before they run.

agent = gate_agent(CodeAgent(tools=[deploy], model=model), "deploy.rules")
result = agent.run("Ship it")
"""

# Half of the framework has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import contextlib
import copy
import inspect
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast
from uuid import uuid4

from smolagents import AgentImage, CodeAgent, FinalAnswerTool, MultiStepAgent, Tool, ToolCallingAgent
from smolagents.agent_types import AgentAudio
from smolagents.local_python_executor import CodeOutput, ExecutionTimeoutError, LocalPythonExecutor
from smolagents.local_python_executor import PythonExecutor as Executor
from smolagents.models import ChatMessage

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, CoverageError, Probe, refuse_unseen, version_of
from .gate import CUT_OFF, Allow, Block, Outcome, SessionGate, failure_text, outcome_of, snapshot

FRAMEWORK = "smolagents"
CODE = "python"
"""Name, in rules, of the call that runs a block of a `CodeAgent`'s code; its input is `code`."""

A = TypeVar("A", bound=MultiStepAgent)
Thread: TypeAlias = "str | Callable[[], str] | None"

_REMOTE = "the code's executor runs it elsewhere"
_NO_TOOL = "it is not a Tool, so its forward cannot be gated"


class BlockedCallError(Exception):
    """A call that does not run, raised in the code that made it."""


@dataclass(slots=True)
class _ModelCall:
    """A call of a tool-calling agent, with the parts of its answer that the model has to read."""

    call_id: str
    blocked: str | None = None
    answer: Allow | None = None


_model_call: ContextVar[_ModelCall | None] = ContextVar("interlock_model_call", default=None)


def gate_agent(
    agent: A, gate: GateSource = None, *, thread: Thread = None, passthrough: Collection[str] = ()
) -> A:
    """Put an agent's tools behind a gate, with the code of a `CodeAgent` and all managed agents.

    The agent is modified in place, and returned. `gate` is a rules file, a rule set, a gate in this
    process, the URL of a server, or `None` for the server at INTERLOCK_URL. A block of code is a call
    `python`, and each tool in it is another call: rules have to allow both.

    `thread` names the session whose nets judge the calls: a text, or a function that returns one. Without
    it a run is its own session, which `run(…, reset=False)` continues.

    Raises `UnseenToolError` for tools that an executor runs elsewhere, unless `passthrough` names them.
    """
    gates = Gates.of(gate, agent=agent.name or "agent")
    _GatedAgents(gates, thread, frozenset(passthrough), agent).add(agent)
    return agent


def check_coverage(agent: MultiStepAgent) -> Coverage:
    """Have a gated agent call a probe, and list what its gate sees; no model is called.

    Raises `CoverageError` if the probe is not blocked, and `TypeError` for an agent without a gate.
    """
    gated = getattr(agent, "_interlock", None)
    if not isinstance(gated, _GatedAgents):
        raise TypeError("The agent has no gate: give it to gate_agent first")
    gated.prepare(agent)
    probe = Probe()
    probing = copy.copy(agent)
    probing.tools = {PROBE: _ProbeTool(probe), "final_answer": FinalAnswerTool()}
    probing.managed_agents = {}
    gated.begin(gated.first, reset=False)
    try:
        if isinstance(probing, ToolCallingAgent):
            answer = str(probing.execute_tool_call(PROBE, {}))
        else:
            if isinstance(agent, CodeAgent) and not isinstance(agent.python_executor, _GatedExecutor):
                raise CoverageError("The agent's executor was replaced: its code does not pass the gate")
            answer = str(gated.bind(probing.tools[PROBE])())
    except BlockedCallError as error:
        answer = str(error)
    probe.check(answer)
    code = (CODE,) if isinstance(agent, CodeAgent) else ()
    unseen = _unseen(agent)
    names = (name for name in _gated_names(agent) if name not in unseen)
    return Coverage(FRAMEWORK, version_of("smolagents"), (*code, *names), unseen)


@dataclass(eq=False)
class _GatedAgents:
    """The gate shared by an agent and those that it manages, for one run at a time: agents keep state."""

    gates: Gates
    thread: Thread
    passthrough: frozenset[str]
    first: MultiStepAgent
    notices: list[str] = field(default_factory=list[str])
    """Operators' edits of calls made by the running code."""
    _run: SessionGate | None = None

    def add(self, agent: MultiStepAgent) -> None:
        """Gate an agent and those that it manages."""
        known = getattr(agent, "_interlock", None)
        if known is self:
            return
        if known is not None:
            raise ValueError(f"The agent '{agent.name}' has a gate already")
        refuse_unseen(FRAMEWORK, _unseen(agent), self.passthrough)
        agent.__class__ = _gated_class(type(agent), self)
        self.prepare(agent)

    def prepare(self, agent: MultiStepAgent) -> None:
        """Gate the present tools of an agent. Raises `UnseenToolError`."""
        unseen = _unseen(agent)
        refuse_unseen(FRAMEWORK, unseen, self.passthrough)
        for name, tool in agent.tools.items():
            if name not in unseen:
                agent.tools[name] = self.bind(tool)
        for managed in cast("dict[str, MultiStepAgent]", agent.managed_agents).values():
            self.add(managed)
        if isinstance(agent, CodeAgent) and not isinstance(agent.python_executor, _GatedExecutor):
            agent.python_executor = _GatedExecutor(agent.python_executor, self)

    def bind(self, tool: Tool) -> Tool:
        """Return a gated copy of a tool; a tool that ends a run is returned unchanged."""
        if type(tool) is FinalAnswerTool or not isinstance(cast("object", tool), Tool):
            return tool
        gated = getattr(tool.forward, "__self__", None)
        if isinstance(gated, _GatedTool) and gated.agents is self:
            return tool
        # Copied, because another agent may use the tool as well.
        bound = copy.copy(tool)
        bound.forward = _GatedTool(bound, self).forward
        return bound

    def begin(self, agent: MultiStepAgent, *, reset: bool) -> None:
        """Set the session of a run; a managed agent's run belongs to the session of its manager."""
        if agent is not self.first and self._run is not None:
            return
        if self.thread is not None:
            key = self.thread if isinstance(self.thread, str) else self.thread()
            self._run = self.gates.session(key)
        elif reset or self._run is None:
            if self._run is not None:
                self.gates.forget(self._run.key)
            self._run = self.gates.session(f"run-{uuid4().hex}")

    def session(self) -> SessionGate:
        """Return the session of the run that makes a call.

        Raises `BlockedCallError` before the first run.
        """
        if self._run is None:
            raise BlockedCallError(Block("no run of its agent has begun").reason)
        return self._run


def _gated_class(base: type[MultiStepAgent], gated: _GatedAgents) -> type[MultiStepAgent]:
    """Return a class like `base` whose agents' tools are gated in every run."""

    def run(
        self: Any, task: str, stream: bool = False, reset: bool = True, *more: Any, **how: Any
    ) -> Any:
        gated.prepare(self)
        gated.begin(self, reset=reset)
        return base.run(self, task, stream, reset, *more, **how)

    members: dict[str, object] = {"run": run, "_interlock": gated, "__module__": base.__module__}
    if issubclass(base, ToolCallingAgent):
        members |= _calling_members(base, gated)
    return cast("type[MultiStepAgent]", type(base.__name__, (base,), members))


def _calling_members(base: type[ToolCallingAgent], gated: _GatedAgents) -> dict[str, object]:
    """Return methods of a tool-calling agent that track the ids of its calls and what the model reads."""

    def process_tool_calls(self: Any, chat_message: ChatMessage, memory_step: Any) -> Generator[Any]:
        self._interlock_calls = _Calls(chat_message)
        yield from base.process_tool_calls(self, chat_message, memory_step)
        for notice in self._interlock_calls.notices:
            memory_step.observations = f"{memory_step.observations or ''}\n{notice}"

    def execute_tool_call(self: Any, tool_name: str, arguments: Any) -> Any:
        tool = self.tools.get(tool_name)
        if tool is not None:
            # The tool may have been added during the run.
            self.tools[tool_name] = gated.bind(tool)
        calls: _Calls = getattr(self, "_interlock_calls", None) or _Calls(None)
        model_call = None if tool is None else _ModelCall(calls.take(tool_name, arguments))
        token = _model_call.set(model_call)
        try:
            value = base.execute_tool_call(self, tool_name, arguments)
        except Exception:
            if model_call is None or model_call.blocked is None:
                raise
            # An error would end the step, and discard the results of the other calls in it.
            return model_call.blocked
        finally:
            _model_call.reset(token)
        if model_call is None or model_call.answer is None or model_call.answer.notice is None:
            return value
        if isinstance(value, AgentImage | AgentAudio):
            calls.notices.append(model_call.answer.notice)
            return value
        return model_call.answer.tell(str(value))

    return {"process_tool_calls": process_tool_calls, "execute_tool_call": execute_tool_call}


@dataclass(slots=True)
class _Calls:
    """The calls of one answer of a model; smolagents does not pass on their ids."""

    message: ChatMessage | None
    notices: list[str] = field(default_factory=list[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _taken: set[str] = field(default_factory=set[str])

    def take(self, tool: str, arguments: object) -> str:
        """Return the id of a call like this one; of two identical calls, either is correct."""
        with self._lock:
            for call in (self.message.tool_calls if self.message else None) or []:
                tool_input = call.function.arguments or {}
                if call.id not in self._taken and call.function.name == tool and tool_input == arguments:
                    self._taken.add(call.id)
                    return call.id
        return uuid4().hex


class _GatedTool:
    """A tool that asks the gate before it runs, about exactly the arguments it would run with."""

    def __init__(self, tool: Tool, agents: _GatedAgents) -> None:
        self.tool = tool
        self.agents = agents
        self._run = tool.forward

    def forward(self, *args: Any, **tool_input: Any) -> Any:
        """Run the tool with the approved input. Raises `BlockedCallError`."""
        name, model_call = self.tool.name, _model_call.get()
        gate = self.agents.session()
        # Calls made by the tool's own code do not have the id of the model's call.
        _model_call.set(None)
        call_id = uuid4().hex if model_call is None else model_call.call_id
        named, answer = tool_input, Block("its arguments do not fit its inputs")
        with contextlib.suppress(TypeError):
            # Copied, because the model's answer shares them.
            named = snapshot(self._named(args, tool_input))
            answer = gate.ask_now(call_id, name, named)
        if not isinstance(answer, Allow):
            text = answer.tell(name) if isinstance(answer, Block) else Block("it waits").tell(name)
            if model_call is not None:
                model_call.blocked = text
            raise BlockedCallError(text)
        if model_call is not None:
            model_call.answer = answer
        elif answer.notice is not None:
            self.agents.notices.append(f"{name}: {answer.notice}")
        # Values that are not JSON, such as images, stay unchanged.
        final: Mapping[str, Any] = answer.input if answer.edited else named
        try:
            value = self._run(**final)
        except BaseException as error:
            outcome: Outcome = "failed" if isinstance(error, Exception) else "unknown"
            gate.done_now(call_id, failure_text(error), outcome)
            raise
        gate.done_now(call_id, value, outcome_of(name, value))
        return value

    def _named(self, args: tuple[Any, ...], named_arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name.

        Raises `TypeError` for arguments that the tool does not accept.
        """
        if not args:
            return named_arguments
        bound = inspect.signature(self._run).bind(*args, **named_arguments)
        kinds = {each.kind for each in inspect.signature(self._run).parameters.values()}
        if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            names = list(self.tool.inputs)
            if len(args) > len(names):
                raise TypeError(f"{len(args)} values for {len(names)} inputs")
            return dict(zip(names, args, strict=False)) | named_arguments
        return dict(bound.arguments)


class _GatedExecutor(Executor):
    """An executor of code that asks the gate before a block runs."""

    def __init__(self, inner: Executor, agents: _GatedAgents) -> None:
        self.inner = inner
        self.agents = agents

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["inner"], name)

    def send_tools(self, tools: dict[str, Tool]) -> None:
        """Give the code its tools, behind the gate."""
        if isinstance(self.inner, LocalPythonExecutor):
            tools = {name: self.agents.bind(tool) for name, tool in tools.items()}
        self.inner.send_tools(tools)

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Give the code its variables."""
        self.inner.send_variables(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Run a block as approved. Raises `BlockedCallError`, and the exceptions of the code."""
        gate, call_id = self.agents.session(), uuid4().hex
        answer = gate.ask_now(call_id, CODE, {"code": code_action})
        if not isinstance(answer, Allow):
            raise BlockedCallError(Block(answer.reason).tell(CODE))
        code, notices = answer.input.get("code"), self.agents.notices
        before = len(notices)
        if answer.notice is not None:
            notices.append(answer.notice)
        try:
            if set(answer.input) != {"code"} or not isinstance(code, str):
                raise BlockedCallError(Block("its edited input is not exactly one text, code").tell(CODE))
            output = self.inner(code)
        except Exception as error:
            # It is unknown how far a block has run that exceeded its time.
            late = isinstance(error, ExecutionTimeoutError)
            gate.done_now(call_id, failure_text(error), "unknown" if late else "failed")
            if edits := self._text_of(notices, before):
                raise RuntimeError(f"{error}\n\n{edits}") from error
            raise
        except BaseException:
            gate.done_now(call_id, CUT_OFF, "unknown")
            raise
        gate.done_now(call_id, output.output if output.output is not None else output.logs)
        if edits := self._text_of(notices, before):
            output.logs = f"{output.logs}\n{edits}\n"
        return output

    @staticmethod
    def _text_of(notices: list[str], before: int) -> str:
        edits = notices[before:]
        del notices[before:]
        return "\n".join(edits)


class _ProbeTool(Tool):
    """The probe as a tool."""

    name = PROBE
    description = "Do nothing"
    inputs: dict[str, dict[str, Any]] = {}  # noqa: RUF012
    output_type = "string"

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self._probe = probe

    def forward(self) -> str:
        """Record that the probe ran."""
        return self._probe.run()


def _unseen(agent: MultiStepAgent) -> dict[str, str]:
    """Return tools whose `forward` does not run in this process, by name, with the reason."""
    tools = cast("Mapping[str, object]", agent.tools)
    unseen = {name: _NO_TOOL for name, tool in tools.items() if not isinstance(tool, Tool)}
    if not isinstance(agent, CodeAgent):
        return unseen
    executor: object = agent.python_executor
    if isinstance(executor, _GatedExecutor):
        executor = executor.inner
    if isinstance(executor, LocalPythonExecutor):
        return unseen
    return unseen | dict.fromkeys(_gated_names(agent), _REMOTE)


def _gated_names(agent: MultiStepAgent) -> tuple[str, ...]:
    tools = cast("Mapping[str, object]", agent.tools)
    return tuple(name for name, tool in tools.items() if type(tool) is not FinalAnswerTool)
