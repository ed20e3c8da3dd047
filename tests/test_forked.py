"""Forked programs behave like started ones."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from .support.forked import python_with

SHOWS = """
import os, sys
print(sys.argv[1:], os.getcwd(), dict(os.environ)["A"], sys.stdin.read())
print("complaint", file=sys.stderr)
"""
STAYS = "import os, signal; print(os.getpid(), flush=True); signal.pause()"


def run(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    line = [*python_with("json"), *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, **more)


class TestFork:
    def test_has_the_environment_of_its_start(self, tmp_path: Path) -> None:
        """A fork gets the arguments, directory, environment and streams of its start."""
        environ: Mapping[str, str] = {"A": "b"}
        ran = run("-c", SHOWS, "x", "y z", cwd=tmp_path, env=environ, input="typed")
        assert ran.stdout == f"['x', 'y z'] {tmp_path} b typed\n"
        assert ran.stderr == "complaint\n"
        assert ran.returncode == 0

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("raise SystemExit(3)", 3),
            ("raise SystemExit('no')", 1),
            ("1 / 0", 1),
            ("import os; os._exit(4)", 4),
            ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
            ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM),
        ],
    )
    def test_ends_with_its_programs_exit_code(self, code: str, expected: int) -> None:
        """The starting process ends with the fork's exit code or signal."""
        assert run("-c", code).returncode == expected

    def test_output_is_flushed_at_its_end(self) -> None:
        """A fork's output is flushed and its exit handlers run."""
        code = "import atexit; atexit.register(print, 'last', end=''); print('first')"
        assert run("-c", code).stdout == "first\nlast"

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_ends_with_its_starting_process(self, number: signal.Signals) -> None:
        """A fork ends with its starting process, whatever the signal."""
        start = subprocess.Popen([*python_with("json"), "-c", STAYS], stdout=subprocess.PIPE, text=True)
        assert start.stdout is not None
        fork = int(start.stdout.readline())
        assert fork != start.pid
        start.send_signal(number)
        said, _ = start.communicate(timeout=30)  # to the end: no process holds its output
        assert (start.returncode, said) == (-number, "")
