"""Start of the bare interpreter: the speed of a machine, for comparison with measurements on it."""

from __future__ import annotations

import subprocess
import sys
import time


def bare_start() -> float:
    """Return the seconds of `python -c pass`, from its start to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - start
