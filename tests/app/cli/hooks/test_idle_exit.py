"""An unused server ends by itself, and never while it is in use."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from interlock.app.config.hooks import hook_settings
from interlock.app.config.loader import SettingsError
from interlock.app.hosting.idle_exit import idle_time, lock_of, wait_until_unused
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.server.server import Gateway
from tests.engine.gateway.served import served, until

from .running import INTERLOCK, Hook, recorded
from .test_starting import servers, started

SHORT = 0.02
"""Seconds of the idle time; tests wait many times as long."""


def command_line(process: int) -> list[bytes]:
    return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")


class Watched:
    """A watch for the server's idle exit, with a count of its checks."""

    def __init__(self, gateway: Gateway) -> None:
        self.looks = 0
        self.ended = asyncio.ensure_future(wait_until_unused(gateway, SHORT, pause=self._pause))

    async def _pause(self, _: float) -> None:
        self.looks += 1
        await asyncio.sleep(SHORT)

    async def keeps_running(self) -> bool:
        """Return whether the server keeps running for many times its idle time."""
        last = self.looks + 20
        while self.looks < last and not self.ended.done():  # noqa: ASYNC110
            await asyncio.sleep(SHORT)
        return not self.ended.done()

    async def wait_for_end(self) -> None:
        await asyncio.wait_for(self.ended, 30)


@asynccontextmanager
async def watched(gateway: Gateway) -> AsyncGenerator[Watched, None]:
    watch = Watched(gateway)
    try:
        yield watch
    finally:
        watch.ended.cancel()
        with suppress(asyncio.CancelledError):
            await watch.ended


class TestUse:
    async def test_unused_server_ends(self, tmp_path: Path) -> None:
        """A server without any connection ends."""
        async with served(tmp_path) as server, watched(server.gateway) as watch:
            await watch.wait_for_end()

    async def test_open_session_keeps_server_running(self, tmp_path: Path) -> None:
        """The server keeps running while a session is open, even without a connection."""
        async with served(tmp_path) as server:
            client = server.agent_client()
            gate = await client.open("bot")
            await client.close()
            async with watched(server.gateway) as watch:
                assert await watch.keeps_running()
                await server.hub.close_session(gate.id, "ada")
                await watch.wait_for_end()

    @pytest.mark.slow
    async def test_connected_console_keeps_server_running(self, tmp_path: Path) -> None:
        """The server keeps running while a console is connected, and ends afterwards."""
        async with served(tmp_path) as server:
            async with server.console(), watched(server.gateway) as watch:
                assert await watch.keeps_running()
            async with watched(server.gateway) as watch:
                await watch.wait_for_end()

    @pytest.mark.slow
    async def test_starting_hook_keeps_server_running(self) -> None:
        """The server keeps running while a hook holds the lock for finding and starting servers."""
        with tempfile.TemporaryDirectory(prefix="idle") as folder:
            socket = Path(folder) / "user.sock"
            held = os.open(lock_of(socket), os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(held, fcntl.LOCK_EX)
            async with (
                served(Path(folder), address=Address(path=socket)) as server,
                watched(server.gateway) as watch,
            ):
                assert await watch.keeps_running()
                os.close(held)
                await watch.wait_for_end()
                again = os.open(lock_of(socket), os.O_RDWR)
                with pytest.raises(BlockingIOError):
                    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.close(again)


class TestCommand:
    @pytest.mark.slow
    async def test_server_ends_with_exit_code_0(self, tmp_path: Path) -> None:
        """`interlock serve --idle-exit` ends by itself with exit code 0."""
        hook = Hook.at(tmp_path / "home")
        process = await asyncio.create_subprocess_exec(
            *(INTERLOCK, "serve", "--listen", "127.0.0.1:0", "--idle-exit", "1s"),
            env=hook.environment,
            cwd=hook.home,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
        assert b"Ctrl+C ends it, or 1s without sessions and connections." in out

    @pytest.mark.parametrize("text", ["soon", "0s", "-1s", ""])
    def test_invalid_time_is_refused(self, text: str) -> None:
        """An invalid length of time is refused with what is expected."""
        with pytest.raises(ValueError, match="never"):
            idle_time(text)

    def test_time_or_never_is_accepted(self) -> None:
        """The idle time is a length of time, or `never`."""
        assert (idle_time("30m"), idle_time("Never")) == (1800.0, None)


@pytest.mark.slow
class TestStartedByHooks:
    async def test_ends_after_the_session(self) -> None:
        """A server that a hook started ends after its session; the next hook starts another."""
        async with started() as hook:
            settings = hook.config / "interlock.toml"
            settings.write_text(settings.read_text() + '[hook]\nidle_exit = "1s"\n')
            assert (await hook.run(recorded("pre_bash", tool_name="push"))).out == ""
            [first] = servers(hook)
            assert (await hook.run(recorded("session_end_clear"))).code == 0

            async def gone() -> bool:
                return not servers(hook)

            await until(gone)
            again = recorded("pre_bash", tool_name="push", tool_use_id="t2")
            assert "limit of 1" in (await hook.run(again)).out
            assert servers(hook) != [first]

    async def test_default_is_half_an_hour(self) -> None:
        """The default idle time is half an hour."""
        async with started() as hook:
            assert (await hook.run(recorded("pre_bash"))).code == 0
            [server] = servers(hook)
            line = command_line(server)
            assert line[line.index(b"--idle-exit") + 1] == b"30m"

    async def test_hook_replaces_an_ending_server(self) -> None:
        """A hook that meets an ending server starts another, which judges its call."""
        async with started() as hook:
            place = hook.home / "s" / "interlock" / "hook"
            place.mkdir(parents=True, mode=0o700)
            (hook.config / "agent.token").touch(mode=0o600)
            (hook.config / "agent.token").write_text("ilk_agent_of_nobody_else")
            came: list[asyncio.StreamWriter] = []

            def meet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                came.append(writer)
                ending.close()
                (place / "user.sock").unlink()
                (hook.config / "agent.token").unlink()
                writer.transport.abort()

            ending = await asyncio.start_unix_server(meet, place / "user.sock")
            ran = await hook.run(recorded("pre_bash", tool_name="deploy"))
            assert len(came) == 1
            assert ran.decision["permissionDecision"] == "deny"


class TestSettings:
    def test_only_user_settings_count(self, tmp_path: Path) -> None:
        """Only the user's settings may set the idle time; a project's may not."""
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")}
        for folder, time in (("config", "2h"), ("work", "1s")):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "interlock.toml").write_text(f'[hook]\nidle_exit = "{time}"\n')
        assert hook_settings(environ=environ).idle_exit == "2h"
        with pytest.raises(
            SettingsError, match=r"work/interlock.toml: \[hook\]: idle_exit: is allowed in"
        ):
            hook_settings(tmp_path / "work", environ=environ)
        (tmp_path / "config" / "interlock.toml").write_text('[hook]\nidle_exit = "never"\n')
        assert hook_settings(environ=environ).idle_exit == "never"

    @pytest.mark.parametrize("value", ['"soon"', "30", '"0s"', "true"])
    def test_invalid_time_names_the_file(self, tmp_path: Path, value: str) -> None:
        """An invalid length of time is an error that names the file."""
        (tmp_path / "interlock.toml").write_text(f"[hook]\nidle_exit = {value}\n")
        with pytest.raises(SettingsError, match=r"interlock\.toml: \[hook\]: idle_exit"):
            hook_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)})
