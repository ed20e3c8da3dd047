"""`interlock history verify|export|import|prune|rebuild`, by the command line itself."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from interlock.app.ages import age
from interlock.app.cli import main, parser
from interlock.app.settings import SettingsError, apply_settings
from interlock.engine.history.chain import content_hash
from interlock.engine.history.events import MessageAdded, SessionStatus
from interlock.engine.history.journal import Journal
from interlock.engine.history.prune import prune
from interlock.engine.history.queries import open_reader
from interlock.engine.history.signing import Signer, fingerprint, public_key
from interlock.engine.history.times import to_ms
from interlock.engine.history.verify import verify_journal
from tests.engine.history import keeping
from tests.engine.history.keeping import BODIES, SECRET, contents, recorded_at, tamper
from tests.engine.history.recording import opening

OLD = datetime.now(UTC) - timedelta(days=100)
ID = "release-bot-3fa9c1"
OTHER = "docs-writer-77b0e2"
DUMP = Path(keeping.__file__).with_name("data") / "journal_0001.sql"
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


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Two sessions in `journal.db`, one of them old, away from any configuration of this machine."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("INTERLOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("INTERLOCK_DB", "journal.db")
    monkeypatch.setenv("INTERLOCK_OPERATOR", "maria")
    recorded_at(tmp_path / "journal.db", OLD, ID)
    with Journal.open(tmp_path / "journal.db") as journal:
        journal.write(OTHER, opening(), MessageAdded(role="user", text="hello"))
    return Shell(tmp_path, capsys)


def narrow(text: str) -> None:
    """Every line fits into a terminal of 80 columns."""
    assert text
    assert max(map(len, text.splitlines())) <= 80, text


class TestVerify:
    def test_whole(self, shell: Shell) -> None:
        """Each session has a line with its length and last hash; the exit code is 0."""
        heads = [check.head.hex()[:16] for check in verify_journal(shell.database) if check.head]
        lines = shell.run("verify").splitlines()
        assert lines == [
            f"✓ {ID}  10 events, hash {heads[0]}",
            f"✓ {OTHER}  2 events, hash {heads[1]}",
            "2 sessions, 12 events: all whole.",
        ]
        narrow(shell.out)

    def test_broken(self, shell: Shell) -> None:
        """A fault is named with its event; the exit code is 1."""
        tamper(shell.database, f"DELETE FROM event WHERE session = '{ID}' AND seq IN (4, 5)")
        lines = shell.run("verify", code=1).splitlines()
        assert lines[0] == f"✗ {ID}  events 4 to 5 were removed"
        assert lines[2:] == [
            "✗ 2 events that the file has numbered were removed from it",
            f"    numbers 4 to 5, after event 3 of {ID}",
            "2 sessions, 5 events: 1 broken.",
        ]
        narrow(shell.out)

    def test_some(self, shell: Shell) -> None:
        """Sessions by the first letters of their ids, and exported files, can be named."""
        shell.run("export", "release", "-o", "a.jsonl")
        tamper(shell.database, f"DELETE FROM event WHERE session = '{OTHER}'")
        lines = shell.run("verify", "rel", "a.jsonl").splitlines()
        assert "2 masked" in lines[1]
        assert lines[2:] == [
            "  Of masked events the inputs and texts cannot be checked here, all else is.",
            "2 sessions, 20 events: all whole.",
        ]
        narrow(shell.out)
        assert "2 events at the end were removed" in shell.run("verify", "docs", code=1)
        assert "Session not found: none" in shell.refused("verify", "none")
        shell.refused("verify", "x" * 5000)
        shell.refused("verify", "a\x00b")

    def test_no_such_file(self, shell: Shell) -> None:
        """What looks like an exported file is not looked for among the sessions."""
        assert "'none.jsonl' is not here; name the file" in shell.refused("verify", "none.jsonl")
        assert "'.' is a directory; name the file" in shell.refused("verify", ".")

    def test_a_journal_as_a_file(self, shell: Shell) -> None:
        """Who names a journal in place of an export is told how a journal is named."""
        said = shell.refused("verify", "journal.db")
        assert "If it is a journal: interlock history --db journal.db verify" in said
        Path("a.jsonl").write_bytes("x".encode("utf-16"))
        assert "Write one with: interlock history export SESSION -o FILE" in shell.refused(
            "verify", "a.jsonl"
        )

    def test_where_events_are_missing(self, shell: Shell) -> None:
        """Cut off with the count of its line, or taken out whole: the file knows where they stood."""
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
            f"    numbers 8 to 10, after event 7 of {ID}",
            f"    number 13, after event 2 of {OTHER}",
            "✗ 1 session listed otherwise than the events say:",
            f"    {ID}",
            "    The events count. To make the lists anew: interlock history rebuild",
            "2 sessions, 9 events: the file is not whole.",
        ]
        narrow(shell.out)
        found = json.loads(shell.run("verify", "--json", code=1))
        assert found["missing_events"] == 4
        assert found["gaps"] == [
            {"first": 8, "last": 10, "after_session": ID, "after_event": 7},
            {"first": 13, "last": 13, "after_session": OTHER, "after_event": 2},
        ]

    def test_where_events_of_a_pruned_file_are_missing(self, shell: Shell) -> None:
        """What pruning took away leaves the same holes, so only the number is told."""
        shell.run("prune", "--older-than", "90d")
        tamper(shell.database, "DELETE FROM event WHERE seq = 2", "UPDATE session SET events = 1")
        lines = shell.run("verify", code=1).splitlines()
        assert lines[2] == "✗ 1 event that the file has numbered was removed from it"
        assert len(lines) == 4

    def test_a_file_alone(self, shell: Shell) -> None:
        """An export can be checked where there is no journal and no key that could be read."""
        shell.run("export", ID, "-o", "a.jsonl")
        shell.key.parent.mkdir(exist_ok=True)
        shell.key.write_text("no key")
        shell.run("--db", "none.db", "verify", "a.jsonl")
        assert not Path("none.db").exists()
        Path("a.jsonl").write_text(Path("a.jsonl").read_text().replace('"by":"maria"', '"by":"ben"', 1))
        assert "was changed" in shell.run("verify", "a.jsonl", code=1)

    def test_json(self, shell: Shell) -> None:
        """For programs there is an object with the sessions, what was pruned, and if all is whole."""
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
            "head": session["head"],
            "fault": {"event": 2, "kind": "changed", "message": "event 2 (message) was changed"},
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
    def test_columns_of_any_type(self, shell: Shell, change: str) -> None:
        """Whatever is written into a column is a finding, not the end of the verification."""
        tamper(shell.database, change)
        assert "✗" in shell.run("verify", code=1)
        narrow(shell.out)
        json.loads(shell.run("verify", "--json", code=1))

    def test_content_under_another_hash(self, shell: Shell) -> None:
        """Content cannot be changed by saying that it is masked: here nothing is."""
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, SessionStatus(status="failed", error="true"))
        connection = sqlite3.connect(shell.database)
        where = f"session = '{OTHER}' AND seq = 3"
        body, salt = connection.execute(f"SELECT body, salt FROM event WHERE {where}").fetchone()
        connection.execute(
            f"UPDATE event SET body = ?, content = ?, salt = NULL WHERE {where}",
            (body.replace("true", "false"), content_hash(body, salt)),
        )
        connection.commit()
        connection.close()
        assert "event 3 (session.status) has lost its salt" in shell.run("verify", code=1)

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
    def test_lists_that_lie(self, shell: Shell, change: str) -> None:
        """What screens list follows from the events; where it was changed that is told, and mended."""
        tamper(shell.database, change)
        assert shell.run("verify", code=1).splitlines()[2:] == [
            "✗ 1 session listed otherwise than the events say:",
            f"    {ID}",
            "    The events count. To make the lists anew: interlock history rebuild",
            "2 sessions, 12 events: the lists are not right.",
        ]
        narrow(shell.out)
        found = json.loads(shell.run("verify", "--json", code=1))
        assert (found["whole"], found["listed_otherwise"]) == (False, [ID])
        shell.run("rebuild")
        shell.run("verify")

    def test_a_decision_of_nobody(self, shell: Shell) -> None:
        """A decision of no session that there is was put there."""
        tamper(
            shell.database,
            "CREATE TEMP TABLE forged AS SELECT * FROM decision",
            "UPDATE forged SET session = 'ghost', cursor = 1",
            "INSERT INTO decision SELECT * FROM forged",
        )
        assert "\n    ghost\n" in shell.run("verify", code=1)

    def test_an_older_journal(self, shell: Shell) -> None:
        """One without hashes says how it gets them, and that is enough."""
        with closing(sqlite3.connect("old.db")) as connection:
            connection.executescript(DUMP.read_text())
        said = shell.refused("--db", "old.db", "verify")
        assert "without hashes. To add them: interlock history rebuild; a copy" in said
        shell.run("--db", "old.db", "rebuild")
        assert "all whole" in shell.run("--db", "old.db", "verify")
        assert Path("old.db.0001.bak").exists()

    def test_no_journal(self, shell: Shell) -> None:
        """Without a journal there is nothing that could be whole."""
        assert "There is no journal" in shell.refused("--db", "none.db", "verify")
        assert not Path("none.db").exists()


class TestAgainst:
    """A journal held against what was exported before."""

    def test_all_there(self, shell: Shell) -> None:
        """What came since is no fault; a session that went is told of by its stub."""
        shell.run("export", ID, "-o", "a.jsonl")
        shell.run("export", OTHER, "-o", "b.jsonl")
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, SessionStatus(status="running"))
        line = ["verify", "--against", "a.jsonl", "--against", "b.jsonl"]
        assert shell.run(*line).splitlines()[2:] == [
            "✓ a.jsonl  its 10 events are in the journal",
            "✓ b.jsonl  its 2 events are in the journal, 1 more since",
            "2 sessions, 13 events: all whole.",
        ]
        shell.run("prune", "--older-than", "90d")
        assert "- a.jsonl  its 10 events are among those of a stub" in shell.run(*line)
        narrow(shell.out)

    def test_cut_off(self, shell: Shell) -> None:
        """What was cut off a session's end with every count made anew shows by its export alone."""
        shell.run("export", OTHER, "-o", "b.jsonl")
        tamper(
            shell.database,
            f"DELETE FROM event WHERE session = '{OTHER}' AND seq = 2",
            f"UPDATE session SET events = 1 WHERE id = '{OTHER}'",
            "UPDATE sqlite_sequence SET seq = 11 WHERE name = 'event'",
        )
        shell.run("verify")
        assert shell.run("verify", "--against", "b.jsonl", code=1).splitlines()[2:] == [
            "✗ b.jsonl  event 2 is not in the journal any more",
            "2 sessions, 11 events: not all that was exported.",
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
                "message": "event 2 is not in the journal any more",
            },
        }

    def test_made_anew(self, shell: Shell) -> None:
        """A session that was recorded again, with a chain of its own, is another."""
        shell.run("export", OTHER, "-o", "b.jsonl")
        shell.database.unlink()
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, opening(), MessageAdded(role="user", text="nothing"))
        said = shell.run("verify", "--against", "b.jsonl", code=1)
        assert "✗ b.jsonl  event 1 is another in the journal" in said

    def test_gone(self, shell: Shell) -> None:
        """One that is not there at all, or of which the stub says less, is a finding."""
        shell.run("export", ID, "-o", "a.jsonl")
        shell.run("prune", "--older-than", "90d")
        for change, says in (
            ("UPDATE pruned SET events = 9", "its stub is of 9 events"),
            ("UPDATE pruned SET events = 'x'", "its stub is of x events"),
            ("UPDATE pruned SET events = 10, head = x'00'", "its stub has another last hash"),
            ("DELETE FROM pruned", "the session is not in the journal, and no stub of it"),
        ):
            tamper(shell.database, change)
            assert f"✗ a.jsonl  {says}" in shell.run("verify", "--against", "a.jsonl", code=1)

    def test_no_measure(self, shell: Shell) -> None:
        """An export that was changed measures nothing, and one that is not there is none."""
        shell.run("export", ID, "-o", "a.jsonl")
        Path("a.jsonl").write_text(Path("a.jsonl").read_text().replace("Ship it", "Ship that"))
        said = shell.refused("verify", "--against", "a.jsonl")
        assert "event 3 (message) was changed. Compare with an export that is whole." in said
        assert "Cannot read 'none.jsonl'" in shell.refused("verify", "--against", "none.jsonl")


