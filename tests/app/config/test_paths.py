"""Invalid paths are refused with the setting, its place and a remedy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ...support.command import command

LONG = "x" * 5000
DEEP = "/".join(["d" * 200] * 40)
JOURNAL_COMMANDS = (
    ("history",),
    ("history", "verify"),
    ("history", "export", "s"),
    ("history", "prune", "--older-than", "90d"),
    ("history", "approvals"),
    ("replay", "s", "--plain"),
    ("resume", "s", "--headless"),
    ("demo", "--headless"),
    ("console",),
)
RUN = ("run", "--model", "openai/x", "--headless", "--db", "j.db", "do")


def run(folder: Path, *line: str, here: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command with settings in `interlock.toml` here and in the environment."""
    if here:
        (folder / "interlock.toml").write_text(here)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "INTERLOCK_CONFIG_DIR": str(folder / "config"),
    }
    return command(
        folder, *line, env=env | {f"INTERLOCK_{name}": value for name, value in environ.items()}
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Expect a refusal of one short line, and return it."""
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert len(line) < 400
    return line


class TestJournal:
    @pytest.mark.variants
    @pytest.mark.parametrize("line", JOURNAL_COMMANDS, ids=" ".join)
    def test_too_long(self, tmp_path: Path, line: tuple[str, ...]) -> None:
        """A path that is too long is reported with its setting, from every source."""
        for value in (LONG, DEEP):
            said = refused(run(tmp_path, *line, DB=value))
            assert f"INTERLOCK_DB: a path of {len(value)} characters is longer than this system" in said
            assert "choose a shorter one" in said
            assert ": --db: a path of" in refused(run(tmp_path, *line, "--db", value))
            said = refused(run(tmp_path, *line, here=f'db = "{value}"'))
            assert f"{tmp_path}/interlock.toml: db: a path of" in said
            (tmp_path / "interlock.toml").unlink()

    @pytest.mark.parametrize("line", JOURNAL_COMMANDS, ids=" ".join)
    def test_a_nul_character(self, tmp_path: Path, line: tuple[str, ...]) -> None:
        """A NUL character in a settings file's path is refused."""
        said = refused(run(tmp_path, *line, here='db = "a\\u0000b"'))
        assert "interlock.toml: db: a path cannot hold a NUL character, found 'a\\x00b'" in said

    @pytest.mark.parametrize("line", JOURNAL_COMMANDS, ids=" ".join)
    def test_a_directory(self, tmp_path: Path, line: tuple[str, ...]) -> None:
        """A directory as the journal is refused."""
        (tmp_path / "there").mkdir()
        said = refused(run(tmp_path, *line, DB="there"))
        assert (
            "INTERLOCK_DB: expected the journal's file, found the directory 'there'; name a file" in said
        )

    def test_home_of_an_unknown_user(self, tmp_path: Path) -> None:
        """`~name` of an unknown user is refused."""
        said = refused(run(tmp_path, "history", DB="~no-such-user/j.db"))
        assert "INTERLOCK_DB: expected a path, found '~no-such-user/j.db'" in said

    def test_longest_permitted_path(self, tmp_path: Path) -> None:
        """A long path that the system allows is accepted."""
        (tmp_path / ("d" * 200)).mkdir()
        done = run(tmp_path, "history", DB=f"{'d' * 200}/{'j' * 200}.db")
        assert (done.returncode, done.stderr) == (0, "")


class TestOthers:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", ["workdir", "rules"])
    def test_paths_of_a_run(self, tmp_path: Path, name: str) -> None:
        """The paths of the working directory and of rules files are checked, from each source."""
        said = refused(run(tmp_path, *RUN, **{name.upper(): LONG}))
        assert f"INTERLOCK_{name.upper()}: a path of 5000 characters" in said
        said = refused(run(tmp_path, *RUN, here=f'{name} = "a\\u0000b"'))
        assert f"interlock.toml: {name}: a path cannot hold a NUL character" in said

    def test_a_list(self, tmp_path: Path) -> None:
        """One bad path in a list is refused."""
        said = refused(run(tmp_path, *RUN, here='rules = ["a.rules", "b\\u0000"]'))
        assert "interlock.toml: rules: a path cannot hold a NUL character" in said

    @pytest.mark.parametrize(
        ("name", "line"),
        [
            ("KEY", ("history", "prune", "--older-than", "90d")),
            ("TRUST", ("history", "verify")),
            ("OUT", ("history", "export", "s")),
        ],
    )
    def test_paths_of_keys_and_exports(self, tmp_path: Path, name: str, line: tuple[str, ...]) -> None:
        """The paths of keys and exports are checked."""
        assert f"INTERLOCK_{name}: a path of 5000 characters" in refused(
            run(tmp_path, *line, **{name: LONG})
        )


class TestConfig:
    @pytest.mark.parametrize("value", [LONG, DEEP], ids=["name", "depth"])
    def test_too_long(self, tmp_path: Path, value: str) -> None:
        """A config directory with a too long path is reported with its variable."""
        said = refused(run(tmp_path, "history", CONFIG_DIR=value))
        assert f"INTERLOCK_CONFIG_DIR: a path of {len(value)} characters" in said

    def test_a_file(self, tmp_path: Path) -> None:
        """A file as the config directory is refused."""
        (tmp_path / "file").write_text("")
        said = refused(run(tmp_path, "history", CONFIG_DIR="file"))
        assert "INTERLOCK_CONFIG_DIR: expected a directory, found 'file'; name the one that holds" in said
