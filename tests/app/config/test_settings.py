"""The sources of an option that is not on the command line."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.config.loader import MAX_FILE_BYTES, SettingsError, apply_settings


def settled(
    tmp_path: Path,
    line: list[str],
    *,
    environ: dict[str, str] | None = None,
    here: str = "",
    user: str = "",
) -> Namespace:
    """Return the parsed `line` with settings; `here` and `user` are the texts of the two files."""
    work, config = tmp_path / "project", tmp_path / "config"
    for folder, text in ((work, here), (config, user)):
        folder.mkdir(exist_ok=True)
        if text:
            (folder / "interlock.toml").write_text(text)
    top = parser()
    args = top.parse_args(line)
    apply_settings(
        top, args, environ={"INTERLOCK_CONFIG_DIR": str(config), **(environ or {})}, directory=work
    )
    return args


class TestOrder:
    def test_option_wins(self, tmp_path: Path) -> None:
        """An option on the command line overrides everything else."""
        args = settled(
            tmp_path,
            ["history", "--limit", "1"],
            environ={"INTERLOCK_LIMIT": "2"},
            here="limit = 3",
            user="limit = 4",
        )
        assert args.limit == 1

    def test_environment_comes_next(self, tmp_path: Path) -> None:
        """A variable overrides both files."""
        args = settled(
            tmp_path, ["history"], environ={"INTERLOCK_LIMIT": "2"}, here="limit = 3", user="limit = 4"
        )
        assert args.limit == 2

    def test_working_directory_comes_before_the_user(self, tmp_path: Path) -> None:
        """The project's file overrides the user's."""
        assert settled(tmp_path, ["history"], here="limit = 3", user="limit = 4").limit == 3

    def test_user_file_comes_last(self, tmp_path: Path) -> None:
        """The user's file applies if no other source sets the option."""
        assert settled(tmp_path, ["history"], user="limit = 4").limit == 4

    def test_command_table_overrides_the_top_level(self, tmp_path: Path) -> None:
        """A command's own table overrides the file's top level."""
        assert settled(tmp_path, ["history"], here="limit = 3\n[history]\nlimit = 9").limit == 9

    def test_missing_option_is_none(self, tmp_path: Path) -> None:
        """Without any source the option is None and the command's default applies."""
        assert settled(tmp_path, ["history"]).limit is None


class TestEveryOption:
    @pytest.mark.parametrize(
        ("line", "variable", "value", "option", "expected"),
        [
            (["demo"], "DB", "a.db", "db", Path("a.db")),
            (["demo"], "AS", "maria", "operator", "maria"),
            (["demo"], "OPERATOR", "maria", "operator", "maria"),
            (["console"], "READ_ONLY", "1", "read_only", True),
            (["notify"], "TEST", "0", "test", False),
            (["demo"], "HEADLESS", "1", "headless", True),
            (["console"], "THEME", "nord", "theme", "nord"),
            (["replay", "x"], "ASCII", "1", "ascii", True),
            (["demo"], "ASCII", "0", "ascii", False),
            (["demo"], "HEADLESS", "0", "headless", False),
            (["demo"], "ANSWER", "deny", "answer", "deny"),
            (["run", "x"], "RULES", "a.rules,b.rules", "rules", ["a.rules", "b.rules"]),
            (["run", "x"], "ACTIVE", "block-rm", "active", ["block-rm"]),
            (["run", "x"], "MODEL", "openai/m", "model", "openai/m"),
            (["run", "x"], "API_BASE", "http://127.0.0.1:1", "api_base", "http://127.0.0.1:1"),
            (["run", "x"], "TOOLS", "bash,web_fetch", "tools", "bash,web_fetch"),
            (["run", "x"], "MODE", "shadow", "mode", "shadow"),
            (["run", "x"], "WORKDIR", "w", "workdir", Path("w")),
            (["run", "x"], "SYSTEM_PROMPT", "hi", "system_prompt", "hi"),
            (["run", "x"], "RUNTIME", "sandbox", "runtime", "sandbox"),
            (["run", "x"], "NETWORK", "true", "network", True),
            (["run", "x"], "MAX_STEPS", "7", "max_steps", 7),
            (["run", "x"], "MAX_COST", "2.5", "max_cost", 2.5),
            (["resume", "s"], "MAX_COST", "3", "max_cost", 3.0),
            (["run", "x"], "EXPLAIN_BLOCKS", "1", "explain_blocks", True),
            (["resume", "s"], "AT", "3", "at", 3),
            (["resume", "s"], "CHANGED_NETS", "1", "changed_nets", True),
            (["explain", "a.rules", "x"], "AFTER", "lint", "after", ["lint"]),
            (["replay", "s"], "PLAIN", "true", "plain", True),
        ],
    )
    def test_has_a_variable(
        self, tmp_path: Path, line: list[str], variable: str, value: str, option: str, expected: object
    ) -> None:
        """Every option is also an environment variable, with the option's own type."""
        args = settled(tmp_path, line, environ={f"INTERLOCK_{variable}": value})
        assert getattr(args, option) == expected

    def test_lists_and_flags_in_a_file(self, tmp_path: Path) -> None:
        """A file may use TOML lists and booleans."""
        args = settled(
            tmp_path, ["run", "x"], user='rules = ["/a", "/b"]\nheadless = true\ntools = ["bash"]'
        )
        assert (args.rules, args.headless, args.tools) == (["/a", "/b"], True, "bash")


