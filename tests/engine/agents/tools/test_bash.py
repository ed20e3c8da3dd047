"""The `bash` tool, statement by statement."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.engine.agents import (
    AbortSignal,
    AgentRuntimeError,
    BashTool,
    C,
    ExecResult,
    LocalRuntime,
    T,
    ToolContext,
    ToolInputError,
    ToolResultEvent,
    create_bash_tool,
)

from ..script import watched
from .places import Shelf, output, text


class TestInterface:
    def test_parameters(self) -> None:
        """A-120: `command` is a required string, `timeout` is optional; nothing else is accepted."""
        assert (BashTool.name, BashTool.description) == (
            "bash",
            "Execute a shell command and return the output.",
        )
        parameters = BashTool.parameters
        assert set(parameters) == {"type", "properties", "required", "additionalProperties"}
        assert parameters["properties"]["command"]["type"] == "string"
        assert parameters["required"] == ["command"]
        assert parameters["additionalProperties"] is False

    @pytest.mark.parametrize("args", [{}, {"command": 1}, {"command": "true", "cwd": "/"}])
    async def test_other_arguments(self, tmp_path: Path, args: dict[str, object]) -> None:
        """A-120: arguments other than a command and a timeout are refused."""
        with pytest.raises(ToolInputError, match="Invalid arguments for bash"):
            await text(BashTool, tmp_path, **args)

    async def test_timeout(self, tmp_path: Path) -> None:
        """A-120: the timeout is in seconds; with 0 or none the tool waits."""
        with pytest.raises(TimeoutError, match=r"Command timed out after 0\.2s"):
            await text(BashTool, tmp_path, command="sleep 1000", timeout=0.2)
        assert await text(BashTool, tmp_path, command="sleep 0.01; echo x", timeout=0) == "x\n"


class TestText:
    @pytest.mark.parametrize(
        ("command", "shown"),
        [
            ("printf a", "a"),
            ("printf '\\n'", "\n"),
            ("printf a; printf b >&2", "a\n[stderr] b"),
            ("printf b >&2; exit 2", "[stderr] b\n[exit code: 2]"),
            ("echo a; exit 1", "a\n\n[exit code: 1]"),
            ("kill -9 $$", "[exit code: 137]"),
        ],
    )
    async def test_parts(self, tmp_path: Path, command: str, shown: str) -> None:
        """A-121: the text has the non-empty parts, joined by a newline."""
        assert await text(BashTool, tmp_path, command=command) == shown

    @pytest.mark.parametrize("code", [0, 1, 255])
    async def test_exit_code(self, tmp_path: Path, code: int) -> None:
        """A-122: no exit code is an error result; it is in the metadata, and nets count it as failed."""
        made = await output(BashTool, tmp_path, command=f"exit {code}")
        assert (made.is_error, made.metadata["exit_code"], made.failed) == (False, code, code != 0)


class TestFailure:
    async def test_abort(self) -> None:
        """A-123: an abort while the command runs is an error result with the runtime's message."""
        w = await watched(C(c1=("bash", {"command": "echo started; sleep 1000"})), T("ok"))
        w.session.on("tool_progress", lambda event: w.session.abort())
        await w.say("go")
        [result] = [event for event in w.events if isinstance(event, ToolResultEvent)]
        assert (result.is_error, result.result) == (True, "The operation was aborted")

    async def test_no_runtime(self) -> None:
        """A-123: any exception of a runtime becomes the result's text."""
        w = await watched(C(c1=("bash", {"command": "true"})), T("ok"), runtime=Shelf({}, raises=True))
        assert 'result c1 err "there is no shell here"' in await w.say("go")


def long_output(shown: str) -> tuple[str, str, Path]:
    """Return a long output's tail, the lines in its notice, and the file with the complete output."""
    found = re.fullmatch(
        r"(?s)(.*)\n\n\[Showing lines (.*)\. Full output: (/tmp/interlock-[\w-]+\.log)\]", shown
    )
    assert found is not None, shown[-300:]
    return found[1], found[2], Path(found[3])


