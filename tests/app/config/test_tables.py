"""Errors of a settings table: all are reported, in one format."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.config.gateway import gateway_settings
from interlock.app.config.hooks import hook_settings
from interlock.app.config.loader import TABLES, SettingsError, declared_keys
from interlock.app.config.notifications import NotifySettings, notify_settings

from .test_settings import settled


def environment(folder: Path, text: str) -> dict[str, str]:
    """Write the user's file and return the environment that leads to it."""
    (folder / "interlock.toml").write_text(text)
    return {"INTERLOCK_CONFIG_DIR": str(folder)}


class TestGateway:
    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("limits = 5", "limits: expected a table, found 5"),
            ("limits = {rates = 1}", "limits: unknown setting 'rates'; known: frame, connections, "),
            ("limits = {rate = 0}", "limits.rate: expected more than 0, found 0"),
            ("limits = {frame = 1.5}", "limits.frame: expected a whole number, found 1.5"),
            ("limits = {frame = true}", "limits.frame: expected a whole number, found true or false"),
            ("limits = {rate = inf}", "limits.rate: expected a finite number, found inf"),
            ("hosts = [1]", "hosts[0]: expected text in quotes, found 1"),
            ("origins = ['']", "origins[0]: expected some text, found ''"),
            ("rules = 'a.rules'", "rules: expected a table, found 'a.rules'"),
            ("rules = {deploy = [2]}", "rules.deploy[0]: expected text in quotes, found 2"),
            ("agents_may_shadow = 1", "agents_may_shadow: expected true or false, found 1"),
            (
                "added = {}",
                "unknown setting 'added'; known: agents_may_shadow, hosts, limits, origins, page, rules",
            ),
        ],
    )
    def test_error_names_the_place_and_the_expected_value(
        self, tmp_path: Path, line: str, problem: str
    ) -> None:
        """Each error has the file, the table, the key and what is expected."""
        with pytest.raises(SettingsError) as caught:
            gateway_settings(environ=environment(tmp_path, f"[gateway]\n{line}\n"), directory=tmp_path)
        assert str(caught.value).startswith(f"{tmp_path}/interlock.toml: [gateway]: {problem}")

    def test_given_limit_applies(self, tmp_path: Path) -> None:
        """A limit in the file applies; the others keep their defaults."""
        environ = environment(tmp_path, "[gateway]\nlimits = {rate = 9, frame = 8}\n")
        limits = gateway_settings(environ=environ, directory=tmp_path / "work").limits
        assert (limits.rate, limits.frame, limits.backlog) == (9, 8, 10_000)


class TestTogether:
    def test_all_errors_of_a_table(self, tmp_path: Path) -> None:
        """All errors of a table are reported at once, one per line."""
        environ = environment(tmp_path, '[notify]\nafter = "soon"\nurl = "x"\nurls = 1\n')
        with pytest.raises(SettingsError) as caught:
            notify_settings(environ=environ, directory=tmp_path)
        assert [line.split(": ")[2] for line in str(caught.value).splitlines()] == [
            "after",
            "url",
            "unknown setting 'urls'; known",
        ]

    def test_all_errors_of_the_hooks(self, tmp_path: Path) -> None:
        """The hooks' table, which pydantic does not read, is reported in the same format."""
        environ = environment(tmp_path, '[hook]\nwait = "soon"\non_wait = 1\nwaits = 1\n')
        with pytest.raises(SettingsError) as caught:
            hook_settings(environ=environ)
        lines = str(caught.value).splitlines()
        assert lines[1:] == [
            f"{tmp_path}/interlock.toml: [hook]: on_wait: expected deny or ask, found 1",
            f"{tmp_path}/interlock.toml: [hook]: unknown setting 'waits'; known: wait, on_allow, "
            "on_wait, on_edit, rules, idle_exit",
        ]

    def test_all_errors_of_a_command(self, tmp_path: Path) -> None:
        """Unknown keys and wrong values of options are reported together."""
        with pytest.raises(SettingsError) as caught:
            settled(tmp_path, ["history"], user="limt = 3\nlimit = 0\n[history]\ndbs = 1\n")
        assert [line.split(": ", 1)[1] for line in str(caught.value).splitlines()] == [
            "unknown setting 'limt'; did you mean 'limit'?",
            "[history]: unknown setting 'dbs'; did you mean 'db'?",
            "limit: a number from 1, not '0'",
        ]

    def test_all_keys_forbidden_in_a_directory(self, tmp_path: Path) -> None:
        """Every key that a working directory must not set is named."""
        (tmp_path / "interlock.toml").write_text('[notify]\nafter = "1m"\nurl = "https://a.example"\n')
        with pytest.raises(SettingsError) as caught:
            notify_settings(
                environ={"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")}, directory=tmp_path
            )
        assert str(caught.value).count(": is allowed in ") == 2


class TestDeclared:
    def test_each_key_of_a_model_is_declared(self) -> None:
        """Every key is declared, because the settings page is generated from the declarations."""
        assert set(declared_keys(NotifySettings)) == set(NotifySettings.model_fields)

    def test_tables_named_like_commands(self) -> None:
        """`[approvals]`, `[hook]` and `[notify]` are settings tables as well as commands."""
        assert set(TABLES) & set(parser().commands) == {"approvals", "hook", "notify"}
