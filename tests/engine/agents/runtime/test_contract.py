"""The behaviour of all runtimes (A-100 … A-109), and the replacement where one lacks a feature."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine.agents import AbortSignal, AgentRuntimeError, RuntimeAbortError, RuntimeTimeoutError

from ..script import until
from .kinds import CANNOT, CLAUSES, KINDS, Subject, made, numbers

MIB = 1_048_576


@pytest.fixture(params=KINDS)
async def subject(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Subject]:
    async with made(request.param, tmp_path, monkeypatch) as subject:
        yield subject


@pytest.fixture(params=KINDS)
async def small(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Subject]:
    """A runtime that keeps a thousand bytes per stream."""
    async with made(request.param, tmp_path, monkeypatch, output_limit=1000) as subject:
        yield subject


class TestExitCode:
    @pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 7", 7), ("no-such-command", 127)])
    async def test_no_exit_code_raises(self, subject: Subject, command: str, code: int) -> None:
        """A-100: no exit code raises."""
        result = await subject.runtime.exec(command)
        assert (result.exit_code, result.signal, result.truncated) == (code, None, False)

    async def test_unknown_command_is_named(self, subject: Subject) -> None:
        """A-100: the output for exit code 127 names the missing command."""
        assert "no-such-command" in (await subject.runtime.exec("no-such-command")).stderr

    async def test_signal(self, subject: Subject) -> None:
        """A-100: a killing signal gives 128 plus its number, and is reported if the runtime knows it."""
        result = await subject.runtime.exec("kill -9 $$")
        if not subject.can("signals"):
            assert (result.exit_code, result.signal) == (127, None)
            assert "kill: command not found" in result.stderr
        elif not subject.can("name the signal"):
            assert (result.exit_code, result.signal) == (137, None)
        else:
            assert (result.exit_code, result.signal) == (137, 9)
        assert "Killed" not in result.stderr


class TestDirectory:
    async def test_command_starts_in_runtimes_directory(self, subject: Subject) -> None:
        """A-101: a command starts in the runtime's directory."""
        assert (await subject.runtime.exec("pwd")).stdout == f"{subject.runtime.cwd}\n"

    async def test_directory_of_a_call_overrides_the_runtimes(self, subject: Subject) -> None:
        """A-101: a call's directory overrides the runtime's, and a relative one starts there."""
        await subject.runtime.write_file("sub/file", "")
        for given in ("sub", str(subject.runtime.cwd / "sub")):
            result = await subject.runtime.exec("pwd", cwd=given)
            assert result.stdout == f"{subject.runtime.cwd}/sub\n"

    async def test_directory_applies_to_one_call_only(self, subject: Subject) -> None:
        """A-101: neither a call's directory nor a `cd` affects the next call."""
        await subject.runtime.write_file("sub/file", "")
        await subject.runtime.exec("true", cwd="sub")
        await subject.runtime.exec("cd sub")
        assert (await subject.runtime.exec("pwd")).stdout == f"{subject.runtime.cwd}\n"

    async def test_missing(self, subject: Subject) -> None:
        """A-101: the error names a missing directory, and nothing runs."""
        message = f"Working directory does not exist: {subject.runtime.cwd}/gone"
        with pytest.raises(AgentRuntimeError) as raised:
            await subject.runtime.exec("echo x > ran", cwd="gone")
        assert str(raised.value) == message
        with pytest.raises(FileNotFoundError):
            await subject.runtime.read_file("ran")


