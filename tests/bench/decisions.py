"""The list of decisions with a million entries: its queries to the journal, and keys in the terminal."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from statistics import median, quantiles

from interlock.app.console.history_app import HistoryConsole
from interlock.app.sources.recorded_file import RecordedFile
from interlock.engine.history.decisions.counts import count_decisions, shadow_summary
from interlock.engine.history.decisions.filter import EVERYTHING, parse_filter
from interlock.engine.history.decisions.reader import DecisionPage, DecisionReader

from ..support.decisions import NOW, many
from .interpreter import bare_start
from .terminal import Terminal

ROWS = 1_000_000
TURNS = 5
KEYS = 60
PAGES = 200
FILTERS = (
    "tool:deploy",
    "verdict:denied",
    "rule:block-rm",
    "session:agent-3-0003",
    "since:24h",
    "shop-77",
    "nowhere-to-be-found",
)


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure medians of a few turns; the terminal is a real one, the console a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        path = many(Path(folder) / "million.db", ROWS, sessions=2000)
        yield from _questions(path)
        yield from _terminal(path)


def _questions(path: Path) -> Iterator[tuple[str, float, str]]:
    reader = DecisionReader(path)
    first = reader.scan(EVERYTHING, seconds=0).parts
    yield "decisions: first page", _ms(lambda: _first(reader, "")), "ms (goal ≤ 50)"
    yield "decisions: next page", _ms(lambda: reader.read(EVERYTHING, first[1])), "ms (goal ≤ 50)"
    everything = _all(reader, "")
    oldest = everything[-1]
    yield "decisions: oldest page", _ms(lambda: reader.read(EVERYTHING, oldest)), "ms (goal ≤ 50)"
    yield f"decisions: all {ROWS:,} placed", _ms(lambda: _all(reader, ""), turns=1), "ms"
    for text in FILTERS:
        yield f"decisions: first page, {text}", _ms(lambda text=text: _first(reader, text)), "ms"
        whole = _ms(lambda text=text: _all(reader, text), turns=2)
        yield f"decisions: all of {text}", whole, "ms"
    yield "decisions: counts by rule over time", _ms(lambda: count_decisions(path, by="rule"), 2), "ms"
    yield "decisions: counts by tool over time", _ms(lambda: count_decisions(path, by="tool"), 2), "ms"
    yield "decisions: shadow summary", _ms(lambda: shadow_summary(path), 2), "ms"


def _ms(question: Callable[[], object], turns: int = TURNS) -> float:
    times: list[float] = []
    for _ in range(turns):
        begin = time.perf_counter()
        question()
        times.append(time.perf_counter() - begin)
    return median(times) * 1000


def _first(reader: DecisionReader, text: str) -> object:
    """Query like the screen: scan step by step until a part is found, then read that part."""
    wanted = parse_filter(text, now=NOW, zone=UTC)
    scan = reader.scan(wanted, seconds=0)
    while not scan.parts and scan.next is not None:
        scan = reader.scan(wanted, top=scan.next)
    return reader.read(wanted, scan.parts[0]) if scan.parts else None


def _all(reader: DecisionReader, text: str) -> list[DecisionPage]:
    wanted = parse_filter(text, now=NOW, zone=UTC)
    scan = reader.scan(wanted)
    parts = [*scan.parts]
    while scan.next is not None:
        scan = reader.scan(wanted, top=scan.next)
        parts += scan.parts
    return parts


def _terminal(path: Path) -> Iterator[tuple[str, float, str]]:
    """Measure keys: a key is painted when the title shows the cursor's new row."""
    with Terminal([sys.executable, "-m", "tests.bench.decisions", str(path)]) as terminal:
        terminal.wait_for("history")
        time.sleep(1.0)
        begin = time.monotonic()
        terminal.send("v")
        yield "decisions: key → list painted", (terminal.wait_for("--step 1000000") - begin) * 1000, "ms"
        terminal.wait_for("S Shadow", seconds=30)
        time.sleep(3.0)
        terminal.send("\x1b[6~")
        page = 0
        while page < 1:
            terminal.wait_for(" · row ")
            time.sleep(0.5)
            page = _row(terminal) - 1
        for name, key, turns, start, step in (
            ("row", "j", KEYS, page + 1, 1),
            ("page", "\x1b[6~", PAGES, page + KEYS + 1, page),
        ):
            delays: list[float] = []
            starts: list[float] = []
            for number in range(1, turns + 1):
                starts.append(bare_start())
                time.sleep(0.02)
                begin = time.monotonic()
                terminal.send(key)
                painted = terminal.wait_for(f" · row {start + number * step:,}")
                delays.append((painted - begin) * 1000)
            cuts = quantiles(delays, n=20, method="inclusive")
            yield f"decisions: {name} key → painted, p50", cuts[9], "ms"
            yield f"decisions: {name} key → painted, p95", cuts[18], "ms (goal ≤ 50)"
            ratio = cuts[9] / (median(starts) * 1000)
            unit = "ratio of medians (goal ≤ 0.6)"
            yield f"decisions: {name} key → painted, p50 / python -c pass", ratio, unit
        begin = time.monotonic()
        terminal.send("\x1b[F")
        yield "decisions: end key → oldest painted", (terminal.wait_for("--step 1 ") - begin) * 1000, "ms"


def _row(terminal: Terminal) -> int:
    """Return the number of the cursor's row in the title; 0 if it has none."""
    found = [re.search(r" · row ([\d,]+)", line) for line in terminal.lines()]
    return next((int(each[1].replace(",", "")) for each in found if each), 0)


def _child(path: Path) -> None:
    asyncio.run(HistoryConsole(RecordedFile(path), zone=UTC, clock=lambda: NOW).run_async())


if __name__ == "__main__":
    _child(Path(sys.argv[1]))
