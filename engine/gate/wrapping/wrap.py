"""A gate for tools that another program's loop calls: it wraps the tools for that program."""

from __future__ import annotations

import copy
import inspect
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar, cast
from uuid import uuid4

from ...core.condition import NOWHERE, Shell, Surroundings
from ...core.plan import PLAN, ConditionReader, PlanStep, written_plan
from ...core.rule import check_tool_name
from ...core.sources import USER
from ...net.net import Input, SkillNet, ToolCall
from ..manager import GateManager, create_gate_manager
from ..shared_uses import SharedUses
from ..state.registry import Nets
from ..types import Confirm, GateContext, GateDecision, Mode, OnDecision, ToggleResult, ToolResult
from .failures import ResultClassifier, is_error_text, returned_failure
from .gated_tool import GatedTool, ReasonTransform, ToolGate, block_text
from .messages import as_mapping, field_of, replay_history

Tools = TypeVar("Tools")


class GateSession(Generic[Tools]):
    """Wrapped tools with the state of one session; `tools` has the same shape as the tools passed in."""

    def __init__(
        self,
        tools: Tools,
        gated: Mapping[str, GatedTool],
        manager: GateManager,
        context: GateContext | None = None,
    ) -> None:
        self.tools = tools
        self.manager = manager
        self._gated = gated
        self._context = context or GateContext()

    async def call(
        self, name: str, value: Input | None = None, *, tool_call_id: str | None = None
    ) -> object:
        """Run a wrapped tool by name; a synchronous one may wait for approval here too.

        Raises `LookupError` for a name that is not wrapped, `ToolCallBlockedError` if the gate blocks the
        call, and what the tool raises.
        """
        if name not in self._gated:
            raise LookupError(f"No tool '{name}' to run. Available: {', '.join(self._gated)}")
        return await self._gated[name].call({} if value is None else value, tool_call_id)

    async def plan(
        self,
        steps: Iterable[PlanStep | Input],
        *,
        title: str,
        tool_call_id: str | None = None,
    ) -> GateDecision:
        """Show an operator the calls that will be made, and get the plan approved as a whole.

        Steps are `PlanStep`s or objects such as `{"tool": "deploy", "count": 2}`; conditions require a
        gate that was created with `conditions`. The decision's `reason` says what the plan lets pass, or
        why it was blocked. Calls that it does not cover still need approval.
        """
        call = ToolCall(tool_call_id or f"plan-{uuid4().hex}", PLAN, written_plan(title, steps))
        decision = await self.manager.handle_tool_call(call, self._context)
        if not decision.block:
            self.manager.handle_tool_result(ToolResult(call.tool_call_id, PLAN, decision.call.input))
        return decision

    def hear(self, text: str) -> None:
        """Add what a user said: conditions may look for values in it (`from user`)."""
        self.manager.hear(USER, text)

    def system_prompt(self) -> str:
        """Description of the active nets for the model, and of the rules in sentences (G-24, G-73)."""
        return self.manager.describe()

    def format_status(self) -> str:
        """One line per net (G-20, G-21)."""
        return self.manager.format_status()

    def add_net(self, name: str) -> ToggleResult:
        """Activate a registered net (G-21)."""
        return self.manager.add_net(name)

    def remove_net(self, name: str) -> ToggleResult:
        """Deactivate a net; its state is kept (G-21)."""
        return self.manager.remove_net(name)


