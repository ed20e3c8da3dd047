"""The rules files that a recorded session was started with, where its record says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue


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
