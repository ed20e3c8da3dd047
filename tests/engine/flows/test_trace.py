"""Tracing: an observer of a run gets each step, model call and tool as it happens."""

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


def traced_events(traced: list[Traced]) -> list[Told]:
    """Return the traced events without their times, which must not be negative."""
    assert all(getattr(each, "seconds", 0) >= 0 for each in traced)
    return [
        (type(each), *(getattr(each, f.name) for f in fields(each) if f.name != "seconds"))
        for each in traced
    ]


def traced_run(traced: list[Traced], *nodes: Adds) -> FlowRuntime:
    """Return a traced run of these nodes."""
    return FlowRuntime(flow("S", "Z", *nodes), M("S")(val=1), trace=traced.append)


class TestSteps:
    async def test_each_step(self) -> None:
        """Section 12: every step has a beginning and an end, with the states after it."""
        traced: list[Traced] = []
        runtime = traced_run(traced, F("S", "A", "B"), J("A", "B", "Z"))
        await runtime.run(CTX)
        assert traced_events(traced) == [
            (StepBegan, "S", "fork"),
            (StepEnded, "S", ("A", "B"), None),
            (StepBegan, "A + B", "join"),
            (StepEnded, "A + B", ("Z",), None),
        ]

    async def test_failed_step(self) -> None:
        """P-56: a failed step is reported as such, with its exception."""
        traced: list[Traced] = []

        def breaks(n: int) -> int:
            raise ValueError("no")

        runtime = traced_run(traced, W("S", "Z", breaks))
        with pytest.raises(ValueError, match="no") as caught:
            await runtime.next(CTX)
        assert traced_events(traced) == [(StepBegan, "S", "work"), (StepFailed, "S", caught.value)]

    async def test_cancelled_step_is_reported_as_failed(self) -> None:
        """A cancelled step is reported as failed."""
        traced: list[Traced] = []

        def cancelled(n: int) -> int:
            raise asyncio.CancelledError

        runtime = traced_run(traced, W("S", "Z", cancelled))
        with pytest.raises(asyncio.CancelledError):
            await runtime.next(CTX)
        assert [kind for kind, *_ in traced_events(traced)] == [StepBegan, StepFailed]

    async def test_failing_trace_does_not_stop_the_run(self, caplog: pytest.LogCaptureFixture) -> None:
        """An exception in a trace is logged, and the run continues."""

        def breaks(_: Traced) -> None:
            raise RuntimeError("the disk is full")

        runtime = FlowRuntime(flow("S", "Z", W("S", "Z", lambda n: n + 1)), M("S")(val=1), trace=breaks)
        assert await runtime.run(CTX) == Done(M("Z")(val=2))
        assert "the disk is full" in caplog.text


class TestAgents:
    async def test_models_and_tools(self) -> None:
        """P-51, P-76: model calls with their usage and tools with their outcome are traced, in order."""

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
        assert traced_events(traced) == [
            (StepBegan, "X", "agent"),
            (ModelCalled, "X", "X#1", usage),
            (ToolRan, "X", "echo", "c1", False, False),
            (ToolRan, "X", "fails", "c2", True, False),
            (ToolRan, "X", "ask", "c3", False, True),
            (StepEnded, "X", ("X",), "X::ask"),
        ]
        traced.clear()
        assert await runtime.resume(CTX, "X::ask", 1) == Continue()
        assert traced_events(traced) == [(StepBegan, "X", "agent"), (StepEnded, "X", ("X",), None)]
        traced.clear()
        await runtime.next(CTX)
        assert traced_events(traced)[-1] == (StepEnded, "X", ("Answer",), None)
        assert await runtime.next(CTX) == Done(Answer(answer="42"))

    async def test_failed_model_call_has_no_usage(self) -> None:
        """P-138: a model call that fails has no known usage."""
        traced: list[Traced] = []
        runtime = FlowRuntime(
            flow_of(agent()), X(), factory=Script(ERR("overloaded")), trace=traced.append
        )
        with pytest.raises(AgentError) as caught:
            await runtime.next(CTX)
        assert traced_events(traced) == [
            (StepBegan, "X", "agent"),
            (ModelCalled, "X", "X#1", None),
            (StepFailed, "X", caught.value),
        ]
