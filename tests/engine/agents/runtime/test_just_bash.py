"""The shell in this process, beyond the behaviour of all runtimes."""

from __future__ import annotations

import asyncio
import builtins
import os
import sys
from pathlib import Path

import pytest

from interlock.engine.agents import AgentRuntimeError, JustBashRuntime, RuntimeTimeoutError

from ..script import until
from .kinds import is_interpreting


class TestFiles:
    async def test_preloaded(self) -> None:
        """A-108: the directory is /home/user, and `files` exist from the start."""
        runtime = JustBashRuntime(files={"a/b.txt": "here\n", "/data/c.txt": "there\n"})
        assert runtime.cwd == Path("/home/user")
        assert (await runtime.exec("cat a/b.txt /data/c.txt")).stdout == "here\nthere\n"

    async def test_in_memory(self, tmp_path: Path) -> None:
        """A-108: files of this machine are neither read nor written."""
        (tmp_path / "file").write_text("the machine's")
        runtime = JustBashRuntime(cwd=str(tmp_path))
        assert (await runtime.exec("cat file")).exit_code == 1
        await runtime.exec("echo x > file; echo y > new")
        assert (tmp_path / "file").read_text() == "the machine's"
        assert os.listdir(tmp_path) == ["file"]

    async def test_two_runtimes(self) -> None:
        """A-108: each runtime has separate files."""
        one, other = JustBashRuntime(), JustBashRuntime()
        await one.write_file("a", "x")
        with pytest.raises(FileNotFoundError):
            await other.read_file("a")

    async def test_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A command gets `env` and not the program's environment."""
        monkeypatch.setenv("A_SECRET_TOKEN", "sesame")
        result = await JustBashRuntime(env={"GIVEN": "yes"}).exec("env; echo [$A_SECRET_TOKEN]")
        assert "GIVEN=yes" in result.stdout
        assert "[]" in result.stdout
        assert "sesame" not in result.stdout

    @pytest.mark.parametrize("cwd", ["relative", ""])
    def test_directory(self, cwd: str) -> None:
        """A relative directory is refused."""
        with pytest.raises(ValueError, match="cwd must start with /"):
            JustBashRuntime(cwd)


class TestRedirections:
    @pytest.mark.parametrize(
        ("command", "shown"),
        [
            ("touch ran; for i in 1 2; do echo $i; done > out", "for … done"),
            ("touch ran; if true; then echo x; fi >> out", "if … fi"),
            ("touch ran; x=$(if true; then echo b; fi 2> out)", "if … fi"),
            ("touch ran; case a in a) echo b;; esac 2> out", "case … esac"),
            ("touch ran; { while read l; do echo $l; done < f > out; }", "while … done"),
            ("touch ran; [[ a == a ]] > out", "[[ … ]]"),
        ],
    )
    async def test_unsupported_redirection_is_refused(self, command: str, shown: str) -> None:
        """A-108: a command whose redirection just-bash would ignore is refused before it starts."""
        runtime = JustBashRuntime(files={"f": "a\n"})
        with pytest.raises(AgentRuntimeError, match="Put the whole of it into braces") as refused:
            await runtime.exec(command)
        assert f"the redirection of {shown}: nothing was run" in str(refused.value)
        assert (await runtime.exec("ls")).stdout.split() == ["f"]

    @pytest.mark.parametrize(
        ("command", "output"),
        [
            ("{ for i in 1 2; do echo $i; done; } > out; cat out", "1\n2\n"),
            ("for i in 1; do echo $i > out; done; cat out", "1\n"),
            ("while read l; do echo got $l; done < f", "got a\n"),
            ("echo 'for i in 1; do :; done > out'", "for i in 1; do :; done > out\n"),
        ],
    )
    async def test_supported_redirections_work(self, command: str, output: str) -> None:
        """A-108: redirections of groups, of commands in a loop, and of input work."""
        result = await JustBashRuntime(files={"f": "a\n"}).exec(command)
        assert (result.stdout, result.exit_code) == (output, 0)


