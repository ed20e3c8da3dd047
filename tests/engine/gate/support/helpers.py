"""Short constructors for nets, managers, calls and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from interlock.engine import (
    ApprovalAnswer,
    ApprovalRequest,
    Gate,
    GateContext,
    GateManager,
    GateState,
    SkillNet,
    ToolCall,
    ToolResult,
    Transition,
    create_gate,
    create_gate_manager,
    define_skill_net,
)
from interlock.rules import compile_rules


def manager(rules: str, **options: Any) -> GateManager:
    """A static manager of a rules text."""
    return create_gate_manager(compile_rules(rules).nets, **options)


def registry(rules: str, **options: Any) -> GateManager:
    """A dynamic manager of a rules text; the keys are the nets' names."""
    return create_gate_manager(registry=compile_rules(rules).registry, **options)


def net(
    name: str, *transitions: Transition, marking: dict[str, int] | None = None, **parts: Any
) -> SkillNet:
    """A hand-built net; by default one place `p` with one token."""
    marking = {"p": 1} if marking is None else marking
    return define_skill_net(
        name, places=list(marking), transitions=transitions, initial_marking=marking, **parts
    )


def tool(name: str, **options: Any) -> Transition:
    """A transition that its tool can fire repeatedly."""
    return Transition(name, ["p"], ["p"], [name], **options)


def call(name: str, call_id: str = "1", **value: object) -> ToolCall:
    return ToolCall(call_id, name, value)


def result(name: str, call_id: str = "1", *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, name, {}, is_error)


def markings(gate: GateManager) -> dict[str, dict[str, int]]:
    return {key: dict(state.marking) for key, state in gate.states.items()}


def everything(gate: GateManager) -> Any:
    """Everything that a blocked call must leave unchanged."""
    return [
        (key, dict(s.marking), dict(s.meta), {i: list(p) for i, p in s.pending.items()})
        for key, s in gate.states.items()
    ]


async def reason(gate: GateManager, name: str, call_id: str = "1", **value: object) -> str | None:
    """Return why a call without an approver is blocked, or `None` if it is allowed."""
    decision = await gate.handle_tool_call(call(name, call_id, **value))
    return decision.reason if decision.block else None


async def succeed(gate: GateManager, name: str, call_id: str = "ok", **value: object) -> None:
    """Make a call that is allowed and succeeds."""
    assert await reason(gate, name, call_id, **value) is None
    gate.handle_tool_result(result(name, call_id))


class Operator:
    """An operator who gives prepared answers, repeats the last one, and keeps the requests."""

    def __init__(self, *answers: bool | ApprovalAnswer) -> None:
        self.asked: list[ApprovalRequest] = []
        self._answers: Sequence[bool | ApprovalAnswer] = answers or (True,)
        self.before_answering: Callable[[], None] = lambda: None

    def __call__(self, request: ApprovalRequest) -> bool | ApprovalAnswer:
        self.asked.append(request)
        self.before_answering()
        return self._answers[min(len(self.asked), len(self._answers)) - 1]

    @property
    def context(self) -> GateContext:
        return GateContext(confirm=self)


def counting(key: str, maximum: int = 99) -> Callable[..., Any]:
    """A validator that counts in `meta` and rejects above a maximum."""
    from interlock.engine import Rejection

    def validate(_call: ToolCall, tool: str, _t: Transition, state: GateState) -> Rejection | None:
        count = state.meta[key] = int(str(state.meta.get(key, 0))) + 1
        return Rejection(f"{tool}: {key} exceeded {maximum}") if count > maximum else None

    return validate


def gate(rules: str, **options: Any) -> Gate:
    """A gate for tools with a rules text."""
    return create_gate(compile_rules(rules).nets, **options)


class Spy:
    """A tool that keeps its inputs."""

    def __init__(self, value: object = "done") -> None:
        self.ran: list[dict[str, object]] = []
        self._value = value

    def bash(self, command: str = "ls", *, cwd: str = ".") -> object:
        self.ran.append({"command": command, "cwd": cwd})
        if isinstance(self._value, Exception):
            raise self._value
        return self._value
