"""`interlock replay` on real journals."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC
from pathlib import Path

import pytest

from interlock.app.cli.history.replay import run as replay
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import ApprovalDecided, MessageAdded
from tests.support.command import printed

from .recording import BODIES, SESSION, START


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    with Journal.open(path, clock=lambda: START) as journal:
        journal.write(SESSION, *BODIES)
        journal.write("release-bot-40aa00", *BODIES[:2])
    return path


def run(database: Path, session: str) -> tuple[int, str, str]:
    args = Namespace(db=database, session=session, plain=True, redact=None)
    return printed(lambda: replay(args, zone=UTC))


class TestPlain:
    """The printed replay."""

    def test_every_event_with_its_number_and_time(self, database: Path) -> None:
        """Each event is a line with number, time and headline, in order."""
        code, out, err = run(database, SESSION)
        heads = [line for line in out.splitlines() if not line.startswith("   ")]
        assert (code, err) == (0, "")
        assert [int(line.split()[0]) for line in heads] == list(range(1, len(BODIES) + 1))
        assert heads[0].startswith(" 1  14:00:00  session.opened  release-bot")
        assert "block: deploy requires a successful call to test first. [deploy.rules:4]" in heads[4]

    def test_changes_are_below_their_event(self, database: Path) -> None:
        """Below an event are its changes in words and the markings that it changed, no others."""
        lines = run(database, SESSION)[1].splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("22 "))
        end = next(i for i, line in enumerate(lines) if line.startswith("23 "))
        below = [line.strip() for line in lines[at + 1 : end]]
        assert any(line.startswith("require-test-before-deploy: do-deploy fired") for line in below)
        assert "require-test-before-deploy [ready:1]" in below
        assert "limit-deploy-2 [ready:1, budget:1]" in below
        assert not any(line.startswith("require-lint-before-test") for line in below)

    def test_inactive_net_is_marked_until_switched_on(self, database: Path) -> None:
        """A net that is off is marked beside its marking until it is switched on."""
        out = run(database, SESSION)[1]
        assert "block-deploy (off): ready:1" in out
        assert "block-deploy [ready:1]" in out

    def test_untrusted_text_is_made_visible(self, tmp_path: Path) -> None:
        """Escape sequences, markup and bidi marks in a message are printed as escapes."""
        path = tmp_path / "journal.db"
        with Journal.open(path) as journal:
            journal.write("s", BODIES[0], MessageAdded(role="user", text="\x1b]0;x\x07 \u202e [red]"))
        out = run(path, "s")[1]
        assert "\\x1b]0;x\\x07 \\u202e [red]" in out
        assert "\x1b" not in out


class TestWhichSession:
    """Choosing a session by name."""

    def test_a_prefix_is_enough(self, database: Path) -> None:
        """A prefix names a session if it is unique."""
        assert run(database, "release-bot-4")[1].count("\n") > 1

    def test_ambiguous(self, database: Path) -> None:
        """An ambiguous prefix is an error that lists the matching sessions, with exit code 2."""
        code, out, err = run(database, "release")
        assert (code, out) == (2, "")
        assert SESSION in err
        assert "release-bot-40aa00" in err

    def test_unknown(self, database: Path) -> None:
        """An unknown session is an error that lists the existing ones, with exit code 2."""
        code, out, err = run(database, "nobody")
        assert (code, out) == (2, "")
        assert "nobody" in err
        assert SESSION in err

    def test_no_journal(self, tmp_path: Path) -> None:
        """Without a journal the error names the file, and no file is created."""
        path = tmp_path / "none.db"
        code, _, err = run(path, "x")
        assert code == 2
        assert str(path) in err
        assert not path.exists()


class TestImpossible:
    """A record that contradicts itself."""

    def test_error_names_the_event_after_printing_earlier_ones(self, tmp_path: Path) -> None:
        """Events before an impossible one are printed, then the error names it; exit code 2."""
        path = tmp_path / "journal.db"
        orphan = ApprovalDecided(approval_id="a9", call_id="c9", approved=True, by="maria")
        with Journal.open(path) as journal:
            journal.write("odd", *BODIES[:2])
        with Journal.open(path) as journal:
            write_anyway(journal, orphan)
        code, out, err = run(path, "odd")
        assert code == 2
        assert "session.status  running" in out
        assert "event 3" in err
        assert "a9" in err


def write_anyway(journal: Journal, body: ApprovalDecided) -> None:
    """Write the event; the journal accepts it and the fold rejects it."""
    journal.write("odd", body)
