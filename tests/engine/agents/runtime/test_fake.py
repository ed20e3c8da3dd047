"""The runtime for tests: only scripted commands have an effect."""

from __future__ import annotations

import pytest

from interlock.engine.agents import BashTool, C, ExecResult, FakeCall, FakeRuntime, T, ToolResultEvent

from ..script import watched


class TestReplies:
    @pytest.mark.parametrize(
        ("reply", "result"),
        [
            ("said\n", ExecResult("said\n", "", 0)),
            (3, ExecResult("", "", 3)),
            (None, ExecResult("", "", 0)),
            (ExecResult("o", "e", 2, True, 9), ExecResult("o", "e", 2, True, 9)),
            (lambda call: call.write_error(call.command), ExecResult("", "go", 0)),
        ],
    )
    async def test_kinds(self, reply: object, result: ExecResult) -> None:
        """A-108: a reply is a text, a number, a result, or a function that returns or writes it."""
        assert await FakeRuntime({"go": reply}).exec("go") == result

    async def test_function_as_reply(self) -> None:
        """A-108: a function gets the command, its directory and the files, and may be async."""

        async def count(call: FakeCall) -> str:
            return f"{call.cwd} {sorted(call.files)}"

        runtime = FakeRuntime({"count": count}, files={"a": "x", "/b/c": "y"})
        assert (await runtime.exec("count", cwd="/b")).stdout == "/b ['/b/c', '/home/user/a']"

    async def test_unscripted_command(self) -> None:
        """A-108: an unscripted command is not found, or handled by `otherwise`."""
        result = await FakeRuntime().exec("make all")
        assert (result.exit_code, result.stderr) == (127, "sh: make: not found\n")
        assert (
            await FakeRuntime(otherwise=lambda call: call.command).exec("make all")
        ).stdout == "make all"

    async def test_exception_in_a_script(self) -> None:
        """An exception in a script is raised by the call."""

        def broken(call: FakeCall) -> None:
            raise OSError("no more processes")

        with pytest.raises(OSError, match="no more processes"):
            await FakeRuntime({"go": broken}).exec("go")

    async def test_endless_output_is_stopped(self) -> None:
        """A-102: a script with endless output is stopped, even if it catches all exceptions."""

        def yes(call: FakeCall) -> None:
            while True:
                try:
                    call.write("y" * 1000)
                except Exception:
                    continue

        result = await FakeRuntime({"yes": yes}, output_limit=10, flood_limit=100_000).exec("yes")
        assert (result.stdout, result.truncated, result.signal) == ("y" * 10, True, 9)


class TestRecord:
    async def test_calls(self) -> None:
        """Commands that ran are listed in order, without the refused ones."""
        runtime = FakeRuntime({"a": "", "b": ""})
        await runtime.exec("b")
        await runtime.exec("a")
        with pytest.raises(ValueError, match="timeout"):
            await runtime.exec("c", timeout=-1)
        assert runtime.calls == ["b", "a"]

    async def test_files(self) -> None:
        """Files are a mapping by absolute path that a test can read and change."""
        runtime = FakeRuntime(cwd="/src", files={"./a/../b": "x"})
        await runtime.write_file("c/d", "y")
        assert runtime.files == {"/src/b": "x", "/src/c/d": "y"}
        runtime.files["/src/e"] = "z"
        assert await runtime.read_file("e") == "z"

    def test_directory(self) -> None:
        """A relative directory is refused."""
        with pytest.raises(ValueError, match="cwd must start with /"):
            FakeRuntime(cwd="work")


class TestWithAnAgent:
    async def test_session(self) -> None:
        """A-108: an agent's commands can be tested without a machine."""
        runtime = FakeRuntime({"git status": "clean\n"})
        w = await watched(C(bash={"command": "git status"}), T("ok"), tools=[BashTool], runtime=runtime)
        await w.say("go")
        [result] = [event for event in w.events if isinstance(event, ToolResultEvent)]
        assert (result.result, runtime.calls) == ("clean\n", ["git status"])
