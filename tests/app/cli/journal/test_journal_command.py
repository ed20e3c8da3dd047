"""Settings that `interlock history verify|export|import|prune|rebuild` have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.config.loader import SettingsError, apply_settings
from interlock.engine.history.database import location
from interlock.engine.history.journal.reader import open_reader
from tests.engine.history.support.keeping import BODIES

from .journal_shell import ID, OTHER, PARTS, Shell


def parsed_value(value: object) -> object:
    """Return the parsed value of an option."""
    return location.location_of(value) if isinstance(value, Path) else value


class TestSettings:
    def parsed_settings(self, line: list[str], here: str = "", **environ: str) -> dict[str, object]:
        if here:
            Path("none").mkdir(exist_ok=True)
            Path("none/interlock.toml").write_text(here)
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
    def test_every_option_has_a_variable(
        self, shell: Shell, line: list[str], variable: str, value: str, option: str, expected: object
    ) -> None:
        """Every option of every part has a variable of the option's type."""
        assert self.parsed_settings(line, **{variable: value})[option] == (
            parsed_value(expected) if option == "db" else expected
        )
        assert self.parsed_settings(line)[option] is None

    def test_history_table_overrides_top_level(self, shell: Shell) -> None:
        """A file sets options at its top level or in the table `history`, which takes precedence."""
        here = (
            'redact = "top"\nolder_than = "1w"\n[history]\nolder_than = "90d"\nredact = ["pin", "iban"]\n'
        )
        found = self.parsed_settings(["prune"], here)
        assert (found["older_than"], found["redact"]) == ("90d", "pin,iban")
        assert self.parsed_settings(["prune"], OLDER_THAN="2w")["older_than"] == "2w"
        assert (
            self.parsed_settings(["prune", "--older-than", "3w"], OLDER_THAN="2w")["older_than"] == "3w"
        )

    def test_options_of_another_part_have_no_effect(self, shell: Shell) -> None:
        """An option of another part in a settings file is accepted and has no effect."""
        found = self.parsed_settings(["rebuild"], '[history]\nolder_than = "90d"\nformat = "csv"\n')
        assert "older_than" not in found

    @pytest.mark.parametrize(
        ("line", "here", "message"),
        [
            (
                ["export", "s"],
                "[history]\nformat = 'xml'",
                "expected jsonl or csv or messages or ocsf, found 'xml'",
            ),
            (["prune"], "[history]\nolder = '90d'", "unknown setting 'older'"),
            (["prune"], "[history]\ndry_run = 'maybe'", "dry_run: expected true or false"),
            (["prune"], "[history]\nolder_than = [1]", "older_than: expected one value"),
        ],
    )
    def test_wrong_setting_is_reported_with_its_file(
        self, shell: Shell, line: list[str], here: str, message: str
    ) -> None:
        """A wrong setting is reported with its file."""
        with pytest.raises(SettingsError, match=r"interlock\.toml") as caught:
            self.parsed_settings(line, here)
        assert message in str(caught.value)

    @pytest.mark.parametrize("part", PARTS)
    def test_db_option_before_or_after_the_part(self, shell: Shell, part: str) -> None:
        """`--db` before or after the part overrides file and variable."""
        more = {"export": ["s"], "import": ["f"]}.get(part, [])
        for line in (["--db", "a.db", part, *more], [part, *more, "--db", "a.db"]):
            assert self.parsed_settings(line, "db = 'file.db'", DB="env.db")["db"] == parsed_value(
                Path("a.db")
            )
        line = ["--db", "a.db", part, *more, "--db", "b.db"]
        assert self.parsed_settings(line)["db"] == parsed_value(Path("b.db"))
        line = ["--redact", "pin", part, *more]
        assert self.parsed_settings(line, REDACT="iban")["redact"] == "pin"

    def test_command_uses_settings_and_variables(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The command uses settings and variables."""
        Path("config").mkdir(exist_ok=True)
        Path("config/interlock.toml").write_text('[history]\nolder_than = "90d"\ndry_run = true\n')
        assert "Would prune 1 session" in shell.run("prune")
        monkeypatch.setenv("INTERLOCK_DRY_RUN", "no")
        assert "Pruned 1 session" in shell.run("prune")
        assert [s.id for s in open_reader(shell.database).sessions()] == [OTHER]

    def test_sessions_are_listed_without_a_part(self, shell: Shell) -> None:
        """Without a part the sessions are listed."""
        assert ID in shell.run()
        assert len(shell.run("--limit", "1").splitlines()) == 2
        assert len(BODIES) == 10
