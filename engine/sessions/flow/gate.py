"""The gate of a flow's run: calls of its agents are those of its session, each decided and run once.

Where the nets want a person the run is suspended first, and that is in its record before anybody is
asked: another host asks again, or finds the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...agents import Tool
from ...flows import Question
from ...gate.phases import PendingQuestion
from ...gate.types import GateDecision, ResultRecord, ToolResult
from ...net.net import ToolCall
from ...recording.records import json_input
from ..call_answers import CallAnswer, answer_of
from ..submitted import SubmittedSession
from .questions import Wishes

RAN = "done", "failed", "unknown"
UNKNOWN = "whether it did its work is unknown. Look before you do it again"


class RunGate:
    """Gate of one run. Models repeat ids, so each host of the run puts its `prefix` before them."""

    def __init__(self, session: SubmittedSession, prefix: str, wishes: Wishes) -> None:
        self._session = session
        self._prefix = prefix
        self._wishes = wishes
        self._turn = 0
        self._known: dict[tuple[int, str], str] = {}

    def begin(self, turn: int) -> None:
        """The conversation number `turn` of the run has the word: its calls get ids of their own."""
        self._turn = turn

    def id_of(self, call_id: str) -> str:
        """The session's id of a call."""
        known = self._known.get((self._turn, call_id))
        return known or f"{self._prefix}{self._turn}.{call_id}"

    def take_up(self, call_id: str, known: str) -> None:
        """A call that the record has under the id `known`."""
        self._known[self._turn, call_id] = known

    def offered(self, tools: Sequence[Tool]) -> None:
        """These are the tools of the agent that has the word."""
        self._wishes.offered(tools)

    async def said(self, text: str) -> None:
        """Record the text of an agent's reply; in the record it comes before the reply's calls."""
        await self._session.said("assistant", text)

    async def check(self, call: ToolCall, approved: Collection[str]) -> GateDecision | Question:
        """The decision, as the record has it, or what a person has to be asked first."""
        calls, call_id = self._session.calls, self.id_of(call.tool_call_id)
        arguments = json_input(call.input)
        if (decided := calls.index.decided.get(call_id)) is not None:
            return self._again(call, call_id, answer_of(decided, repeated=True))
        await self._session.catch_up()
        reached = calls.try_decide(call_id, call.tool_name, arguments)
        if isinstance(reached, PendingQuestion):
            return Question(replace(reached.request, call=call))
        return _decision(call, await (reached or calls.submit(call_id, call.tool_name, arguments)))

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
        """Record how a call ended; the nets have heard of it then."""
        call_id = self.id_of(result.tool_call_id)
        await self._session.result(call_id, output, result.is_error, seconds)
        return ResultRecord()

    def _again(self, call: ToolCall, call_id: str, answer: CallAnswer) -> GateDecision:
        """A call that was decided before. One that was allowed runs unless it may have run already."""
        state = self._session.state.calls[call_id]
        if answer.outcome == "block" or state.status not in RAN:
            return _decision(call, answer)
        how = UNKNOWN if state.status == "unknown" else f"its result was: {state.output or ''}"
        return GateDecision(
            call, "block", reason=f"{call.tool_name} is not run again: it was allowed before, and {how}"
        )


def _decision(call: ToolCall, answer: CallAnswer) -> GateDecision:
    ran = ToolCall(call.tool_call_id, call.tool_name, answer.input)
    return GateDecision(ran, answer.outcome, reason=answer.reason)
