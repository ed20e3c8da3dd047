"""The recorded session that replay screens open."""

from __future__ import annotations

from pathlib import Path

import pytest

from .journal import write


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The session's journal, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return write(tmp_path)
