"""Tools behind a gate."""

from __future__ import annotations

import asyncio
import copy
import functools
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from interlock.engine import (
    ApprovalAnswer,
    ApprovalRequest,
    NetError,
    ToolCallBlockedError,
    create_gate,
    tool_approval_net,
)
from interlock.rules import compile_rules, condition_of

from ..support.helpers import Operator, Spy, gate, markings


class TestPlan:
    """A program submits a plan, whose calls then run without further requests."""

    RULES = "require human-approval before plan\nrequire human-approval before bash"

    async def test_covered_calls_run(self) -> None:
        """G-108: covered calls run, and the next one is requested."""
        asked: list[str] = []

        def confirm(request: ApprovalRequest) -> bool:
            asked.append(request.tool)
            return True

        spy = Spy()
        session = gate(self.RULES, confirm=confirm, conditions=condition_of).wrap_tools(
            {"bash": spy.bash}
        )
        step = {"tool": "bash", "count": 2, "when": 'input.command = "ls"'}
        decision = await session.plan([step], title="Look around")
        assert not decision.block
        assert decision.reason is not None
        assert "2 bash" in decision.reason
        for command in ("ls", "ls"):
            session.tools["bash"](command)
        assert asked == ["plan"]
        session.tools["bash"]("ls")
        assert asked == ["plan", "bash"]

    async def test_invalid_plan_is_blocked(self) -> None:
        """An invalid plan is blocked with its fault, without a request."""
        session = gate(self.RULES, confirm=lambda request: True).wrap_tools({"bash": Spy().bash})
        decision = await session.plan([{"tool": "bash", "often": 3}], title="Look around")
        assert decision.block
        assert "unknown field 'often'" in str(decision.reason)


class TestBlocking:
    """G-30: a blocked tool never runs."""

    def test_error_names_tool_call_and_reason(self) -> None:
        """G-30: the error names tool, call and reason."""
        spy = Spy()
        tools = gate("block bash").wrap_tools({"bash": spy.bash}).tools
        with pytest.raises(ToolCallBlockedError) as raised:
            tools["bash"]("ls", tool_call_id="c1")
        error = raised.value
        assert (error.tool_name, error.tool_call_id) == ("bash", "c1")
        assert error.reason == "bash is blocked and cannot be called."
        assert str(error) == "Tool 'bash' blocked: bash is blocked and cannot be called."
        assert spy.ran == []

    def test_error_can_be_pickled(self) -> None:
        """The error can be pickled."""
        error = pickle.loads(pickle.dumps(ToolCallBlockedError("bash", "c1", "no")))
        assert (error.tool_name, error.tool_call_id, error.reason) == ("bash", "c1", "no")

    def test_transform_rewrites_the_reason(self) -> None:
        """G-30: transform_block_reason rewrites the text."""
        tools = gate("block bash", transform_block_reason=lambda tool, text: f"{tool}! {text.upper()}")
        with pytest.raises(ToolCallBlockedError, match="bash! BASH IS BLOCKED"):
            tools.wrap_tools({"bash": Spy().bash}).tools["bash"]()

    def test_failing_transform_keeps_the_reason(self) -> None:
        """If the transform raises, the reason stays as it was."""

        def explode(*_: str) -> str:
            raise OSError

        tools = gate("block bash", transform_block_reason=explode).wrap_tools({"bash": Spy().bash}).tools
        with pytest.raises(ToolCallBlockedError, match="bash is blocked and cannot be called"):
            tools["bash"]()

    def test_shadow_lets_run(self) -> None:
        """G-57: in shadow mode the tool runs, and on_decision gets the outcome of enforce mode."""
        heard: list[str] = []
        shadow = gate("block bash", mode="shadow", on_decision=lambda _, d: heard.append(d.outcome))
        assert shadow.wrap_tools({"bash": Spy().bash}).tools["bash"]() == "done"
        assert heard == ["block"]


