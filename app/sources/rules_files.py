"""Rules files to choose from: those of sessions, of the working directory and of the library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import JsonValue

from ...engine.history.model.state import SessionState, SessionSummary
from ...rules.library import LIBRARY

# Rules files that a recorded session was started with, if its record has them.


def rules_of(source: Mapping[str, JsonValue] | None) -> tuple[str, ...]:
    """Return the files; those below the working directory as relative paths."""
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
"""Modification time, size and identity of a file, to detect changes; `None` if it does not exist."""


@dataclass(frozen=True, slots=True)
class OfferedFiles:
    """Files that are compiled together, their origin, and the sessions that were started with them."""

    files: tuple[str, ...]
    origin: Origin
    sessions: tuple[str, ...] = ()

    @property
    def names(self) -> str:
        """The files as shown in a list."""
        return ", ".join(name_of(file) for file in self.files)


def in_library(file: str) -> bool:
    """Return whether a file belongs to the library."""
    return Path(os.path.abspath(file)).parent == LIBRARY


def copy_here(file: str) -> str:
    """Copy a file of the library into the working directory; return the copy's path.

    Raises `FileExistsError` if a file of that name exists, and other kinds of `OSError`.
    """
    copy = Path.cwd() / Path(file).name
    text = Path(file).read_text("utf-8")
    with copy.open("x", encoding="utf-8") as out:
        out.write(text)
    return usual(str(copy))


def name_of(file: str) -> str:
    """Return a file's name as in the positions of rules; in the library, without the installed path."""
    return f"{LIBRARY_FOLDER}/{Path(file).name}" if in_library(file) else file


def files_of(session: SessionState | SessionSummary | None) -> tuple[str, ...]:
    """Return the files that a session was started with; for another program's, the files of its nets."""
    if session is None:
        return ()
    files = rules_of(session.source)
    if not files and isinstance(session, SessionState):
        named = (state.net.rule.file for state in session.nets.values() if state.net.rule is not None)
        files = tuple(file for file in map(_written, dict.fromkeys(named)) if os.path.isfile(file))
    return tuple(map(usual, files))


def _written(file: str) -> str:
    """Return the path of a file as named by a rule."""
    folder, _, name = file.rpartition("/")
    return str(LIBRARY / name) if folder == LIBRARY_FOLDER and not os.path.exists(file) else file


def usual(file: str) -> str:
    """Return a normalized path, so that the same file is offered only once."""
    whole = os.path.abspath(file)
    if Path(whole).parent == LIBRARY:
        return whole
    return os.path.relpath(whole) if whole.startswith(os.path.join(os.getcwd(), "")) else whole


def offered(
    sessions: Iterable[tuple[str, tuple[str, ...]]], named: Sequence[tuple[str, ...]] = ()
) -> list[OfferedFiles]:
    """Return the files to choose from: of `sessions`, `named` here, in this directory, in the library.

    Files of scenarios are left out: they are for `interlock test`.
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
    """Return the present stamp of each file, to detect later changes."""
    return tuple(map(_stamp, files))


def _stamp(file: str) -> Stamp:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
