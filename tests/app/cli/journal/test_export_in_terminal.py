"""`interlock history export` in a terminal: no effective escape sequences, and equivalent JSON."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded
from tests.engine.history.support.recording import opening
from tests.support.forked import COMMANDS, python_with
from tests.support.laws import pairs
from tests.support.postgres import named

SESSION = "docs-writer-77b0e2"
OBEYED = ("\x1b", "\x7f", "\x80", "\x9b", "\u200b", "\u202e", "\U000e0041")
FORMS = {form: form for form in ("jsonl", "csv", "messages")}
WAYS = {"printed": (), "as a device": ("-o", "/dev/tty")}
FLOOD = "\u0301" * 9
SAID = "x".join([*OBEYED, "\x9b31m\x9c", f"a{FLOOD}", '"\\u0080"', "é日本😀"])
OWN_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a journal that contains control characters."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("INTERLOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_DB", named(tmp_path / "journal.db"))
    with Journal.open(tmp_path / "journal.db") as journal:
        journal.write(SESSION, opening(), MessageAdded(role="user", text=SAID))
    return tmp_path


def export(form: str, *more: str) -> list[str]:
    return ["-m", "interlock.app.cli", "history", "export", SESSION, "--format", form, *more]


def piped(form: str) -> str:
    """Return the output to a pipe."""
    line = [*python_with(*COMMANDS), *export(form)]
    return subprocess.run(line, capture_output=True, check=True).stdout.decode()


def in_terminal(line: list[str]) -> str:
    """Run Python with `line` in its own terminal; return all output with plain line ends."""
    main_end, end = pty.openpty()
    whole = [sys.executable, "-c", OWN_TERMINAL, sys.executable, *line]
    with subprocess.Popen(whole, stdin=end, stdout=end, stderr=end, start_new_session=True) as process:
        os.close(end)
        shown = b""
        try:
            while data := os.read(main_end, 65536):
                shown += data
        except OSError:
            pass  # how the end of a terminal is reported
    os.close(main_end)
    assert process.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.slow
class TestTerminal:
    @pytest.mark.parametrize(("form", "out"), pairs(FORMS, WAYS))
    def test_terminal_output_is_escaped(self, folder: Path, form: str, out: tuple[str, ...]) -> None:
        """Spoofing: output to a pipe is exact; output to a terminal, even as a file, is escaped."""
        exact = piped(form)
        assert all(character in exact for character in (*OBEYED[2:], FLOOD))
        shown = in_terminal(export(form, *out))
        assert [character for character in (*OBEYED, FLOOD) if character in shown] == []
        assert "\\u0080" in shown
        assert "é日本😀" in shown

    @pytest.mark.parametrize("form", ["jsonl", "messages"])
    def test_json_values_are_the_same(self, folder: Path, form: str) -> None:
        """The JSON in the terminal has the same values on the same lines."""
        exact, shown = piped(form), in_terminal(export(form))
        assert shown != exact
        if form == "messages":
            assert json.loads(shown) == json.loads(exact)
        else:
            assert [*map(json.loads, shown.splitlines())] == [*map(json.loads, exact.splitlines())]

    def test_copied_lines_can_be_imported(self, folder: Path) -> None:
        """Lines copied from a terminal can be imported as an intact record."""
        (folder / "copied.jsonl").write_text(in_terminal(export("jsonl", "--unmasked")))
        assert main(["history", "--db", "other.db", "import", "copied.jsonl"]) == 0
        (check,) = verify_journal(folder / "other.db")
        assert (check.fault, check.events, check.masked) == (None, 2, 0)

    def test_csv_output_explains_how_to_get_exact_table(self, folder: Path) -> None:
        """Because CSV has no escapes, the terminal output says how to get the exact table."""
        assert "use -o FILE or a pipe" in in_terminal(export("csv"))
        assert "use -o FILE or a pipe" not in in_terminal(export("jsonl"))
