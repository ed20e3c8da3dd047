"""Vercel's sandbox with a fake service, beyond the behaviour of all runtimes."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine.agents import (
    AbortSignal,
    AgentRuntimeError,
    RuntimeAbortError,
    RuntimeTimeoutError,
    VercelSandboxRuntime,
)
from tests.support.vercel_server import PROJECT, VercelServer

from ..script import until
from .kinds import credentials, numbers, process_sleeps


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VercelServer]:
    credentials(monkeypatch)
    with VercelServer(tmp_path) as server:
        yield server


class TestLife:
    async def test_sandbox_is_made_at_first_command(self, server: VercelServer) -> None:
        """A-108: no sandbox is made before the first command, and one serves all commands."""
        runtime = VercelSandboxRuntime(base_url=server.url, time_limit=600)
        assert server.state.made == []
        await asyncio.gather(*(runtime.exec("true") for _ in range(3)))
        assert server.state.made == [{"persistent": False, "projectId": PROJECT, "timeout": 600_000}]
        await runtime.aclose()

    async def test_stopped_once(self, server: VercelServer) -> None:
        """`aclose()` stops the sandbox once; a later command is an error."""
        async with VercelSandboxRuntime(base_url=server.url) as runtime:
            await runtime.write_file("a", "x")
        await runtime.aclose()
        assert server.state.stopped == 1
        with pytest.raises(AgentRuntimeError, match="The sandbox was stopped"):
            await runtime.exec("true")
        assert len(server.state.made) == 1

    async def test_unused_runtime_makes_no_sandbox(self, server: VercelServer) -> None:
        """An unused runtime makes no sandbox."""
        await VercelSandboxRuntime(base_url=server.url).aclose()
        assert (server.state.made, server.state.stopped) == ([], 0)

    async def test_creation_cancelled_still_stops_sandbox(self, server: VercelServer) -> None:
        """A sandbox whose creation was cancelled is still tracked and stopped."""
        runtime = VercelSandboxRuntime(base_url=server.url)
        running = asyncio.create_task(runtime.exec("true"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await runtime.aclose()
        assert (len(server.state.made), server.state.stopped) == (1, 1)

    async def test_abort_does_not_wait_for_creation(self, server: VercelServer) -> None:
        """A-105: an abort does not wait for the sandbox, and the command never starts."""
        runtime, signal = VercelSandboxRuntime(base_url=server.url), AbortSignal()
        running = asyncio.create_task(runtime.exec("true", abort=signal))
        await asyncio.sleep(0)
        signal.abort()
        with pytest.raises(RuntimeAbortError):
            await running
        await runtime.aclose()
        assert server.state.commands == {}


class TestCommands:
    async def test_directory(self, server: VercelServer) -> None:
        """A-108: the directory is /vercel/sandbox."""
        async with VercelSandboxRuntime(base_url=server.url) as runtime:
            assert runtime.cwd == Path("/vercel/sandbox")
            assert (await runtime.exec("pwd")).stdout == "/vercel/sandbox\n"

    async def test_environment(self, server: VercelServer) -> None:
        """A command gets `env`, but not this program's credentials."""
        async with VercelSandboxRuntime(base_url=server.url, env={"GIVEN": "yes"}) as runtime:
            said = (await runtime.exec("env")).stdout
        assert "GIVEN=yes" in said
        assert "VERCEL_TOKEN" not in said

    @pytest.mark.slow
    async def test_detached_processes_are_ended(self, server: VercelServer) -> None:
        """A-104: processes that left their session are found by their mark and ended."""
        quick, slow = next(numbers), next(numbers)
        async with VercelSandboxRuntime(base_url=server.url) as runtime:
            await runtime.exec(f"setsid sleep {quick} > /dev/null 2>&1 &")
            await until(lambda: not process_sleeps(quick))
            with pytest.raises(RuntimeTimeoutError):
                await runtime.exec(f"setsid sleep {slow} & sleep {slow}", timeout=0.5)
            await until(lambda: not process_sleeps(slow))

    @pytest.mark.slow
    async def test_ending_one_command_keeps_another_running(self, server: VercelServer) -> None:
        """A-104: ending one command does not end another."""
        async with VercelSandboxRuntime(base_url=server.url) as runtime:
            other = asyncio.create_task(
                runtime.exec("until [ -e go ]; do sleep 0.01; done; echo went on")
            )
            with pytest.raises(RuntimeTimeoutError):
                await runtime.exec(f"sleep {next(numbers)}", timeout=0.3)
            await runtime.write_file("go", "")
            assert (await other).stdout == "went on\n"


class TestRefusals:
    async def test_no_credentials(self, server: VercelServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without credentials the error names the variables to set."""
        monkeypatch.delenv("VERCEL_TOKEN")
        with pytest.raises(AgentRuntimeError, match=r"Cannot make a sandbox: .*VERCEL_TOKEN"):
            await VercelSandboxRuntime(base_url=server.url).exec("true")

    async def test_wrong_credentials(self, server: VercelServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """The service's refusal is reported, and a second attempt can succeed."""
        monkeypatch.setenv("VERCEL_TOKEN", "another")
        runtime = VercelSandboxRuntime(base_url=server.url)
        with pytest.raises(AgentRuntimeError, match=r"Cannot make a sandbox: .*Not authorized"):
            await runtime.exec("true")
        credentials(monkeypatch)
        assert (await runtime.exec("echo x")).stdout == "x\n"
        await runtime.aclose()

    async def test_later_failure_of_the_service(self, server: VercelServer) -> None:
        """A later failure of the service fails the command or file operation with its message."""
        runtime = VercelSandboxRuntime(base_url=server.url)
        await runtime.exec("true")
        server.state.refuse_with = 400
        with pytest.raises(AgentRuntimeError, match=r"Cannot run the command: .*Out of order"):
            await runtime.exec("true")
        with pytest.raises(AgentRuntimeError, match=r"Cannot read a: .*Out of order"):
            await runtime.read_file("a")
        with pytest.raises(AgentRuntimeError, match=r"Cannot write a: .*Out of order"):
            await runtime.write_file("a", "")
        server.state.refuse_with = None
        await runtime.aclose()

    async def test_unreachable_service(self, server: VercelServer) -> None:
        """An unreachable service is a runtime error."""
        with pytest.raises(AgentRuntimeError, match="Cannot make a sandbox"):
            await VercelSandboxRuntime(base_url="http://127.0.0.1:9/api").exec("true")

    async def test_no_package(self, server: VercelServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """The error names the missing package."""
        real = builtins.__import__

        def without(name: str, *args: object, **kwargs: object) -> object:
            if name == "vercel.sandbox":
                raise ModuleNotFoundError("No module named 'vercel'")
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without)
        runtime = VercelSandboxRuntime(base_url=server.url)
        for attempt in (runtime.exec("true"), runtime.read_file("a"), runtime.write_file("a", "")):
            with pytest.raises(AgentRuntimeError, match="vercel is not installed: pip install"):
                await attempt
