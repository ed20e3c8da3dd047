"""Making tools from functions, models and plain objects."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from interlock.engine.agents import (
    AbortSignal,
    C,
    LocalRuntime,
    T,
    ToolContext,
    ToolInputError,
    define_tool,
    tool,
)

from .script import watched


class Point(BaseModel):
    """A parameter with parts."""

    x: int
    y: int = 2


CTX = ToolContext(LocalRuntime(), AbortSignal())


class TestFromFunction:
    def test_interface(self) -> None:
        """Name, description and parameters come from the function; the context is not a parameter."""

        @tool
        async def greet(
            ctx: ToolContext,
            name: Annotated[str, Field(description="Whom.")],
            loud: bool = False,
            tone: Literal["warm", "cold"] = "warm",
        ) -> str:
            """Say hello."""
            return name

        assert (greet.name, greet.description) == ("greet", "Say hello.")
        parameters = greet.parameters
        assert parameters["required"] == ["name"]
        assert parameters["properties"]["name"] == {"description": "Whom.", "type": "string"}
        assert list(parameters["properties"]) == ["name", "loud", "tone"]
        assert parameters["additionalProperties"] is False

    def test_named(self) -> None:
        """Name and description can be passed explicitly."""

        @tool(name="hello", description="Greets.", needs_approval=True)
        def greet() -> str:
            return "hi"

        assert (greet.name, greet.description, greet.needs_approval) == ("hello", "Greets.", True)
        assert greet.parameters == {"additionalProperties": False, "properties": {}, "type": "object"}

    async def test_typed_input(self) -> None:
        """The function gets values of its types, including defaults."""

        @tool
        async def where(point: Point, scale: float = 1.5) -> str:
            """Say where."""
            return f"{type(point).__name__} {point.x} {point.y} {scale}"

        assert (await where.execute({"point": {"x": 1}}, CTX)).text == "Point 1 2 1.5"

    async def test_checked_without_a_session(self) -> None:
        """A-128: the tool itself also validates its arguments."""

        @tool
        async def greet(name: str) -> str:
            """Say hello."""
            return name

        with pytest.raises(ToolInputError, match=r"Invalid arguments for greet: name: .*; extra: "):
            await greet.execute({"name": 5, "extra": 1}, CTX)

    def test_unresolvable_annotation_is_named(self) -> None:
        """The error names a type that cannot be resolved, with a remedy."""

        class Local(BaseModel):
            x: int

        def where(point: Local) -> str:
            return ""

        with pytest.raises(TypeError, match="tool where: name 'Local' is not defined; move the type"):
            tool(where)

    def test_parameter_without_a_name(self) -> None:
        """A function with `*args` cannot be a tool."""

        def many(*args: str) -> str:
            return ""

        with pytest.raises(TypeError, match=r"tool many: parameter '\*args.*' cannot be given by name"):
            tool(many)


class TestFromModel:
    async def test_define_tool(self) -> None:
        """A-128: the schema lists the required fields, and the function gets the typed input."""

        class Input(BaseModel):
            name: str
            times: int = 1

        async def execute(given: Input, ctx: ToolContext) -> str:
            return " ".join([f"Hello, {given.name}!"] * given.times)

        greet = define_tool("greet", "Say hello", Input, execute)
        assert greet.parameters["required"] == ["name"]
        assert (await greet.execute({"name": "Ada", "times": 2}, CTX)).text == "Hello, Ada! Hello, Ada!"
        w = await watched(C(c1=("greet", {"name": 5})), T("ok"), tools=[greet])
        await w.say("go")
        assert w.prompt(2)[-1].startswith('result c1 err "Invalid arguments for greet: name:')


class Plain:
    """A tool that uses no library."""

    name = "plain"
    description = "Plain."
    parameters = {"type": "object", "properties": {"a": {}}, "required": ["a"]}  # noqa: RUF012 - like a user's

    async def execute(self, args: dict[str, object], ctx: ToolContext) -> str:
        return f"got {args}"


class TestPlainObject:
    async def test_is_a_tool(self) -> None:
        """A-129: any object with name, description, parameters and execute is a tool."""
        w = await watched(C(c1=("plain", {"a": 1, "b": 2})), T("ok"), tools=[Plain()])
        assert "result c1 ok \"got {'a': 1, 'b': 2}\"" in await w.say("go")

    async def test_required_arguments(self) -> None:
        """A-129: arguments that its schema requires must be present."""
        w = await watched(C(c1=("plain", {"b": 2})), T("ok"), tools=[Plain()])
        assert 'result c1 err "Invalid arguments for plain: a: Field required"' in await w.say("go")

    async def test_failing_validation_refuses_the_call(self) -> None:
        """A validation that raises any exception refuses the call."""

        class Broken(Plain):
            def validate(self, args: object) -> None:
                raise ZeroDivisionError

        w = await watched(C(c1=("plain", {"a": 1})), T("ok"), tools=[Broken()])
        seen = await w.say("go")
        assert 'result c1 err "Invalid arguments for plain: ZeroDivisionError"' in seen
