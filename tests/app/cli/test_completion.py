"""`interlock completion`: scripts for real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.app.cli.completion import SHELLS, positions
from interlock.app.cli.main import COMMANDS, parser
from tests.support.command import command

PROMPT = "ready>"
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'; . ./script; PS1='{}'"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -Uz compinit; compinit -u -D; . ./script; setopt no_beep no_list_ambiguous; PS1='{}'",
    ),
}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|\x08|\x07")


def script(shell: str, directory: Path) -> str:
    done = command(directory, "completion", shell, env={"HOME": str(directory)})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


class Shell:
    """An interactive shell in its own terminal, with the script loaded."""

    def __init__(self, name: str, directory: Path) -> None:
        (directory / "script").write_text(script(name, directory))
        line, begin = START[name]
        self._terminal, own = pty.openpty()
        env = {"PATH": os.environ["PATH"], "HOME": str(directory), "TERM": "dumb", "COLUMNS": "200"}
        self._process = subprocess.Popen(
            line, cwd=directory, env=env, stdin=own, stdout=own, stderr=own, start_new_session=True
        )
        os.close(own)
        self._type(f"{begin.format(PROMPT)}\n")
        self._read_until(lambda text: text.count(PROMPT) >= 2)

    def _type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def _read_until(self, done: Callable[[str], bool], seconds: float = 20) -> str:
        """Return the shell's output up to a pause in which `done` is true."""
        text, end = "", time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.05)[0]:
                text += os.read(self._terminal, 65536).decode("utf-8", "replace")
            elif done(ESCAPES.sub("", text)):
                break
        return ESCAPES.sub("", text)

    def completed(self, line: str, expected: str) -> bool:
        """Return whether a text appears on the line or below it after one or two tabs."""
        self._type(f"{line}\t")
        found = self._read_until(lambda text: expected in text, 3)
        if expected not in found:
            self._type("\t")
            found += self._read_until(lambda text: expected in text, 3)
        self._type("\x15\n")
        self._read_until(lambda text: PROMPT in text, 5)
        return expected in found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture(params=sorted(START))
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    (tmp_path / "deploy.rules").touch()
    made = Shell(request.param, tmp_path)
    yield made
    made.end()


class TestScripts:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", SHELLS)
    def test_scripts_have_every_command_and_option(self, name: str, tmp_path: Path) -> None:
        """Each script has every command, part and option of the parsers."""
        text = script(name, tmp_path)
        for position in positions(parser()):
            assert all(part in text for part, _ in position.parts)
            for option in position.options:
                assert all(flag.lstrip("-") in text for flag in option.names)

    @pytest.mark.parametrize("name", SHELLS)
    def test_scripts_have_no_syntax_errors(self, name: str, tmp_path: Path) -> None:
        """The shell, if installed, finds no syntax error in its script."""
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        (tmp_path / "script").write_text(script(name, tmp_path))
        done = subprocess.run(
            [name, "-n", "script"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
class TestShells:
    """Real bash and zsh in a terminal."""

    def test_complete(self, shell: Shell) -> None:
        """Commands, parts, options, their values and files are completed at their places."""
        assert shell.completed("interlock chec", "interlock check ")
        assert shell.completed("interlock history exp", "history export")
        assert shell.completed("interlock check --str", "--strict")
        assert shell.completed("interlock check --format sar", "sarif")
        assert shell.completed("interlock check depl", "deploy.rules")
        assert shell.completed("interlock run --rules depl", "deploy.rules")
        assert shell.completed("interlock completion zs", "zsh")
        for part in ("verify", "export", "import", "prune"):
            assert shell.completed("interlock history ", part)
        assert not shell.completed("interlock history zz", "verify")


class TestUnknownCommand:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            (["chek"], "unknown command 'chek'; did you mean 'check'? There are: demo, run, "),
            (["CHECK"], "unknown command 'CHECK'; did you mean 'check'? There are: "),
            (["xyzzy"], "unknown command 'xyzzy'; there are: demo, "),
            (["history", "exprot"], "unknown part 'exprot'; did you mean 'export'? There are: verify, "),
            (["chek\x1b[2J"], r"unknown command 'chek\x1b[2J'"),
        ],
    )
    def test_nearest_command_is_named(self, line: list[str], expected: str, tmp_path: Path) -> None:
        """The error for a misspelt command or part names the nearest one and lists all."""
        done = command(tmp_path, *line, env={"HOME": str(tmp_path)})
        assert (done.returncode, done.stdout) == (2, "")
        assert expected in done.stderr
        assert "\x1b" not in done.stderr

    def test_lists_all(self, tmp_path: Path) -> None:
        """The error lists every command."""
        done = command(tmp_path, "xyzzy", env={"HOME": str(tmp_path)})
        assert done.stderr.rstrip().endswith(", ".join(COMMANDS))
