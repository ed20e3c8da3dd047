"""Arguments that belong to a framework: they are not part of the input and passed on unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from interlock.engine import ApprovalAnswer, ApprovalRequest, ToolCallBlockedError, create_gate
from interlock.rules import compile_rules

RULES = 'require human-approval before deploy\nblock rm when input.env = "x"\n'


def gate(**options: Any) -> Any:
    return create_gate(compile_rules(RULES).registry, **options)


class TestFunctions:
    @pytest.mark.parametrize("named", [False, True])
    async def test_tool_gets_context_request_does_not(self, named: bool) -> None:
        """The request has the input without the context; the tool gets both."""
        seen: list[object] = []

        async def deploy(ctx: object, env: str = "prod") -> object:
            return ctx, env

        def confirm(request: ApprovalRequest) -> bool:
            seen.append(request.call.input)
            return True

        deploy_gated = gate(confirm=confirm).wrap_tools({"d": deploy, "deploy": deploy}, ignore=("ctx",))
        tool, context = deploy_gated.tools["deploy"], object()
        assert await (tool(ctx=context) if named else tool(context)) == (context, "prod")
        assert seen == [{"env": "prod"}]

    async def test_edit_of_the_context_is_refused(self) -> None:
        """An edit changes only the input; an edit of the context is refused."""
        edits: list[dict[str, object]] = [{"env": "staging"}, {"env": "staging", "ctx": "forged"}]

        async def deploy(ctx: object, *, env: str) -> object:
            return ctx, env

        def confirm(_: ApprovalRequest) -> ApprovalAnswer:
            return ApprovalAnswer(approved=True, input=edits.pop(0))

        tool = gate(confirm=confirm).wrap_tools([deploy], ignore=["ctx"]).tools[0]
        assert await tool("own", env="prod") == ("own", "staging")
        with pytest.raises(TypeError, match="cannot set 'ctx'"):
            await tool("own", env="prod")

    async def test_call_refuses_a_context(self) -> None:
        """`call` takes the input without a context; a context in it is refused."""

        def show(ctx: object = None) -> object:
            return ctx

        session = gate().wrap_tools({"show": show}, ignore=("ctx",))
        assert await session.call("show", {}) is None
        with pytest.raises(TypeError, match="cannot set 'ctx'"):
            await session.call("show", {"ctx": "x"})

    def test_ignored_field_counts_as_missing(self) -> None:
        """A rule about the ignored name applies as if the field were missing."""
        session = gate().wrap_tools({"list": lambda ctx: ctx, "rm": lambda env: env}, ignore=("ctx",))
        assert session.tools["list"]("x") == "x"
        with pytest.raises(ToolCallBlockedError, match="the call has no input"):
            gate().wrap_tools({"rm": lambda env: env}, ignore=("env",)).tools["rm"]("y")


class TestExecute:
    async def test_input_and_id_are_found_after_context(self) -> None:
        """For `execute(ctx, input, options)`, the input and the call's id are found in their places."""
        got: list[object] = []

        @dataclass
        class Deploy:
            name: str = "deploy"

            async def execute(self, ctx: object, value: object, options: object) -> None:
                got.append((ctx, value, options))

        requests: list[ApprovalRequest] = []

        def confirm(request: ApprovalRequest) -> bool:
            requests.append(request)
            return True

        deploy = Deploy()
        [tool] = gate(confirm=confirm).wrap_tools([deploy], ignore=("ctx",)).tools
        await tool.execute("own", {"tool_call_id": "forged"}, {"toolCallId": "c7"})
        assert got == [("own", {"tool_call_id": "forged"}, {"toolCallId": "c7"})]
        assert requests[0].call.tool_call_id == "c7"
        assert requests[0].call.input == {"tool_call_id": "forged"}


class TestNames:
    def test_unknown_ignored_name_is_refused(self) -> None:
        """An ignored name that no tool has is refused."""
        with pytest.raises(ValueError, match="no gated tool has: context"):
            gate().wrap_tools({"rm": lambda ctx: ctx}, ignore=("context",))

    def test_single_string_is_refused(self) -> None:
        """A single string in place of a collection is refused."""
        with pytest.raises(TypeError, match="ctx"):
            gate().wrap_tools({"rm": lambda ctx: ctx}, ignore="ctx")
