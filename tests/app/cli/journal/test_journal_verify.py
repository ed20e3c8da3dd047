"""`interlock history verify`, through the command line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from interlock.engine.history.audit.hash_chain import content_hash
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded, SessionStatus
from tests.engine.history.support.keeping import tamper
from tests.engine.history.support.recording import opening, request
from tests.support.postgres import remove_journal
from tests.support.raw_database import raw_database

from .journal_shell import DUMP, ID, OTHER, Shell, narrow, number


class TestVerify:
    def test_intact_sessions_are_listed(self, shell: Shell) -> None:
        """Each intact session has a line with its length and last hash; the exit code is 0."""
        heads = [check.head.hex()[:16] for check in verify_journal(shell.database) if check.head]
        lines = shell.run("verify").splitlines()
        assert lines == [
            f"✓ {ID}  10 events, hash {heads[0]}",
            f"✓ {OTHER}  2 events, hash {heads[1]}",
            "2 sessions, 12 events: all intact.",
        ]
        narrow(shell.out)

    def test_fault_is_named_with_its_event(self, shell: Shell) -> None:
        """A fault is named with its event; the exit code is 1."""
        tamper(shell.database, f"DELETE FROM event WHERE session = '{ID}' AND seq IN (4, 5)")
        lines = shell.run("verify", code=1).splitlines()
        assert lines[0] == f"✗ {ID}  events 4 to 5 were removed"
        assert lines[2:] == [
            "✗ 2 events that the file has numbered were removed from it",
            f"    numbers {number(4)} to {number(5)}, after event 3 of {ID}",
            "2 sessions, 5 events: 1 broken.",
        ]
        narrow(shell.out)

    def test_quiet_prints_nothing_for_intact_journal(self, shell: Shell) -> None:
        """With `--quiet` an intact journal prints nothing, also with `--json`."""
        assert shell.run("verify", "--quiet") == ""
        assert shell.run("verify", "--quiet", "--json") == ""
        tamper(shell.database, f"DELETE FROM event WHERE session = '{ID}' AND seq IN (4, 5)")
        assert f"✗ {ID}  events 4 to 5 were removed" in shell.run("verify", "--quiet", code=1)
        assert "error" not in shell.err
        assert "Session not found: none" in shell.refused("verify", "--quiet", "none")

    @pytest.mark.slow
    def test_sessions_by_prefix_and_files_by_name(self, shell: Shell) -> None:
        """Sessions can be named by an id prefix, and exported files by their name."""
        shell.run("export", "release", "-o", "a.jsonl")
        tamper(shell.database, f"DELETE FROM event WHERE session = '{OTHER}'")
        lines = shell.run("verify", "rel", "a.jsonl").splitlines()
        assert "2 masked" in lines[1]
        assert lines[2:] == [
            "  Inputs and texts of masked events cannot be checked here; all else is.",
            "2 sessions, 20 events: all intact.",
        ]
        narrow(shell.out)
        assert "2 events at the end were removed" in shell.run("verify", "docs", code=1)
        assert "Session not found: none" in shell.refused("verify", "none")
        shell.refused("verify", "x" * 5000)
        shell.refused("verify", "a\x00b")

    @pytest.mark.slow
    def test_unsalted_digests_are_no_failure(self, shell: Shell) -> None:
        """Requests with an unsalted digest are counted in a remark, which is no failure."""
        older = request("r1", "c1", "deploy").model_copy(update={"digest": "0" * 64})
        salted = older.model_copy(update={"approval_id": "r2", "digest_salt": "5" * 32})
        with Journal.open(shell.database) as journal:
            journal.write("older", opening(), older, salted)
            journal.write("other", opening(), older)
        lines = shell.run("verify").splitlines()
        assert lines[4] == "  2 requests of an older version: the digest has no salt, so a short secret"
        assert lines[-1].endswith("all intact.")
        narrow(shell.out)
        found = json.loads(shell.run("verify", "--json"))
        assert {each["session"]: each["unsalted_digests"] for each in found["sessions"]} == {
            ID: 0,
            OTHER: 0,
            "older": 1,
            "other": 1,
        }
        assert shell.run("verify", "--quiet") == ""
        shell.run("export", "older", "--unmasked", "-o", "a.jsonl")
        assert "1 request of an older version" in shell.run("verify", "a.jsonl")

    def test_missing_file_is_not_searched_as_session(self, shell: Shell) -> None:
        """An argument that looks like a file is not searched among the sessions."""
        assert "'none.jsonl' is not here; name the file" in shell.refused("verify", "none.jsonl")
        assert "'.' is a directory; name the file" in shell.refused("verify", ".")

    @pytest.mark.slow
    @pytest.mark.sqlite("the name of its file")
    def test_journal_in_place_of_export_is_refused(self, shell: Shell) -> None:
        """If a journal is given in place of an export, the error says how to name a journal."""
        said = shell.refused("verify", "journal.db")
        assert "If it is a journal: interlock history --db journal.db verify" in said
        Path("a.jsonl").write_bytes("x".encode("utf-16"))
        assert "Write one with: interlock history export SESSION -o FILE" in shell.refused(
            "verify", "a.jsonl"
        )

    @pytest.mark.slow
    def test_missing_events_are_reported_with_place(self, shell: Shell) -> None:
        """Removed events are reported with their place, even if the session's line was adjusted."""
        with Journal.open(shell.database) as journal:
            journal.write("third", opening())
        tamper(
            shell.database,
            f"DELETE FROM event WHERE session = '{ID}' AND seq > 7",
            f"UPDATE session SET events = 7 WHERE id = '{ID}'",
            "DELETE FROM event WHERE session = 'third'",
            "DELETE FROM session WHERE id = 'third'",
        )
        assert shell.run("verify", code=1).splitlines()[2:] == [
            "✗ 4 events that the file has numbered were removed from it",
            f"    numbers {number(8)} to {number(10)}, after event 7 of {ID}",
            f"    number {number(13)}, after event 2 of {OTHER}",
            "✗ 1 session listed differently from what the events say:",
            f"    {ID}",
            "    The events are right. To rebuild the lists: interlock history rebuild",
            "2 sessions, 9 events: the file is not intact.",
        ]
        narrow(shell.out)
        found = json.loads(shell.run("verify", "--json", code=1))
        assert found["missing_events"] == 4
        assert found["gaps"] == [
            {"first": number(8), "last": number(10), "after_session": ID, "after_event": 7},
            {"first": number(13), "last": number(13), "after_session": OTHER, "after_event": 2},
        ]

    @pytest.mark.slow
    def test_missing_events_of_pruned_journal_are_counted(self, shell: Shell) -> None:
        """In a pruned journal only the number of missing events is reported: pruning leaves gaps."""
        shell.run("prune", "--older-than", "90d")
        tamper(shell.database, "DELETE FROM event WHERE seq = 2", "UPDATE session SET events = 1")
        lines = shell.run("verify", code=1).splitlines()
        assert lines[2] == "✗ 1 event that the file has numbered was removed from it"
        assert len(lines) == 4

    @pytest.mark.slow
    def test_export_is_verified_without_journal_or_key(self, shell: Shell) -> None:
        """An export can be verified without a journal and without a readable key."""
        shell.run("export", ID, "-o", "a.jsonl")
        shell.key.parent.mkdir(exist_ok=True)
        shell.key.write_text("no key")
        shell.run("--db", "none.db", "verify", "a.jsonl")
        assert not Path("none.db").exists()
        Path("a.jsonl").write_text(Path("a.jsonl").read_text().replace('"by":"maria"', '"by":"ben"', 1))
        assert "was changed" in shell.run("verify", "a.jsonl", code=1)

    def test_json_has_sessions_and_stubs(self, shell: Shell) -> None:
        """The JSON output has the sessions, the stubs, and whether all is intact."""
        shell.run("prune", "--older-than", "90d")
        tamper(shell.database, f"UPDATE event SET at = at + 1 WHERE session = '{OTHER}' AND seq = 2")
        found = json.loads(shell.run("verify", "--json", code=1))
        assert found["whole"] is False
        assert found["missing_events"] == 0
        (session,) = found["sessions"]
        assert session == {
            "session": OTHER,
            "events": 1,
            "imported": False,
            "masked": 0,
            "unsalted_digests": 0,
            "proven": True,
            "head": session["head"],
            "fault": {"event": 2, "kind": "changed", "message": "event 2 (message) was changed"},
            "passkey_proofs": 0,
            "unproved": [],
        }
        (stub,) = found["pruned"]
        assert (stub["session"], stub["events"], stub["by"], stub["good"], stub["own_key"]) == (
            ID,
            10,
            "maria",
            True,
            True,
        )

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE session SET events = 'many'",
            "UPDATE event SET hash = 'text' WHERE seq = 2",
            "UPDATE event SET hash = 5 WHERE seq = 2",
            "UPDATE event SET salt = 'text' WHERE seq = 2",
            "UPDATE event SET seq = 'two' WHERE seq = 2",
            "UPDATE event SET seq = 0 WHERE seq = 2",
            "UPDATE event SET seq = -2 WHERE seq = 2",
            "UPDATE event SET seq = 2.5 WHERE seq = 2",
            "UPDATE event SET body = x'ff' WHERE seq = 2",
            "UPDATE event SET type = 5 WHERE seq = 2",
            "UPDATE event SET body = CAST(x'7b22ff227d' AS TEXT) WHERE seq = 2",
            "UPDATE event SET type = CAST(x'ff' AS TEXT) WHERE seq = 2",
            f"UPDATE session SET id = x'00ff' WHERE id = '{ID}'",
            f"UPDATE event SET session = x'00ff' WHERE session = '{ID}' AND seq = 2",
            "UPDATE sqlite_sequence SET seq = 'none'",
            "DELETE FROM sqlite_sequence",
            "INSERT INTO event (session, seq, at, type, body, hash) "
            f"VALUES ('{ID}', 0, 0, 'message', '{{}}', x'')",
        ],
    )
    def test_wrong_value_in_any_column_is_a_finding(self, shell: Shell, change: str) -> None:
        """A wrong value in any column is a finding and does not end the verification."""
        tamper(shell.database, change)
        assert "✗" in shell.run("verify", code=1)
        narrow(shell.out)
        json.loads(shell.run("verify", "--json", code=1))

    def test_changed_content_declared_masked_is_a_finding(self, shell: Shell) -> None:
        """Changed content that is declared as masked is a finding."""
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, SessionStatus(status="failed", error="true"))
        connection = raw_database(shell.database)
        where = f"session = '{OTHER}' AND seq = 3"
        body, salt = connection.execute(f"SELECT body, salt FROM event WHERE {where}").fetchone()
        connection.execute(
            f"UPDATE event SET body = ?, content = ?, salt = NULL WHERE {where}",
            (body.replace("true", "false"), content_hash(body, salt)),
        )
        connection.commit()
        connection.close()
        assert "event 3 (session.status) has lost its salt" in shell.run("verify", code=1)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE decision SET verdict = 'block'",
            "UPDATE decision SET result = NULL",
            "DELETE FROM decision",
            f"UPDATE session SET agent = 'nobody' WHERE id = '{ID}'",
            f"UPDATE session SET waiting = 'x' WHERE id = '{ID}'",
        ],
    )
    def test_changed_lists_are_reported_and_rebuilt(self, shell: Shell, change: str) -> None:
        """Changed lists are reported, and `rebuild` repairs them from the events."""
        tamper(shell.database, change)
        assert shell.run("verify", code=1).splitlines()[2:] == [
            "✗ 1 session listed differently from what the events say:",
            f"    {ID}",
            "    The events are right. To rebuild the lists: interlock history rebuild",
            "2 sessions, 12 events: the lists are wrong.",
        ]
        narrow(shell.out)
        found = json.loads(shell.run("verify", "--json", code=1))
        assert (found["whole"], found["listed_otherwise"]) == (False, [ID])
        shell.run("rebuild")
        shell.run("verify")

    def test_decision_of_missing_session_is_reported(self, shell: Shell) -> None:
        """A listed decision of a session that does not exist is reported."""
        tamper(
            shell.database,
            "CREATE TEMP TABLE forged AS SELECT * FROM decision",
            "UPDATE forged SET session = 'ghost', cursor = 1",
            "INSERT INTO decision SELECT * FROM forged",
        )
        assert "\n    ghost\n" in shell.run("verify", code=1)

    @pytest.mark.slow
    @pytest.mark.sqlite("files of earlier releases")
    def test_prerelease_journal_is_refused(self, shell: Shell) -> None:
        """A journal from before the first release is refused with a remedy; a later one is accepted."""
        with closing(sqlite3.connect("old.db")) as connection:
            connection.executescript(DUMP.read_text())
        assert "all intact" in shell.run("--db", "old.db", "verify")
        with closing(sqlite3.connect("old.db")) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '0002'")
            connection.commit()
        for command in ("verify", "rebuild"):
            said = shell.refused("--db", "old.db", command)
            assert "has schema 0002, of a version before the first release" in said
            assert "use the version that wrote it" in said

    def test_no_journal(self, shell: Shell) -> None:
        """A missing journal is an error."""
        assert "There is no journal" in shell.refused("--db", "none.db", "verify")
        assert not Path("none.db").exists()


