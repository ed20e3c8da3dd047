"""A shell for the tests of the journal's commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded
from tests.engine.history.support.keeping import recorded_at
from tests.engine.history.support.recording import opening
from tests.support.copies import copied

from .journal_shell import ID, OLD, OTHER, Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A shell with two sessions in `journal.db`, one of them old, and an empty configuration."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("INTERLOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("INTERLOCK_DB", "journal.db")
    monkeypatch.setenv("INTERLOCK_OPERATOR", "maria")
    copied(write_old, tmp_path / "journal.db")
    with Journal.open(tmp_path / "journal.db") as journal:
        journal.write(OTHER, opening(), MessageAdded(role="user", text="hello"))
    return Shell(tmp_path, capsys)


def write_old(path: Path) -> None:
    recorded_at(path, OLD, ID)