class TestEnding:
    @pytest.mark.slow
    async def test_endless_loop(self) -> None:
        """An endless loop is stopped by the interpreter's own limit, which is an error."""
        with pytest.raises(
            AgentRuntimeError, match=r"just-bash stopped the command: .*too many iterations"
        ):
            await JustBashRuntime().exec("while true; do :; done", timeout=60)

    @pytest.mark.variants
    @pytest.mark.parametrize(
        "command",
        [
            "awk 'BEGIN{for(i=0;i<9999;i++)for(j=0;j<9999;j++)for(k=0;k<9999;k++)x++}'",
            "for a in $(seq 1 9000); do for b in $(seq 1 9000); do echo $b > late; done; done",
        ],
    )
    async def test_computing_interpreter_is_ended(self, command: str) -> None:
        """A-104: an interpreter that never waits is ended as well, and changes no file after the call."""
        runtime = JustBashRuntime()
        with pytest.raises(RuntimeTimeoutError):
            await runtime.exec(command, timeout=0.3)
        before = (await runtime.exec("cat late")).stdout
        await until(lambda: not is_interpreting())
        assert (await runtime.exec("cat late")).stdout == before

    @pytest.mark.slow
    async def test_interpreter_that_cannot_be_ended_loses_its_files(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A-104: if the interpreter cannot be ended, it loses access to its files nonetheless."""
        from just_bash.commands.registry import create_command_registry
        from just_bash.types import CommandContext, ExecResult

        go_on = asyncio.Event()
        deaf: list[str] = []

        class Deaf:
            name = "sleep"

            async def execute(self, args: list[str], ctx: CommandContext) -> ExecResult:
                while not go_on.is_set():
                    try:
                        for _ in range(1000):
                            pass
                    except BaseException:
                        deaf.append("asked to end")
                try:
                    await ctx.fs.write_file("/home/user/late", "written after all")
                except BaseException as error:
                    deaf.append(type(error).__name__)
                    raise
                return ExecResult()

        monkeypatch.setattr(
            "just_bash.bash.create_command_registry",
            lambda **_: {**create_command_registry(), "sleep": Deaf()},
        )
        runtime = JustBashRuntime()
        with pytest.raises(RuntimeTimeoutError):
            await runtime.exec("sleep 1", timeout=0.2)
        go_on.set()
        await until(lambda: not is_interpreting())
        assert "asked to end" in deaf
        with pytest.raises(FileNotFoundError):
            await runtime.read_file("late")


class TestTheProgram:
    async def test_event_loop_stays_unchanged(self) -> None:
        """Commands for which just-bash would replace asyncio's loops and tasks leave them unchanged."""
        before = (asyncio.Task, asyncio.run, asyncio.get_running_loop().run_until_complete)
        result = await JustBashRuntime().exec('a=(1 2); echo "${a[$(echo 1)]}"')
        assert result.stdout == "2\n"
        after = (asyncio.Task, asyncio.run, asyncio.get_running_loop().run_until_complete)
        assert after == before

    async def test_computing_does_not_block_the_event_loop(self) -> None:
        """A computing interpreter does not block the event loop."""
        turns = 0
        running = asyncio.create_task(JustBashRuntime().exec("for i in $(seq 1 3000); do x=$i; done"))
        while not running.done():
            await asyncio.sleep(0)
            turns += 1
        assert running.result().exit_code == 0
        assert turns > 10


class TestWithoutThePackage:
    def test_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The error names the missing package."""
        real = builtins.__import__

        def without(name: str, *args: object, **kwargs: object) -> object:
            if name == "just_bash":
                raise ModuleNotFoundError("No module named 'just_bash'")
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without)
        monkeypatch.delitem(sys.modules, "just_bash", raising=False)
        with pytest.raises(AgentRuntimeError, match=r"just-bash is not installed: pip install"):
            JustBashRuntime()
