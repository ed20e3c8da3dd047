"""One tool behind the gate: gate the call, run it, report its result to the gate (G-30)."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias, TypeVar, cast
from uuid import uuid4

from ...core.frozen import maker
from ...core.json_values import same_json
from ...net.net import Input, ToolCall
from ..calls.contention import ThreadWait
from ..edit_notice import with_notice
from ..manager import GateManager
from ..types import GateContext, GateDecision, SyncToolError, ToolCallBlockedError, ToolResult
from .arguments import CALL_ID, Arguments, CallableInput
from .failures import ResultClassifier, is_error_value
from .messages import field_of, value_text

T = TypeVar("T")
ReasonTransform: TypeAlias = Callable[[str, str], str]

_tool_call = maker(ToolCall)
_tool_result = maker(ToolResult)

# Nothing to await. `isawaitable` takes 0.25 µs to find out, of the 4 µs of a wrapped call.
_PLAIN_TYPES = frozenset({str, dict, list, tuple, int, float, bool, bytes, type(None)})

log = logging.getLogger(__name__)


def block_text(transform: ReasonTransform | None, tool: str, reason: str) -> str:
    """Block reason as the model reads it; unchanged if the transform fails."""
    if transform is None:
        return reason
    try:
        return str(transform(tool, reason))
    except Exception:
        log.exception("transform_block_reason failed for tool '%s'", tool)
        return reason


@dataclass(frozen=True, slots=True)
class ToolGate:
    """Gate and callbacks that the wrapped tools of a session share."""

    manager: GateManager
    context: GateContext
    is_error: ResultClassifier | None
    transform_reason: ReasonTransform | None
    tell_edits: bool = True
    # A session's ids have one random part and a counter: 0.2 µs per call instead of the 2 µs of `uuid4`.
    _session: str = field(init=False, default_factory=lambda: uuid4().hex)
    _counted: count[int] = field(init=False, default_factory=lambda: count(1))
    _context_at_once: GateContext = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_context_at_once", replace(self.context, at_once=True))

    def new_call_id(self) -> str:
        """An id that no other call has, in this session or another."""
        return f"call-{self._session}-{next(self._counted)}"

    async def admit(self, call: ToolCall, *, at_once: bool = False) -> ToolCall:
        """The call that may run, possibly edited by an operator. Raises `ToolCallBlockedError`."""
        context = self._context_at_once if at_once else self.context
        return self._admitted(call, await self.manager.handle_tool_call(call, context))

    def pass_at_once(self, call: ToolCall) -> ToolCall | None:
        """Result of `admit` for a call that every net lets pass without approval.

        Returns `None` for any other call, and then nothing has happened. Saves most calls two coroutines.
        """
        decision = self.manager.pass_at_once(call)
        if decision is None or decision.outcome == "allow":
            return decision and call
        return self._admitted(call, decision)

    def _admitted(self, call: ToolCall, decision: GateDecision) -> ToolCall:
        if decision.block:
            reason = block_text(self.transform_reason, call.tool_name, decision.reason or "")
            raise ToolCallBlockedError(call.tool_name, call.tool_call_id, reason)
        return decision.call

    def settle(self, call: ToolCall, *, is_error: bool) -> None:
        result = _tool_result(call.tool_call_id, call.tool_name, call.input, is_error)
        self.manager.handle_tool_result(result)

    def settle_value(self, call: ToolCall, value: object) -> None:
        failed = is_error_value(self.is_error, call.tool_name, value)
        self.settle(call, is_error=failed)
        if not failed and self.manager.listens_to(call.tool_name):
            self.manager.hear(call.tool_name, value_text(value))


class GatedTool:
    """A callable under a name. Calls of an async callable are awaited; others return at once.

    A synchronous tool is gated without an event loop. If it would have to wait for approval, it raises
    `SyncToolError` instead of running; `call` waits.
    """

    def __init__(
        self,
        gate: ToolGate,
        name: str,
        function: Callable[..., object],
        *,
        whole: bool = False,
        ignore: Collection[str] = (),
    ) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"Tool '{name}' is a generator, which returns before it has run; "
                f"the gate needs a tool that returns when it is done"
            )
        self._gate = gate
        self._name = name
        self._function = function
        self._arguments = CallableInput(name, function, whole=whole, ignore=ignore)
        self.ignored = self._arguments.ignored
        self._whole = whole
        self._is_async = _is_async(function)

    def wrapped(self) -> Callable[..., object]:
        """A callable like the original that passes the gate first.

        It takes the call's id as the keyword `tool_call_id`; without it an id is generated.
        """
        if self._is_async:

            @functools.wraps(self._function)
            async def gated(*args: object, **kwargs: object) -> object:
                call, arguments = self._call(args, kwargs)
                admitted = self._gate.pass_at_once(call) or await self._gate.admit(call)
                return await self._run_async(admitted, call, arguments)

            return gated

        @functools.wraps(self._function)
        def gated_at_once(*args: object, **kwargs: object) -> object:
            call, arguments = self._call(args, kwargs)
            admitted = self._gate.pass_at_once(call) or _at_once(
                self._name, self._gate.admit(call, at_once=True)
            )
            return self._run(admitted, call, arguments)

        return gated_at_once

    async def call(self, value: Input, tool_call_id: str | None = None) -> object:
        """Run the tool with the input object `value`; waits for approval if the nets require it."""
        args, kwargs = self._arguments.write(value)
        call, arguments = self._call(args, kwargs, tool_call_id)
        return await self._run_async(await self._gate.admit(call), call, arguments)

    def _call(
        self, args: tuple[object, ...], kwargs: dict[str, object], tool_call_id: str | None = None
    ) -> tuple[ToolCall, Arguments]:
        """The call as the gate sees it, and the arguments that it came with."""
        if kwargs and tool_call_id is None and isinstance(given := kwargs.pop(CALL_ID, None), str):
            tool_call_id = given
        if self._whole and tool_call_id is None and len(args) > self._arguments.input_index + 1:
            tool_call_id = _id_in_options(args[self._arguments.input_index + 1])
        if tool_call_id is None:
            tool_call_id = self._gate.new_call_id()
        if not tool_call_id:
            raise ValueError(f'wrapTools: missing toolCallId for tool "{self._name}"')
        if self._arguments.takes_call_id:
            kwargs = {**kwargs, CALL_ID: tool_call_id}
        arguments = (args, kwargs)
        return _tool_call(tool_call_id, self._name, self._arguments.read(arguments)), arguments

    def _run(self, admitted: ToolCall, call: ToolCall, arguments: Arguments) -> object:
        """Run an admitted call; if it returns an awaitable, the call is settled when that is done."""
        edited = False
        try:
            # The approved input runs, even if the original object was changed since.
            if admitted is not call and not same_json(admitted.input, call.input):
                edited = self._gate.tell_edits
                arguments = self._arguments.write(admitted.input, arguments)
            value = self._function(*arguments[0], **arguments[1])
        except BaseException:
            self._gate.settle(admitted, is_error=True)
            raise
        if type(value) not in _PLAIN_TYPES and inspect.isawaitable(value):
            return self._finish(admitted, call if edited else admitted, value)
        self._gate.settle_value(admitted, value)
        return with_notice(value, call.input, admitted.input) if edited else value

    async def _run_async(self, admitted: ToolCall, call: ToolCall, arguments: Arguments) -> object:
        value = self._run(admitted, call, arguments)
        return await value if type(value) not in _PLAIN_TYPES and inspect.isawaitable(value) else value

    async def _finish(self, admitted: ToolCall, call: ToolCall, running: Awaitable[object]) -> object:
        try:
            value = await running
        except BaseException:
            self._gate.settle(admitted, is_error=True)
            raise
        self._gate.settle_value(admitted, value)
        return value if call is admitted else with_notice(value, call.input, admitted.input)


def _id_in_options(options: object) -> str | None:
    """The call's id in the options that the Vercel AI SDK passes after the input."""
    for name in ("toolCallId", CALL_ID):
        if isinstance(found := field_of(options, name), str) and found:
            return found
    return None


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - not whether it is callable, but how
    )


def _at_once(tool: str, coroutine: Coroutine[object, object, T]) -> T:
    """Run the coroutine without an event loop. Raises `SyncToolError` if it needs one.

    If it waits for a call about which an operator is asked in another thread (G-68), this thread blocks.
    """
    try:
        while True:
            awaited = coroutine.send(None)
            if not isinstance(awaited, ThreadWait):
                raise SyncToolError(tool)
            awaited.wait()
    except StopIteration as stop:
        return cast("T", stop.value)
    finally:
        coroutine.close()
