"""Hooks: callables of an agent's author, run before and after calls of tools and of the model.

Listeners observe; hooks take part. An agent may have several `Hooks`, which are called in order, each
awaited before the next. A hook that raises or returns an invalid answer ends the run, like a listener
that raises (A-32): nothing continues that a hook should have seen but did not.

An agent's hooks for tool calls also apply to its subagents' calls, before the subagent's own. The gate
decides first, then the outermost agent's hooks, then those of each agent below, then listeners. A denial
by any of them is final. Changed arguments go to the next one, and again to the gate. Each hook sees a
result as the outer ones have left it. A hook that raises ends the run that made the call.

The request to a subagent's model also passes `before_model_call` of its parent agents, from the inside
out: the outermost decides last what is sent. Only the messages of their answers count, because system
prompt and tools are chosen per agent, and `before_tool_call` decides what a subagent may call.
`before_stop` is called only for its own agent's turns: it withholds nothing, and the end of a subagent's
task is not the end of the parent's turn.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, cast

from pydantic import JsonValue

from .decisions import Decision, Deny, as_decision
from .events import ToolCallEvent
from .messages import AssistantMessage, Message, SummaryMessage, ToolMessage, UserMessage
from .models.base import ModelRequest
from .tool import ToolOutput, as_output

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A call whose tool has run, with the arguments it ran with and its own output.

    `session_id` is the session that made the call, possibly a subagent's.
    """

    call_id: str
    name: str
    args: dict[str, JsonValue]
    output: ToolOutput
    seconds: float = 0.0
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Changes to a model call: another system prompt, a selection of tools by name, other messages.

    `None` keeps the original. Messages may be omitted, added or reworded, but results must stay with
    their calls: exactly one result for each of its calls directly follows an assistant's message, and no
    result occurs anywhere else. There must be at least one message.
    """

    system_prompt: str | None = None
    tools: Sequence[str] | None = None
    messages: Sequence[Message] | None = None


Hook: TypeAlias = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Hooks of an agent, each a function or async function of one argument:

    `before_tool_call(ToolCallEvent)` answers like a `tool_call` listener. It is called after the gate and
    before listeners: it never sees what the gate blocks, and the gate decides again what it overrides.
    The first hook that decides wins; an invalid decision denies (A-44).

    `after_tool_call(FinishedCall)` may return a `ToolOutput` or text for the model to read instead. The
    gate has already received the tool's own result. It is not called for calls that did not run.

    `before_model_call(ModelRequest)` may return a `ModelCall`, for this call only: session, store and
    record keep the original. The reply cannot call a tool that was left out. It is also called for the
    request for a summary with which a session is compacted; that request is marked by its `purpose` and
    offers no tools, so `tools` has no effect. For a subagent's request, marked by its `session_id`, only
    `messages` has an effect.

    `before_stop(text)` may return text to continue with, as if a user had queued it; `text` is the reply
    that would end the run. It is not called if a message was sent or the steps are used up.
    """

    before_tool_call: Hook | None = None
    after_tool_call: Hook | None = None
    before_model_call: Hook | None = None
    before_stop: Hook | None = None


