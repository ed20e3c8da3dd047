"""A server that starts too slowly for a hook: the hook's message, and the next hook."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from interlock.app.cli.hooks import answers as hook_answers
from interlock.app.cli.hooks.command_line import HookLine
from interlock.app.cli.hooks.main import _fail, own_command
from interlock.app.cli.hooks.server import Connected, StartingError, connect
from interlock.engine.gateway.hooks.client import HookClient
from interlock.engine.gateway.protocol.tokens import alone
from tests.engine.gateway.served import Served, served

from .running import Hook, recorded
from .test_starting import servers, started


def connected(hook: Hook, seconds: float) -> Connected:
    """Find or start a server as a hook does, within `seconds`."""
    line = HookLine(config=hook.config)
    until, environ = time.monotonic() + seconds, line.environment(hook.environment)
    return connect(line, until, interlock=own_command(), may_start=True, idle_exit="30m", environ=environ)


@pytest.mark.slow
class TestStart:
    async def test_slow_start_is_reported_and_next_hook_waits(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """The hook reports that its server is still starting; the next hook waits for it and finds it."""
        async with started() as hook:
            # The server creates its tokens before it listens.
            with alone(hook.config / "operator.token"):
                for _ in range(2):
                    with pytest.raises(StartingError, match=r"still starting; .* \(.*user\.log") as late:
                        await asyncio.to_thread(connected, hook, 0.3)
                    assert len(servers(hook)) == 1
            found = await asyncio.to_thread(connected, hook, 60.0)
            found.client.close()
            assert found.start_seconds > 0
            assert len(servers(hook)) == 1
            assert _fail("claude-code", late.value) == 2
            said = capfd.readouterr().err
            assert "make the call again" in said
            # There is nothing to repair.
            assert "interlock serve" not in said

    async def test_silent_end_starts_another_server(self) -> None:
        """If the starting server ends silently, another is started."""
        async with started() as hook:
            with alone(hook.config / "operator.token"):
                with pytest.raises(StartingError):
                    await asyncio.to_thread(connected, hook, 0.1)
                [first] = servers(hook)
                waiting = asyncio.ensure_future(asyncio.to_thread(connected, hook, 60.0))
                process = await asyncio.create_subprocess_exec("kill", "-9", str(first))
                await process.wait()
            (await waiting).client.close()
            assert first not in servers(hook)


class TestTimeThatItTook:
    """A server that started just in time."""

    def answer(self, server: Served, home: Path, started_at: float) -> str:
        hook = Hook.at(home, server)
        return hook_answers.answer(
            "claude-code",
            json.dumps(recorded("pre_bash", tool_name="deploy")).encode(),
            line=HookLine(timeout=2.0, config=hook.config),
            started_at=started_at,
            interlock=(),
            environ=hook.environment,
        )

    @pytest.fixture
    def slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def found(*_: object, environ: dict[str, str], **__: object) -> Connected:
            url, token = environ["INTERLOCK_URL"], environ["INTERLOCK_TOKEN"]
            return Connected(HookClient(url, token, time.monotonic() + 10.0), None, start_seconds=1.2)

        monkeypatch.setattr(hook_answers, "connect", found)

    @pytest.mark.usefixtures("slow")
    async def test_undecided_denial_reports_remaining_time(self, tmp_path: Path) -> None:
        """A call that is denied without a decision reports how little time was left for it."""
        async with served(tmp_path, rules="require human-approval before deploy") as server:
            started_at = time.monotonic() - 0.8
            ran = await asyncio.to_thread(self.answer, server, tmp_path / "home", started_at)
            assert "its server took 1 s to start, and nobody decided in the 0 s left" in ran

    @pytest.mark.usefixtures("slow")
    async def test_timeout_names_the_slow_start(self, tmp_path: Path) -> None:
        """A hook that times out after a slow start names the start as the cause."""
        async with served(tmp_path) as server:
            started_at = time.monotonic() - 60.0
            with pytest.raises(StartingError, match="took 1 s to start, and then there was no time left"):
                await asyncio.to_thread(self.answer, server, tmp_path / "home", started_at)