class TestReturnedFailures:
    """G-71: a failure that a tool returns counts as one."""

    @pytest.mark.parametrize(
        ("value", "failed"),
        [
            ("Error: no such branch", True),
            ("error: no", True),
            ("\x1c\u3000\n ERROR: no", True),
            ("\u2028TRACEBACK (most recent call last):", True),
            ('\n\r {"ok": false}', True),
            ("\ufeffError: no", False),
            ("", False),
            ("Traceback (most recent call last):\n  ...", True),
            ({"error": "no"}, True),
            ({"ok": False}, True),
            ('{"success": false}', True),
            ({"isError": True}, True),
            ({"error": None, "ok": True}, False),
            ("3 errors were fixed. Error: none left", False),
            ('{"log": "error"}', False),
            ({"result": {"error": "inner"}}, False),
        ],
    )
    def test_common_shapes(self, value: object, failed: bool) -> None:
        """G-71: the documented formats of failures, as a value or JSON, unlock nothing."""
        session = gate("require test before deploy").wrap_tools({"test": lambda: value, "deploy": len})
        session.tools["test"]()
        assert ("gate:1" in session.format_status()) is not failed

    def test_is_error_of_a_session(self) -> None:
        """G-71: `is_error` of `wrap_tools` replaces the default."""
        session = gate("require test before deploy").wrap_tools(
            {"test": lambda: "Error: but fine", "deploy": len}, is_error=lambda tool, value: False
        )
        session.tools["test"]()
        assert "gate:1" in session.format_status()


class TestResults:
    """G-30: the outcome of a run decides what it unlocks."""

    @pytest.mark.parametrize(
        ("value", "is_error", "unlocked"),
        [
            ("fine", None, True),
            ({"success": False}, None, False),
            ({"success": False}, lambda *_: False, True),
            ({"success": False}, lambda _, v: v["success"] is False, False),
            ("no object", lambda _, v: v["success"] is False, False),
            (OSError("disk"), None, False),
        ],
    )
    def test_soft_and_hard_failures(self, value: object, is_error: Any, unlocked: bool) -> None:
        """G-30: exceptions, and values on which the classifier returns true or raises, are failures."""
        session = gate("require bash before deploy", is_tool_result_error=is_error).wrap_tools(
            {"bash": Spy(value).bash, "deploy": lambda: "deployed"}
        )
        if isinstance(value, Exception):
            with pytest.raises(OSError, match="disk") as raised:
                session.tools["bash"]()
            assert raised.value is value
        else:
            assert session.tools["bash"]() is value
        if unlocked:
            assert session.tools["deploy"]() == "deployed"
        else:
            with pytest.raises(ToolCallBlockedError):
                session.tools["deploy"]()

    async def test_cancelled_tool(self) -> None:
        """A cancelled tool counts as failed."""

        async def lint() -> None:
            await asyncio.sleep(60)

        session = gate("require lint before deploy").wrap_tools([lint])
        running = asyncio.create_task(session.tools[0]())
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (state,) = session.manager.states.values()
        assert (state.pending, state.marking["gate"]) == ({}, 0)


