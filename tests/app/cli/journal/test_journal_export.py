"""`interlock history export` and `import`, through the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.engine.history.audit.prune import prune
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.model.times import to_ms
from tests.engine.history.support.keeping import SECRET, contents, recorded_at, tamper
from tests.engine.history.support.recording import opening
from tests.support.postgres import named

from .journal_shell import HOSTILE, ID, OLD, OTHER, Shell, narrow


class TestExport:
    def test_file_is_readable_by_owner_only(self, shell: Shell) -> None:
        """The export goes to a file that only its owner can read; only the file's name is printed."""
        Path("a.jsonl").write_text("what was there")
        Path("a.jsonl").chmod(0o644)
        assert shell.run("export", ID, "--out", "a.jsonl") == ""
        assert shell.err == f"Exported {ID} to a.jsonl\n"
        assert stat.S_IMODE(Path("a.jsonl").stat().st_mode) == 0o600
        assert Path("a.jsonl").read_text() == shell.run("export", ID)
        assert not list(Path().glob("*.part"))

    def test_record_table_and_conversation_formats(self, shell: Shell) -> None:
        """The formats are the record, a table and the conversation."""
        assert json.loads(shell.run("export", ID).splitlines()[0])["events"] == 10
        assert len(list(csv.reader(io.StringIO(shell.run("export", ID, "--format", "csv"))))) == 11
        messages = json.loads(shell.run("export", ID, "--format", "messages"))
        assert messages[0] == {"role": "user", "content": "Ship it."}

    @pytest.mark.parametrize("form", ["jsonl", "csv", "messages"])
    def test_secrets_are_masked_by_default(self, shell: Shell, form: str) -> None:
        """Secrets are masked unless `--unmasked` is given; `--redact` masks further fields."""
        line = ["export", ID, "--format", form]
        assert SECRET not in shell.run(*line)
        assert SECRET in shell.run(*line, "--unmasked")
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, MessageAdded(role="user", text="pin=0000-1111"))
        line[1] = OTHER
        assert "0000-1111" in shell.run(*line)
        assert "0000-1111" not in shell.run(*line, "--redact", "x, PIN")
        assert "0000-1111" not in shell.run("--redact", "pin", *line)

    def test_failed_export_keeps_existing_file(self, shell: Shell) -> None:
        """A failed export leaves the existing file unchanged."""
        Path("a.jsonl").write_text("what was there")
        tamper(shell.database, "UPDATE event SET body = '{}' WHERE seq = 2")
        for form in ("jsonl", "csv", "messages"):
            said = shell.refused("export", ID, "--format", form, "-o", "a.jsonl")
            assert "cannot be read" in said
        assert Path("a.jsonl").read_text() == "what was there"
        assert not list(Path().glob("*.part"))

    def test_several_sessions_have_one_file_each(self, shell: Shell) -> None:
        """`--all` and `--since` export sessions to one file each, as a single export would."""
        assert shell.run("export", "--all", "-o", "new/kept") == ""
        assert shell.err == "Exported 2 sessions to new/kept\n"
        folder = Path("new/kept")
        assert {path.name for path in folder.iterdir()} == {f"{ID}.jsonl", f"{OTHER}.jsonl"}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert path.read_text() == shell.run("export", path.stem)
        shell.run("export", "--since", "1d", "-o", "late", "--format", "csv")
        assert [path.name for path in Path("late").iterdir()] == [f"{OTHER}.csv"]
        shell.run("export", "--since", "1d", "-o", "late", "--format", "messages")
        assert Path("late", f"{OTHER}.json").is_file()

    def test_hostile_ids_stay_inside_the_directory(self, shell: Shell) -> None:
        """Hostile session ids do not escape the directory, and each session has its own file."""
        ids = ["../out", "..", ".hidden", "a/b", "a%2Fb", "/etc/x", "ü" * 100, "ü" * 99 + "u", "n\u202e"]
        with Journal.open(shell.database) as journal:
            for each in ids:
                journal.write(each, opening())
        shell.run("export", "--all", "-o", "kept")
        files = list(Path("kept").iterdir())
        assert len(files) == len(ids) + 2
        assert not any(path.name.startswith(".") or len(path.name) > 210 for path in files)
        assert not Path("out.jsonl").exists()
        heads = {json.loads(path.read_text().splitlines()[0])["session"] for path in files}
        assert heads == {*ids, ID, OTHER}

    def test_missing_or_conflicting_selection_is_reported(self, shell: Shell) -> None:
        """Missing or conflicting selections are reported with what to give."""
        one = "name one SESSION, or --all, or --since WHEN"
        for line in ((), (ID, "--all"), ("--all", "--since", "1d"), (ID, "--since", "1d")):
            assert one in shell.refused("export", *line)
        assert "add -o DIRECTORY" in shell.refused("export", "--all")
        assert "'soon' is not a time" in shell.refused("export", "--since", "soon", "-o", "kept")
        Path("notes").write_text("")
        assert "'notes' is a file" in shell.refused("export", "--all", "-o", "notes")
        assert not Path("kept").exists()

    @pytest.mark.sqlite("the name of its file")
    def test_journal_is_refused_as_target(self, shell: Shell) -> None:
        """The journal itself is refused as the target, under any name."""
        before = contents(shell.database)
        Path("link").symlink_to("journal.db")
        for name in ("journal.db", "link", "./journal.db"):
            assert "is the journal itself" in shell.refused("export", ID, "-o", name)
        assert contents(shell.database) == before

    def test_unwritable_target_is_named(self, shell: Shell) -> None:
        """A target that cannot be written is named."""
        assert "Cannot write 'none/a.jsonl': No such file" in shell.refused(
            "export", ID, "-o", "none/a.jsonl"
        )
        Path("folder").mkdir()
        for name in (".", "folder", "/"):
            assert "is a directory; name a file in it" in shell.refused("export", ID, "-o", name)

    def test_device_stays_a_device(self, shell: Shell) -> None:
        """A device stays a device."""
        shell.run("export", ID, "-o", "/dev/null")
        assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)

    @pytest.mark.slow
    def test_closed_pipe_causes_no_error(self, shell: Shell) -> None:
        """A reader that closes the pipe early causes no error message."""
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, *(MessageAdded(role="user", text="word " * 2_000) for _ in range(50)))
        for command in (["export", OTHER], ["export", OTHER, "-o", "/dev/stdout"]):
            done = subprocess.run(
                f'"{sys.executable}" -m interlock.app.cli history {" ".join(command)} | head -c 100',
                shell=True,
                env={**os.environ, "INTERLOCK_DB": named(shell.database)},
                capture_output=True,
                check=True,
            )
            assert len(done.stdout) == 100
            assert b"Error" not in done.stderr
            assert b"Traceback" not in done.stderr

    @pytest.mark.slow
    def test_output_is_utf8_in_any_locale(self, shell: Shell) -> None:
        """The output is UTF-8, whatever the locale."""
        with Journal.open(shell.database) as journal:
            journal.write(OTHER, MessageAdded(role="user", text="\U0001f680 ä"))
        done = subprocess.run(
            [sys.executable, "-m", "interlock.app.cli", "history", "export", OTHER],
            env={
                **os.environ,
                "INTERLOCK_DB": named(shell.database),
                "PYTHONIOENCODING": "latin-1",
            },
            capture_output=True,
            check=True,
        )
        assert "\U0001f680 ä".encode() in done.stdout


