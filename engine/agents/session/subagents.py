"""Subagents: agents that a tool call of another agent starts, with the same gate.

A child has its own conversation but not its own gate: every call it makes passes the gate of its parent
session, under an id that includes the child's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, cast
from uuid import uuid4

from pydantic import Field

from ...gate.types import CallGate, GateDecision, ResultRecord, ToolResult
from ...net.net import ToolCall
from ..errors import ToolError
from ..events import Event, TextDelta, TurnEnd
from ..messages import AssistantMessage, Message
from ..rules_notice import current_rules
from ..runtime.base import Runtime
from ..stores.base import SessionStore
from ..tool import Execute, ModelTool, ToolContext, ToolInput, ToolOutput
from .config import Spawn

if TYPE_CHECKING:
    from ..agent import Agent
    from .session import Session

MAX_DEPTH = 8
"""Maximum depth of sessions below each other, which also stops an agent that starts itself."""


class SubagentSessions(Protocol):
    """Creates the sessions of subagents."""

    def open(self, agent: Agent, call_id: str) -> AbstractAsyncContextManager[Session]:
        """Open a session of `agent` for the call `call_id`; the parent's gate decides its calls.

        It is closed at the end. A session that an earlier process started for this call is resumed: it is
        already running, or has ended with its last reply. Entering raises `ToolError` if there can be no
        session.
        """
        ...


class SubagentGate:
    """The parent's gate for a child: calls of different children never share an id (G-53)."""

    def __init__(self, gate: CallGate, child: str) -> None:
        self._gate = gate
        self._child = child

    def id_of(self, call_id: str) -> str:
        """Id of a child's call at the parent's gate."""
        return f"{self._child}/{call_id}"

    def constraints(self) -> Sequence[str] | None:
        """The parent's rules as sentences (G-73)."""
        return current_rules(self._gate)

    async def decide(self, call: ToolCall) -> GateDecision:
        own_call = ToolCall(self.id_of(call.tool_call_id), call.tool_name, call.input)
        decision = await self._gate.decide(own_call)
        if not isinstance(cast("object", decision), GateDecision):
            return decision
        if decision.call.tool_call_id != own_call.tool_call_id:
            # A decision on another call keeps its id, so that the caller refuses it.
            return decision
        decided_call = decision.call
        return replace(
            decision, call=ToolCall(call.tool_call_id, decided_call.tool_name, decided_call.input)
        )

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
        own_result = replace(result, tool_call_id=self.id_of(result.tool_call_id))
        return await self._gate.settle(own_result, output, seconds)


@dataclass(frozen=True, slots=True)
class UnhostedSubagents:
    """Children of a session without a host: in its store, under ids that begin with its own.

    Their tools use the parent's runtime, not that of their agent: delegation must not lead out of a
    sandbox.
    """

    parent: str
    gate: CallGate | None
    store: SessionStore
    runtime: Runtime
    spawn: Spawn | None
    depth: int = 1

    @asynccontextmanager
    async def open(self, agent: Agent, call_id: str) -> AsyncGenerator[Session, None]:
        """See `SubagentSessions.open`."""
        check_depth(agent, self.depth)
        child = f"{self.parent}/{agent.name}-{uuid4().hex[:6]}"
        gate = None if self.gate is None else SubagentGate(self.gate, child)
        session = await agent.create_session(
            child,
            gate=gate,
            store=self.store,
            runtime=self.runtime,
            spawn=self.spawn,
            subagents=replace(self, parent=child, gate=gate, depth=self.depth + 1),
        )
        async with session:
            yield session


def check_depth(agent: Agent, depth: int) -> None:
    """Raise `ToolError` if agents have started each other too often."""
    if depth > MAX_DEPTH:
        raise ToolError(f"{agent.name} is the {depth}th agent below the first; {MAX_DEPTH} is the limit")


class TaskInput(ToolInput):
    """Task for a subagent."""

    prompt: str = Field(
        min_length=1,
        description="The task, with all the subagent has to know: it does not see this conversation.",
    )


@dataclass(frozen=True, slots=True)
class TaskTool(ModelTool):
    """A tool that delegates tasks to `agent`; made by `task_tool`."""

    agent: Agent | None = None


def task_tool(agent: Agent, *, description: str | None = None) -> TaskTool:
    """Make a tool `task_<name>` that delegates a task to `agent` and returns its last reply.

    Each of the subagent's calls passes the gate of the calling session, in addition to the call of this
    tool. Its text streams as the tool's progress. Its errors are the call's errors, and aborting the
    session stops it.
    """

    async def run(args: TaskInput, ctx: ToolContext) -> ToolOutput:
        if ctx.subagents is None:
            raise ToolError(f"{name}: there is no session here that a subagent could belong to")
        # The subagent's text never counts as a failure, whatever it contains.
        return ToolOutput(await _run_task(ctx.subagents, agent, args.prompt, ctx))

    name = f"task_{agent.name}"
    full_description = description or f"Have {agent.name} do a task."
    return TaskTool(name, full_description, TaskInput, cast("Execute", run), agent=agent)


async def _run_task(subagents: SubagentSessions, agent: Agent, prompt: str, ctx: ToolContext) -> str:
    turns: list[TurnEnd] = []
    async with subagents.open(agent, ctx.call_id) as session:
        session.on_any(_progress_listener(ctx.progress, turns))
        messages = session.messages
        if session.status == "idle" and not messages:
            session.send(prompt)
        await session.wait_for_idle()
        # A subagent that finished in an earlier process only repeats its reply.
        text = session.text if turns else _last_words(messages)
    last = turns[-1] if turns else None
    if last is not None and last.stop_reason == "aborted":
        why = f": {last.reason}" if last.reason else ""
        raise ToolError(f"{agent.name} was stopped before it had finished{why}")
    if last is not None and last.stop_reason == "max_steps":
        return f"{text}\n\n[{agent.name} stopped after {agent.max_steps} steps]".lstrip()
    return text or "(no answer)"


def _last_words(messages: Sequence[Message]) -> str:
    last = messages[-1] if messages else None
    return last.text if isinstance(last, AssistantMessage) else ""


def _progress_listener(progress: Callable[[str], None], turns: list[TurnEnd]) -> Callable[[Event], None]:
    def follow(event: Event) -> None:
        match event:
            case TextDelta():
                progress(event.delta)
            case TurnEnd():
                turns.append(event)
            case _:
                pass

    return follow
