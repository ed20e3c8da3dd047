"""Opening a long session, and jumping anywhere in it: from the key to the paint, on a real pty.

The session has 100,001 events, 60,000 transcript entries and a mark at every tenth call.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from interlock.app.console.history_app import HistoryConsole
from interlock.app.sources.recorded_file import RecordedFile
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, EventBody

from ..engine.history.support.recording import opening
from .journal import CALLS, _call
from .terminal import Terminal

OPENINGS = 3
JUMPS = 14
STEPS = 10
END = "\x1b[F"
EVENTS = 1 + 5 * CALLS


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure openings in new processes, and jumps back and forth over the whole session.

    The first key of each process jumps to the other end as soon as something is painted.
    """
    openings: list[float] = []
    at_once: list[float] = []
    jumps: list[float] = []
    steps: list[float] = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "long.db"
        record(path)
        for _ in range(OPENINGS):
            with Terminal([sys.executable, "-m", "tests.bench.replay", str(path)]) as terminal:
                terminal.wait_for("events, ")
                openings.append(_painted(terminal, "\r", f"event 1 of {EVENTS}"))
                at_once.append(_painted(terminal, END, f"event {EVENTS} of"))
                _jump(terminal, 2)
                jumps += [_jump(terminal, 3 + n * 7919 * 13 % (EVENTS - 3)) for n in range(JUMPS)]
                _jump(terminal, 50_000)
                for number in range(50_001, 50_001 + STEPS):
                    steps.append(_painted(terminal, "]", f"event {number} of"))
    yield f"{EVENTS:,} events, enter → replay painted", median(openings), "s (goal ≤ 1)"
    yield "at once to the other end, slowest", max(at_once) * 1000, "ms (goal ≤ 100)"
    yield "jump confirmed → painted, median", median(jumps) * 1000, "ms"
    yield "jump confirmed → painted, slowest", max(jumps) * 1000, "ms (goal ≤ 100)"
    yield "step → painted, median", median(steps) * 1000, "ms"


def record(path: Path) -> None:
    """Write a journal with the session."""
    with Journal.open(path) as journal:
        journal.write("long", opening())
        for start in range(0, CALLS, 1000):
            journal.write("long", *(body for n in range(start, start + 1000) for body in _bodies(n)))


def _bodies(number: int) -> Iterator[EventBody]:
    for body in _call(number):
        asked = isinstance(body, CallDecided) and number % 10 == 0
        yield body.model_copy(update={"approved_by": ("maria",)}) if asked else body


def _jump(terminal: Terminal, number: int) -> float:
    terminal.send("g")
    terminal.wait_for("event number or time")
    terminal.send(str(number))
    return _painted(terminal, "\r", f"event {number} of")


def _painted(terminal: Terminal, keys: str, text: str) -> float:
    """Return seconds from a key to its paint."""
    sent = time.monotonic()
    terminal.send(keys)
    return terminal.wait_for(text) - sent


if __name__ == "__main__":
    HistoryConsole(RecordedFile(Path(sys.argv[1]))).run()