class TestAgainst:
    """A journal compared with earlier exports."""

    def test_later_events_and_pruned_session_are_no_fault(self, shell: Shell) -> None:
        """Later events are no fault; a pruned session is recognised by its stub."""
        shell.run("export", ID, "-o", "a.jsonl")
        shell.run("export", OTHER, "-o", "b.jsonl")
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, SessionStatus(status="running"))
        line = ["verify", "--against", "a.jsonl", "--against", "b.jsonl"]
        assert shell.run(*line).splitlines()[2:] == [
            "✓ a.jsonl  its 10 events are in the journal",
            "✓ b.jsonl  its 2 events are in the journal, 1 more since",
            "2 sessions, 13 events: all intact.",
        ]
        shell.run("prune", "--older-than", "90d")
        assert "- a.jsonl  its 10 events are among those of a stub" in shell.run(*line)
        narrow(shell.out)

    @pytest.mark.slow
    def test_events_cut_off_are_a_finding(self, shell: Shell) -> None:
        """If events are cut off and all counts adjusted, only an export reveals it."""
        shell.run("export", OTHER, "-o", "b.jsonl")
        tamper(
            shell.database,
            f"DELETE FROM event WHERE session = '{OTHER}' AND seq = 2",
            f"UPDATE session SET events = 1 WHERE id = '{OTHER}'",
            "UPDATE sqlite_sequence SET seq = 11 WHERE name = 'event'",
        )
        shell.run("verify")
        assert shell.run("verify", "--against", "b.jsonl", code=1).splitlines()[2:] == [
            "✗ b.jsonl  event 2 is no longer in the journal",
            "2 sessions, 11 events: not everything that was exported.",
        ]
        (found,) = json.loads(shell.run("verify", "--against", "b.jsonl", "--json", code=1))["compared"]
        assert found == {
            "file": "b.jsonl",
            "session": OTHER,
            "events": 2,
            "since": 0,
            "pruned": False,
            "fault": {
                "event": 2,
                "kind": "removed",
                "message": "event 2 is no longer in the journal",
            },
        }

    @pytest.mark.slow
    def test_rerecorded_session_is_different(self, shell: Shell) -> None:
        """A session that was recorded again with another chain is reported as different."""
        shell.run("export", OTHER, "-o", "b.jsonl")
        remove_journal(shell.database)
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, opening(), MessageAdded(role="user", text="nothing"))
        said = shell.run("verify", "--against", "b.jsonl", code=1)
        assert "✗ b.jsonl  event 1 is different in the journal" in said

    @pytest.mark.slow
    def test_missing_session_is_a_finding(self, shell: Shell) -> None:
        """A missing session, or a stub that does not match the export, is a finding."""
        shell.run("export", ID, "-o", "a.jsonl")
        shell.run("prune", "--older-than", "90d")
        for change, says in (
            ("UPDATE pruned SET events = 9", "its stub is of 9 events"),
            ("UPDATE pruned SET events = 'x'", "its stub is of x events"),
            ("UPDATE pruned SET events = 10, head = x'00'", "its stub has a different last hash"),
            ("DELETE FROM pruned", "neither the session nor its stub is in the journal"),
        ):
            tamper(shell.database, change)
            assert f"✗ a.jsonl  {says}" in shell.run("verify", "--against", "a.jsonl", code=1)

    @pytest.mark.slow
    def test_unusable_export_is_refused(self, shell: Shell) -> None:
        """A changed or missing export is refused for comparison."""
        shell.run("export", ID, "-o", "a.jsonl")
        Path("a.jsonl").write_text(Path("a.jsonl").read_text().replace("Ship it", "Ship that"))
        said = shell.refused("verify", "--against", "a.jsonl")
        assert "event 3 (message) was changed. Compare with an intact export." in said
        assert "Cannot read 'none.jsonl'" in shell.refused("verify", "--against", "none.jsonl")