class TestShapes:
    """Wrapped tools have the form in which they were given."""

    def test_mapping_and_lists(self) -> None:
        """A mapping stays a mapping; a list stays a list of functions with the same names."""

        def lint(path: str) -> str:
            """Check."""
            return path

        wrapping = gate("block rm")
        assert wrapping.wrap_tools({"check": lint}).tools["check"]("a") == "a"
        (listed,) = wrapping.wrap_tools([lint]).tools
        assert (listed.__name__, listed.__doc__, listed("b")) == ("lint", "Check.", "b")
        assert isinstance(wrapping.wrap_tools((lint,)).tools, tuple)

    async def test_tool_objects(self) -> None:
        """A tool object is returned as a copy with a gated `execute`; the original stays as it was."""

        @dataclass(frozen=True)
        class Tool:
            name: str

            async def execute(self, value: dict[str, object]) -> object:
                return value["n"]

        original = Tool("count")
        session = gate("limit count to 1 per session").wrap_tools([original])
        (wrapped,) = session.tools
        assert (wrapped.name, type(wrapped)) == ("count", Tool)
        assert await wrapped.execute({"n": 7}) == 7
        with pytest.raises(ToolCallBlockedError):
            await wrapped.execute({"n": 8})
        assert await original.execute({"n": 9}) == 9

    def test_mappings_with_execute(self) -> None:
        """A tool that is a mapping keeps its other entries."""
        tool = {"name": "rm", "description": "deletes", "execute": lambda value: value}
        (wrapped,) = gate("block rm").wrap_tools([tool]).tools
        assert wrapped["description"] == "deletes"
        with pytest.raises(ToolCallBlockedError):
            wrapped["execute"]({"path": "x"})

    @pytest.mark.parametrize(
        "tool",
        [{"type": "function", "function": {"name": "x"}}, object(), dict],
        ids=["schema", "object", "class"],
    )
    def test_without_execute(self, tool: object) -> None:
        """G-70: a tool without anything to execute is refused unless it is passed through."""
        for tools in ({"a": tool, "b": len}, [tool, len]):
            with pytest.raises(TypeError, match="passthrough="):
                gate("block x").wrap_tools(tools)
        assert gate("block x").wrap_tools({"a": tool}, passthrough=["a"]).tools["a"] is tool
        assert gate("block x").wrap_tools([tool], passthrough=[tool]).tools[0] is tool

    def test_a_misspelt_passthrough(self) -> None:
        """G-70: an unknown name in `passthrough`, or a string in place of a list, is refused."""
        with pytest.raises(ValueError, match="not there: lnt"):
            gate("block x").wrap_tools({"lint": len}, passthrough=["lnt"])
        with pytest.raises(TypeError, match="not one name"):
            gate("block x").wrap_tools({"lint": len}, passthrough="lint")

    @pytest.mark.parametrize("method", ["on_invoke_tool", "invoke", "run_async", "_run", "forward"])
    def test_tool_run_by_a_framework_is_refused(self, method: str) -> None:
        """G-70: a tool object that a framework runs by another method is refused, callable or not."""
        parts = {method: lambda *_: "ran", "name": "deploy", "__call__": lambda *_: "ran"}
        for left_out in ("", "__call__"):
            made = type("FrameworkTool", (), {k: v for k, v in parts.items() if k != left_out})()
            with pytest.raises(TypeError, match=f"'deploy' is run by its '{method}'.*passthrough="):
                gate("block deploy").wrap_tools([made])

    def test_the_id_in_the_options(self) -> None:
        """G-70: the call's id is taken from the AI SDK's options after the input."""
        heard: list[str] = []
        wrapped = gate("block x", on_decision=lambda c, _: heard.append(c.tool_call_id)).wrap_tools(
            {"lint": {"execute": lambda value, options: value}}
        )
        wrapped.tools["lint"]["execute"]({"a": 1}, {"toolCallId": "c7"})
        assert heard == ["c7"]

    def test_tool_that_cannot_be_judged_is_refused(self) -> None:
        """A tool that the gate could not judge is refused when wrapping."""

        class Fixed:
            __slots__ = ("name",)

            def execute(self, value: object) -> object:
                return value

        def streaming() -> Any:
            yield 1

        fixed = Fixed()
        fixed.name = "fixed"
        wrap = gate("block x").wrap_tools
        with pytest.raises(TypeError, match="its execute cannot be replaced"):
            wrap([fixed])
        with pytest.raises(TypeError, match="'streaming' is a generator"):
            wrap([streaming])
        with pytest.raises(TypeError, match="has no name"):
            wrap([functools.partial(print)])
        with pytest.raises(ValueError, match="Two tools are called 'bash'"):
            wrap([Spy().bash, Spy().bash])
        with pytest.raises(TypeError, match="a mapping from name to tool or a list"):
            wrap("bash")

    def test_each_wrap_has_its_own_state(self) -> None:
        """G-31: every wrap_tools has its own state."""
        wrapping = gate("limit bash to 1 per session")
        for _ in range(2):
            assert wrapping.wrap_tools({"bash": Spy().bash}).tools["bash"]() == "done"

    def test_faulty_nets_at_once(self) -> None:
        """Faulty nets are reported when the gate is made."""
        with pytest.raises(NetError, match="Unknown nets in active"):
            create_gate(registry={}, active=["nope"])


