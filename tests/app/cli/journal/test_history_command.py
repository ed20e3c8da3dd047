"""`interlock history` on real journals."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.app.cli.history.history import list_sessions
from interlock.engine.history.journal.journal import Journal
from tests.support.command import printed

from ...screens.replay.recording import BODIES, SESSION

AT = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)


def run(database: Path, limit: int = 50) -> tuple[int, str, str]:
    return printed(lambda: list_sessions(Namespace(db=database, limit=limit, label=None), zone=UTC))


class TestListSessions:
    """The printed list."""

    def test_a_line_per_session_within_80_columns(self, tmp_path: Path) -> None:
        """Each session is an aligned line under a heading, the last changed first, in 80 columns."""
        path = tmp_path / "journal.db"
        with Journal.open(path, clock=lambda: AT) as journal:
            journal.write("first-000001", *BODIES[:3])
            journal.write(SESSION, *BODIES)
        code, out, err = run(path)
        lines = out.splitlines()
        assert (code, err) == (0, "")
        assert lines[0].split() == [
            "status",
            "session",
            "mode",
            "started",
            "calls",
            "blocked",
            "waiting",
        ]
        assert [line.split()[2] for line in lines[1:]] == [SESSION, "first-000001"]
        assert {line.index("11-20 14:00") for line in lines[1:]} == {lines[0].index("started")}
        assert max(map(len, lines)) <= 80

    def test_branch_and_subagent_name_their_parent(self, tmp_path: Path) -> None:
        """A branch and a subagent's session name their parent, within 80 columns."""
        path = tmp_path / "journal.db"
        with Journal.open(path, clock=lambda: AT) as journal:
            journal.write(SESSION, *BODIES)
            for name, kind in (("release-bot-abcdef", "branch"), ("reviewer-123456", "child")):
                opened = BODIES[0].model_copy(update={"kind": kind, "parent": SESSION})
                journal.write(name, opened)
        lines = run(path)[1].splitlines()
        assert "child of …-3fa9c1" in lines[1]
        assert "branch of …-3fa9c1" in lines[2]
        assert " of " not in lines[3]
        assert max(map(len, lines)) <= 80

    def test_an_id_is_never_cut(self, tmp_path: Path) -> None:
        """A long id is printed in full."""
        path = tmp_path / "journal.db"
        long = "agent-" * 20 + "1"
        with Journal.open(path, clock=lambda: AT) as journal:
            journal.write(long, *BODIES[:2])
        assert long in run(path)[1]

    def test_limit(self, tmp_path: Path) -> None:
        """`--limit` limits the number of printed sessions."""
        path = tmp_path / "journal.db"
        with Journal.open(path, clock=lambda: AT) as journal:
            for name in "abc":
                journal.write(name, *BODIES[:2])
        assert len(run(path, limit=2)[1].splitlines()) == 3

    def test_escape_sequences_in_ids_are_visible(self, tmp_path: Path) -> None:
        """Escape sequences in a session id are shown as text."""
        path = tmp_path / "journal.db"
        with Journal.open(path, clock=lambda: AT) as journal:
            journal.write("x\x1b[2J", *BODIES[:2])
        assert "\x1b" not in run(path)[1]

    def test_no_journal_yet(self, tmp_path: Path) -> None:
        """Without a journal the output says so and how to get one, and no file is created."""
        path = tmp_path / "none.db"
        code, out, err = run(path)
        assert (code, err) == (0, "")
        assert f"No sessions are recorded yet in {path}" in out
        assert "interlock demo" in out
        assert not path.exists()

    def test_an_empty_journal(self, tmp_path: Path) -> None:
        """A journal without sessions is reported in the same way."""
        path = tmp_path / "journal.db"
        Journal.open(path).close()
        assert "No sessions are recorded yet" in run(path)[1]

    @pytest.mark.sqlite("another kind of file")
    def test_not_a_journal(self, tmp_path: Path) -> None:
        """A file that is not a journal is named in an error with exit code 2, and stays unchanged."""
        path = tmp_path / "notes.txt"
        path.write_text("milk, bread\n" * 400)
        code, out, err = run(path)
        assert (code, out) == (2, "")
        assert str(path) in err
        assert path.read_text() == "milk, bread\n" * 400
