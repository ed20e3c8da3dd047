"""A hub for an ACP agent, with its working directory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine.hub.hub import Hub

from .acp_world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A hub on a fresh journal."""
    (tmp_path / "work").mkdir()
    world = World(Hub.open(tmp_path / "hub.db"), tmp_path / "work")
    yield world
    await world.hub.close()
