"""Points at which a server kills itself with SIGKILL.

A point is named by its place, and its event or method. `sent` and `committed` are before and after a
batch with an event of that type is written, so before anybody has the answer. `taken`, `acted` and
`answered` are the stages of an operator's act at another server: begun, done without an answer, answered.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.engine.core.shared_limit import Reservation
from interlock.engine.history.logs.key_log import KeyLog
from interlock.engine.history.postgres.acts import Act, Acts
from interlock.engine.history.postgres.counters import UseCounters
from interlock.engine.history.postgres.writer import PostgresWriter

VARIABLE = "CRASH_POINT"
"""Environment variable with the path of the file that names the point."""
EVENTS = (
    "call.decided",
    "call.result",
    "approval.requested",
    "approval.given",
    "approval.fused",
    "approval.decided",
    "approval.taken_back",
    "approval.withdrawn",
    "grant.given",
    "session.resumed",
)
POINTS = (
    *(f"{when} {what}" for what in EVENTS for when in ("sent", "committed")),
    "taken approval.decide",
    "taken session.hand_over",
    "acted",
    "answered",
    "reserved",
)
KEY_POINTS = (
    *(f"{when} approval.{what}" for what in ("given", "decided") for when in ("sent", "committed")),
    "counted",
    "taken passkey.challenge",
    "taken approval.decide",
    "acted",
    "answered",
)


def _reached(path: Path, *points: str) -> None:
    """Kill this process if one of the points is the named one."""
    with suppress(OSError):
        if path.read_text() in points:
            path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def install() -> None:
    """Let this process kill itself at the point that the file names."""
    name = os.environ.get(VARIABLE)
    if name is None:
        return
    path = Path(name)
    append, take, answer = PostgresWriter._append, Acts.take, Acts.answer
    reserve, note_uses = UseCounters.reserve, KeyLog.note_uses

    def appending(self: PostgresWriter, rows: Any, *rest: Any) -> None:
        types = {each.type for each in rows.events}
        _reached(path, *(f"sent {each}" for each in types))
        append(self, rows, *rest)
        _reached(path, *(f"committed {each}" for each in types))

    def taking(self: Acts) -> list[Act]:
        found = take(self)
        _reached(path, *(f"taken {each.method}" for each in found))
        return found

    def answering(self: Acts, act: str, result: str) -> None:
        _reached(path, "acted")
        answer(self, act, result)
        _reached(path, "answered")

    def reserving(self: UseCounters, wanted: Sequence[Reservation], versions: Any) -> bool:
        done = reserve(self, wanted, versions)
        if done:
            _reached(path, "reserved")
        return done

    def counting(self: KeyLog, *values: Any) -> Any:
        found = note_uses(self, *values)
        _reached(path, "counted")
        return found

    for place, method, replacement in (
        (PostgresWriter, "_append", appending),
        (Acts, "take", taking),
        (Acts, "answer", answering),
        (UseCounters, "reserve", reserving),
        (KeyLog, "note_uses", counting),
    ):
        setattr(place, method, replacement)