class TestImport:
    def test_round_trip(self, shell: Shell) -> None:
        """An export can be imported into another journal, verified and listed there."""
        shell.run("export", ID, "-o", "a.jsonl")
        said = shell.run("--db", "other.db", "import", "a.jsonl")
        assert said == (
            f"Imported {ID}: 10 events, 2 masked, its chain intact.\n"
            "The file's author wrote all of it: an intact chain shows only that it is consistent.\n"
        )
        assert shell.run("--db", "other.db", "export", ID) == Path("a.jsonl").read_text()
        assert ", imported, 2 masked, hash " in shell.run("--db", "other.db", "verify")
        narrow(shell.out)
        assert ID in shell.run("--db", "other.db")

    @pytest.mark.slow
    def test_unknown_key_counts_as_unproven(self, shell: Shell) -> None:
        """An import signed by an unknown key counts as unproven."""
        shell.run("export", ID, "-o", "a.jsonl")
        shell.run("--db", "other.db", "import", "a.jsonl")
        shell.key.unlink()
        said = shell.run("--db", "other.db", "verify", code=1)
        assert "imported with a key this machine does not know" in said
        assert "1 import unproven" in said

    @pytest.mark.slow
    def test_unusable_file_is_refused_with_remedy(self, shell: Shell) -> None:
        """A file that is not an export, was changed or is already present is refused with a remedy."""
        shell.run("export", ID, "-o", "a.jsonl")
        assert "import it into another" in shell.refused("import", "a.jsonl")
        Path("b.jsonl").write_text(Path("a.jsonl").read_text().replace("Ship it", "Ship that"))
        assert "event 3 (message) was changed" in shell.refused("--db", "b.db", "import", "b.jsonl")
        Path("c.jsonl").write_text(Path("a.jsonl").read_text()[:-9])
        assert "c.jsonl:11: " in shell.refused("--db", "b.db", "import", "c.jsonl")
        assert "expected the heading" in shell.refused("--db", "b.db", "import", "/dev/null")
        assert not Path("b.db").exists()


class TestSpoofing:
    def test_escape_sequences_are_shown_as_text(self, shell: Shell) -> None:
        """Escape sequences in ids, operators and file names are shown as text by every part."""
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
        # Such a name is no longer accepted, but an old stub may have one.
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