class Gate:
    """Nets and callbacks from which sessions are created; see `create_gate`."""

    def __init__(
        self,
        new_manager: Callable[[], GateManager],
        *,
        confirm: Confirm | None,
        is_tool_result_error: ResultClassifier | None,
        transform_block_reason: ReasonTransform | None,
    ) -> None:
        self.context = GateContext(confirm)
        self._new_manager = new_manager
        self._is_error = is_tool_result_error or returned_failure
        self._asks_author = is_tool_result_error is not None
        self._transform = transform_block_reason

    def new_manager(
        self, messages: Iterable[object] | None = None, *, shell: Shell | None = None
    ) -> GateManager:
        """A manager in its initial state, or in the state that `messages` lead to (G-31, G-32)."""
        manager = self._new_manager()
        if shell is not None:
            manager.surroundings = replace(manager.surroundings, shell=shell)
        if messages is not None:
            manager.replay(replay_history(messages, self._is_error, partial(self._refusals, manager)))
        return manager

    def _refusals(self, manager: GateManager, tool: str, value: Input) -> Iterator[str]:
        """Beginnings of block reasons that `manager` may have given a call, as the model read them."""
        for reason in manager.refusals(ToolCall("replay", tool, value)):
            yield reason
            if self._transform is not None:
                yield self.block_text(tool, reason)

    def block_text(self, tool: str, reason: str) -> str:
        """A block reason as `transform_block_reason` words it for the model (G-30)."""
        return block_text(self._transform, tool, reason)

    def failed(self, tool: str, text: str) -> bool:
        """True if `is_tool_result_error` calls a result's text, or the JSON in it, a failure (G-30).

        Without it, the tools of a session report themselves whether they failed.
        """
        return self._asks_author and is_error_text(self._is_error, tool, text)

    def wrap_tools(
        self,
        tools: Tools,
        *,
        messages: Iterable[object] | None = None,
        shell: Shell | None = None,
        is_error: ResultClassifier | None = None,
        passthrough: Collection[object] = (),
        ignore: Collection[str] = (),
        tell_edits: bool = True,
    ) -> GateSession[Tools]:
        """Put `tools` behind fresh state (G-31).

        `shell` is the shell with which the tools run commands. If it is not given, commands that bash,
        dash and zsh parse differently are unclear (G-64).

        `tools` is a mapping from name to tool or a list of tools; a tool is a function, an object with
        `execute` and, in a list, `name`, or a mapping with `execute`. An `execute` takes the input object
        first. Async tools stay async and synchronous ones synchronous; a synchronous tool raises
        `SyncToolError` if it would have to wait for approval. `passthrough` lists tools, by name or as
        objects, that stay as they are, without a gate. `is_error` returns whether a result is a failure,
        given the tool's name and value, in place of the gate's `is_tool_result_error`. `ignore` names
        parameters of the framework, such as a context: they are not part of a call's input, and are
        passed on unchanged.

        If an operator has edited a call's input, a text result ends with a notice of the change, for the
        model. Any other result is unchanged, and so is a text if `tell_edits` is false.

        Every wrapped tool takes the keyword `tool_call_id`; `execute` also takes it from an options
        object (`toolCallId`) after the input. Without it an id is generated.

        Raises `TypeError` for a tool that cannot be gated, such as one that has nothing to execute or is
        a framework's own tool object (G-70), and `ValueError` for duplicate names, for a reserved name
        (G-64, G-66), and for a name in `passthrough` or `ignore` that no tool has.
        """
        manager = self.new_manager(messages, shell=shell)
        gate = ToolGate(manager, self.context, is_error or self._is_error, self._transform, tell_edits)
        wrapper = _Wrapper(gate, passthrough, ignore)
        named = as_mapping(tools)
        if named is not None:
            wrapped: object = {name: wrapper.wrap(name, tool) for name, tool in named.items()}
        elif isinstance(tools, list | tuple):
            listed = [wrapper.wrap(_name(tool), tool) for tool in cast("Iterable[object]", tools)]
            wrapped = tuple(listed) if isinstance(tools, tuple) else listed
        else:
            raise TypeError(f"Tools are a mapping from name to tool or a list, not {tools!r}")
        wrapper.check_names()
        return GateSession(cast("Tools", wrapped), wrapper.gated, manager, self.context)


# Methods by which frameworks run their tool objects; gating `__call__` would leave these ungated.
_FRAMEWORK_METHODS = (
    "on_invoke_tool",  # OpenAI Agents SDK
    "invoke",  # LangChain
    "ainvoke",
    "_run",  # LangChain, CrewAI
    "run_async",  # Google ADK
    "run_json",  # AutoGen
    "function_schema",  # pydantic-ai
    "acall",  # LlamaIndex
    "forward",  # smolagents
    "stream",  # Strands
)


