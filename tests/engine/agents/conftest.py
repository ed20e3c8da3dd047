"""A temporary folder in which sandboxes can be made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.memory import on_disk


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Yield a folder on a disk, like an agent's folder."""
    with on_disk() as folder:
        yield folder
