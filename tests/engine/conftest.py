"""A hub, the tools of a shop, and a journal to copy."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal
from interlock.engine.hub.hub import Hub

from .support.shop import Shop


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub on a fresh journal."""
    hub = Hub.open(tmp_path / "hub.db")
    yield hub
    await hub.close()


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(scope="module")
def empty() -> Iterator[Path]:
    """A journal without sessions, to be copied."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Journal.open(path).close()
        yield path
