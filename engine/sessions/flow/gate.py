"""Gate of a flow's run: calls of its agents belong to its session, each decided and run once.

If the nets need an approval, the run is suspended and that is recorded before an operator is asked. A
later host of the run then asks again, or finds the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...agents import Tool
from ...flows import Question
from ...gate.decision import PendingQuestion
from ...gate.types import GateDecision, ResultRecord, ToolResult
from ...net.net import ToolCall
from ...recording.records import json_input
from ..call_answer import CallAnswer
from ..call_answers import answer_of
from ..submitted import SubmittedSession
from .questions import FlowApprovals

RAN = "done", "failed", "unknown"
UNKNOWN = "whether it did its work is unknown. Look before you do it again"


class RunGate:
    """Gate of one run. Models repeat ids, so each host of the run adds its `prefix` to them."""

    def __init__(self, session: SubmittedSession, prefix: str, approvals: FlowApprovals) -> None:
        self._session = session
        self._prefix = prefix
        self._approvals = approvals
        self._turn = 0
        self.waits = 0
        """Number of calls that wait for a decision."""
        self.has_allowed = False
        """True if a call was allowed in the current step."""
        self._recorded_ids: dict[tuple[int, str], str] = {}

    def begin(self, turn: int) -> None:
        """Begin a step, in conversation number `turn` of the run, whose calls get ids of their own."""
        self._turn = turn
        self.has_allowed = False

    def id_of(self, call_id: str) -> str:
        """Return the session's id of a call."""
        recorded_id = self._recorded_ids.get((self._turn, call_id))
        return recorded_id or f"{self._prefix}{self._turn}.{call_id}"

    def set_record_id(self, call_id: str, recorded_id: str) -> None:
        """Set the id under which a call is recorded."""
        self._recorded_ids[self._turn, call_id] = recorded_id

    def receive_tools(self, tools: Sequence[Tool]) -> None:
        """Set the tools of the agent that is running."""
        self._approvals.set_tools(tools)

    async def receive_text(self, text: str) -> None:
        """Record the text of an agent's reply; it is recorded before the reply's calls."""
        await self._session.record_message("assistant", text)

    async def check(self, call: ToolCall, approved: Collection[str]) -> GateDecision | Question:
        """Return the recorded decision, or the question that an operator must answer first.

        An allowed call may begin when this returns.
        """
        verdict = await self._check(call)
        await self._session.until_held()
        if isinstance(verdict, GateDecision) and not verdict.block:
            self.has_allowed = True
        return verdict

    async def _check(self, call: ToolCall) -> GateDecision | Question:
        calls, call_id = self._session.calls, self.id_of(call.tool_call_id)
        arguments = json_input(call.input)
        if (decided := calls.index.decided.get(call_id)) is not None:
            return self._repeated_decision(call, call_id, answer_of(decided, repeated=True))
        self.waits += 1
        try:
            await self._session.catch_up()
            attempt = calls.try_decide(call_id, call.tool_name, arguments)
            if isinstance(attempt, PendingQuestion):
                return Question(replace(attempt.request, call=call))
            return _decision(call, await (attempt or calls.submit(call_id, call.tool_name, arguments)))
        finally:
            self.waits -= 1

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
        """Record how a call ended, once the nets have processed the result."""
        call_id = self.id_of(result.tool_call_id)
        await self._session.result(call_id, output, result.is_error, seconds)
        return ResultRecord()

    def _repeated_decision(self, call: ToolCall, call_id: str, answer: CallAnswer) -> GateDecision:
        """Return the decision on a call decided before. An allowed one runs unless it may have run."""
        state = self._session.state.calls[call_id]
        if answer.outcome == "block" or state.status not in RAN:
            return _decision(call, answer)
        outcome = UNKNOWN if state.status == "unknown" else f"its result was: {state.output or ''}"
        return GateDecision(
            call,
            "block",
            reason=f"{call.tool_name} is not run again: it was allowed before, and {outcome}",
        )


def _decision(call: ToolCall, answer: CallAnswer) -> GateDecision:
    ran = ToolCall(call.tool_call_id, call.tool_name, answer.input)
    outcome = "allow" if answer.outcome == "allow" else "block"
    return GateDecision(ran, outcome, reason=answer.reason)