class TestOutput:
    async def test_both_streams(self, subject: Subject) -> None:
        """A-100: stdout and stderr are separate."""
        result = await subject.runtime.exec("echo out; echo err >&2")
        assert (result.stdout, result.stderr) == ("out\n", "err\n")

    @pytest.mark.variants
    async def test_capped(self, subject: Subject) -> None:
        """A-102: a stream is cut at a mebibyte, as the result tells; the command runs to its end."""
        result = await subject.runtime.exec("printf '%3000000s' x; echo short >&2; echo end > end")
        assert (len(result.stdout), result.stderr, result.truncated) == (MIB, "short\n", True)
        assert result.exit_code == 0
        assert await subject.runtime.read_file("end") == "end\n"

    async def test_exactly_full(self, subject: Subject) -> None:
        """A-102: a stream of exactly the limit is complete."""
        result = await subject.runtime.exec(f"printf '%{MIB}s' x")
        assert (len(result.stdout), result.truncated) == (MIB, False)

    async def test_both_full(self, small: Subject) -> None:
        """A-102: a command that has filled both streams is killed unless it has ended."""
        number = next(numbers)
        command = (
            f"printf '%2000s' x; printf '%2000s' x >&2; sleep {number if small.can('stream') else 0}"
        )
        result = await small.runtime.exec(command)
        assert (len(result.stdout), len(result.stderr), result.truncated) == (1000, 1000, True)
        if small.can("stream"):
            assert (result.exit_code, result.signal) == (137, 9)
            await until(lambda: not small.sleeps(number))

    async def test_decoding(self, subject: Subject) -> None:
        """A-103: bytes that are not UTF-8 become replacement characters."""
        result = await subject.runtime.exec(r"printf '\377\376 a'")
        assert result.stdout == ("\ufffd\ufffd a" if subject.can("bytes") else "\xff\xfe a")

    async def test_output_is_passed_on_while_running(self, subject: Subject) -> None:
        """Output is passed on while the command runs: this command waits for its reader's reaction."""
        seen: list[bytes] = []
        first = asyncio.Event()

        def on_data(data: bytes) -> None:
            seen.append(data)
            first.set()

        async def answer() -> None:
            await first.wait()
            await subject.runtime.write_file("seen", "")

        command = "echo one; until [ -e seen ]; do sleep 0.01; done; echo two >&2"
        if not subject.can("stream"):
            command = "echo one; echo two >&2"
        answering = asyncio.create_task(answer())
        result = await subject.runtime.exec(command, timeout=30, on_data=on_data)
        await answering
        assert (result.stdout, result.stderr) == ("one\n", "two\n")
        assert b"".join(seen) == b"one\ntwo\n"

    async def test_reader_gets_only_the_kept_part(self, small: Subject) -> None:
        """A-102: the reader gets the part that the result keeps, and no more."""
        seen: list[bytes] = []
        result = await small.runtime.exec("printf '%5000s' x", on_data=seen.append)
        assert b"".join(seen).decode() == result.stdout
        assert len(result.stdout) == 1000

    async def test_reader_that_raises(self, subject: Subject) -> None:
        """An exception in the reader ends the command and is raised by the call."""

        def on_data(data: bytes) -> None:
            raise RuntimeError("cannot show")

        number = next(numbers)
        command = f"echo x; sleep {number if subject.can('stream') else 0}"
        with pytest.raises(RuntimeError, match="cannot show"):
            await subject.runtime.exec(command, on_data=on_data)
        await until(lambda: not subject.sleeps(number))

    @pytest.mark.slow
    async def test_stray_child(self, subject: Subject) -> None:
        """A-104: a background process of a command does not delay the call and is killed."""
        number = next(numbers)
        if subject.kind == "fake":
            assert (await subject.runtime.exec(f"sleep {number} & echo done")).exit_code == 127
        elif not subject.can("background"):
            with pytest.raises(RuntimeTimeoutError):
                await subject.runtime.exec(f"sleep {number} & echo done", timeout=0.3)
        else:
            result = await subject.runtime.exec(f"sleep {number} & echo done", timeout=60)
            assert (result.stdout, result.exit_code) == ("done\n", 0)
        await until(lambda: not subject.sleeps(number))


class TestTimeout:
    @pytest.mark.slow
    async def test_ends_everything(self, subject: Subject) -> None:
        """A-104: a command that exceeds its timeout is ended with all its children; the error says so."""
        number = next(numbers)
        background = subject.can("background")
        command = f"sleep {number} & sleep {number}; true" if background else f"sleep {number}; true"
        with pytest.raises(RuntimeTimeoutError, match=r"^Command timed out after 0\.5s$") as raised:
            await subject.runtime.exec(command, timeout=0.5)
        assert raised.value.timeout_secs == 0.5
        await until(lambda: not subject.sleeps(number))

    @pytest.mark.slow
    async def test_nothing_is_written_afterwards(self, subject: Subject) -> None:
        """A-104: a command that has timed out changes no file later."""
        with pytest.raises(RuntimeTimeoutError):
            await subject.runtime.exec(f"sleep {next(numbers)}; echo x > late", timeout=0.2)
        with pytest.raises(FileNotFoundError):
            await subject.runtime.read_file("late")

    @pytest.mark.parametrize("seconds", [None, 0])
    async def test_no_timeout_waits(self, subject: Subject, seconds: float | None) -> None:
        """A-104: without a timeout, or with 0, the call waits."""
        assert (await subject.runtime.exec("sleep 0.05; echo x", timeout=seconds)).stdout == "x\n"

    @pytest.mark.parametrize("seconds", [-1, float("nan")])
    async def test_invalid_timeout_is_an_error(self, subject: Subject, seconds: float) -> None:
        """A-104: an invalid timeout is an error, and nothing runs."""
        with pytest.raises(ValueError, match="timeout must be seconds from 0"):
            await subject.runtime.exec("echo x > ran", timeout=seconds)
        with pytest.raises(FileNotFoundError):
            await subject.runtime.read_file("ran")


