"""Marks that a life leaves outside the database: tools that ran, and messages that operators received.

Each is one line, appended with a single write when it happens, so a killed process leaves only complete
lines. A power loss does not affect them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Told: TypeAlias = Literal["opened", "asked", "decided", "toggled", "mode", "closed", "said"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A started tool: its call, process and input."""

    session: str
    call_id: str
    tool: str
    env: str
    pid: int


class Marks:
    """The two files in `folder`, for appending."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        self._ran = os.open(_ran(folder), flags, 0o600)
        self._told = os.open(_told(folder), flags, 0o600)

    def ran(self, session: str, call_id: str, tool: str, env: str) -> None:
        """Record that a tool starts."""
        self._line(self._ran, session, call_id, tool, env, str(os.getpid()))

    def told(self, what: Told, *about: str) -> None:
        """Record that an operator was shown something, or told that it took effect."""
        self._line(self._told, what, *about)

    def _line(self, handle: int, *words: str) -> None:
        os.write(handle, (" ".join(words) + "\n").encode())


def ran_in(folder: Path) -> list[Mark]:
    """Return the tools that ran, in order."""
    lines = (line.split(" ") for line in _lines(_ran(folder)))
    return [Mark(session, call, tool, env, int(pid)) for session, call, tool, env, pid in lines]


def told_in(folder: Path) -> list[tuple[str, ...]]:
    """Return the messages that operators received, in order."""
    return [tuple(line.split(" ")) for line in _lines(_told(folder))]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _ran(folder: Path) -> Path:
    return folder / "ran.log"


def _told(folder: Path) -> Path:
    return folder / "told.log"
