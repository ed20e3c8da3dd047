"""The directories and files of this machine that a sandbox lets in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mount:
    """A path that is seen inside under its own name."""

    path: Path
    is_writable: bool


def arrange(read_only: Iterable[Path], writable: Iterable[Path]) -> list[Mount]:
    """The places in the order in which to mount them: outer ones first, so that the inner ones count.

    What is part of an outer place anyhow is left out. Raises `ValueError` for the root, and for a place
    that a command could exchange for a link to somewhere else before it is mounted the next time.
    """
    wanted = [Mount(path, is_writable=False) for path in read_only]
    wanted += [Mount(path, is_writable=True) for path in writable]
    arranged: list[Mount] = []
    for place in sorted(wanted, key=lambda place: (len(place.path.parts), not place.is_writable)):
        if place.path.resolve() == Path("/"):
            raise ValueError(f"A sandbox around the whole file system keeps nothing out: {place.path}")
        around = _innermost(place.path, arranged)
        if around is not None and around.is_writable:
            if _is_part(place, around):
                continue
            _check_fixed(place.path, around.path)
        arranged.append(place)
    return arranged


def _innermost(path: Path, places: Iterable[Mount]) -> Mount | None:
    """The place that `path` lies in, by its name or by what its links lead to."""
    real = path.resolve()
    around = [
        place
        for place in places
        if path.is_relative_to(place.path) or real.is_relative_to(place.path.resolve())
    ]
    return max(around, key=lambda place: len(place.path.resolve().parts), default=None)


def _is_part(place: Mount, around: Mount) -> bool:
    """Tell whether `place` comes with the writable place `around`."""
    if place.path == around.path:
        return True
    inside = place.path.resolve().is_relative_to(around.path.resolve())
    return place.is_writable and inside and place.path.is_relative_to(around.path)


def _check_fixed(path: Path, around: Path) -> None:
    """Raise unless `path` cannot be moved away while it is mounted in the writable place `around`."""
    if path.parent != around or path.is_symlink() or not path.exists():
        raise ValueError(
            f"A read-only path in a writable one must lie directly in it, exist and be no link, "
            f"or a command could exchange it: {path}"
        )
