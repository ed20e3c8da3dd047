"""`interlock history` by its command line, in a directory with a journal of two sessions."""

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
    """A working directory with a journal, and the output of the last command."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.database = home / "journal.db"
        self.key = home / "config" / "journal-key.pem"
        self._capsys = capsys
        self.out = self.err = ""

    def run(self, *line: str, code: int = 0) -> str:
        """Run `interlock history`, expect the exit code `code`, and return the output."""
        self._capsys.readouterr()
        given = main(["history", *line])
        self.out, self.err = self._capsys.readouterr()
        assert given == code, (self.out, self.err)
        return self.out

    def refused(self, *line: str) -> str:
        """Expect the command to refuse, and return its message on stderr."""
        assert self.run(*line, code=2) == ""
        assert self.err.startswith("interlock history")
        return self.err


def number(first: int) -> int:
    """Return the number that a journal gives to its first, second, … event; databases number by lane."""
    return first + (1 << LANE_BITS if is_on() else 0)


def narrow(text: str) -> None:
    """Assert that every line fits into 80 columns."""
    assert text
    assert max(map(len, text.splitlines())) <= 80, text
