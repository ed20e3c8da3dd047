"""A gate for tools that another program's loop calls: wrap them, hand out the wrapped ones."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar, cast

from ...core.condition import NOWHERE, Shell, Surroundings
from ...core.rule import check_tool_name
from ...net.net import Input, SkillNet
from ..manager import GateManager, Nets, create_gate_manager
from ..types import Confirm, GateContext, Mode, OnDecision, ToggleResult
from .gated_tool import GatedTool, ReasonTransform, ToolGate, block_text
from .messages import ResultClassifier, as_mapping, field_of, is_error_text, replay_entries

Tools = TypeVar("Tools")


class GateSession(Generic[Tools]):
    """Wrapped tools with the state of one session; `tools` has the shape of what was wrapped."""

    def __init__(self, tools: Tools, gated: Mapping[str, GatedTool], manager: GateManager) -> None:
        self.tools = tools
        self.manager = manager
        self._gated = gated

    async def call(
        self, name: str, value: Input | None = None, *, tool_call_id: str | None = None
    ) -> object:
        """Run a wrapped tool by name; a synchronous one may wait for a person here too.

        Raises `LookupError` for a name that is not wrapped, `ToolCallBlockedError` when the gate blocks
        the call, and what the tool raises.
        """
        if name not in self._gated:
            raise LookupError(f"No tool '{name}' to run. Available: {', '.join(self._gated)}")
        return await self._gated[name].call({} if value is None else value, tool_call_id)

    def system_prompt(self) -> str:
        """An account of the active nets for the model (G-24)."""
        return self.manager.format_system_prompt()

    def format_status(self) -> str:
        """One line a net (G-20, G-21)."""
        return self.manager.format_status()

    def add_net(self, name: str) -> ToggleResult:
        """Activate a registered net (G-21)."""
        return self.manager.add_net(name)

    def remove_net(self, name: str) -> ToggleResult:
        """Deactivate a net; its state is kept (G-21)."""
        return self.manager.remove_net(name)


class Gate:
    """Nets and callbacks from which sessions are made; see `create_gate`."""

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
        self._is_error = is_tool_result_error
        self._transform = transform_block_reason

    def new_manager(
        self, messages: Iterable[object] | None = None, *, shell: Shell | None = None
    ) -> GateManager:
        """A manager in its first state, or where `messages` left it (G-31, G-32)."""
        manager = self._new_manager()
        if shell is not None:
            manager.surroundings = replace(manager.surroundings, shell=shell)
        if messages is not None:
            manager.replay(replay_entries(messages, self._is_error))
        return manager

    def block_text(self, tool: str, reason: str) -> str:
        """A block reason as `transform_block_reason` words it for the model (G-30)."""
        return block_text(self._transform, tool, reason)

    def failed(self, tool: str, text: str) -> bool:
        """True if `is_tool_result_error` calls a result's text, or the JSON in it, a failure (G-30)."""
        return is_error_text(self._is_error, tool, text)

    def wrap_tools(
        self,
        tools: Tools,
        *,
        messages: Iterable[object] | None = None,
        shell: Shell | None = None,
    ) -> GateSession[Tools]:
        """Put `tools` behind fresh state (G-31).

        `shell` is what the tools run shell commands with. Where it is not said, commands that bash, dash
        and zsh read differently are unclear (G-64).

        A mapping from name to tool or a list of tools; a tool is a function, an object with `execute`
        and, in a list, `name`, or a mapping with `execute`. An `execute` takes the input object first.
        What has nothing to execute passes untouched. Async tools stay async and synchronous ones
        synchronous: those raise `SyncToolError` where their approval has to be waited for.

        Every wrapped tool takes the keyword `tool_call_id`; without it an id is made up.

        Raises `TypeError` for a tool that cannot be wrapped and `ValueError` for two of one name
        and for a reserved name (G-64, G-66).
        """
        manager = self.new_manager(messages, shell=shell)
        wrapper = _Wrapper(ToolGate(manager, self.context, self._is_error, self._transform))
        named = as_mapping(tools)
        if named is not None:
            wrapped: object = {name: wrapper.wrap(name, tool) for name, tool in named.items()}
        elif isinstance(tools, list | tuple):
            listed = [wrapper.wrap(_name(tool), tool) for tool in cast("Iterable[object]", tools)]
            wrapped = tuple(listed) if isinstance(tools, tuple) else listed
        else:
            raise TypeError(f"Tools are a mapping from name to tool or a list, not {tools!r}")
        return GateSession(cast("Tools", wrapped), wrapper.gated, manager)


class _Wrapper:
    def __init__(self, gate: ToolGate) -> None:
        self.gated: dict[str, GatedTool] = {}
        self._gate = gate

    def wrap(self, name: str, tool: object) -> object:
        """A tool like `tool` that passes the gate; `tool` itself when it has nothing to execute."""
        if isinstance(tool, type):
            return tool
        fields = as_mapping(tool)
        if fields is not None:
            execute = fields.get("execute")
            return {**fields, "execute": self._gated(name, execute)} if callable(execute) else tool
        execute = getattr(tool, "execute", None)
        if callable(execute):
            return _with_execute(name, tool, self._gated(name, execute))
        return self._gated(name, tool, whole=False) if callable(tool) else tool

    def _gated(
        self, name: str, function: Callable[..., object], *, whole: bool = True
    ) -> Callable[..., object]:
        check_tool_name(name)
        if name in self.gated:
            raise ValueError(f"Two tools are called '{name}'")
        self.gated[name] = GatedTool(self._gate, name, function, whole=whole)
        return self.gated[name].wrapped()


def _name(tool: object) -> str:
    """A listed tool's name; what has nothing to execute may have none."""
    name = field_of(tool, "name") or field_of(tool, "__name__")
    if isinstance(name, str):
        return name
    if callable(field_of(tool, "execute")) or callable(tool):
        raise TypeError(f"Tool {tool!r} has no name; give the tools as a mapping from name to tool")
    return ""


def _with_execute(name: str, tool: object, execute: Callable[..., object]) -> object:
    clone = copy.copy(tool)
    try:
        # Past a frozen class's own refusal: the copy is ours.
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
    surroundings: Surroundings = NOWHERE,
    clock: Callable[[], float] = time.time,
) -> Gate:
    """A gate over nets, or over a registry of which `active` start active.

    State begins with each `wrap_tools`. `confirm` asks a person and may be async; without it manual
    transitions block. `is_tool_result_error` says of a tool's name and value whether it failed although
    it returned. `transform_block_reason` words block reasons for the model; `explain_blocks` has them say
    which calls would lead to the blocked one. `surroundings` and `clock` are as in `GateManager`.
    Raises as `create_gate_manager` does.
    """

    def new_manager() -> GateManager:
        return create_gate_manager(
            nets,
            registry=registry,
            active=active,
            mode=mode,
            on_decision=on_decision,
            explain_blocks=explain_blocks,
            surroundings=surroundings,
            clock=clock,
        )

    # Once now, so that faulty nets are the author's error and not the first call's.
    if nets is not None and not isinstance(nets, Mapping):
        nets = list(nets)
    new_manager()
    return Gate(
        new_manager,
        confirm=confirm,
        is_tool_result_error=is_tool_result_error,
        transform_block_reason=transform_block_reason,
    )
