"""The budgets of an agent node: model calls, and runs of each tool."""

from __future__ import annotations

import json

import pytest

from interlock.engine.agents import C, T, ToolMessage, UserMessage
from interlock.engine.flows import AgentError, Continue, Done, FlowRuntime, FlowSnapshot, Invalid

from ..support.scripted import (
    CTX,
    Answer,
    Script,
    X,
    agent,
    ask,
    echo,
    flow_of,
    recorded,
    results,
    running,
)

SUBMIT = C(submit={"answer": "42"})
ECHO = C(echo={"text": "a"})
TWICE = C(c1=("echo", {"text": "a"}), c2=("echo", {"text": "b"}))


class TestTurns:
    async def test_one_last_turn_with_only_the_exit(self) -> None:
        """Section 12: after its turns an agent is told once, and gets a last turn with only the exit."""
        script = Script(ECHO, ECHO, SUBMIT)
        runtime = running(script, echo, turn_budget=2)
        assert [await runtime.next(CTX) for _ in range(3)] == [Continue()] * 3
        assert await runtime.next(CTX) == Done(Answer(answer="42"))
        offered = [[spec.name for spec in options.tools] for options in script.options]
        assert offered == [["echo", "submit"], ["echo", "submit"], ["submit"]]
        told = [m.text for m in recorded(runtime) if isinstance(m, UserMessage)]
        assert len([text for text in told if "used all your turns" in text]) == 1

    async def test_call_in_the_last_turn_fails(self) -> None:
        """Section 12: another call in the last turn is not run, and no turn follows."""
        runtime = running(Script(ECHO, ECHO, SUBMIT), echo, turn_budget=1)
        for _ in range(2):
            await runtime.next(CTX)
        with pytest.raises(AgentError, match="turn budget of 1"):
            await runtime.next(CTX)

    async def test_turns_count_across_restarts(self) -> None:
        """Section 12: turns count over the whole conversation, across restarts."""
        script = Script(ECHO, SUBMIT)
        runtime = running(script, echo, turn_budget=1)
        await runtime.next(CTX)
        snapshot = FlowSnapshot.load(runtime.snapshot().model_dump_json())
        node = flow_of(agent(echo, turn_budget=1))
        again = FlowRuntime.from_snapshot(node, snapshot, history=runtime.history, factory=script)
        await again.next(CTX)
        assert [spec.name for spec in script.options[-1].tools] == ["submit"]

    async def test_text_reply_counts_as_a_turn(self) -> None:
        """Section 12: every reply of the model is a turn."""
        script = Script(T("thinking"), SUBMIT)
        runtime = running(script, echo, turn_budget=1)
        await runtime.next(CTX)
        await runtime.next(CTX)
        assert [spec.name for spec in script.options[-1].tools] == ["submit"]


class TestTools:
    async def test_call_beyond_the_budget_is_not_run(self) -> None:
        """Section 12: a call beyond the budget is not run; the model reads the reason and continues."""
        runtime = running(Script(TWICE, SUBMIT), echo, tool_budget={"echo": 1})
        assert await runtime.next(CTX) == Continue()
        first, second = results(recorded(runtime))
        assert first == '"a"'
        assert json.loads(second)["error_kind"] == "budget"
        await runtime.next(CTX)
        assert await runtime.next(CTX) == Done(Answer(answer="42"))

    async def test_invalid_call_does_not_count(self) -> None:
        """Section 12: calls with invalid arguments do not count."""
        wrong = C(c1=("echo", {"nonsense": 1}), c2=("echo", {"text": "b"}))
        runtime = running(Script(wrong), echo, tool_budget={"echo": 1})
        await runtime.next(CTX)
        assert results(recorded(runtime))[1] == '"b"'

    async def test_asking_tool_counts_once(self) -> None:
        """Section 12: a tool that waited for its answer counts once."""
        script = Script(C(c1=("ask", {}), c2=("ask", {})), SUBMIT)
        runtime = running(script, ask, tool_budget={"ask": 1})
        await runtime.next(CTX)
        await runtime.resume(CTX, "X::ask", "yes")
        answers = [m for m in recorded(runtime) if isinstance(m, ToolMessage)]
        assert (answers[0].text, json.loads(answers[1].text)["error_kind"]) == ('"yes"', "budget")

    async def test_used_budget_is_in_the_snapshot(self) -> None:
        """Section 12: the used budget is kept in the snapshot for another process."""
        script = Script(ECHO, ECHO)
        runtime = running(script, echo, tool_budget={"echo": 1})
        await runtime.next(CTX)
        snapshot = FlowSnapshot.load(runtime.snapshot().model_dump_json())
        node = flow_of(agent(echo, tool_budget={"echo": 1}))
        again = FlowRuntime.from_snapshot(node, snapshot, history=runtime.history, factory=script)
        await again.next(CTX)
        assert json.loads(results(recorded(again))[-1])["error_kind"] == "budget"


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"turn_budget": 0}, "turn_budget is 0"),
            ({"tool_budget": {"nope": 1}}, "names 'nope'"),
            ({"tool_budget": {"echo": -1}}, "is -1"),
        ],
    )
    def test_invalid_budget_is_refused_at_build(self, settings: dict[str, object], problem: str) -> None:
        """Section 12: a budget that is zero, negative or for an unknown tool is refused at build."""
        with pytest.raises(Invalid, match=problem):
            FlowRuntime(flow_of(agent(echo, **settings)), X())
