"""The console in a real pseudo-terminal, as an operator starts it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalDecided, CallDecided

from ...bench.terminal import Terminal


class TestDemo:
    def test_demo_blocks_approves_and_exits(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`interlock demo` shows the block, takes one key for the deploy, and exits cleanly."""
        database = tmp_path / "demo.db"
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        command = [sys.executable, "-m", "interlock.app.cli", "demo", "--db", str(database), "--as", "me"]
        with Terminal(command) as terminal:
            terminal.wait_for("blocked", seconds=30)
            terminal.wait_for("WHAT WILL RUN", seconds=60)
            time.sleep(1.0)
            terminal.send("a")
            terminal.wait_for("live: done", seconds=60)
            terminal.wait_for("idle", seconds=20)
            terminal.send("q")
            terminal.wait_for("interlock replay")
            assert terminal.wait_for_end() == 0
        reader = open_reader(database)
        [summary] = reader.sessions()
        assert summary.status == "done"
        bodies = [event.body for event in reader.events(summary.id)]
        assert [b.by for b in bodies if isinstance(b, ApprovalDecided)] == ["me"]
        assert sum(isinstance(b, CallDecided) for b in bodies) == 12
