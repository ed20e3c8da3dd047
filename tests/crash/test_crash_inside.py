"""A busy host that dies in an operation on its database's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from .host import Host
from .lives import Way, all_well


@pytest.mark.slow
@pytest.mark.parametrize("way", ["before", "amid", "after"])
def test_killed_inside(host: Host, empty: Path, tmp_path: Path, way: Way) -> None:
    """Dying before, amid or after any write or sync loses nothing and runs nothing twice."""
    tally = all_well(host, tmp_path, empty, way)
    assert tally.is_proof(), tally
