"""How long a person waits: for help, and for the console's first paint."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from .terminal import Terminal

REPEATS = 15
INTERLOCK = str(Path(sys.executable).with_name("interlock"))


def measure() -> Iterator[tuple[str, float, str]]:
    """`interlock --help` beside a bare interpreter, in turns; then a cold process's first paint."""
    help_times, bare_times = [], []
    for _ in range(REPEATS):
        bare_times.append(_seconds([sys.executable, "-c", "pass"]))
        help_times.append(_seconds([INTERLOCK, "--help"]))
    yield "python -c pass", median(bare_times) * 1000, "ms"
    yield "interlock --help", median(help_times) * 1000, "ms"
    yield "interlock --help / python -c pass", median(help_times) / median(bare_times), "ratio (goal ≤ 6)"
    paints = sorted(_first_paint() for _ in range(5))
    yield "console, first paint, median", median(paints) * 1000, "ms (goal ≤ 1200)"
    yield "console, first paint, worst of 5", paints[-1] * 1000, "ms"


def _seconds(command: list[str]) -> float:
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def _first_paint() -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [INTERLOCK, "console", "--db", f"{folder}/bench.db"]
        with Terminal(command) as terminal:
            return terminal.wait_for("Sessions") - terminal.started