class _Wrapper:
    def __init__(self, gate: ToolGate, passthrough: Collection[object], ignore: Collection[str]) -> None:
        if isinstance(passthrough, str):
            raise TypeError("passthrough is a collection of tools or of their names, not one name")
        if isinstance(ignore, str):
            raise TypeError(f"ignore is a collection of parameters' names, such as ('{ignore}',)")
        self._ignore = frozenset(ignore)
        self.gated: dict[str, GatedTool] = {}
        self._gate = gate
        self._passthrough = list(passthrough)
        self._unused = [name for name in passthrough if isinstance(name, str)]

    def wrap(self, name: str, tool: object) -> object:
        """A tool like `tool` that passes the gate; `tool` itself if it is listed in `passthrough`."""
        if name in self._passthrough or any(each is tool for each in self._passthrough):
            self._unused = [each for each in self._unused if each != name]
            return tool
        fields = as_mapping(tool)
        execute = fields.get("execute") if fields is not None else getattr(tool, "execute", None)
        if callable(execute) and not isinstance(tool, type):
            if fields is not None:
                return {**fields, "execute": self._gated(name, execute)}
            return _with_execute(name, tool, self._gated(name, execute))
        method = next((m for m in _FRAMEWORK_METHODS if hasattr(tool, m)), None)
        if isinstance(tool, type) or (method is not None and not inspect.isroutine(tool)):
            kind = "a class" if isinstance(tool, type) else f"run by its '{method}'"
            raise TypeError(
                f"Tool '{name}' is {kind} ({_type_name(tool)}) and would not pass the gate: wrap the "
                f"function that it runs, or list it in passthrough= to leave it ungated"
            )
        if callable(tool):
            return self._gated(name, tool, whole=False)
        raise TypeError(
            f"Tool '{name}' ({_type_name(tool)}) has nothing to execute that a gate could wrap: give "
            f"a function or an object with 'execute', or list it in passthrough= to leave it ungated"
        )

    def check_names(self) -> None:
        """Raise `ValueError` for a name that no tool or no parameter has."""
        if unknown := sorted(self._ignore.difference(*(tool.ignored for tool in self.gated.values()))):
            raise ValueError(f"ignore names parameters that no gated tool has: {', '.join(unknown)}")
        if self._unused:
            raise ValueError(f"passthrough names tools that are not there: {', '.join(self._unused)}")

    def _gated(
        self, name: str, function: Callable[..., object], *, whole: bool = True
    ) -> Callable[..., object]:
        check_tool_name(name)
        if name in self.gated:
            raise ValueError(f"Two tools are called '{name}'")
        self.gated[name] = GatedTool(self._gate, name, function, whole=whole, ignore=self._ignore)
        return self.gated[name].wrapped()


def _type_name(tool: object) -> str:
    made_of = tool if isinstance(tool, type) else type(tool)
    return f"{made_of.__module__}.{made_of.__qualname__}"


def _name(tool: object) -> str:
    """Name of a listed tool; a tool that is passed through may have none."""
    name = field_of(tool, "name") or field_of(tool, "__name__")
    if isinstance(name, str):
        return name
    if callable(field_of(tool, "execute")) or callable(tool):
        raise TypeError(f"Tool {tool!r} has no name; give the tools as a mapping from name to tool")
    return ""


def _with_execute(name: str, tool: object, execute: Callable[..., object]) -> object:
    clone = copy.copy(tool)
    try:
        # Bypasses the `__setattr__` of a frozen class, which is safe on this copy.
        object.__setattr__(clone, "execute", execute)
    except AttributeError as fixed:
        raise TypeError(f"Tool '{name}' cannot be wrapped: its execute cannot be replaced") from fixed
    return clone


def create_gate(
    nets: Nets | None = None,
    *,
    registry: Mapping[str, SkillNet] | None = None,
    active: Sequence[str] | None = None,
    mode: Mode = "enforce",
    confirm: Confirm | None = None,
    on_decision: OnDecision | None = None,
    is_tool_result_error: ResultClassifier | None = None,
    transform_block_reason: ReasonTransform | None = None,
    explain_blocks: bool = False,
    quote_calls: bool = False,
    surroundings: Surroundings = NOWHERE,
    clock: Callable[[], float] = time.time,
    uses: SharedUses | None = None,
    conditions: ConditionReader | None = None,
) -> Gate:
    """Create a gate over nets, or over a registry in which `active` start active.

    Each `wrap_tools` begins with fresh state. `confirm` asks an operator and may be async; without it
    manual transitions block. `is_tool_result_error` returns whether a result is a failure, given the
    tool's name and value. `transform_block_reason` rewrites block reasons for the model; `explain_blocks`
    adds which calls would lead to the blocked one. `quote_calls`, `surroundings` and `clock` are as in
    `GateManager`. Limits `across` sessions count the calls of all gates with the same `uses`, by default
    of all tools that this gate has wrapped. `conditions` parses the conditions of plans, such as
    `condition_of` of the rules; without it a plan has none. Raises as `create_gate_manager` does.
    """

    counted, numbers = uses or SharedUses(), itertools.count()

    def new_manager() -> GateManager:
        return create_gate_manager(
            nets,
            registry=registry,
            active=active,
            mode=mode,
            on_decision=on_decision,
            explain_blocks=explain_blocks,
            quote_calls=quote_calls,
            surroundings=surroundings,
            clock=clock,
            uses=counted.of_session(f"{id(counted)}-{next(numbers)}"),
            conditions=conditions,
        )

    # Created once now, so that faulty nets raise here and not at the first call.
    if nets is not None and not isinstance(nets, Mapping):
        nets = list(nets)
    new_manager()
    return Gate(
        new_manager,
        confirm=confirm,
        is_tool_result_error=is_tool_result_error,
        transform_block_reason=transform_block_reason,
    )
