"""A busy host whose machine loses power."""

from __future__ import annotations

from pathlib import Path

import pytest

from .host import Host
from .lives import all_well


@pytest.mark.slow
def test_power_loss(host: Host, empty: Path, tmp_path: Path) -> None:
    """Losing part of the unsynced data loses nothing that anybody relied on."""
    tally = all_well(host, tmp_path, empty, "power loss")
    assert tally.is_proof(), tally
