"""Tracing: who watches a run hears of each step, model call and tool while it happens."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import TypeAlias

import pytest

from interlock.engine.agents import ERR, C, Reply, tool
from interlock.engine.agents.events import Usage
from interlock.engine.flows import (
    AgentError,
    Continue,
    Done,
    FlowRuntime,
    ModelCalled,
    StepBegan,
    StepEnded,
    StepFailed,
    ToolRan,
    Traced,
)

from .support.scripted import CTX, Answer, Script, X, agent, ask, echo, flow_of
from .support.shapes import Adds, F, J, M, W, flow

SUBMIT = C(submit={"answer": "42"})
Told: TypeAlias = tuple[object, ...]


def told(traced: list[Traced]) -> list[Told]:
    """What was told, without the times, which are none of them negative."""
    assert all(getattr(each, "seconds", 0) >= 0 for each in traced)
    return [
        (type(each), *(getattr(each, f.name) for f in fields(each) if f.name != "seconds"))
        for each in traced
    ]


def traces(traced: list[Traced], *nodes: Adds) -> FlowRuntime:
    """A run of these nodes that is traced."""
    return FlowRuntime(flow("S", "Z", *nodes), M("S")(val=1), trace=traced.append)


class TestSteps:
    async def test_each_step(self) -> None:
        """Section 12: every step has a beginning and an end, with the states that it led to."""
        traced: list[Traced] = []
        runtime = traces(traced, F("S", "A", "B"), J("A", "B", "Z"))
        await runtime.run(CTX)
        assert told(traced) == [
            (StepBegan, "S", "fork"),
            (StepEnded, "S", ("A", "B"), None),
            (StepBegan, "A + B", "join"),
            (StepEnded, "A + B", ("Z",), None),
        ]

    async def test_one_that_fails(self) -> None:
        """P-56: a step that comes to nothing is told as such, with what it raised."""
        traced: list[Traced] = []

        def breaks(n: int) -> int:
            raise ValueError("no")

        runtime = traces(traced, W("S", "Z", breaks))
        with pytest.raises(ValueError, match="no") as caught:
            await runtime.next(CTX)
        assert told(traced) == [(StepBegan, "S", "work"), (StepFailed, "S", caught.value)]

    async def test_one_that_is_cancelled(self) -> None:
        """A step that somebody cancels is told as one that failed."""
        traced: list[Traced] = []

        def cancelled(n: int) -> int:
            raise asyncio.CancelledError

        runtime = traces(traced, W("S", "Z", cancelled))
        with pytest.raises(asyncio.CancelledError):
            await runtime.next(CTX)
        assert [kind for kind, *_ in told(traced)] == [StepBegan, StepFailed]

    async def test_who_watches_changes_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        """What a trace raises is logged, and the run goes on."""

        def breaks(_: Traced) -> None:
            raise RuntimeError("the disk is full")

        runtime = FlowRuntime(flow("S", "Z", W("S", "Z", lambda n: n + 1)), M("S")(val=1), trace=breaks)
        assert await runtime.run(CTX) == Done(M("Z")(val=2))
        assert "the disk is full" in caplog.text


class TestAgents:
    async def test_models_and_tools(self) -> None:
        """P-51, P-76: each model call with what it used, each tool with how it ended, in their order."""

        @tool
        async def fails(ctx: object) -> str:
            """Fail."""
            raise OSError("disk")

        usage = Usage(input=7, output=3)
        batch = C(c1=("echo", {"text": "a"}), c2=("fails", {}), c3=("ask", {})).calls
        script = Script(Reply(calls=batch, usage=usage), SUBMIT)
        traced: list[Traced] = []
        node = flow_of(agent(echo, fails, ask))
        runtime = FlowRuntime(node, X(), factory=script, trace=traced.append)
        await runtime.next(CTX)
        assert told(traced) == [
            (StepBegan, "X", "agent"),
            (ModelCalled, "X", "X#1", usage),
            (ToolRan, "X", "echo", "c1", False, False),
            (ToolRan, "X", "fails", "c2", True, False),
            (ToolRan, "X", "ask", "c3", False, True),
            (StepEnded, "X", ("X",), "X::ask"),
        ]
        traced.clear()
        assert await runtime.resume(CTX, "X::ask", 1) == Continue()
        assert told(traced) == [(StepBegan, "X", "agent"), (StepEnded, "X", ("X",), None)]
        traced.clear()
        await runtime.next(CTX)
        assert told(traced)[-1] == (StepEnded, "X", ("Answer",), None)
        assert await runtime.next(CTX) == Done(Answer(answer="42"))

    async def test_a_model_that_fails(self) -> None:
        """P-138: a model call that fails has used nothing that is known."""
        traced: list[Traced] = []
        runtime = FlowRuntime(
            flow_of(agent()), X(), factory=Script(ERR("overloaded")), trace=traced.append
        )
        with pytest.raises(AgentError) as caught:
            await runtime.next(CTX)
        assert told(traced) == [
            (StepBegan, "X", "agent"),
            (ModelCalled, "X", "X#1", None),
            (StepFailed, "X", caught.value),
        ]