class HookChain:
    """Several `Hooks` as one; `outer` are those of the agent that started this agent's session."""

    def __init__(
        self, hooks: Hooks | Sequence[Hooks] | None = None, outer: HookChain | None = None
    ) -> None:
        """Raise `TypeError` for invalid hooks."""
        self._hooks = (hooks,) if isinstance(hooks, Hooks) else tuple(hooks or ())
        self._outer = outer
        for each in self._hooks:
            if not isinstance(each, Hooks):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are untyped
                raise TypeError(f"hooks are Hooks, not {type(each).__name__}")

    def __bool__(self) -> bool:
        """True if there are hooks at any level."""
        return any(level.own for level in self.levels)

    @property
    def own(self) -> tuple[Hooks, ...]:
        """The agent's own hooks, in order."""
        return self._hooks

    @property
    def levels(self) -> tuple[HookChain, ...]:
        """The chains of all parent agents and of this one, outermost first."""
        return (self,) if self._outer is None else (*self._outer.levels, self)

    def with_outer(self, outer: HookChain) -> HookChain:
        """Return the same hooks, for a session started by an agent with the hooks `outer`."""
        return HookChain(self._hooks, outer)

    async def before_tool_call(self, event: ToolCallEvent) -> Decision:
        """First decision of this level; `None` if no hook decides. Raises the errors of hooks."""
        for hook in [each.before_tool_call for each in self._hooks]:
            answer = await _ask(hook, lambda: event.model_copy(deep=True))
            if answer is None:
                continue
            try:
                return as_decision(answer)
            except TypeError as error:
                return Deny(reason=str(error).replace("tool_call listener", "before_tool_call hook"))
        return None

    async def after_tool_call(self, call: FinishedCall) -> ToolOutput:
        """Output for the model; each hook, of all levels, sees what the one before it returned."""
        for hook in [each.after_tool_call for level in self.levels for each in level.own]:
            match await _ask(hook, lambda call=call: copy.deepcopy(call)):
                case None:
                    pass
                case ToolOutput() as output:
                    call = replace(call, output=as_output(output))
                case str() as text:
                    call = replace(call, output=replace(call.output, text=text))
                case other:
                    raise _answer_error("after_tool_call", "None, text or a ToolOutput", other)
        return call.output

    async def before_model_call(self, request: ModelRequest) -> ModelRequest:
        """Request to send; each hook sees what the one before it returned, this level's own first."""
        hooks = [
            (each.before_model_call, level is self)
            for level in reversed(self.levels)
            for each in level.own
        ]
        for hook, is_own_level in hooks:
            match await _ask(hook, lambda request=request: copy.deepcopy(request)):
                case None:
                    pass
                case ModelCall() as change:
                    change = change if is_own_level else ModelCall(messages=change.messages)
                    request = _apply_change(request, change, _name_of(hook))
                case other:
                    raise _answer_error("before_model_call", "None or a ModelCall", other)
        return request

    async def before_stop(self, text: str) -> str | None:
        """Text to continue with: the first that a hook of this level returns."""
        for hook in [each.before_stop for each in self._hooks]:
            match await _ask(hook, lambda: text):
                case None | "":
                    pass
                case str() as more:
                    return more
                case other:
                    raise _answer_error("before_stop", "None or text", other)
        return None


async def _ask(hook: Hook | None, argument: Callable[[], object]) -> object:
    if hook is None:
        return None
    answer = hook(argument())
    return await answer if inspect.isawaitable(answer) else answer


def _answer_error(hook: str, expected: str, answer: object) -> TypeError:
    return TypeError(f"a {hook} hook must return {expected}, not {type(answer).__name__}")


def _name_of(hook: Hook | None) -> str:
    """Name a hook for an error message, with its function's name if it has one."""
    name: object = getattr(hook, "__qualname__", None)
    return f"a before_model_call hook ({name})" if isinstance(name, str) else "a before_model_call hook"


def _apply_change(request: ModelRequest, change: ModelCall, hook: str) -> ModelRequest:
    if change.system_prompt is not None:
        request = replace(request, system_prompt=change.system_prompt)
    if change.messages is not None:
        request = replace(request, messages=_check_messages(change.messages, hook))
    if change.tools is None or request.purpose == "summary":
        return request
    specs = {spec.name: spec for spec in request.tools}
    for name in change.tools:
        if name not in specs:
            raise ValueError(f"{hook} wants the tool '{name}'; there are: {', '.join(specs) or 'none'}")
    return replace(request, tools=tuple(specs[name] for name in dict.fromkeys(change.tools)))


def _check_messages(messages: Sequence[Message], hook: str) -> tuple[Message, ...]:
    """Return `messages` if a model accepts them. Raises `TypeError` and `ValueError`, naming the hook."""
    for message in cast("Sequence[object]", messages):
        if not isinstance(message, (UserMessage, AssistantMessage, ToolMessage, SummaryMessage)):
            raise TypeError(f"{hook} must give messages, not {type(message).__name__}")
    if (problem := _pairing_problem(messages)) is not None:
        raise ValueError(f"{hook} gave messages that no model can be sent: {problem}")
    return tuple(messages)


def _pairing_problem(messages: Sequence[Message]) -> str | None:
    """First place where a call lacks its result, or a result its call."""
    open_ids: list[str] = []
    for number, message in enumerate(messages, 1):
        if isinstance(message, ToolMessage):
            if message.call_id not in open_ids:
                return (
                    f"message {number} is a result of call '{message.call_id}', and the assistant's "
                    "message right before it and its results makes no such call"
                )
            open_ids.remove(message.call_id)
        elif open_ids:
            return f"call '{open_ids[0]}' has no result before message {number}"
        elif isinstance(message, AssistantMessage):
            open_ids = [call.call_id for call in message.tool_calls]
    if open_ids:
        return f"call '{open_ids[0]}' has no result"
    return None if messages else "there is none; expected at least one"