class TestLongOutput:
    async def test_output_at_the_limit_is_unchanged(self, tmp_path: Path) -> None:
        """§9: 2,000 lines are shown unchanged."""
        shown = await text(BashTool, tmp_path, command="seq 2000")
        assert shown == "".join(f"{number}\n" for number in range(1, 2001))

    async def test_last_lines_are_shown(self, tmp_path: Path) -> None:
        """§9: of more lines the last 2,000 are shown with the exit code; a file has all lines."""
        made = await output(BashTool, tmp_path, command="seq 3000; exit 3")
        tail, lines, path = long_output(made.text)
        try:
            full = "".join(f"{number}\n" for number in range(1, 3001)) + "\n[exit code: 3]"
            assert path.read_text() == full
            assert path.stat().st_mode & 0o077 == 0
            assert tail == "\n".join(full.split("\n")[-2000:])
            assert lines == "1003-3002 of 3002"
            assert made.metadata == {"exit_code": 3, "truncated": False, "full_output": str(path)}
        finally:
            path.unlink()

    async def test_last_lines_within_the_byte_limit_are_shown(self, tmp_path: Path) -> None:
        """§9: of more than 50 KB the last complete lines that fit are shown."""
        made = await output(
            BashTool, tmp_path, command="for i in $(seq 600); do printf '%0100d\n' $i; done"
        )
        tail, lines, path = long_output(made.text)
        path.unlink()
        shown = tail.split("\n")
        assert [len(line) for line in shown] == [100] * (51_200 // 101)
        assert lines == f"{601 - len(shown)}-600 of 600"
        assert shown[-1].endswith("600")

    async def test_end_of_a_very_long_line_is_shown(self, tmp_path: Path) -> None:
        """§9: of one very long line the last 50 KB are shown, in complete characters."""
        made = await output(BashTool, tmp_path, command="printf '€%.0s' $(seq 20000)")
        tail, lines, path = long_output(made.text)
        path.unlink()
        assert tail == "€" * (51_200 // 3)
        assert lines == "1-1 of 1, cut to the last 50.0KB"

    async def test_output_cut_by_the_runtime_is_not_saved(self, tmp_path: Path) -> None:
        """§9, A-102: output that the runtime cut is in no file, as the metadata states."""
        made = await output(
            BashTool, LocalRuntime(tmp_path, output_limit=60_000), command="yes | head -c 90000"
        )
        _, _, path = long_output(made.text)
        assert len(path.read_text()) == 60_000
        path.unlink()
        assert made.metadata["truncated"] is True

    async def test_unwritable_file_loses_the_rest(self) -> None:
        """§9: if the file cannot be written, the notice says that the rest is lost."""

        class Full(Shelf):
            async def exec(self, command: str, **options: object) -> ExecResult:
                return ExecResult("x\n" * 3000, "", 0)

            async def write_file(self, path: str, content: str) -> None:
                raise AgentRuntimeError("no space left")

        made = await output(BashTool, Full({}), command="yes")
        assert made.text.endswith(
            "\n\n[Showing lines 1001-3000 of 3000. The rest is lost: no space left]"
        )
        assert made.metadata["full_output"] is None

    async def test_file_name_is_plain_for_any_call_id(self) -> None:
        """§9: the file's name is plain, whatever the call's id."""

        class Long(Shelf):
            async def exec(self, command: str, **options: object) -> ExecResult:
                return ExecResult("x\n" * 3000, "", 0)

        shelf = Long({})
        ctx = ToolContext(shelf, AbortSignal(), call_id="../../etc/" + "x" * 500)
        await BashTool.execute({"command": "yes"}, ctx)
        [path] = shelf.files
        assert re.fullmatch(r"/tmp/interlock-______etc_x{54}-[0-9a-f]{16}\.log", path)


class TestPrefix:
    async def test_prefix_runs_before_every_command(self, tmp_path: Path) -> None:
        """The prefix runs before every command; a comment at its end hides nothing."""
        prefixed = create_bash_tool(command_prefix="export PLACE=here # set up")
        assert await text(prefixed, tmp_path, command="echo $PLACE") == "here\n"
        assert (prefixed.name, prefixed.parameters) == (BashTool.name, BashTool.parameters)
