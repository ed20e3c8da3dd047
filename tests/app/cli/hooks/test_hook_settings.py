"""`[hook]` in the user's settings file and in a project's."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.config.hooks import HookSettings, hook_settings
from interlock.app.config.loader import SettingsError


def settings_of(tmp_path: Path, *, user: str = "", project: str | None = None) -> HookSettings:
    config, work = tmp_path / "config", tmp_path / "work"
    for folder, text in ((config, user), (work, project or "")):
        folder.mkdir()
        (folder / "interlock.toml").write_text(text)
    environ = {"INTERLOCK_CONFIG_DIR": str(config)}
    return hook_settings(None if project is None else work, environ=environ)


class TestTable:
    def test_defaults_without_a_table(self, tmp_path: Path) -> None:
        """Without a `[hook]` table the strict defaults apply."""
        found = settings_of(tmp_path)
        assert found == HookSettings(
            wait=50.0, on_allow="approved", on_wait="deny", on_edit=None, rules=()
        )

    def test_users_table_may_set_every_key(self, tmp_path: Path) -> None:
        """The user's table may set every key."""
        text = (
            '[hook]\nwait = "9m"\non_allow = "allow"\non_wait = "ask"\non_edit = "deny"\nrules = ["a"]\n'
        )
        assert settings_of(tmp_path, user=text) == HookSettings(540.0, "allow", "ask", "deny", ("a",))

    def test_project_adds_rules_and_waiting_time(self, tmp_path: Path) -> None:
        """A project adds rules and sets the waiting time, and removes nothing of the user's."""
        user = '[hook]\nwait = "9m"\non_allow = "defer"\nrules = ["a", "b"]\n'
        found = settings_of(tmp_path, user=user, project='[hook]\nwait = "20s"\nrules = ["b", "c"]\n')
        assert found == HookSettings(20.0, "defer", "deny", None, ("a", "b", "c"))
        (tmp_path / "work" / "interlock.toml").write_text("[hook]\n")
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")}
        found = hook_settings(tmp_path / "work", environ=environ)
        assert found == HookSettings(540.0, "defer", "deny", None, ("a", "b"))

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ('wait = "soon"', "wait: expected a length of time"),
            ("wait = 50", "wait: expected a length of time"),
            ('wait = "0s"', "wait"),
            ('wait = "2h"', "from 1s to 60m"),
            ('on_allow = "yes"', "on_allow: expected approved or allow or defer"),
            ("on_wait = true", "on_wait: expected deny or ask"),
            ('on_edit = ""', "on_edit: expected pass or deny"),
            ("rules = [1]", "rules: expected names"),
            ('rules = [""]', "rules: expected names"),
            ("waiting = 1", "unknown setting 'waiting'"),
        ],
    )
    def test_invalid_setting_is_named(self, tmp_path: Path, line: str, said: str) -> None:
        """An invalid setting is named, with its file and what is expected."""
        with pytest.raises(SettingsError, match=r"interlock\.toml") as error:
            settings_of(tmp_path, user=f"[hook]\n{line}\n")
        assert said in str(error.value)
