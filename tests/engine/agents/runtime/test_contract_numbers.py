"""Exact numbers and names of the runtimes, as stated in the clauses."""

from __future__ import annotations

import errno
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.agents import (
    ExecResult,
    FakeRuntime,
    JustBashRuntime,
    LocalRuntime,
    SandboxRuntime,
    VercelSandboxRuntime,
)

from ..script import until
from .kinds import numbers, process_sleeps, skip_without_sandbox

MIB = 1_048_576


class TestShell:
    async def test_commands_run_in_the_shell_of_the_rules(self, tmp_path: Path) -> None:
        """A-101, G-64: commands run in the shell for which rules are read, not in the user's shell."""
        runtime = LocalRuntime(tmp_path)
        assert runtime.shell == "bash"
        assert (await runtime.exec("echo $0 ${BASH_VERSION:+bash}")).stdout == "/bin/bash bash\n"

    async def test_bash_syntax_runs_as_bash(self, tmp_path: Path) -> None:
        """G-64: a test or quoted text for bash is not run as a command, as it would be in dash."""
        program = tmp_path / "deploy"
        program.write_text("#!/bin/sh\n: > trace\n")
        program.chmod(0o755)
        for command in ("[[ x || ./deploy ]]", "echo $'\\'; ./deploy; #'"):
            await LocalRuntime(tmp_path).exec(command)
            assert not (tmp_path / "trace").exists()
        await LocalRuntime(tmp_path).exec("./deploy")
        assert (tmp_path / "trace").exists()

    async def test_command_continues_after_a_failed_part(self, tmp_path: Path) -> None:
        """A-100, A-101: a command continues after a failed part; the last exit code counts."""
        result = await LocalRuntime(tmp_path).exec("false; echo on")
        assert result == ExecResult("on\n", "", 0)

    async def test_own_session(self, tmp_path: Path) -> None:
        """A-104: a command leads its own session and process group, detached from the terminal."""
        result = await LocalRuntime(tmp_path).exec("echo $$; cut -d' ' -f5,6 /proc/$$/stat")
        pid, group, session = result.stdout.split()
        assert (group, session) == (pid, pid)


@pytest.mark.slow
class TestInput:
    @pytest.mark.parametrize("runtime", ["LocalRuntime", "SandboxRuntime"])
    def test_command_cannot_read_the_programs_input(self, tmp_path: Path, runtime: str) -> None:
        """A-109: a command cannot read what is typed into the program that runs it."""
        if runtime == "SandboxRuntime":
            skip_without_sandbox()
        program = (
            "import asyncio, interlock.engine.agents as agents;"
            f"runtime = agents.{runtime}({str(tmp_path)!r});"
            "print(asyncio.run(runtime.exec('cat; echo end', timeout=30)).stdout, end='')"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], input="typed\n", capture_output=True, text=True, check=True
        )
        assert done.stdout == "end\n"


class TestCaps:
    async def test_three_and_two_megabytes(self, tmp_path: Path) -> None:
        """A-102: of 3 MB on stdout and 2 MB on stderr a mebibyte each is kept; then it is killed."""
        number = next(numbers)
        result = await LocalRuntime(tmp_path).exec(
            "head -c 3000000 /dev/zero | tr '\\0' o; "
            f"head -c 2000000 /dev/zero | tr '\\0' e >&2; sleep {number}",
            timeout=60,
        )
        assert (result.stdout, result.stderr) == ("o" * MIB, "e" * MIB)
        assert (result.truncated, result.exit_code, result.signal) == (True, 137, 9)
        await until(lambda: not process_sleeps(number))

    async def test_stderr_alone(self, tmp_path: Path) -> None:
        """A-102: a command that has filled only one stream, even stderr, runs to its end."""
        result = await LocalRuntime(tmp_path).exec("head -c 2000000 /dev/zero >&2; echo end")
        assert (result.stdout, len(result.stderr)) == ("end\n", MIB)
        assert (result.truncated, result.exit_code) == (True, 0)

    @pytest.mark.parametrize(
        "runtime", [LocalRuntime, SandboxRuntime, JustBashRuntime, VercelSandboxRuntime, FakeRuntime]
    )
    def test_every_runtime_keeps_a_mebibyte(self, runtime: type) -> None:
        """A-102: by default every runtime keeps a mebibyte of each stream."""
        assert inspect.signature(runtime).parameters["output_limit"].default == MIB


class TestFiles:
    async def test_missing(self, tmp_path: Path) -> None:
        """A-106: reading a missing file raises the system's own error."""
        with pytest.raises(FileNotFoundError) as raised:
            await LocalRuntime(tmp_path).read_file("gone")
        assert raised.value.errno == errno.ENOENT

    async def test_files_are_utf8_with_unchanged_newlines(self, tmp_path: Path) -> None:
        """A-106: files are UTF-8 on the disk, with newlines unchanged."""
        runtime = LocalRuntime(tmp_path)
        await runtime.write_file("new/a.txt", "grün\r\n€")
        assert (tmp_path / "new/a.txt").read_bytes() == "grün\r\n€".encode()

    async def test_programs_current_directory_has_no_effect(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A-107: the program's current directory affects neither files nor commands."""
        (tmp_path / "elsewhere").mkdir()
        runtime = LocalRuntime(tmp_path)
        monkeypatch.chdir(tmp_path / "elsewhere")
        await runtime.write_file("a", "x")
        assert (await runtime.read_file("a"), (await runtime.exec("cat a")).stdout) == ("x", "x")
        assert (tmp_path / "a").read_text() == "x"
        assert not (tmp_path / "elsewhere/a").exists()