class TestAbort:
    async def test_signal_already_set(self, subject: Subject) -> None:
        """A-105: a signal that is already set prevents the command from running."""
        signal = AbortSignal()
        signal.abort()
        with pytest.raises(RuntimeAbortError, match="The operation was aborted"):
            await subject.runtime.exec("echo x > ran", abort=signal)
        with pytest.raises(FileNotFoundError):
            await subject.runtime.read_file("ran")

    @pytest.mark.variants
    async def test_abort_ends_the_command(self, subject: Subject) -> None:
        """A-105: an abort ends the command and raises."""
        number, signal = next(numbers), AbortSignal()
        running = asyncio.create_task(subject.runtime.exec(f"sleep {number}; true", abort=signal))
        await until(lambda: subject.sleeps(number))
        signal.abort()
        with pytest.raises(RuntimeAbortError, match="The operation was aborted"):
            await running
        await until(lambda: not subject.sleeps(number))

    @pytest.mark.slow
    async def test_cancelling_the_call_ends_the_command(self, subject: Subject) -> None:
        """A-97: cancelling a waiting call ends its command, even if it is cancelled twice."""
        number = next(numbers)
        running = asyncio.create_task(subject.runtime.exec(f"sleep {number}; true"))
        await until(lambda: subject.sleeps(number))
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: not subject.sleeps(number))

    @pytest.mark.slow
    async def test_cancellation_at_any_moment_leaves_nothing_running(self, subject: Subject) -> None:
        """A-97: a cancellation at any early moment leaves nothing running."""
        seconds = [next(numbers) for _ in range(12)]
        await subject.runtime.exec("true")
        for turns, number in enumerate(seconds):
            running = asyncio.create_task(subject.runtime.exec(f"sleep {number}; true"))
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        await until(lambda: not any(subject.sleeps(number) for number in seconds))

    async def test_runtime_stays_usable_after_an_abort(self, subject: Subject) -> None:
        """A-105: a runtime stays usable after an aborted command."""
        signal = AbortSignal()
        running = asyncio.create_task(subject.runtime.exec(f"sleep {next(numbers)}; true", abort=signal))
        await asyncio.sleep(0)
        signal.abort()
        with pytest.raises(RuntimeAbortError):
            await running
        assert (await subject.runtime.exec("echo x")).stdout == "x\n"


class TestInput:
    async def test_command_gets_end_of_input(self, subject: Subject) -> None:
        """A-109: a command that reads its input gets the end of input."""
        assert (await subject.runtime.exec("cat; echo end", timeout=30)).stdout == "end\n"

    async def test_command_with_null_byte_is_an_error(self, subject: Subject) -> None:
        """A command with a null byte is an error."""
        with pytest.raises(ValueError, match="null byte"):
            await subject.runtime.exec("echo a\0b")

    async def test_approved_command_runs_literally(self, subject: Subject) -> None:
        """The approved command runs literally."""
        # Output of the part before `&` may or may not be complete, so the words are not compared.
        result = await subject.runtime.exec("echo a &gt; b")
        assert result.exit_code == 127
        with pytest.raises(FileNotFoundError):
            await subject.runtime.read_file("b")


class TestFiles:
    async def test_write_and_read(self, subject: Subject) -> None:
        """A-106, A-107: writing creates directories; relative paths start at the runtime's directory."""
        await subject.runtime.write_file("a/b/c.txt", "grün\r\n")
        assert await subject.runtime.read_file("a/b/c.txt") == "grün\r\n"
        assert await subject.runtime.read_file(str(subject.runtime.cwd / "a/b/c.txt")) == "grün\r\n"

    async def test_writing_replaces_previous_content(self, subject: Subject) -> None:
        """A-106: writing replaces the previous content."""
        await subject.runtime.write_file("a", "long before")
        await subject.runtime.write_file("a", "now")
        assert await subject.runtime.read_file("a") == "now"

    async def test_shared_with_commands(self, subject: Subject) -> None:
        """A-106, A-108: commands and file methods work on the same files."""
        await subject.runtime.exec("echo x > made")
        assert await subject.runtime.read_file("made") == "x\n"

    async def test_reading_a_missing_file(self, subject: Subject) -> None:
        """A-106: reading a missing file raises an error with its path (A-108)."""
        with pytest.raises(FileNotFoundError) as raised:
            await subject.runtime.read_file("no/pe")
        if subject.kind != "local":
            assert str(raised.value) == "File not found: no/pe"

    async def test_directory_is_not_a_file(self, subject: Subject) -> None:
        """A-106: a directory can be neither read nor written as a file, and stays unchanged."""
        await subject.runtime.write_file("dir/file", "x")
        for attempt in (subject.runtime.read_file("dir"), subject.runtime.write_file("dir", "y")):
            with pytest.raises((AgentRuntimeError, OSError)):
                await attempt
        assert await subject.runtime.read_file("dir/file") == "x"


class TestMeanwhile:
    @pytest.mark.variants
    async def test_command_does_not_block_the_event_loop(self, subject: Subject) -> None:
        """A running command does not block the event loop, and commands run concurrently."""
        await subject.runtime.exec("true")
        before = threading.active_count()
        results = await asyncio.gather(*(subject.runtime.exec(f"sleep 0.2; echo {n}") for n in range(4)))
        assert [result.stdout for result in results] == ["0\n", "1\n", "2\n", "3\n"]
        await until(lambda: threading.active_count() <= before + 4)


class TestTable:
    def test_every_limitation_has_a_reason_and_an_alternative(self) -> None:
        """Each limitation of a runtime has a reason and is supported by another runtime."""
        for (kind, clause), reason in CANNOT.items():
            assert kind in KINDS
            assert reason
            assert any((other, clause) not in CANNOT for other in KINDS)
        assert CLAUSES
