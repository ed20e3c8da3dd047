"""The reasons for denials that a settings file offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.config.approvals import approval_settings
from interlock.app.config.loader import SettingsError


def reasons(folder: Path, text: str) -> tuple[str, ...]:
    (folder / "interlock.toml").write_text(text)
    config = {"INTERLOCK_CONFIG_DIR": str(folder)}
    return approval_settings(environ=config, directory=folder).deny_reasons


class TestReasons:
    def test_they_are_read_in_their_order(self, tmp_path: Path) -> None:
        """Section 1: presets come from the configuration."""
        text = '[approvals]\ndeny_reasons = ["wrong environment", " not now "]\n'
        assert reasons(tmp_path, text) == ("wrong environment", "not now")

    def test_without_any(self, tmp_path: Path) -> None:
        """No file, no table, no list: nothing is offered."""
        assert reasons(tmp_path, "") == reasons(tmp_path, "[approvals]\n") == ()

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ('"no"', "expected a list"),
            ("[1]", "texts of one line, found 1"),
            ('["a\\nb"]', "texts of one line"),
            ('["a","b","c","d","e","f","g","h","i","j"]', "at most 9, found 10"),
        ],
    )
    def test_what_cannot_be_offered(self, tmp_path: Path, value: str, problem: str) -> None:
        """Said with the place and what was found, before the console opens."""
        with pytest.raises(SettingsError, match=problem):
            reasons(tmp_path, f"[approvals]\ndeny_reasons = {value}\n")