class TestBadSettings:
    @pytest.mark.parametrize(
        ("here", "message"),
        [
            ("mode = 'strict'", "mode: expected enforce or shadow, found 'strict'"),
            ("modes = 'shadow'", "unknown setting 'modes'; did you mean 'mode'?"),
            ("headless = 'maybe'", "headless: expected true or false, found 'maybe'"),
            ("db = [1]", "db: expected one value, found [1]"),
            ("= 3", "Invalid statement"),
        ],
    )
    def test_error_names_the_file(self, tmp_path: Path, here: str, message: str) -> None:
        """The error for an invalid setting names its file and what is expected."""
        with pytest.raises(SettingsError, match=r"interlock\.toml") as caught:
            settled(tmp_path, ["run", "x"], here=here)
        assert message in str(caught.value)

    def test_error_names_the_variable(self, tmp_path: Path) -> None:
        """The error for an invalid variable names the variable, not the option."""
        with pytest.raises(SettingsError, match="INTERLOCK_LIMIT: a number from 1"):
            settled(tmp_path, ["history"], environ={"INTERLOCK_LIMIT": "0"})


class TestOddFiles:
    """A working directory may hold anything under the name of a settings file."""

    def test_pipe(self, tmp_path: Path) -> None:
        """A pipe is refused without waiting."""
        (tmp_path / "project").mkdir()
        os.mkfifo(tmp_path / "project" / "interlock.toml")
        with pytest.raises(SettingsError, match=r"interlock\.toml: is a pipe or a device"):
            settled(tmp_path, ["run", "x"])

    def test_device(self, tmp_path: Path) -> None:
        """A device is not read."""
        (tmp_path / "project").mkdir()
        (tmp_path / "project" / "interlock.toml").symlink_to("/dev/zero")
        with pytest.raises(SettingsError, match=r"interlock\.toml: is a pipe or a device"):
            settled(tmp_path, ["run", "x"])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("#" * (MAX_FILE_BYTES + 1), "is larger than 1,048,576 bytes"),
            ("a = " + "[" * 100_000, "is nested too deeply"),
        ],
        ids=["long", "deep"],
    )
    def test_overlong_or_deeply_nested_text(self, tmp_path: Path, text: str, message: str) -> None:
        """A text that is too long or nested too deeply is refused with its file."""
        with pytest.raises(SettingsError, match=r"interlock\.toml") as caught:
            settled(tmp_path, ["run", "x"], here=text)
        assert message in str(caught.value)
