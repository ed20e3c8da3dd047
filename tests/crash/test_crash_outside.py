"""A busy host that another process kills."""

from __future__ import annotations

from pathlib import Path

from .host import Host
from .lives import all_well


def test_killed_from_outside(host: Host, empty: Path, tmp_path: Path) -> None:
    """SIGKILL at any moment loses nothing and runs nothing twice."""
    tally = all_well(host, tmp_path, empty, "outside")
    assert tally.is_proof(), tally
