"""Commands on this machine, beyond what every runtime does alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.agents import LocalRuntime

from ..script import until
from ..test_abort import alive, pid_in


@pytest.fixture
def here(tmp_path: Path) -> LocalRuntime:
    return LocalRuntime(tmp_path)


class TestSignal:
    @pytest.mark.parametrize(("signal", "code"), [(9, 137), (15, 143), (10, 138)])
    async def test_each(self, here: LocalRuntime, signal: int, code: int) -> None:
        """A-100: each killing signal is 128 plus its number, and noted."""
        result = await here.exec(f"kill -{signal} $$")
        assert (result.exit_code, result.signal) == (code, signal)


class TestDirectory:
    async def test_anywhere(self, here: LocalRuntime) -> None:
        """A-101: a call's directory may be anywhere on this machine."""
        assert (await here.exec("pwd -P", cwd="/")).stdout == "/\n"


class TestFlood:
    async def test_both_streams(self, tmp_path: Path) -> None:
        """A-102: a command that has filled both streams is killed, with what it put in the background."""
        runtime = LocalRuntime(tmp_path, output_limit=1000)
        result = await runtime.exec("yes >&2 & yes")
        assert result.exit_code == 137
        assert (len(result.stdout), len(result.stderr), result.truncated) == (1000, 1000, True)

    async def test_one_stream(self, tmp_path: Path) -> None:
        """A-102: a command that writes without end is killed though only one stream is full."""
        runtime = LocalRuntime(tmp_path, output_limit=1000, flood_limit=1_000_000)
        result = await runtime.exec("yes")
        assert (result.exit_code, len(result.stdout)) == (137, 1000)


class TestBackground:
    async def test_killed(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A-104: a background process is gone when the call is over, whether it holds the pipe or not."""
        await here.exec("sleep 1000 & echo $! > one; sleep 1000 > /dev/null 2>&1 & echo $! > two")
        pids = [await pid_in(tmp_path / name) for name in ("one", "two")]
        await until(lambda: not any(alive(pid) for pid in pids))

    async def test_last_words(self, here: LocalRuntime) -> None:
        """What a background process says right after the shell ended is heard."""
        result = await here.exec("(sleep 0.1; echo late) &")
        assert result.stdout == "late\n"


class TestLightness:
    def test_imports(self) -> None:
        """Who uses this machine's runtime loads none of the packages that the others need."""
        probe = (
            "import sys; from interlock.engine import LocalRuntime, SandboxRuntime, FakeRuntime;"
            "from interlock.engine import JustBashRuntime, VercelSandboxRuntime;"
            "print({'just_bash', 'nest_asyncio', 'vercel', 'httpx2', 'httpx'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"
