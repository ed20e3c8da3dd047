"""A real gate whose decisions, requests, answers, results and switches are recorded as events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from interlock.engine.backtest import Judge, Judgement, Recorded, Trial
from interlock.engine.backtest.journal_reader import RecordedItems
from interlock.engine.gate import (
    ApprovalAnswer,
    ApprovalRequest,
    GateContext,
    GateDecision,
    GateManager,
    ToolResult,
)
from interlock.engine.gate.types import Step
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    EventBody,
    JournalEvent,
    ModeChanged,
    NetToggled,
    SessionOpened,
)
from interlock.engine.net.net import SkillNet, ToolCall
from interlock.engine.recording.records import decision_record, net_record, result_record, rule_record
from interlock.rules import compile_rules

from ..history.support.recording import recorded


class Recorder:
    """One session: calls can wait for approval while others run, as under a hub."""

    def __init__(
        self,
        registry: Mapping[str, SkillNet],
        *,
        active: Sequence[str] | None = None,
        mode: Any = "enforce",
    ) -> None:
        self.manager = GateManager(registry, active=active, mode=mode, record=self._record)
        self.bodies: list[EventBody] = [
            SessionOpened(
                agent="bot",
                model="a-model",
                mode=mode,
                nets=tuple(net_record(key, net) for key, net in registry.items()),
                active=self.manager.active,
            )
        ]
        self.running: dict[str, ToolCall] = {}
        self._steps: dict[str, tuple[Step, ...]] = {}
        self._questions: dict[str, asyncio.Future[ApprovalAnswer]] = {}
        self._people: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[GateDecision]] = {}
        self._inputs: dict[str, Mapping[str, object]] = {}

    @property
    def events(self) -> list[JournalEvent]:
        return recorded(*self.bodies, session="bot-1")

    @property
    def waiting(self) -> list[str]:
        """Return the ids of calls that wait for approval."""
        return list(self._questions)

    async def call(self, call_id: str, tool: str, **arguments: Any) -> None:
        """Make a call and run it until it is decided or waits for approval."""
        task = asyncio.create_task(self._decide(ToolCall(call_id, tool, arguments)))
        await _rest()
        if not task.done():
            self._tasks[call_id] = task

    async def _decide(self, call: ToolCall) -> GateDecision:
        self._inputs[call.tool_call_id] = call.input
        decision = await self.manager.handle_tool_call(call, GateContext(self._confirm))
        if not decision.block:
            self.running[call.tool_call_id] = decision.call
            self._steps[call.tool_call_id] = decision.steps
        return decision

    async def _confirm(self, request: ApprovalRequest) -> ApprovalAnswer:
        call = request.call
        self.bodies.append(
            ApprovalRequested(
                approval_id=f"{call.tool_call_id}-{len(self.bodies)}",
                call_id=call.tool_call_id,
                tool=request.tool,
                called=call.tool_name,
                input=dict(call.input),  # type: ignore[arg-type]
                names=request.names,
                net=request.net,
                transition=request.transition.name,
                title=request.title,
                message=request.message,
                marking=dict(request.marking),
                rule=rule_record(request.rule),
            )
        )
        self._people[call.tool_call_id] = request.people
        self._questions[call.tool_call_id] = asyncio.get_running_loop().create_future()
        return await self._questions[call.tool_call_id]

    async def _record(self, call: ToolCall, decision: GateDecision) -> None:
        self.bodies.append(decision_record(decision, self._inputs[call.tool_call_id]))

    def _asked(self, call_id: str) -> str:
        asked = [b for b in self.bodies if isinstance(b, ApprovalRequested) and b.call_id == call_id]
        return asked[-1].approval_id

    async def answer(self, call_id: str, approved: bool, **edited: Any) -> None:
        """Answer as all required approvers; with `edited` the call gets another input."""
        question = self._questions.pop(call_id)
        others = tuple(f"operator {number}" for number in range(1, self._people[call_id]))
        body = ApprovalDecided(
            approval_id=self._asked(call_id),
            call_id=call_id,
            approved=approved,
            by="maria",
            input=edited or None,
        )
        self.bodies.append(body)
        question.set_result(ApprovalAnswer(approved, input=edited or None, by="maria", others=others))
        await _rest()

    async def withdraw(self, call_id: str) -> None:
        """Withdraw a request, as when the agent is interrupted."""
        self.bodies.append(
            ApprovalWithdrawn(approval_id=self._asked(call_id), call_id=call_id, reason="interrupted")
        )
        self._questions.pop(call_id)
        self._tasks[call_id].cancel()
        with suppress(asyncio.CancelledError):
            await self._tasks[call_id]

    def result(self, call_id: str, *, is_error: bool = False, ran: bool = True) -> None:
        """Record the result of an allowed call, or that it never ran."""
        call, steps = self.running.pop(call_id), self._steps.pop(call_id)
        undo = () if ran else steps
        result = ToolResult(call_id, call.tool_name, call.input, is_error or not ran, undo)
        self.bodies.append(result_record(result, "said", 0.1, self.manager.handle_tool_result(result)))

    def toggle(self, net: str, active: bool) -> None:
        """Switch a net as an operator."""
        switched = self.manager.add_net(net) if active else self.manager.remove_net(net)
        if switched.ok:
            self.bodies.append(NetToggled(net=net, active=active, by="maria", message=switched.message))

    def set_mode(self, mode: Any) -> None:
        """Change the mode as an operator."""
        if self.manager.mode != mode:
            self.manager.mode = mode
            self.bodies.append(ModeChanged(mode=mode, by="maria"))

    async def close(self) -> None:
        """Cancel waiting calls without recording it, as when the process dies."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def _rest() -> None:
    """Let every task run until it waits."""
    for _ in range(12):
        await asyncio.sleep(0)


def items_of(events: Iterable[JournalEvent]) -> list[Recorded]:
    """Return the items that a judge reads from events."""
    items = RecordedItems()
    return [item for event in events if (item := items.of(event)) is not None]


def judged(rules: str, items: Iterable[Recorded], **options: Any) -> list[Judgement]:
    """Return the judgements under a rules text."""
    return list(Judge(Trial.of(compile_rules(rules).registry, **options)).judge(items))


def changes(judgements: Iterable[Judgement]) -> list[str]:
    """Return call id and change, with `?` if it is hypothetical: `c1 blocked`, `c2 same?`."""
    return [f"{j.call.call_id} {j.change}{'?' if j.hypothetical else ''}" for j in judgements]
