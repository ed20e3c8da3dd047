"""Hooks: an agent author's own say before and after calls, of tools and of the model.

Listeners watch; hooks take part. An agent may have several `Hooks`; they are asked in their order, each
awaited before the next. A hook that raises, or answers what it may not, ends the run as a listener that
raises does (A-32): nothing goes on that a hook should have seen and did not.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from pydantic import JsonValue

from .decisions import Decision, Deny, as_decision
from .events import ToolCallEvent
from .model import ModelRequest
from .tool import ToolOutput, as_output

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A call whose tool has run, with the arguments it ran on and its own output."""

    call_id: str
    name: str
    args: dict[str, JsonValue]
    output: ToolOutput
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelCall:
    """How a model call shall differ: another system prompt, or only some of the tools, by name."""

    system_prompt: str | None = None
    tools: Sequence[str] | None = None


Hook: TypeAlias = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Hooks:
    """What is asked, each a function or async function, of one argument:

    `before_tool_call(ToolCallEvent)` answers like a `tool_call` listener and comes before those, after
    the gate: what the gate blocks it never sees, and what it overrides the gate sees again. The first
    that decides wins; what is no decision denies (A-44).

    `after_tool_call(FinishedCall)` may give a `ToolOutput` or text for the model to read instead. The
    gate has heard the tool's own result by then, and calls that did not run do not come here.

    `before_model_call(ModelRequest)` may give a `ModelCall`, for this call only. A tool that is left out
    cannot be called in the reply.

    `before_stop(text)` may give text to go on with, as if a person had queued it; `text` is the reply
    that would end the run. It is not asked when somebody has sent a message or the steps are used up.
    """

    before_tool_call: Hook | None = None
    after_tool_call: Hook | None = None
    before_model_call: Hook | None = None
    before_stop: Hook | None = None


class HookChain:
    """Several `Hooks` as one."""

    def __init__(self, hooks: Hooks | Sequence[Hooks] = ()) -> None:
        """Raises `TypeError` for what are no hooks."""
        self._hooks = (hooks,) if isinstance(hooks, Hooks) else tuple(hooks)
        for each in self._hooks:
            if not isinstance(each, Hooks):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are untyped
                raise TypeError(f"hooks are Hooks, not {type(each).__name__}")

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._hooks)

    async def before_tool_call(self, event: ToolCallEvent) -> Decision:
        """The first decision; `None` where no hook decides. Raises what a hook raises."""
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
        """What the model shall read; each hook sees what the one before made of it."""
        for hook in [each.after_tool_call for each in self._hooks]:
            match await _ask(hook, lambda call=call: copy.deepcopy(call)):
                case None:
                    pass
                case ToolOutput() as output:
                    call = replace(call, output=as_output(output))
                case str() as text:
                    call = replace(call, output=replace(call.output, text=text))
                case other:
                    raise _wrong("after_tool_call", "None, text or a ToolOutput", other)
        return call.output

    async def before_model_call(self, request: ModelRequest) -> ModelRequest:
        """The request to send; each hook sees what the one before made of it."""
        for hook in [each.before_model_call for each in self._hooks]:
            match await _ask(hook, lambda request=request: copy.deepcopy(request)):
                case None:
                    pass
                case ModelCall() as change:
                    request = _changed(request, change)
                case other:
                    raise _wrong("before_model_call", "None or a ModelCall", other)
        return request

    async def before_stop(self, text: str) -> str | None:
        """Text to go on with; the first that has some."""
        for hook in [each.before_stop for each in self._hooks]:
            match await _ask(hook, lambda: text):
                case None | "":
                    pass
                case str() as more:
                    return more
                case other:
                    raise _wrong("before_stop", "None or text", other)
        return None


async def _ask(hook: Hook | None, argument: Callable[[], object]) -> object:
    if hook is None:
        return None
    answer = hook(argument())
    return await answer if inspect.isawaitable(answer) else answer


def _wrong(hook: str, expected: str, found: object) -> TypeError:
    return TypeError(f"a {hook} hook must return {expected}, not {type(found).__name__}")


def _changed(request: ModelRequest, change: ModelCall) -> ModelRequest:
    if change.system_prompt is not None:
        request = replace(request, system_prompt=change.system_prompt)
    if change.tools is None:
        return request
    known = {spec.name: spec for spec in request.tools}
    for name in change.tools:
        if name not in known:
            raise ValueError(
                f"a before_model_call hook wants the tool '{name}'; "
                f"there are: {', '.join(known) or 'none'}"
            )
    return replace(request, tools=tuple(known[name] for name in dict.fromkeys(change.tools)))