class TestExport:
    def test_to_a_file(self, shell: Shell) -> None:
        """It goes into a file that only its owner reads; nothing is printed but where it is."""
        Path("a.jsonl").write_text("what was there")
        Path("a.jsonl").chmod(0o644)
        assert shell.run("export", ID, "--out", "a.jsonl") == ""
        assert shell.err == f"Exported {ID} to a.jsonl\n"
        assert stat.S_IMODE(Path("a.jsonl").stat().st_mode) == 0o600
        assert Path("a.jsonl").read_text() == shell.run("export", ID)
        assert not list(Path().glob("*.part"))

    def test_formats(self, shell: Shell) -> None:
        """The record, a table, and the conversation."""
        assert json.loads(shell.run("export", ID).splitlines()[0])["events"] == 10
        assert len(list(csv.reader(io.StringIO(shell.run("export", ID, "--format", "csv"))))) == 11
        messages = json.loads(shell.run("export", ID, "--format", "messages"))
        assert messages[0] == {"role": "user", "content": "Ship it."}

    @pytest.mark.parametrize("form", ["jsonl", "csv", "messages"])
    def test_masked(self, shell: Shell, form: str) -> None:
        """Secrets are masked unless somebody asks; more fields can be named."""
        line = ["export", ID, "--format", form]
        assert SECRET not in shell.run(*line)
        assert SECRET in shell.run(*line, "--unmasked")
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, MessageAdded(role="user", text="pin=0000-1111"))
        line[1] = OTHER
        assert "0000-1111" in shell.run(*line)
        assert "0000-1111" not in shell.run(*line, "--redact", "x, PIN")
        assert "0000-1111" not in shell.run("--redact", "pin", *line)

    def test_what_was_there_stays(self, shell: Shell) -> None:
        """A file is replaced by a whole export or not at all."""
        Path("a.jsonl").write_text("what was there")
        tamper(shell.database, "UPDATE event SET body = '{}' WHERE seq = 2")
        for form in ("jsonl", "csv", "messages"):
            said = shell.refused("export", ID, "--format", form, "-o", "a.jsonl")
            assert "cannot be read" in said
        assert Path("a.jsonl").read_text() == "what was there"
        assert not list(Path().glob("*.part"))

    def test_not_over_the_journal(self, shell: Shell) -> None:
        """The journal itself is not a place to export to, by whatever name."""
        before = contents(shell.database)
        Path("link").symlink_to("journal.db")
        for name in ("journal.db", "link", "./journal.db"):
            assert "is the journal itself" in shell.refused("export", ID, "-o", name)
        assert contents(shell.database) == before

    def test_nowhere(self, shell: Shell) -> None:
        """A place that cannot be written is named."""
        assert "Cannot write 'none/a.jsonl': No such file" in shell.refused(
            "export", ID, "-o", "none/a.jsonl"
        )
        Path("folder").mkdir()
        for name in (".", "folder", "/"):
            assert "is a directory; name a file in it" in shell.refused("export", ID, "-o", name)

    def test_to_a_device(self, shell: Shell) -> None:
        """A device stays one."""
        shell.run("export", ID, "-o", "/dev/null")
        assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)

    def test_a_pipe_that_closes(self, shell: Shell) -> None:
        """Who reads only the beginning gets it, without a word about the rest."""
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, *(MessageAdded(role="user", text="word " * 2_000) for _ in range(50)))
        for command in (["export", OTHER], ["export", OTHER, "-o", "/dev/stdout"]):
            done = subprocess.run(
                f'"{sys.executable}" -m interlock.app.cli history {" ".join(command)} | head -c 100',
                shell=True,
                capture_output=True,
                check=True,
            )
            assert len(done.stdout) == 100
            assert b"Error" not in done.stderr
            assert b"Traceback" not in done.stderr

    def test_utf8_whatever_the_locale(self, shell: Shell) -> None:
        """A file of another machine is the same file."""
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, MessageAdded(role="user", text="\U0001f680 ä"))
        done = subprocess.run(
            [sys.executable, "-m", "interlock.app.cli", "history", "export", OTHER],
            env={**os.environ, "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            check=True,
        )
        assert "\U0001f680 ä".encode() in done.stdout


class TestImport:
    def test_round_trip(self, shell: Shell) -> None:
        """What was exported can be taken into another journal and listed there."""
        shell.run("export", ID, "-o", "a.jsonl")
        said = shell.run("--db", "other.db", "import", "a.jsonl")
        assert said == f"Imported {ID}: 10 events, 2 masked, its chain whole.\n"
        assert shell.run("--db", "other.db", "export", ID) == Path("a.jsonl").read_text()
        assert ", imported, 2 masked, hash " in shell.run("--db", "other.db", "verify")
        narrow(shell.out)
        assert ID in shell.run("--db", "other.db")

    def test_refused(self, shell: Shell) -> None:
        """What is no export, was changed, or is there already is told with its remedy."""
        shell.run("export", ID, "-o", "a.jsonl")
        assert "import it into another" in shell.refused("import", "a.jsonl")
        Path("b.jsonl").write_text(Path("a.jsonl").read_text().replace("Ship it", "Ship that"))
        assert "event 3 (message) was changed" in shell.refused("--db", "b.db", "import", "b.jsonl")
        Path("c.jsonl").write_text(Path("a.jsonl").read_text()[:-9])
        assert "c.jsonl:11: " in shell.refused("--db", "b.db", "import", "c.jsonl")
        assert "expected the heading" in shell.refused("--db", "b.db", "import", "/dev/null")
        assert not Path("b.db").exists()


class TestPrune:
    def test_old_ones(self, shell: Shell) -> None:
        """Old sessions go, are listed, and verification tells of their stubs."""
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

    def test_by_somebody_else(self, shell: Shell) -> None:
        """Another's key is named by its fingerprint; a key can be named by its file."""
        shell.run("prune", "--older-than", "1w", "--key", "other.pem", "--as", "ben")
        known = public_key(Path("other.pem"))
        assert known is not None
        lines = shell.run("verify", code=1).splitlines()
        assert lines[1].startswith(f"? {ID}  10 events, pruned ")
        assert lines[1].endswith(" by ben")
        assert lines[2] == f"    signed by a key this machine does not know: {fingerprint(known)}"
        assert lines[4].endswith("interlock history verify --trust FILE")
        assert lines[5] == "1 session, 2 events: all whole, 1 stub by unknown keys."
        narrow(shell.out)
        assert "signed here" in shell.run("verify", "--key", "other.pem")

    def test_by_somebody_trusted(self, shell: Shell) -> None:
        """A public key that is named is known, or the file of the whole key; another's is not."""
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
            assert lines[-1] == "1 session, 2 events: all whole."
        narrow(shell.out)
        Signer.open(Path("third.pem"))
        assert "does not know" in shell.run("verify", "--trust", "third.pem", code=1)
        shell.run("verify", "--trust", "third.pem", "--trust", "other.pub")
        Path("interlock.toml").write_text('[history]\ntrust = ["third.pem", "other.pub"]\n')
        shell.run("verify")

    def test_a_trusted_key_repairs_nothing(self, shell: Shell) -> None:
        """A stub that was changed stays a finding, whoever is trusted."""
        shell.run("prune", "--older-than", "90d", "--key", "other.pem")
        tamper(shell.database, "UPDATE pruned SET events = events + 1")
        assert "was changed" in shell.run("verify", "--trust", "other.pem", code=1)

    def test_a_forged_stub(self, shell: Shell) -> None:
        """A session removed by hand, with a stub that is signed by a key of one's own, is told."""
        shell.run("prune", "--older-than", "90d", "--dry-run")
        shell.run("prune", "--older-than", "90d", "--key", "forged.pem", "--as", "maria")
        Signer.open(shell.key)
        assert "by a key this machine does not know" in shell.run("verify", code=1)

    def test_found_by_programs(self, shell: Shell) -> None:
        """JSON says of each stub whether its key is known, and how many are not."""
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
            ("no key", "holds no Ed25519 key in PEM"),
            ("-----BEGIN PRIVATE KEY-----", "holds no Ed25519 key in PEM"),
        ],
    )
    def test_no_key_to_trust(self, shell: Shell, text: str | None, says: str) -> None:
        """A file that is none is said so, with what to do; it never counts as trusted."""
        if text is not None:
            Path("k.pem").write_text(text)
        shell.run("prune", "--older-than", "90d")
        assert says in shell.refused("verify", "--trust", "k.pem")

    @pytest.mark.parametrize("column", ["session", "head", "at", "key", "events", "signature", "by"])
    @pytest.mark.parametrize("value", ["'text'", "x'00'", "9223372036854775807"])
    def test_a_changed_stub(self, shell: Shell, column: str, value: str) -> None:
        """A stub that was changed is a finding, whatever was written into it."""
        shell.run("prune", "--older-than", "90d")
        tamper(shell.database, f'UPDATE pruned SET "{column}" = {value}')
        assert "the stub that pruning left was changed" in shell.run("verify", code=1)
        assert json.loads(shell.run("verify", "--json", code=1))["pruned"][0]["good"] is False

    def test_asked_for_afterwards(self, shell: Shell) -> None:
        """Who asks for a session that is gone is told so, and what can still be done."""
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

    def test_a_removed_stub(self, shell: Shell) -> None:
        """Without the stub its session's events are missing."""
        shell.run("prune", "--older-than", "90d")
        tamper(shell.database, "DELETE FROM pruned")
        assert shell.run("verify", code=1).splitlines()[1:] == [
            "✗ 10 events that the file has numbered were removed from it",
            "    numbers 1 to 10, at its beginning",
            "1 session, 2 events: the file is not whole.",
        ]

    def test_open_questions(self, shell: Shell) -> None:
        """Who prunes a session that still waits for a person is told so, before and after."""
        recorded_at(shell.database, OLD, "waiting-1", *BODIES[:6])
        for line in (["--dry-run"], []):
            said = shell.run("prune", "--older-than", "90d", *line)
            day = OLD.date().isoformat()
            assert f"  waiting-1  6 events, last on {day}, 1 question still open\n" in said
            assert f"  {ID}  10 events, last on {day}\n" in said
            narrow(said)

    def test_evidence(self, shell: Shell) -> None:
        """A session whose chain is broken is kept and named; the exit code is 1."""
        tamper(shell.database, f"DELETE FROM event WHERE session = '{ID}' AND seq = 4")
        lines = shell.run("prune", "--older-than", "90d", code=1).splitlines()
        assert lines == [
            f"✗ {ID}  kept as evidence:",
            "    event 4 was removed",
            "Pruned 0 sessions, 0 events.",
        ]

    def test_beside_one_that_reads(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        """What somebody is reading cannot be overwritten yet: that is told."""
        monkeypatch.setattr("interlock.engine.history.writer.BUSY_SECONDS", 0.05)
        with closing(sqlite3.connect(shell.database, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM event").fetchall()
            said = shell.run("prune", "--older-than", "90d").splitlines()
        assert said[2].startswith("  Somebody reads the journal: what was removed is overwritten when")
        narrow(shell.out)

    def test_a_copy_that_still_has_them(self, shell: Shell) -> None:
        """Where a copy from before an upgrade stands beside the journal, it is named."""
        Path("journal.db.0003.bak").write_bytes(b"")
        assert "journal.db.0003.bak" in shell.run("prune", "--older-than", "90d")

    @pytest.mark.parametrize(
        "given", ["", "90", "d", "-1d", "1.5d", "90x", "1y", "three days", "3m", "30s"]
    )
    def test_no_age(self, shell: Shell, given: str) -> None:
        """What is no age, or one that may be read in two ways, removes nothing."""
        before = contents(shell.database)
        said = shell.refused("prune", f"--older-than={given}")
        assert "90d" in said
        assert contents(shell.database) == before

    def test_an_age_beyond_the_calendar(self, shell: Shell) -> None:
        """Nothing is that old."""
        assert "Pruned 0" in shell.run("prune", "--older-than", "999999w")

    def test_without_an_age(self, shell: Shell) -> None:
        """Nothing is removed that nobody named."""
        assert "say how old: --older-than 90d" in shell.refused("prune")

    def test_while_a_console_runs(self, shell: Shell) -> None:
        """The process that has the journal is named; a dry run needs it not to end."""
        with Journal.open(shell.database):
            assert f"is being written by process {os.getpid()}" in shell.refused(
                "prune", "--older-than", "90d"
            )
            shell.run("prune", "--older-than", "90d", "--dry-run")

    def test_ages(self) -> None:
        """Ages are what they say."""
        assert [age(t) for t in ("90d", " 12W ", "36 h", "15m", "30s", "0d")] == [
            timedelta(days=90),
            timedelta(weeks=12),
            timedelta(hours=36),
            timedelta(minutes=15),
            timedelta(seconds=30),
            timedelta(0),
        ]


class TestRebuild:
    def test_mends(self, shell: Shell) -> None:
        """It names what was wrong; the second time nothing is."""
        tamper(shell.database, f"UPDATE session SET calls = 99 WHERE id = '{ID}'", "DELETE FROM decision")
        assert shell.run("rebuild").splitlines() == [
            f"  {ID}  had a line that its events do not make",
            "  the list of decisions was not what the events make",
            "Rebuilt the lines of 2 sessions: 1 mended.",
        ]
        narrow(shell.out)
        assert shell.run("rebuild") == "Rebuilt the lines of 2 sessions: all were right.\n"


class TestSpoofing:
    def test_ids_and_names(self, shell: Shell) -> None:
        """Ids, operators and file names cannot speak to the terminal, whatever part shows them."""
        recorded_at(shell.database, OLD, HOSTILE)
        said: list[str] = []
        for line in (
            ["verify"],
            ["export", HOSTILE, "-o", f"{HOSTILE}.jsonl"],
            ["--db", "other.db", "import", f"{HOSTILE}.jsonl"],
            ["--db", "other.db", "verify"],
            ["prune", "--older-than", "90d", "--dry-run"],
        ):
            said += [shell.run(*line), shell.err]
        # Such a name is not taken any more; a stub may have one all the same.
        now = to_ms(datetime.now(UTC))
        shell.key.parent.mkdir(exist_ok=True)
        prune(shell.database, before=now - 86_400_000, by=HOSTILE, at=now, key=shell.key)
        said += [shell.run("verify"), shell.err]
        for line in (
            ["verify", HOSTILE],
            ["export", HOSTILE],
            ["import", HOSTILE],
            ["--db", HOSTILE, "rebuild"],
        ):
            said.append(shell.refused(*line))
        for character in ("\x1b", "\u202e", "\u200b"):
            assert character not in "".join(said)
        assert "x\\x1b[2J\\u202e[bold]\\u200b" in said[0]


class TestSettings:
    def settled(self, line: list[str], here: str = "", **environ: str) -> dict[str, object]:
        if here:
            Path("interlock.toml").write_text(here)
        top = parser()
        args = top.parse_args(["history", *line])
        given = {"INTERLOCK_CONFIG_DIR": "none", **{f"INTERLOCK_{k}": v for k, v in environ.items()}}
        apply_settings(top, args, environ=given, directory=Path.cwd())
        return vars(args)

    @pytest.mark.parametrize(
        ("line", "variable", "value", "option", "expected"),
        [
            (["prune"], "OLDER_THAN", "90d", "older_than", "90d"),
            (["prune"], "DRY_RUN", "yes", "dry_run", True),
            (["prune"], "DRY_RUN", "0", "dry_run", False),
            (["prune"], "KEY", "k.pem", "key", Path("k.pem")),
            (["prune"], "OPERATOR", "ben", "operator", "ben"),
            (["verify"], "JSON", "1", "json", True),
            (["verify"], "KEY", "k.pem", "key", Path("k.pem")),
            (["verify"], "TRUST", "k.pem", "trust", [Path("k.pem")]),
            (["verify"], "AGAINST", "a.jsonl", "against", [Path("a.jsonl")]),
            (["export", "s"], "FORMAT", "csv", "format", "csv"),
            (["export", "s"], "OUT", "a.csv", "out", Path("a.csv")),
            (["export", "s"], "UNMASKED", "true", "unmasked", True),
            (["export", "s"], "REDACT", "pin,iban", "redact", "pin,iban"),
            *(
                ([part, *more], "DB", "x.db", "db", Path("x.db"))
                for part, more in (
                    ("verify", []),
                    ("export", ["s"]),
                    ("import", ["f"]),
                    ("prune", []),
                    ("rebuild", []),
                )
            ),
        ],
    )
    def test_variables(
        self, shell: Shell, line: list[str], variable: str, value: str, option: str, expected: object
    ) -> None:
        """Every option of every part has a variable, with the option's own type."""
        assert self.settled(line, **{variable: value})[option] == expected
        assert self.settled(line)[option] is None

    def test_the_table_of_history(self, shell: Shell) -> None:
        """A file says them at its top or in the table of `history`, which is the nearer one."""
        here = (
            'redact = "top"\nolder_than = "1w"\n[history]\nolder_than = "90d"\nredact = ["pin", "iban"]\n'
        )
        found = self.settled(["prune"], here)
        assert (found["older_than"], found["redact"]) == ("90d", "pin,iban")
        assert self.settled(["prune"], OLDER_THAN="2w")["older_than"] == "2w"
        assert self.settled(["prune", "--older-than", "3w"], OLDER_THAN="2w")["older_than"] == "3w"

    def test_the_options_of_another_part(self, shell: Shell) -> None:
        """What only another part knows is no mistake in a file, and does nothing."""
        found = self.settled(["rebuild"], '[history]\nolder_than = "90d"\nformat = "csv"\n')
        assert "older_than" not in found

    @pytest.mark.parametrize(
        ("line", "here", "message"),
        [
            (
                ["export", "s"],
                "[history]\nformat = 'xml'",
                "expected jsonl or csv or messages, found 'xml'",
            ),
            (["prune"], "[history]\nolder = '90d'", "unknown setting 'older'"),
            (["prune"], "[history]\ndry_run = 'maybe'", "dry_run: expected true or false"),
            (["prune"], "[history]\nolder_than = [1]", "older_than: expected one value"),
        ],
    )
    def test_mistakes(self, shell: Shell, line: list[str], here: str, message: str) -> None:
        """A mistake is told with its file."""
        with pytest.raises(SettingsError, match=r"interlock\.toml") as caught:
            self.settled(line, here)
        assert message in str(caught.value)

    @pytest.mark.parametrize("part", PARTS)
    def test_before_and_after_the_part(self, shell: Shell, part: str) -> None:
        """The journal may be named before the part or after it, and then beats what is set elsewhere."""
        more = {"export": ["s"], "import": ["f"]}.get(part, [])
        for line in (["--db", "a.db", part, *more], [part, *more, "--db", "a.db"]):
            assert self.settled(line, "db = 'file.db'", DB="env.db")["db"] == Path("a.db")
        line = ["--db", "a.db", part, *more, "--db", "b.db"]
        assert self.settled(line)["db"] == Path("b.db")
        line = ["--redact", "pin", part, *more]
        assert self.settled(line, REDACT="iban")["redact"] == "pin"

    def test_by_the_command(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        """The command itself follows them."""
        Path("interlock.toml").write_text('[history]\nolder_than = "90d"\ndry_run = true\n')
        assert "Would prune 1 session" in shell.run("prune")
        monkeypatch.setenv("INTERLOCK_DRY_RUN", "no")
        assert "Pruned 1 session" in shell.run("prune")
        assert [s.id for s in open_reader(shell.database).sessions()] == [OTHER]

    def test_the_list_is_as_before(self, shell: Shell) -> None:
        """Without a part the sessions are listed."""
        assert ID in shell.run()
        assert len(shell.run("--limit", "1").splitlines()) == 2
        assert len(BODIES) == 10
