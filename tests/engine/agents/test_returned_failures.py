"""Failures that an agent's tools return instead of raising them."""

from __future__ import annotations

import pytest

from interlock.engine.agents import FakeRuntime, ToolContext, ToolOutput, define_tool, tool
from interlock.engine.agents.tool import ToolInput
from interlock.engine.agents.turn.abort import AbortSignal

CONTEXT = ToolContext(FakeRuntime(), AbortSignal())


class Nothing(ToolInput):
    """No arguments."""


class TestReturnedFailures:
    @pytest.mark.parametrize(
        ("value", "failed"),
        [
            ("Error: no such host", True),
            ({"ok": False}, True),
            ({"error": "no"}, True),
            ("fine", False),
            ({"error": None}, False),
            (ToolOutput("Error: as read from a file"), False),
        ],
    )
    async def test_common_shapes_are_failures(self, value: object, failed: bool) -> None:
        """G-71: a function tool's value of such a shape is a failure; a `ToolOutput` states it itself."""

        @tool
        async def one() -> object:
            """Do it."""
            return value

        async def run(args: Nothing, ctx: ToolContext) -> object:
            return value

        two = define_tool("two", "Do it.", Nothing, run)  # pyright: ignore[reportArgumentType]
        assert (await one.execute({}, CONTEXT)).is_error is failed
        assert (await two.execute({}, CONTEXT)).is_error is failed

    async def test_is_error_replaces_the_check_of_shapes(self) -> None:
        """G-71: `is_error` replaces the check of shapes; if it raises, the call counts as failed."""

        @tool(is_error=lambda name, value: value == f"{name}: bad")
        async def one(text: str) -> str:
            """Say it."""
            return text

        async def run(args: Nothing, ctx: ToolContext) -> str:
            return "1"

        two = define_tool("two", "Do it.", Nothing, run, is_error=lambda name, value: value + 1)  # pyright: ignore
        assert not (await one.execute({"text": "Error: fine"}, CONTEXT)).is_error
        assert (await one.execute({"text": "one: bad"}, CONTEXT)).is_error
        assert (await two.execute({}, CONTEXT)).is_error
