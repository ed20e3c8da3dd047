"""Gates for tests that give fixed answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.engine.gate.types import GateDecision, ResultRecord, ToolResult
from interlock.engine.net.net import ToolCall

Answer = Callable[[ToolCall], GateDecision]


def allow(call: ToolCall) -> GateDecision:
    return GateDecision(call, "allow")


def block(call: ToolCall) -> GateDecision:
    return GateDecision(call, "block", reason="not now")


class Log:
    """A gate with fixed answers that records the order of events."""

    def __init__(self, answer: Answer = allow) -> None:
        self.answer = answer
        self.happened: list[str] = []
        self.inputs: list[Mapping[str, object]] = []
        self.settled: list[tuple[str, bool, str, Mapping[str, object]]] = []

    async def decide(self, call: ToolCall) -> GateDecision:
        self.happened.append(f"decide {call.tool_call_id}")
        self.inputs.append(call.input)
        return self.answer(call)

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
        self.happened.append(f"settle {result.tool_call_id}")
        self.settled.append((result.tool_call_id, result.is_error, output, result.input))
        return ResultRecord()
