"""Tools made from models and from plain objects, clause by clause."""

from __future__ import annotations

from typing import Literal

import pytest
from jsonschema import Draft7Validator
from pydantic import BaseModel

from interlock.engine.agents import (
    AbortSignal,
    BashTool,
    C,
    EditTool,
    GlobTool,
    GrepTool,
    LocalRuntime,
    ModelTool,
    ReadTool,
    T,
    ToolContext,
    ToolInputError,
    ToolOutput,
    WebFetchTool,
    WriteTool,
    define_tool,
    tool,
)

from ..script import watched

READY_MADE = [BashTool, WebFetchTool, ReadTool, WriteTool, EditTool, GlobTool, GrepTool]


class Part(BaseModel):
    """Something inside."""

    kind: Literal["a", "b"]


class Given(BaseModel):
    """The input of `typed`."""

    name: str
    part: Part
    times: int = 1
    note: str | None = None


def recording_tool(seen: list[Given]) -> ModelTool:
    """Return a tool that records its input."""

    async def execute(given: Given, ctx: ToolContext) -> str:
        seen.append(given)
        return "done"

    return define_tool("typed", "Take it.", Given, execute)


class TestDefineTool:
    def test_schema(self) -> None:
        """A-128: parameters is a JSON Schema of draft 7 that requires the fields without default."""
        made = recording_tool([])
        assert (made.name, made.description) == ("typed", "Take it.")
        Draft7Validator.check_schema(made.parameters)
        assert made.parameters["required"] == ["name", "part"]
        schema = Draft7Validator(made.parameters)
        assert schema.is_valid({"name": "x", "part": {"kind": "a"}})
        assert not schema.is_valid({"name": "x"})
        assert not schema.is_valid({"name": 5, "part": {"kind": "a"}})
        assert not schema.is_valid({"name": "x", "part": {"kind": "c"}})

    @pytest.mark.parametrize("made", READY_MADE, ids=lambda made: made.name)
    def test_schema_of_ready_made_tools(self, made: ModelTool) -> None:
        """A-128: the same holds for every ready-made tool; they accept nothing else."""
        Draft7Validator.check_schema(made.parameters)
        assert made.parameters["type"] == "object"
        assert made.parameters["additionalProperties"] is False
        for parameter in made.parameters["properties"].values():
            assert parameter["description"]

    async def test_typed_input(self) -> None:
        """A-128: execute gets the input as the model's type, including defaults."""
        seen: list[Given] = []
        ctx = ToolContext(LocalRuntime(), AbortSignal())
        made = await recording_tool(seen).execute({"name": "x", "part": {"kind": "b"}}, ctx)
        assert made == ToolOutput("done")
        assert seen == [Given(name="x", part=Part(kind="b"), times=1, note=None)]

    @pytest.mark.parametrize(
        "args", [{"name": 5, "part": {"kind": "a"}}, {"name": "x"}, {"name": "x", "part": {"kind": "c"}}]
    )
    async def test_invalid_input_never_reaches_execute(self, args: dict[str, object]) -> None:
        """A-128: invalid input never reaches execute; its result is an error with the reason."""
        seen: list[Given] = []
        w = await watched(C(c1=("typed", args)), T("ok"), tools=[recording_tool(seen)])
        said = await w.say("go")
        assert any(line.startswith('result c1 err "Invalid arguments for typed: ') for line in said)
        assert seen == []

    async def test_unknown_argument(self) -> None:
        """A-128: a function tool refuses arguments that the function does not have."""

        @tool
        async def greet(name: str) -> str:
            """Say hello."""
            return name

        with pytest.raises(ToolInputError, match="extra: Extra inputs are not permitted"):
            await greet.execute({"name": "x", "extra": 1}, ToolContext(LocalRuntime(), AbortSignal()))


class TestPlainObject:
    async def test_any_object(self) -> None:
        """A-129: any instance with the four attributes is a tool, without a schema library."""

        class Plain:
            def __init__(self) -> None:
                self.name = "plain"
                self.description = "Plain."
                self.parameters = {"type": "object", "properties": {}}

            async def execute(self, args: dict[str, object], ctx: ToolContext) -> ToolOutput:
                return ToolOutput(f"{args}", metadata={"cwd": str(ctx.runtime.cwd)})

        w = await watched(C(c1=("plain", {"a": 1})), T("ok"), tools=[Plain()])
        assert "result c1 ok \"{'a': 1}\"" in await w.say("go")

    @pytest.mark.parametrize("missing", ["name", "description", "parameters", "execute"])
    async def test_missing_attribute(self, missing: str) -> None:
        """A-129: an object without one of them is not a tool."""
        attributes = {"name": "x", "description": "", "parameters": {}, "execute": None}
        del attributes[missing]
        with pytest.raises(TypeError, match=f"it has no '{missing}'"):
            await watched(T("ok"), tools=[type("Thing", (), attributes)()])
