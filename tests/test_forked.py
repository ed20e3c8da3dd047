"""Programs that are forks behave as ones that were started."""

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
    def test_has_what_its_start_had(self, tmp_path: Path) -> None:
        """Words, directory, environment and the three streams are the start's own."""
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
    def test_ends_as_its_program(self, code: str, expected: int) -> None:
        """The start has the exit code of the fork, or is ended by its signal."""
        assert run("-c", code).returncode == expected

    def test_says_what_is_left_at_its_end(self) -> None:
        """What was printed is written, and what was to be done at the end is done."""
        code = "import atexit; atexit.register(print, 'last', end=''); print('first')"
        assert run("-c", code).stdout == "first\nlast"

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_is_ended_with_its_start(self, number: signal.Signals) -> None:
        """However the start is ended, its fork ends too, and with it its output."""
        start = subprocess.Popen([*python_with("json"), "-c", STAYS], stdout=subprocess.PIPE, text=True)
        assert start.stdout is not None
        fork = int(start.stdout.readline())
        assert fork != start.pid
        start.send_signal(number)
        said, _ = start.communicate(timeout=30)  # to the end: nobody has its output any more
        assert (start.returncode, said) == (-number, "")
