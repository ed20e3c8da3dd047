"""The operators in `[operators]` of a settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.config.loader import SettingsError
from interlock.app.config.operators import operators
from interlock.engine.core.approvers import Operators

TWO = """
[operators.maria]
role = "decide"
groups = ["security", "oncall"]

[operators.ada]
groups = "security"

[operators.ben]
role = "look"
groups = ["security"]
"""


def read(folder: Path, text: str) -> Operators:
    config = folder / "config"
    config.mkdir(exist_ok=True)
    (config / "interlock.toml").write_text(text, "utf-8")
    return operators(environ={"INTERLOCK_CONFIG_DIR": str(config)}, directory=folder)


class TestOperators:
    def test_roles_and_groups(self, tmp_path: Path) -> None:
        """Each operator has groups and a role, by default `administer`."""
        known = read(tmp_path, TWO)
        assert known.configured
        assert (known.find("maria").rights, known.find("maria").groups) == (
            "decide",
            ("security", "oncall"),
        )
        assert (known.find("ada").rights, known.find("ada").groups) == ("administer", ("security",))
        assert known.groups == ("security", "oncall")

    def test_names_are_compared_in_normalised_form(self, tmp_path: Path) -> None:
        """Another spelling of a name is the same operator; another name is in no group."""
        known = read(tmp_path, TWO)
        assert known.find(" MARIA ").is_in("security")
        assert known.find("mario").groups == ()

    def test_only_deciding_members_count_for_a_group(self, tmp_path: Path) -> None:
        """A member with the role `look` does not count as an approver of the group."""
        known = read(tmp_path, TWO)
        assert [each.name for each in known.deciding(["security"])] == ["maria", "ada"]
        assert [each.name for each in known.deciding(["oncall", "dba"])] == ["maria"]

    def test_missing_table_differs_from_an_empty_one(self, tmp_path: Path) -> None:
        """A missing table is distinguished from an empty one."""
        assert not read(tmp_path, "").configured
        assert read(tmp_path, "[operators]\n").configured

    def test_role_limits_a_token(self, tmp_path: Path) -> None:
        """The lower right of role and token applies; agents' tokens have neither."""
        known = read(tmp_path, TWO)
        assert known.bounded("ben", "administer") == "look"
        assert known.bounded("ada", "decide") == "decide"
        assert known.bounded("ben", None) is None

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('[operators.ada]\nrole = "boss"', r"operators\]: ada.role: expected 'look', 'decide' or 'a"),
            ('[operators.ada]\ngroup = "x"', r"ada: unknown setting 'group'; known: role, groups"),
            ('[operators.ada]\ngroups = ["on call"]', r"ada.groups\[0\]: a group is one word"),
            (
                '[operators]\nada = "look"',
                r"ada: expected a table with role, groups, subject and slack, found 'look'",
            ),
            (
                "[operators.ada]\n[operators.Ada]",
                "'ada' and 'Ada' are one person's: list each person onc",
            ),
            ("[operators.al]\n[operators.a1]", "'al' and 'a1' are easily confused"),
            ('[operators." "]', "an operator's name is one line"),
            ('operators = "ada"', "expected a table of settings"),
        ],
    )
    def test_invalid_entry_stops_the_start(self, tmp_path: Path, text: str, problem: str) -> None:
        """An invalid role, group or name stops the start."""
        with pytest.raises(SettingsError, match=problem):
            read(tmp_path, text)

    def test_working_directory_cannot_name_operators(self, tmp_path: Path) -> None:
        """The working directory cannot name operators, because an agent may write there."""
        (tmp_path / "interlock.toml").write_text(TWO, "utf-8")
        with pytest.raises(
            SettingsError, match=r"operators\].*is allowed in .*config/interlock.toml only"
        ):
            read(tmp_path, "")
