"""Commands and files on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.agents import (
    AbortSignal,
    AgentRuntimeError,
    LocalRuntime,
    RuntimeAbortError,
    RuntimeTimeoutError,
)

from .script import until
from .test_abort import alive, pid_in

MIB = 1_048_576


@pytest.fixture
def here(tmp_path: Path) -> LocalRuntime:
    return LocalRuntime(tmp_path)


class TestExitCode:
    @pytest.mark.parametrize(
        ("command", "code", "signal"),
        [
            ("true", 0, None),
            ("exit 7", 7, None),
            ("no-such-command-here", 127, None),
            ("kill -9 $$", 137, 9),
            ("kill -15 $$", 143, 15),
        ],
    )
    async def test_is_a_value(
        self, here: LocalRuntime, command: str, code: int, signal: int | None
    ) -> None:
        """A-100: no exit code raises; a killing signal is 128 plus its number, and noted."""
        result = await here.exec(command)
        assert (result.exit_code, result.signal) == (code, signal)


class TestDirectory:
    async def test_own_and_given(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A-101: the call's directory, or the runtime's; a relative one starts there."""
        (tmp_path / "sub").mkdir()
        assert (await here.exec("pwd")).stdout.strip() == str(tmp_path)
        assert (await here.exec("pwd", cwd="sub")).stdout.strip() == str(tmp_path / "sub")
        assert (await here.exec("pwd -P", cwd="/")).stdout.strip() == "/"

    async def test_missing(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A-101: a directory that does not exist is named."""
        with pytest.raises(AgentRuntimeError, match=f"Working directory does not exist: {tmp_path}/gone"):
            await here.exec("true", cwd="gone")


class TestOutput:
    async def test_capped(self, here: LocalRuntime) -> None:
        """A-102: each stream is cut at a mebibyte and the result says so; the command runs to its end."""
        result = await here.exec("head -c 3000000 /dev/zero; head -c 5 /dev/zero >&2; echo end > end")
        assert (len(result.stdout), len(result.stderr)) == (MIB, 5)
        assert result.truncated
        assert result.exit_code == 0
        assert await here.read_file("end") == "end\n"

    async def test_exactly_full(self, here: LocalRuntime) -> None:
        """A-102: a stream that just fits is whole."""
        result = await here.exec(f"head -c {MIB} /dev/zero")
        assert (len(result.stdout), result.truncated) == (MIB, False)

    async def test_both_full(self, tmp_path: Path) -> None:
        """A-102: a command that has filled both streams is killed."""
        runtime = LocalRuntime(tmp_path, output_limit=1000)
        result = await runtime.exec("yes >&2 & yes")
        assert result.exit_code == 137
        assert (len(result.stdout), len(result.stderr), result.truncated) == (1000, 1000, True)

    async def test_flood(self, tmp_path: Path) -> None:
        """A-102: a command that writes without end is killed though only one stream is full."""
        runtime = LocalRuntime(tmp_path, output_limit=1000, flood_limit=1_000_000)
        result = await runtime.exec("yes")
        assert (result.exit_code, len(result.stdout)) == (137, 1000)

    async def test_decoding(self, here: LocalRuntime) -> None:
        """A-103: what is no UTF-8 becomes replacement characters."""
        result = await here.exec(r"printf '\377\376 a'")
        assert result.stdout == "\ufffd\ufffd a"

    async def test_as_it_comes(self, here: LocalRuntime) -> None:
        """Output is handed over while the command runs: this one waits for what its reader does."""
        seen: list[bytes] = []

        def on_data(data: bytes) -> None:
            seen.append(data)
            (here.cwd / "seen").touch()

        result = await here.exec(
            "echo first; until [ -e seen ]; do sleep 0.01; done; echo second >&2",
            timeout=10,
            on_data=on_data,
        )
        assert (result.stdout, result.stderr) == ("first\n", "second\n")
        assert b"".join(seen) == b"first\nsecond\n"

    async def test_reader_that_raises(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A reader that raises ends the command."""

        def on_data(data: bytes) -> None:
            raise RuntimeError("cannot show")

        with pytest.raises(RuntimeError, match="cannot show"):
            await here.exec("echo $$ > pid; echo x; exec sleep 1000", on_data=on_data)
        pid = await pid_in(tmp_path / "pid")
        await until(lambda: not alive(pid))

    async def test_stray_child(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A background process that keeps the pipe open does not hold the call up, and is killed."""
        result = await here.exec("sleep 1000 & echo $! > pid; echo done", timeout=60)
        assert (result.stdout, result.exit_code) == ("done\n", 0)
        pid = await pid_in(tmp_path / "pid")
        await until(lambda: not alive(pid))

    async def test_last_words(self, here: LocalRuntime) -> None:
        """What a background process says right after the shell ended is heard."""
        result = await here.exec("(sleep 0.1; echo late) &")
        assert result.stdout == "late\n"


class TestTimeout:
    async def test_kills_the_group(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A-104: too slow a command is killed with everything it started."""
        with pytest.raises(RuntimeTimeoutError, match=r"Command timed out after 0\.5s") as raised:
            await here.exec("sleep 1000 & echo $! > pid; wait", timeout=0.5)
        assert raised.value.timeout_secs == 0.5
        pid = await pid_in(tmp_path / "pid")
        await until(lambda: not alive(pid))

    @pytest.mark.parametrize("seconds", [None, 0])
    async def test_none(self, here: LocalRuntime, seconds: float | None) -> None:
        """A-104: no timeout, or 0, waits."""
        assert (await here.exec("sleep 0.05; echo x", timeout=seconds)).stdout == "x\n"

    @pytest.mark.parametrize("seconds", [-1, float("nan")])
    async def test_nonsense(self, here: LocalRuntime, seconds: float) -> None:
        """A timeout that means nothing is an error, and nothing runs."""
        with pytest.raises(ValueError, match="timeout must be seconds from 0"):
            await here.exec("touch ran", timeout=seconds)
        assert not (here.cwd / "ran").exists()


class TestAbort:
    async def test_before(self, here: LocalRuntime) -> None:
        """A-105: an aborted signal keeps the command from running."""
        signal = AbortSignal()
        signal.abort()
        with pytest.raises(RuntimeAbortError, match="The operation was aborted"):
            await here.exec("touch ran", abort=signal)
        assert not (here.cwd / "ran").exists()

    async def test_meanwhile(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A-105: aborting kills the command and raises."""
        signal = AbortSignal()
        running = asyncio.create_task(here.exec("echo $$ > pid; exec sleep 1000", abort=signal))
        pid = await pid_in(tmp_path / "pid")
        signal.abort()
        with pytest.raises(RuntimeAbortError):
            await running
        await until(lambda: not alive(pid))

    async def test_cancelled(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A-97: cancelling who runs a command kills it, also when cancelled again."""
        running = asyncio.create_task(here.exec("echo $$ > pid; exec sleep 1000"))
        pid = await pid_in(tmp_path / "pid")
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: not alive(pid))

    async def test_at_any_moment(self, here: LocalRuntime) -> None:
        """A-97: however early the cancellation comes, no command is left running."""
        for turns in range(12):
            running = asyncio.create_task(here.exec(f"sleep 987654{turns}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        def left() -> list[str]:
            commands = [p / "cmdline" for p in Path("/proc").iterdir() if p.name.isdigit()]
            texts = []
            for command in commands:
                try:
                    texts.append(command.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                except OSError:
                    continue
            return [t for t in texts if t.startswith(("sleep 987654", "/bin/sh -c sleep 987654"))]

        await until(lambda: not left())


class TestInput:
    async def test_empty(self, here: LocalRuntime) -> None:
        """A-109: a command that reads gets the end of input."""
        assert (await here.exec("cat; echo end", timeout=10)).stdout == "end\n"

    async def test_nul(self, here: LocalRuntime) -> None:
        """A command that no shell can take is an error."""
        with pytest.raises(ValueError, match="null byte"):
            await here.exec("echo a\0b")


class TestFiles:
    async def test_write_and_read(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A-106, A-107: writing makes directories; relative paths start at the runtime's directory."""
        await here.write_file("a/b/c.txt", "grün\n")
        assert (tmp_path / "a/b/c.txt").read_bytes() == "grün\n".encode()
        assert await here.read_file("a/b/c.txt") == "grün\n"
        assert await here.read_file(str(tmp_path / "a/b/c.txt")) == "grün\n"

    async def test_missing(self, here: LocalRuntime) -> None:
        """A-106: reading what is not there raises."""
        with pytest.raises(FileNotFoundError):
            await here.read_file("nope")
