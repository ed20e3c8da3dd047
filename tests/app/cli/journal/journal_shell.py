"""`interlock history` by its command line, in a directory of its own with a journal of two sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.engine.history.database.compiled import LANE_BITS
from tests.support.postgres import is_on

OLD = datetime.now(UTC) - timedelta(days=100)
ID = "release-bot-3fa9c1"
OTHER = "docs-writer-77b0e2"
DUMP = Path(__file__).parents[3] / "data" / "journal_0006.sql"
HOSTILE = "x\x1b[2J\u202e[bold]\u200b"
PARTS = ("verify", "export", "import", "prune", "rebuild")


class Shell:
    """A working directory with a journal, and what the command said last."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.database = home / "journal.db"
        self.key = home / "config" / "journal-key.pem"
        self._capsys = capsys
        self.out = self.err = ""

    def run(self, *line: str, code: int = 0) -> str:
        """Run `interlock history`; what it printed. The exit code is `code`."""
        self._capsys.readouterr()
        given = main(["history", *line])
        self.out, self.err = self._capsys.readouterr()
        assert given == code, (self.out, self.err)
        return self.out

    def refused(self, *line: str) -> str:
        """What it said on stderr when it refused, on one line that begins with its name."""
        assert self.run(*line, code=2) == ""
        assert self.err.startswith("interlock history")
        return self.err


def number(first: int) -> int:
    """The number that a journal gives to its first, second, … event: a database numbers lane by lane."""
    return first + (1 << LANE_BITS if is_on() else 0)


def narrow(text: str) -> None:
    """Every line fits into a terminal of 80 columns."""
    assert text
    assert max(map(len, text.splitlines())) <= 80, text
