"""A start of the bare interpreter: how fast a machine is, beside what is measured on it."""

from __future__ import annotations

import subprocess
import sys
import time


def bare_start() -> float:
    """Seconds of `python -c pass`, from its start to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - start
