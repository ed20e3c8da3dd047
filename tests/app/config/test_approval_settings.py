"""The deny reasons that a settings file offers."""

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
    def test_order_is_kept(self, tmp_path: Path) -> None:
        """Section 1: the presets come from the configuration, in their order."""
        text = '[approvals]\ndeny_reasons = ["wrong environment", " not now "]\n'
        assert reasons(tmp_path, text) == ("wrong environment", "not now")

    def test_none_without_a_table(self, tmp_path: Path) -> None:
        """Without a table or a list no reasons are offered."""
        assert reasons(tmp_path, "") == reasons(tmp_path, "[approvals]\n") == ()

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ('"no"', "expected a list"),
            ("[1]", "texts on one line each, found 1"),
            ('["a\\nb"]', "texts on one line each"),
            ('["a","b","c","d","e","f","g","h","i","j"]', "at most 9, found 10"),
        ],
    )
    def test_invalid_reasons_are_refused(self, tmp_path: Path, value: str, problem: str) -> None:
        """Invalid reasons are refused with what was found, before the console opens."""
        with pytest.raises(SettingsError, match=problem):
            reasons(tmp_path, f"[approvals]\ndeny_reasons = {value}\n")


class TestLateAnswers:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [('"30m"', 1800.0), ('"off"', 0.0), ('"0"', 0.0), ("0", 0.0), ('"24h"', 86400.0)],
    )
    def test_time_or_off(self, tmp_path: Path, value: str, seconds: float) -> None:
        """The policy has the time that a request stays open without its client."""
        (tmp_path / "interlock.toml").write_text(f"[approvals]\nlate_answers = {value}\n")
        found = approval_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)}, directory=tmp_path)
        assert found.policy.late == seconds

    def test_default_is_a_quarter_of_an_hour(self, tmp_path: Path) -> None:
        """The default is a quarter of an hour."""
        found = approval_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)}, directory=tmp_path)
        assert found.policy.late == 900.0

    @pytest.mark.parametrize("value", ['"25h"', '"soon"', "true", '"-1m"'])
    def test_invalid_time_is_refused(self, tmp_path: Path, value: str) -> None:
        """An invalid time is refused with what is expected."""
        (tmp_path / "interlock.toml").write_text(f"[approvals]\nlate_answers = {value}\n")
        with pytest.raises(SettingsError, match="or 'off'"):
            approval_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)}, directory=tmp_path)

    def test_working_directory_cannot_set_it(self, tmp_path: Path) -> None:
        """The working directory, where an agent may write, cannot set it."""
        (tmp_path / "project").mkdir()
        (tmp_path / "project" / "interlock.toml").write_text('[approvals]\nlate_answers = "24h"\n')
        with pytest.raises(SettingsError):
            approval_settings(
                environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)}, directory=tmp_path / "project"
            )
