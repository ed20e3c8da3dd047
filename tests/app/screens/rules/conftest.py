"""The rules files that the rules screen lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from .folder import write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory with these files."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    return tmp_path