class TestInput:
    """The gate judges the input that will run."""

    @pytest.mark.parametrize(
        ("args", "kwargs"), [(("rm x",), {}), ((), {"command": "rm x"}), (("rm x",), {"cwd": "/"})]
    )
    def test_positional_arguments_are_judged_by_name(
        self, args: tuple[str, ...], kwargs: dict[str, str]
    ) -> None:
        """Positional arguments are judged by their names."""
        tools = gate("map bash.command rm as delete\nblock delete").wrap_tools([Spy().bash]).tools
        with pytest.raises(ToolCallBlockedError, match="delete is blocked"):
            tools[0](*args, **kwargs)

    def test_defaults_count(self) -> None:
        """An omitted argument is judged by its default."""
        tools = gate("map bash.command ls as list\nblock list").wrap_tools([Spy().bash]).tools
        with pytest.raises(ToolCallBlockedError, match="list is blocked"):
            tools[0]()

    async def test_execute_by_keyword(self) -> None:
        """A tool object's input is judged whatever the name of its parameter."""

        class Bash:
            name = "bash"

            async def execute(self, arguments: dict[str, str]) -> str:
                return arguments["command"]

        (bash,) = gate("map bash.command rm as delete\nblock delete").wrap_tools([Bash()]).tools
        assert await bash.execute(arguments={"command": "ls"}) == "ls"
        with pytest.raises(ToolCallBlockedError):
            await bash.execute(arguments={"command": "rm x"})

    def test_other_parameters(self) -> None:
        """Extra keywords are part of the input, extra positional arguments a list in it."""
        seen: list[Any] = []

        def tool(first: int, /, *rest: int, **more: str) -> tuple[Any, ...]:
            return first, rest, more

        wrapping = gate("block x", on_decision=lambda c, _: seen.append(dict(c.input)))
        (wrapped,) = wrapping.wrap_tools([tool]).tools
        assert wrapped(1, 2, 3, mode="a") == (1, (2, 3), {"mode": "a"})
        assert wrapped(1) == (1, (), {})
        assert seen == [{"first": 1, "rest": (2, 3), "mode": "a"}, {"first": 1}]

    def test_wrong_arguments(self) -> None:
        """Arguments that do not fit raise before any net moves."""
        session = gate("limit bash to 1 per session").wrap_tools({"bash": Spy().bash})
        with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
            session.tools["bash"](nope=1)
        assert markings(session.manager)["limit-bash-1"]["budget"] == 1

    def test_call_ids(self) -> None:
        """An id is generated if none is given; an empty id is an error; a tool may receive its id."""
        seen: list[str] = []

        def tool(tool_call_id: str = "") -> str:
            return tool_call_id

        wrapping = gate("block x", on_decision=lambda c, _: seen.append(c.tool_call_id))
        (wrapped,) = wrapping.wrap_tools([tool]).tools
        assert wrapped(tool_call_id="c1") == "c1"
        assert wrapped() != wrapped()
        assert len(set(seen)) == 3
        with pytest.raises(ValueError, match="missing toolCallId for tool"):
            wrapped(tool_call_id="")

    @pytest.mark.parametrize("edited", [{"command": "ls -l"}, {"command": "ls -l", "cwd": "/srv"}])
    def test_edited_input_runs(self, edited: dict[str, str]) -> None:
        """The edited input runs."""
        spy = Spy()
        operator = Operator(ApprovalAnswer(approved=True, input=edited))
        tools = gate("require human-approval before bash", confirm=operator).wrap_tools([spy.bash]).tools
        tools[0]("ls", cwd="/")
        assert spy.ran == [{"cwd": ".", **edited}]

    async def test_edit_notice_is_appended_to_text_results(self) -> None:
        """The notice of an edit is appended to a text result of any tool; other results are unchanged."""
        rules = "require human-approval before bash\nrequire human-approval before look"
        operator = Operator(ApprovalAnswer(approved=True, input={"command": "ls"}))
        told = 'A person changed command from "rm" to "ls" before it ran.'

        def bash(command: str) -> object:
            return {"ran": command} if command == "as a dict" else f"ran {command}"

        async def look(command: str) -> str:
            return f"saw {command}"

        session = gate(rules, confirm=operator).wrap_tools((bash, look))
        assert session.tools[0](command="rm") == f"ran ls\n\n{told}"
        assert await session.tools[1](command="rm") == f"saw ls\n\n{told}"
        assert await session.call("look", {"command": "rm"}) == f"saw ls\n\n{told}"
        assert session.tools[0](command="ls") == "ran ls"
        silent = gate(rules, confirm=operator).wrap_tools((bash,), tell_edits=False)
        assert silent.tools[0](command="rm") == "ran ls"
        other = Operator(ApprovalAnswer(approved=True, input={"command": "as a dict"}))
        session = gate(rules, confirm=other).wrap_tools((bash, look))
        assert session.tools[0](command="rm") == {"ran": "as a dict"}

    @pytest.mark.parametrize("result", ['{"ok": false}', "Error: no", "no\n[exit code: 1]"])
    def test_failure_with_edit_notice_stays_a_failure(self, result: str) -> None:
        """A failure with a notice still counts as one in a replay of messages (G-62)."""
        operator = Operator(ApprovalAnswer(approved=True, input={"command": "ls"}))
        wrapping = gate(
            "require human-approval before bash\nrequire bash before deploy", confirm=operator
        )

        def bash(command: str) -> str:
            return result

        told = wrapping.wrap_tools((bash,)).tools[0](command="rm")
        assert told.startswith(result)
        assert told.endswith("before it ran.")
        call = {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "rm"}'}}
        messages = [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": told},
        ]
        again = wrapping.wrap_tools((bash,), messages=messages)
        assert markings(again.manager)["require-bash-before-deploy"]["gate"] == 0

    def test_edit_with_unknown_argument_fails(self) -> None:
        """An edit with an unknown argument fails the call and unlocks nothing."""
        operator = Operator(ApprovalAnswer(approved=True, input={"nope": 1}))
        session = gate(
            "require human-approval before bash\nrequire bash before deploy", confirm=operator
        ).wrap_tools({"bash": Spy().bash})
        with pytest.raises(TypeError, match="Tool 'bash' takes no argument 'nope'"):
            session.tools["bash"]()
        assert markings(session.manager)["require-bash-before-deploy"]["gate"] == 0

    def test_changing_argument_during_request_has_no_effect(self) -> None:
        """Changing an argument during the request does not change what runs."""
        ran: list[list[str]] = []

        def delete(paths: list[str]) -> None:
            ran.append(copy.copy(paths))

        paths = ["a"]
        operator = Operator()
        operator.before_answering = lambda: paths.append("/")
        tools = gate("require human-approval before delete", confirm=operator).wrap_tools([delete]).tools
        tools[0](paths)
        assert ran == [["a"]]


class TestSession:
    """The other functions of a session."""

    def test_session_can_switch_and_describe_nets(self) -> None:
        """G-20 … G-24: a session can switch and describe its nets."""
        session = create_gate(registry=compile_rules("block x\nblock y").registry, active=[]).wrap_tools(
            []
        )
        assert session.add_net("block-x").message == "Activated 'block-x'"
        assert session.system_prompt().endswith(
            "State: ready:1\n\n## Rules for tool calls\n- x is always blocked."
        )
        assert session.remove_net("block-x").ok
        assert session.format_status() == "block-x (inactive): ready:1\nblock-y (inactive): ready:1"

    def test_bundled_net(self) -> None:
        """The bundled net allows reading and asks before shell commands and writing files."""
        operator = Operator(False)
        tools = {name: lambda: "ran" for name in ("read", "grep", "bash", "write", "edit")}
        session = create_gate([tool_approval_net], confirm=operator).wrap_tools(tools)
        for name in ("read", "grep"):
            assert session.tools[name]() == "ran"
        for name in ("bash", "write", "edit"):
            with pytest.raises(ToolCallBlockedError, match="rejected by human review"):
                session.tools[name]()
