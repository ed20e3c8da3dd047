"""A folder in which sandboxes can be made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.memory import on_disk


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """On a disk, as an agent's folder is."""
    with on_disk() as folder:
        yield folder
