"""A gate under rules, with calls that begin and end separately and its own clock."""

from __future__ import annotations

from typing import Any

from interlock.engine.gate import (
    ApprovalAnswer,
    GateContext,
    GateManager,
    ToolResult,
    create_gate_manager,
)
from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules


class World:
    """A gate with calls that begin and end separately, and its own clock."""

    def __init__(self, rules: str, mode: Any = "enforce") -> None:
        self.now = 0.0
        self.asked = 0
        registry = compile_rules(rules).registry
        self.gate: GateManager = create_gate_manager(registry=registry, mode=mode, clock=lambda: self.now)
        self._calls = 0
        self._running: dict[str, ToolCall] = {}

    async def begin(self, tool: str, **value: object) -> str | None:
        """Begin a call and return its id, or `None` if it is blocked."""
        self._calls += 1
        call = ToolCall(f"c{self._calls}", tool, value)
        decision = await self.gate.handle_tool_call(call, GateContext(confirm=self._approve))
        if decision.block:
            return None
        self._running[call.tool_call_id] = call
        return call.tool_call_id

    def _approve(self, request: object) -> ApprovalAnswer:
        self.asked += 1
        return ApprovalAnswer(True, by="ada")

    def end(self, call_id: str | None, *, fails: bool = False) -> None:
        assert call_id is not None
        call = self._running.pop(call_id)
        self.gate.handle_tool_result(ToolResult(call_id, call.tool_name, call.input, fails))

    async def call(self, tool: str, *, fails: bool = False, **value: object) -> bool:
        """Make a call and end it; return true if it ran."""
        call_id = await self.begin(tool, **value)
        if call_id is not None:
            self.end(call_id, fails=fails)
        return call_id is not None

    async def calls(self, *tools: str) -> list[bool]:
        return [await self.call(tool) for tool in tools]
