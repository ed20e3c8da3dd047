"""`interlock flow list`: recorded runs of flows, with the state of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

from ....engine.core.sanitize import visible, visible_words
from ....engine.history.database.location import Location
from ....engine.history.journal.reader import HistoryReader, open_reader
from ....engine.history.journal.schema import inspect
from ....engine.history.model.events import JournalEvent, SessionOpened
from ....engine.history.model.records import FlowStepped
from ....engine.history.model.state import SessionSummary
from ...terminal.symbols import STOPPED, session_look

NAMES = "status", "run", "flow", "started", "step", "stands at"
EMPTY = "No runs of flows are recorded yet. Start one with: interlock demo --flow"


def list_runs(database: Location, *, limit: int, out: TextIO) -> int:
    """Print the latest `limit` runs, the most recent first; returns 0. Raises `JournalError`."""
    rows: list[Sequence[str]] = []
    if inspect(database)[0] != "fresh":
        reader = open_reader(database)
        for session in reader.sessions(limit=100_000):
            if session.kind == "flow" and len(rows) < limit:
                hosted = not session.imported and reader.is_hosted(session.id)
                rows.append(_row(reader, session, hosted=hosted))
    if not rows:
        print(EMPTY, file=out)
        return 0
    widths = [max(map(len, column)) for column in zip(NAMES, *rows, strict=True)]
    for row in (NAMES, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip(), file=out)
    return 0


def _row(reader: HistoryReader, session: SessionSummary, *, hosted: bool) -> Sequence[str]:
    """Return the cells of a run.

    A run that no process can host now is listed as stopped, whatever its recorded status.
    """
    step, waiting_for = _last(reader.events(session.id))
    look = session_look(session)
    if not hosted and session.status not in ("done", "failed"):
        look = STOPPED
    word = look.word
    if session.imported:
        word = f"imported, {word}"
    elif look is STOPPED:
        word += ", can be resumed"
    nodes = "" if step is None else ", ".join(step.live)
    if step is not None and step.done:
        nodes = f"its end, {nodes}"
    elif waiting_for:
        nodes += ", waits for a person"
    return (
        f"{look.symbol} {word}",
        visible_words(session.id),
        visible_words(session.agent),
        f"{session.opened.astimezone():%m-%d %H:%M}",
        "" if step is None else str(step.step),
        visible(nodes),
    )


def _last(events: Iterable[JournalEvent]) -> tuple[FlowStepped | None, bool]:
    """Return the last step taken, and whether the next one needs an operator."""
    last: FlowStepped | None = None
    for event in events:
        match event.body:
            case FlowStepped() as body:
                last = body
            case SessionOpened():
                last = None
            case _:
                pass
    return last, last is not None and last.waits is not None
