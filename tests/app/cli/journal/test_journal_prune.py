"""`interlock history prune` and `rebuild`, through the command line."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from interlock.app.config.quantities import age
from interlock.engine.history.audit.signing import Signer, fingerprint, public_key
from interlock.engine.history.journal.journal import Journal
from tests.engine.history.support.keeping import BODIES, contents, recorded_at, tamper

from .journal_shell import ID, OLD, Shell, narrow, number


class TestPrune:
    def test_old_sessions_are_pruned_to_stubs(self, shell: Shell) -> None:
        """Old sessions are listed and pruned, and verification reports their stubs."""
        day = OLD.date().isoformat()
        said = shell.run("prune", "--older-than", "90d", "--dry-run")
        assert said.splitlines() == [
            f"  {ID}  10 events, last on {day}",
            "Would prune 1 session, 10 events.",
        ]
        assert not shell.key.exists()
        said = shell.run("prune", "--older-than", "90d")
        assert said.splitlines()[-1] == "Pruned 1 session, 10 events."
        narrow(shell.out)
        lines = shell.run("verify").splitlines()
        today = datetime.now(UTC).date()
        assert lines[1] in {
            f"- {ID}  10 events, pruned {today - timedelta(days=n)} by maria, signed here" for n in (0, 1)
        }
        narrow(shell.out)
        assert shell.run("prune", "--older-than", "90d") == "Pruned 0 sessions, 0 events.\n"

    @pytest.mark.sqlite("positions are in files")
    def test_unsent_sessions_are_kept(self, shell: Shell) -> None:
        """Sessions that a stream has not sent are kept, with remedies; `--even-unsent` prunes them."""
        [journal] = Path.cwd().glob("*.db")
        journal.with_name(f"{journal.name}.stream-file-1234").write_text("{}")
        said = shell.run("prune", "--older-than", "90d").splitlines()
        assert said[:2] == [
            f"  {ID}  stays: not sent yet by file-1234",
            "Pruned 0 sessions, 0 events.",
        ]
        assert f"remove its file {journal.name}.stream-NAME." in " ".join(said)
        narrow(shell.out)
        said = shell.run("prune", "--older-than", "90d", "--even-unsent")
        assert said.splitlines()[-1] == "Pruned 1 session, 10 events."

    def test_stub_of_unknown_key_is_reported(self, shell: Shell) -> None:
        """A stub signed by an unknown key is reported with its fingerprint; `--key` names a known key."""
        shell.run("prune", "--older-than", "1w", "--key", "other.pem", "--as", "ben")
        known = public_key(Path("other.pem"))
        assert known is not None
        lines = shell.run("verify", code=1).splitlines()
        assert lines[1].startswith(f"? {ID}  10 events, pruned ")
        assert lines[1].endswith(" by ben")
        assert lines[2] == f"    signed by a key this machine does not know: {fingerprint(known)}"
        assert lines[4].endswith("interlock history verify --trust FILE")
        assert lines[5] == "1 session, 2 events: all intact, 1 stub with unknown keys."
        narrow(shell.out)
        assert "signed here" in shell.run("verify", "--key", "other.pem")

    def test_trust_option_accepts_a_key(self, shell: Shell) -> None:
        """`--trust` accepts a public key or the file of the whole key; other keys stay unknown."""
        shell.run("prune", "--older-than", "1w", "--key", "other.pem", "--as", "ben")
        whole = load_pem_private_key(Path("other.pem").read_bytes(), password=None)
        Path("other.pub").write_bytes(
            whole.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        known = public_key(Path("other.pem"))
        assert known is not None
        for file in ("other.pub", "other.pem"):
            lines = shell.run("verify", "--trust", file).splitlines()
            assert lines[1].startswith(f"- {ID}  10 events, pruned ")
            assert lines[2] == f"    signed by the trusted key {fingerprint(known)}"
            assert lines[-1] == "1 session, 2 events: all intact."
        narrow(shell.out)
        Signer.open(Path("third.pem"))
        assert "does not know" in shell.run("verify", "--trust", "third.pem", code=1)
        shell.run("verify", "--trust", "third.pem", "--trust", "other.pub")
        Path("config").mkdir(exist_ok=True)
        Path("config/interlock.toml").write_text('[history]\ntrust = ["third.pem", "other.pub"]\n')
        shell.run("verify")

    def test_changed_stub_of_trusted_key_stays_a_finding(self, shell: Shell) -> None:
        """A changed stub stays a finding, even if its key is trusted."""
        shell.run("prune", "--older-than", "90d", "--key", "other.pem")
        tamper(shell.database, "UPDATE pruned SET events = events + 1")
        assert "was changed" in shell.run("verify", "--trust", "other.pem", code=1)

    def test_stub_signed_by_foreign_key_is_reported(self, shell: Shell) -> None:
        """A stub that is signed by another key than this machine's is reported."""
        shell.run("prune", "--older-than", "90d", "--dry-run")
        shell.run("prune", "--older-than", "90d", "--key", "forged.pem", "--as", "maria")
        Signer.open(shell.key)
        assert "by a key this machine does not know" in shell.run("verify", code=1)

    def test_json_reports_key_of_each_stub(self, shell: Shell) -> None:
        """The JSON output says for each stub whether its key is known, and counts unknown keys."""
        shell.run("prune", "--older-than", "90d", "--key", "other.pem")
        found = json.loads(shell.run("verify", "--json", code=1))
        assert (found["whole"], found["unknown_keys"]) == (True, 1)
        assert (found["pruned"][0]["own_key"], found["pruned"][0]["known_key"]) == (False, False)
        found = json.loads(shell.run("verify", "--json", "--trust", "other.pem"))
        assert found["unknown_keys"] == 0
        assert (found["pruned"][0]["own_key"], found["pruned"][0]["known_key"]) == (False, True)

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            (None, "Cannot read the key to trust, 'k.pem'"),
            ("no key", "has no Ed25519 key in PEM"),
            ("-----BEGIN PRIVATE KEY-----", "has no Ed25519 key in PEM"),
        ],
    )
    def test_file_without_key_is_reported(self, shell: Shell, text: str | None, says: str) -> None:
        """A file without a key is reported with a remedy, and never counts as trusted."""
        if text is not None:
            Path("k.pem").write_text(text)
        shell.run("prune", "--older-than", "90d")
        assert says in shell.refused("verify", "--trust", "k.pem")

    @pytest.mark.parametrize("column", ["session", "head", "at", "key", "events", "signature", "by"])
    @pytest.mark.parametrize("value", ["'text'", "x'00'", "9223372036854775807"])
    def test_changed_stub_is_a_finding(self, shell: Shell, column: str, value: str) -> None:
        """A changed stub is a finding, whatever the change."""
        shell.run("prune", "--older-than", "90d")
        tamper(shell.database, f'UPDATE pruned SET "{column}" = {value}')
        assert "the stub that pruning left was changed" in shell.run("verify", code=1)
        assert json.loads(shell.run("verify", "--json", code=1))["pruned"][0]["good"] is False

    @pytest.mark.slow
    def test_export_and_verify_of_pruned_session_name_the_pruning(self, shell: Shell) -> None:
        """Export and verification of a pruned session say when and by whom it was pruned."""
        shell.run("prune", "--older-than", "90d")
        today = datetime.now(UTC).date()
        for line in (["export", ID], ["verify", ID[:9]]):
            said = shell.refused(*line)
            assert any(
                f"was pruned on {today - timedelta(days=n)} by maria; only its stub is left" in said
                for n in (0, 1)
            )
        assert "Session not found: other" in shell.refused("verify", "other")
        tamper(shell.database, "UPDATE pruned SET at = 'soon'")
        assert "Session not found" in shell.refused("export", ID)

    def test_events_of_removed_stub_count_as_missing(self, shell: Shell) -> None:
        """After its stub is removed, a pruned session's events count as missing."""
        shell.run("prune", "--older-than", "90d")
        tamper(shell.database, "DELETE FROM pruned")
        assert shell.run("verify", code=1).splitlines()[1:] == [
            "✗ 10 events that the file has numbered were removed from it",
            f"    numbers {number(1)} to {number(10)}, at its beginning",
            "1 session, 2 events: the file is not intact.",
        ]

    def test_open_request_is_reported(self, shell: Shell) -> None:
        """Pruning a session with an open request says so, in a dry run too."""
        recorded_at(shell.database, OLD, "waiting-1", *BODIES[:6])
        for line in (["--dry-run"], []):
            said = shell.run("prune", "--older-than", "90d", *line)
            day = OLD.date().isoformat()
            assert f"  waiting-1  6 events, last on {day}, 1 question still open\n" in said
            assert f"  {ID}  10 events, last on {day}\n" in said
            narrow(said)

    def test_session_with_broken_chain_is_kept(self, shell: Shell) -> None:
        """A session with a broken chain is kept and named; the exit code is 1."""
        tamper(shell.database, f"DELETE FROM event WHERE session = '{ID}' AND seq = 4")
        lines = shell.run("prune", "--older-than", "90d", code=1).splitlines()
        assert lines == [
            f"✗ {ID}  kept as evidence:",
            "    event 4 was removed",
            "Pruned 0 sessions, 0 events.",
        ]

    @pytest.mark.sqlite("what its file still holds")
    def test_concurrent_reader_delays_overwriting(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If another program reads the journal, the output says that data is overwritten later."""
        monkeypatch.setattr("interlock.engine.history.journal.writer.BUSY_SECONDS", 0.05)
        with closing(sqlite3.connect(shell.database, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM event").fetchall()
            said = shell.run("prune", "--older-than", "90d").splitlines()
        assert said[2].startswith(
            "  Another program reads the journal: what was removed is overwritten when"
        )
        narrow(shell.out)

    @pytest.mark.sqlite("a copy of its file")
    def test_upgrade_backup_is_named(self, shell: Shell) -> None:
        """A backup from before an upgrade is named, because it still has the pruned sessions."""
        Path("journal.db.0003.bak").write_bytes(b"")
        assert "journal.db.0003.bak" in shell.run("prune", "--older-than", "90d")

    @pytest.mark.parametrize(
        "given", ["", "90", "d", "-1d", "1.5d", "90x", "1y", "three days", "3m", "30s"]
    )
    def test_invalid_age_removes_nothing(self, shell: Shell, given: str) -> None:
        """An invalid or ambiguous age removes nothing."""
        before = contents(shell.database)
        said = shell.refused("prune", f"--older-than={given}")
        assert "90d" in said
        assert contents(shell.database) == before

    def test_age_beyond_the_calendar_prunes_nothing(self, shell: Shell) -> None:
        """An age beyond the calendar prunes nothing."""
        assert "Pruned 0" in shell.run("prune", "--older-than", "999999w")

    def test_nothing_is_removed_without_an_age(self, shell: Shell) -> None:
        """Without an age nothing is removed."""
        assert "say how old: --older-than 90d" in shell.refused("prune")

    @pytest.mark.sqlite("servers go on with a database")
    def test_open_journal_is_refused(self, shell: Shell) -> None:
        """If a process has the journal open, pruning is refused and names it; a dry run works."""
        with Journal.open(shell.database):
            assert f"is in use by process {os.getpid()}" in shell.refused("prune", "--older-than", "90d")
            shell.run("prune", "--older-than", "90d", "--dry-run")

    def test_age_units(self) -> None:
        """Ages are parsed with their units."""
        assert [age(t) for t in ("90d", " 12W ", "36 h", "15m", "30s", "0d")] == [
            timedelta(days=90),
            timedelta(weeks=12),
            timedelta(hours=36),
            timedelta(minutes=15),
            timedelta(seconds=30),
            timedelta(0),
        ]


class TestRebuild:
    def test_wrong_lists_are_corrected(self, shell: Shell) -> None:
        """Rebuilding names and corrects wrong lists; a second run finds none."""
        tamper(shell.database, f"UPDATE session SET calls = 99 WHERE id = '{ID}'", "DELETE FROM decision")
        assert shell.run("rebuild").splitlines() == [
            f"  {ID}  had a line that did not match its events",
            "  the list of decisions did not match the events",
            "Rebuilt the lines of 2 sessions: 1 corrected.",
        ]
        narrow(shell.out)
        assert shell.run("rebuild") == "Rebuilt the lines of 2 sessions: all were correct.\n"
