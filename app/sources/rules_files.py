"""Rules files to choose from: those of sessions, of the working directory, and of the library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import JsonValue

from ...engine.history.model.state import SessionState, SessionSummary
from ...rules.library import LIBRARY

# The rules files that a recorded session was started with, where its record says so.


def rules_of(source: Mapping[str, JsonValue] | None) -> tuple[str, ...]:
    """The files, those below the working directory by their short names."""
    files = source.get("rules") if source is not None else None
    if not isinstance(files, list):
        return ()
    return tuple(_short(name) for name in files if isinstance(name, str))


def _short(name: str) -> str:
    try:
        return str(Path(name).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return name


Origin = Literal["session", "here", "library", "named"]
SCENARIOS = "_test.rules"
LIBRARY_FOLDER = "library"

Stamp: TypeAlias = "tuple[int, int, int] | None"
"""What changes with a file: when it was written, its size, which file it is; `None` without one."""


@dataclass(frozen=True, slots=True)
class OfferedFiles:
    """Files that are compiled together, why they are offered, and the sessions that began with them."""

    files: tuple[str, ...]
    origin: Origin
    sessions: tuple[str, ...] = ()

    @property
    def names(self) -> str:
        """The files as a list shows them."""
        return ", ".join(name_of(file) for file in self.files)


def in_library(file: str) -> bool:
    """Tell whether a file is one of the library's."""
    return Path(os.path.abspath(file)).parent == LIBRARY


def copy_here(file: str) -> str:
    """Copy a file of the library into the working directory; the copy's path.

    Raises `FileExistsError` where one of its name is there already, and other kinds of `OSError`.
    """
    copy = Path.cwd() / Path(file).name
    text = Path(file).read_text("utf-8")
    with copy.open("x", encoding="utf-8") as out:
        out.write(text)
    return usual(str(copy))


def name_of(file: str) -> str:
    """A file's name as in the locations of rules; the library's without its installation path."""
    return f"{LIBRARY_FOLDER}/{Path(file).name}" if in_library(file) else file


def files_of(session: SessionState | SessionSummary | None) -> tuple[str, ...]:
    """The files that a session was started with; of one that a program hosts, those its nets name."""
    if session is None:
        return ()
    files = rules_of(session.source)
    if not files and isinstance(session, SessionState):
        named = (state.net.rule.file for state in session.nets.values() if state.net.rule is not None)
        files = tuple(file for file in map(_written, dict.fromkeys(named)) if os.path.isfile(file))
    return tuple(map(usual, files))


def _written(file: str) -> str:
    """The path of a file that a rule names."""
    folder, _, name = file.rpartition("/")
    return str(LIBRARY / name) if folder == LIBRARY_FOLDER and not os.path.exists(file) else file


def usual(file: str) -> str:
    """A path in the form in which the same file is offered once."""
    whole = os.path.abspath(file)
    if Path(whole).parent == LIBRARY:
        return whole
    return os.path.relpath(whole) if whole.startswith(os.path.join(os.getcwd(), "")) else whole


def offered(
    sessions: Iterable[tuple[str, tuple[str, ...]]], named: Sequence[tuple[str, ...]] = ()
) -> list[OfferedFiles]:
    """Files to choose from: those of `sessions`, those `named` here, this folder's, the library's.

    Files of scenarios are left out: `interlock test` is for them.
    """
    started: dict[tuple[str, ...], list[str]] = {}
    for session, files in sessions:
        if files:
            started.setdefault(files, []).append(session)
    found = {files: OfferedFiles(files, "session", tuple(ids)) for files, ids in started.items()}
    for files in named:
        found.setdefault(files, OfferedFiles(files, "named"))
    here: list[str] = sorted(usual(str(path)) for path in Path.cwd().glob("*.rules"))
    ready: list[str] = sorted(str(path) for path in LIBRARY.glob("*.rules"))
    folders: tuple[tuple[Origin, list[str]], ...] = (("here", here), ("library", ready))
    for origin, paths in folders:
        for path in paths:
            if not path.endswith(SCENARIOS):
                found.setdefault((path,), OfferedFiles((path,), origin))
    return list(found.values())


def stamps(files: Iterable[str]) -> tuple[Stamp, ...]:
    """Stamp of each file as it is now, to tell later whether it has changed."""
    return tuple(map(_stamp, files))


def _stamp(file: str) -> Stamp:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
