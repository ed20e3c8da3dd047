"""Adapter for AutoGen: the tools and the code of agents and teams pass the gate before they run.

agent = gate_agent(AssistantAgent("releaser", model_client=client, tools=[deploy]), "deploy.rules")
result = await agent.run(task="Ship it")
"""

# autogen-core requires protobuf 5, so the development environment does not include it.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from autogen_agentchat.agents import (
    AssistantAgent,
    BaseChatAgent,
    CodeExecutorAgent,
    MessageFilterAgent,
    SocietyOfMindAgent,
    UserProxyAgent,
)
from autogen_agentchat.teams import BaseGroupChat
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import CancellationToken, FunctionCall
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from autogen_core.models import CreateResult
from autogen_core.tools import (
    BaseTool,
    FunctionTool,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, CoverageError, Probe, refuse_unseen, version_of
from .gate import Allow, Answer, Block, Outcome, SessionGate, Wait, outcome_of

FRAMEWORK = "AutoGen"
CODE = "execute_code"
"""Name, in rules, of the call that runs a block of code; its input is `language` and `code`."""

R = TypeVar("R", BaseChatAgent, BaseGroupChat)
Runner: TypeAlias = "BaseChatAgent | BaseGroupChat"
Thread: TypeAlias = "str | Callable[[], str] | None"

_OWN = "it acts through its own code, not through tools of a workbench"


def gate_agent(
    agent: R, gate: GateSource = None, *, thread: Thread = None, passthrough: Collection[str] = ()
) -> R:
    """Put the workbenches and code executors of an agent, or of all agents of a team, behind a gate.

    The agent is modified in place, and returned. `gate` is a rules file, a rule set, a gate in this
    process, the URL of a server, or `None` for the server at INTERLOCK_URL. Agents and teams that are
    tools are gated as well; running them is a call, too, as is a handoff to another agent of a team.

    `thread` names the session whose nets judge the calls: a text, or a function that returns one. Without
    it the object is one session, because it keeps its conversation.

    Raises `UnseenToolError` for agents that act by their own code, unless `passthrough` names them.
    """
    gated = _GatedAgents(Gates.of(gate, agent=_name(agent)), thread)
    refuse_unseen(FRAMEWORK, _refused(agent), passthrough)
    gated.add(agent)
    return agent


def gate_workbench(workbench: Workbench, gate: GateSource = None, *, thread: Thread = None) -> Workbench:
    """Return a workbench like `workbench` whose tools are gated, for an agent of your own."""
    return _GatedAgents(Gates.of(gate, agent="workbench"), thread).workbench(workbench)


async def check_coverage(agent: Runner) -> Coverage:
    """Have each agent that calls tools call a probe, and list what its gate sees; no model is called.

    Raises `CoverageError` if the probe is not blocked, and `TypeError` for an agent without a gate.
    """
    names, unseen = dict[str, None](), dict(_refused(agent))
    acting = [each for each in _agents_of(agent) if isinstance(each, AssistantAgent | CodeExecutorAgent)]
    if not acting:
        raise CoverageError(f"'{_name(agent)}' has no agent that calls tools or runs code")
    for each in acting:
        if not _has_gate(each):
            raise TypeError(f"The agent '{each.name}' has no gate: give it to gate_agent first")
        if isinstance(each, CodeExecutorAgent):
            names[CODE] = None
            continue
        for workbench in each._workbench:
            await _probe(each, workbench.agents)
            names |= dict.fromkeys(tool["name"] for tool in await workbench.list_tools())
        names |= dict.fromkeys(each._handoffs)
    return Coverage(FRAMEWORK, version_of("autogen-agentchat"), tuple(names), unseen)


async def _probe(agent: AssistantAgent, gated: _GatedAgents) -> None:
    """Have an agent call a probe."""
    probe = Probe()

    async def run() -> str:
        return probe.run()

    tool = FunctionTool(run, name=PROBE, description="Do nothing")
    _, result = await agent._execute_tool_call(
        tool_call=FunctionCall(id="probe", name=PROBE, arguments="{}"),
        workbench=[gated.workbench(StaticStreamWorkbench([tool]))],
        handoff_tools=[],
        agent_name=agent.name,
        cancellation_token=CancellationToken(),
        stream=asyncio.Queue(),
    )
    probe.check(result.content)


@dataclass(eq=False)
class _GatedAgents:
    """The gate shared by an agent and those that it can reach."""

    gates: Gates
    thread: Thread
    _key: str = field(default_factory=lambda: f"run-{uuid4().hex}")

    def session(self) -> SessionGate:
        """Return the session that calls belong to."""
        key = self._key if self.thread is None else self.thread
        return self.gates.session(key if isinstance(key, str) else key())

    def add(self, agent: Runner) -> None:
        """Gate an agent or a team, and all agents that it can reach."""
        agents = list(_agents_of(agent))
        if gated := [_name(each) for each in agents if _has_gate(each)]:
            raise ValueError(f"The agent '{gated[0]}' has a gate already")
        for each in agents:
            if isinstance(each, AssistantAgent):
                each._workbench = [self.workbench(workbench) for workbench in each._workbench]
                blocked = set[str]()
                each._handoff_tools = [_GatedHandoff(t, self, blocked) for t in each._handoff_tools]
                each.__class__ = _gated_assistant(type(each), blocked)
            elif isinstance(each, CodeExecutorAgent):
                each._code_executor = _GatedExecutor(each._code_executor, self)

    def workbench(self, inner: Workbench) -> _GatedWorkbench:
        """Return a workbench behind the gate; it streams if `inner` does."""
        kind = _GatedStream if isinstance(inner, StaticStreamWorkbench) else _GatedWorkbench
        return kind(inner, self)

    async def ask(
        self,
        gate: SessionGate,
        call_id: str,
        name: str,
        tool_input: Mapping[str, Any],
        token: CancellationToken | None,
    ) -> Answer:
        """Return the gate's answer to a call to run now; withdraw the call if the run is cancelled."""
        asking = asyncio.ensure_future(gate.ask(call_id, name, tool_input))
        if token is not None:
            token.link_future(asking)
        try:
            answer = await asking
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Cancelled by the token. An agent would wait forever for a call that raises.
            return Block("its run was cancelled")
        return (gate.start(call_id) or answer) if isinstance(answer, Allow) else answer


class _GatedWorkbench(Workbench):
    """A workbench that asks the gate before a tool runs."""

    def __init__(self, inner: Workbench, agents: _GatedAgents) -> None:
        self.inner = inner
        self.agents = agents

    async def list_tools(self) -> list[ToolSchema]:
        """Return the tools."""
        return await self.inner.list_tools()

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Run the tool with the approved input, or give the model the reason."""
        result: ToolResult | None = None
        async for event in self._calls(name, arguments, cancellation_token, call_id, stream=False):
            result = event
        return _blocked(name, Block("it returned no result")) if result is None else result

    async def _calls(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        token: CancellationToken | None,
        call_id: str | None,
        *,
        stream: bool,
    ) -> AsyncGenerator[Any, None]:
        """Yield the events of a call, the result last."""
        gate, call_id = self.agents.session(), call_id or uuid4().hex
        try:
            # Copied, because the caller could change them while the gate decides.
            arguments = copy.deepcopy(dict(arguments or {}))
            tool_input = self._given(name, arguments)
        except Exception as error:  # the tool would reject them, too
            yield _blocked(name, Block(f"its arguments do not fit: {error}"))
            return
        answer = await self.agents.ask(gate, call_id, name, tool_input, token)
        if not isinstance(answer, Allow):
            yield _blocked(name, answer)
            return
        final = answer.input if answer.edited else arguments
        result: ToolResult | None = None
        async with gate.reporting_errors(call_id):
            if stream and isinstance(self.inner, StaticStreamWorkbench):
                async for event in self.inner.call_tool_stream(name, final, token, call_id):
                    if isinstance(event, ToolResult):
                        result = event
                    else:
                        yield event
            else:
                result = await self.inner.call_tool(name, final, token, call_id)
        if result is None:
            await gate.done(call_id, "The tool returned no result", "unknown")
            return
        text = result.to_text(replace_image="[Image]")
        await gate.done(call_id, text, "failed" if result.is_error else outcome_of(name, text))
        if answer.notice is not None:
            notice = TextResultContent(content=answer.notice)
            result = result.model_copy(update={"result": [*result.result, notice]})
        yield result

    def _given(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with which the tool runs, as far as its workbench reveals them.

        Raises `ValueError`.
        """
        if not isinstance(self.inner, StaticWorkbench):
            return arguments
        known = self.inner._override_name_to_original.get(name, name)
        tool = next((tool for tool in self.inner._tools if tool.name == known), None)
        return arguments if tool is None else tool.args_type().model_validate(arguments).model_dump()

    async def start(self) -> None:
        """Start the tools."""
        await self.inner.start()

    async def stop(self) -> None:
        """Stop the tools."""
        await self.inner.stop()

    async def reset(self) -> None:
        """Reset the tools; the session continues."""
        await self.inner.reset()

    async def save_state(self) -> Mapping[str, Any]:
        """Return the state of the tools."""
        return await self.inner.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state of the tools."""
        await self.inner.load_state(state)

    def _to_config(self) -> Any:
        raise NotImplementedError(
            "A gate is not part of a configuration: save the agent before you add one"
        )


class _GatedStream(_GatedWorkbench, StaticStreamWorkbench):
    """A gated workbench that streams its tools' output; agents check for this class."""

    def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Run the tool with the approved input, or give the model the reason."""
        return self._calls(name, arguments, cancellation_token, call_id, stream=True)


class _GatedHandoff(BaseTool[Any, Any]):
    """A handoff's tool that asks the gate before its message is passed on; records blocked calls."""

    def __init__(self, inner: BaseTool[Any, Any], agents: _GatedAgents, blocked: set[str]) -> None:
        super().__init__(inner.args_type(), inner.return_type(), inner.name, inner.description)
        self.inner = inner
        self.agents = agents
        self.blocked = blocked

    @property
    def schema(self) -> ToolSchema:
        """Schema that the model reads."""
        return self.inner.schema

    async def run(self, args: Any, cancellation_token: CancellationToken) -> Any:
        """Run as a call without an id."""
        return await self.run_json(args.model_dump(), cancellation_token)

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        """Return the message of the handoff, or the reason why it is blocked."""
        gate, call_id = self.agents.session(), call_id or uuid4().hex
        try:
            tool_input = self.inner.args_type().model_validate(args).model_dump()
        except Exception as error:  # the tool would reject them, too
            answer: Answer = Block(f"its arguments do not fit: {error}")
        else:
            answer = await self.agents.ask(gate, call_id, self.name, tool_input, cancellation_token)
        if not isinstance(answer, Allow):
            self.blocked.add(call_id)
            return Block(answer.reason).tell(self.name)
        try:
            async with gate.reporting_errors(call_id):
                value = await self.inner.run_json(answer.input, cancellation_token, call_id=call_id)
        except Exception as error:
            # An agent would wait forever for a call that raises.
            self.blocked.add(call_id)
            return f"Error: {error}"
        text = self.inner.return_value_as_string(value)
        await gate.done(call_id, text)
        return answer.tell(text)

    def return_value_as_string(self, value: Any) -> str:
        """Return the message, which is already a text."""
        return str(value)


def _gated_assistant(base: type[AssistantAgent], blocked: set[str]) -> type[AssistantAgent]:
    """Return a class like `base` whose agents do not hand over for calls that were blocked."""

    def check(model_result: CreateResult, executed_calls_and_results: Any, **more: Any) -> Any:
        """Check for a handoff without the blocked calls: the agent's own check ignores the results."""
        content = model_result.content
        if isinstance(content, list):
            content = [call for call in content if call.id not in blocked]
        result = model_result.model_copy(update={"content": content})
        executed = [each for each in executed_calls_and_results if each[0].id not in blocked]
        blocked.clear()
        return base._check_and_handle_handoff(
            model_result=result, executed_calls_and_results=executed, **more
        )

    members = {
        "_check_and_handle_handoff": staticmethod(check),
        "_interlock": True,
        "__module__": base.__module__,
    }
    return type(base.__name__, (base,), members)


class _GatedExecutor(CodeExecutor):
    """An executor that asks the gate about each block of code before any of them runs."""

    def __init__(self, inner: CodeExecutor, agents: _GatedAgents) -> None:
        self.inner = inner
        self.agents = agents

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["inner"], name)

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Run the blocks as approved, or return the reason why none of them runs."""
        gate, allowed = self.agents.session(), list[tuple[str, Allow]]()
        for block in code_blocks:
            call_id, tool_input = uuid4().hex, {"language": block.language, "code": block.code}
            answer = await self.agents.ask(gate, call_id, CODE, tool_input, cancellation_token)
            if isinstance(answer, Allow):
                allowed.append((call_id, answer))
            if not isinstance(answer, Allow) or not _is_code(answer):
                reason = (
                    answer.reason if not isinstance(answer, Allow) else "its edited input is not code"
                )
                await self._report(
                    gate, allowed, "It did not run, because another block was blocked", "failed"
                )
                return CodeResult(exit_code=1, output=Block(reason).tell(CODE))
        final = [CodeBlock(str(a.input["code"]), str(a.input["language"])) for _, a in allowed]
        try:
            result = await self.inner.execute_code_blocks(final, cancellation_token)
        except BaseException as error:
            # It is unknown how far the blocks have run.
            await self._report(gate, allowed, repr(error), "unknown")
            raise
        failed: Outcome = "failed" if len(final) == 1 else "unknown"
        await self._report(gate, allowed, result.output, "done" if result.exit_code == 0 else failed)
        for _, answer in allowed:
            result.output = answer.tell(result.output)
        return result

    async def _report(
        self, gate: SessionGate, calls: Sequence[tuple[str, Allow]], output: str, outcome: Outcome
    ) -> None:
        for call_id, _ in calls:
            await gate.done(call_id, output, outcome)

    async def start(self) -> None:
        """Start the executor."""
        await self.inner.start()

    async def stop(self) -> None:
        """Stop the executor."""
        await self.inner.stop()

    async def restart(self) -> None:
        """Restart the executor."""
        await self.inner.restart()

    def _to_config(self) -> Any:
        raise NotImplementedError(
            "A gate is not part of a configuration: save the agent before you add one"
        )


def _is_code(answer: Allow) -> bool:
    tool_input = answer.input
    return tool_input.keys() == {"language", "code"} and all(
        isinstance(each, str) for each in tool_input.values()
    )


def _blocked(name: str, answer: Block | Wait) -> ToolResult:
    text = Block(answer.reason).tell(name)
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=True)


def _has_gate(agent: Runner) -> bool:
    """Return whether everything through which an agent acts is behind a gate."""
    if isinstance(agent, AssistantAgent):
        gated = all(isinstance(each, _GatedWorkbench) for each in agent._workbench)
        return gated and hasattr(type(agent), "_interlock")
    return isinstance(agent, CodeExecutorAgent) and isinstance(agent._code_executor, _GatedExecutor)


def _name(agent: Runner) -> str:
    return str(agent.name)


def _agents_of(agent: Runner, known: set[int] | None = None) -> Iterator[Runner]:
    """Yield an agent and those that it can reach: the agents of a team, inside it, or among its tools."""
    known = set() if known is None else known
    if id(agent) in known:
        return
    known.add(id(agent))
    yield agent
    inside: list[Any] = []
    if isinstance(agent, BaseGroupChat):
        inside = list(agent._participants)
    elif isinstance(agent, MessageFilterAgent):
        inside = [agent._wrapped_agent]
    elif isinstance(agent, SocietyOfMindAgent):
        inside = [agent._team]
    elif isinstance(agent, AssistantAgent):
        benches = [getattr(bench, "inner", bench) for bench in agent._workbench]
        tools = [tool for bench in benches for tool in getattr(bench, "_tools", ())]
        inside = [tool._task_runner for tool in tools if isinstance(tool, AgentTool | TeamTool)]
    for each in inside:
        yield from _agents_of(each, known)


_SEEN = (
    AssistantAgent,
    BaseGroupChat,
    CodeExecutorAgent,
    MessageFilterAgent,
    SocietyOfMindAgent,
    UserProxyAgent,
)


def _refused(agent: Runner) -> Mapping[str, str]:
    """Return agents that act in ways that no workbench sees, by name, with the reason."""
    return {_name(each): _OWN for each in _agents_of(agent) if not isinstance(each, _SEEN)}
