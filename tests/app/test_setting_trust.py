"""What a working directory's settings may say, where an agent may write: nothing that loosens."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from interlock.app.gateway_settings import gateway_settings
from interlock.app.setting_trust import added
from interlock.app.settings import SettingsError
from tests.app.test_settings import settled

RUN = ["run", "--model", "openai/x", "go"]
ACP = ["acp", "--", "agent"]
FLOW = ["flow", "run", "m:F"]
LOOSER = [
    (RUN, "mode", "shadow"),
    (ACP, "mode", "shadow"),
    (FLOW, "mode", "shadow"),
    (RUN, "answer", "approve"),
    (ACP, "answer", "approve"),
    (FLOW, "answer", "approve"),
    (["resume", "s"], "answer", "approve"),
    (RUN, "active", "block-rm"),
    (RUN, "api_base", "http://192.0.2.7/v1"),
    (RUN, "network", "true"),
    (RUN, "workdir", ".."),
    (RUN, "tools", "bash,mine:tool"),
    (FLOW, "workdir", "sub/../.."),
    (FLOW, "allow_command", "rm"),
    (["serve"], "listen", "0.0.0.0:8737"),
    (["serve"], "certificate", "cert.pem"),
    (["web"], "listen", "192.0.2.7:8738"),
    (["web"], "agents", "192.0.2.7:8737"),
    (["web"], "key", "key.pem"),
]
SAID = r"interlock\.toml: {}: may stand in .*config/interlock.toml only, since agents may write in the "


class TestLooser:
    @pytest.mark.parametrize(("line", "name", "value"), LOOSER)
    def test_not_from_the_working_directory(
        self, tmp_path: Path, line: list[str], name: str, value: str
    ) -> None:
        """An agent does not choose how the next start holds it, at the top or in the command's table."""
        for here in (f"{name} = '{value}'", f"[{line[0]}]\n{name} = '{value}'"):
            with pytest.raises(SettingsError, match=SAID.format(name)) as caught:
                settled(tmp_path, line, here=here)
            assert f"say it on the line: --{name.replace('_', '-')}" in str(caught.value)

    @pytest.mark.parametrize(("line", "name", "value"), LOOSER)
    def test_by_whoever_answers_for_it(
        self, tmp_path: Path, line: list[str], name: str, value: str
    ) -> None:
        """The user's own file, a file that is named and the environment may."""
        named = tmp_path / "named.toml"
        named.write_text(f"{name} = '{value}'")
        ways = [
            settled(tmp_path, line, environ={f"INTERLOCK_{name.upper()}": value}),
            settled(tmp_path, line, environ={"INTERLOCK_CONFIG": str(named)}),
            settled(tmp_path, line, user=f"{name} = '{value}'"),
        ]
        for args in ways:
            assert getattr(args, name)
            assert args.of_directory == {}

    def test_out_of_the_users_sandbox(self, tmp_path: Path) -> None:
        """Tools run where the user has them run; who chose nothing may be given a sandbox."""
        with pytest.raises(SettingsError, match="runtime: may stand in"):
            settled(tmp_path, RUN, here="runtime = 'local'", user="runtime = 'sandbox'")
        assert settled(tmp_path, RUN, here="runtime = 'sandbox'", user="").runtime == "sandbox"

    @pytest.mark.parametrize(
        ("line", "name", "value"),
        [
            (RUN, "answer", "deny"),
            (RUN, "network", "false"),
            (RUN, "workdir", "sub"),
            (RUN, "tools", "bash,read"),
            (["serve"], "listen", "unix:gate.sock"),
            (["web"], "agents", "127.0.0.1:9000"),
            (["backtest", "a.rules"], "active", "block-rm"),
        ],
    )
    def test_what_loosens_nothing(self, tmp_path: Path, line: list[str], name: str, value: str) -> None:
        """A working directory has its own settings where nobody is held less by them."""
        assert getattr(settled(tmp_path, line, here=f"{name} = '{value}'"), name) is not None

    def test_stricter_than_the_user(self, tmp_path: Path) -> None:
        """It may ask for more than the user does, and that is told."""
        args = settled(tmp_path, RUN, here="mode = 'enforce'", user="mode = 'shadow'")
        assert args.mode == "enforce"
        assert (added(args) or "").startswith(f"mode enforce from {tmp_path}/project/interlock.toml: ")


class TestRules:
    def test_come_on_top_of_the_users(self, tmp_path: Path) -> None:
        """What the user's own file names is left out for no directory."""
        args = settled(
            tmp_path,
            ["serve"],
            here="rules = ['a.rules']",
            user="rules = ['strict.rules']\n[serve]\nrules = ['mine.rules', '/etc/all.rules']",
        )
        assert args.rules == ["a.rules", f"{tmp_path}/config/mine.rules", "/etc/all.rules"]

    def test_of_the_user_begin_beside_the_file(self, tmp_path: Path) -> None:
        """A file of the same name in the working directory does not stand in for the user's."""
        args = settled(tmp_path, RUN, user="rules = 'mine.rules'")
        assert args.rules == [f"{tmp_path}/config/mine.rules"]
        assert added(args) is None
        with pytest.raises(SettingsError, match="no-such-user"):
            settled(tmp_path, RUN, user="rules = '~no-such-user/mine.rules'")

    def test_on_the_line_or_in_the_environment(self, tmp_path: Path) -> None:
        """Who names rules for this start names all of them."""
        here, user = "rules = 'a.rules'", "rules = 'mine.rules'"
        line = ["serve", "--rules", "b.rules"]
        assert settled(tmp_path, line, here=here, user=user).rules == ["b.rules"]
        environ = {"INTERLOCK_RULES": "c.rules"}
        args = settled(tmp_path, ["serve"], environ=environ, here=here, user=user)
        assert args.rules == ["c.rules"]
        assert added(args) is None

    def test_beside_the_users_settings(self, tmp_path: Path) -> None:
        """Started in the config directory, also by another way to it, its file is the user's own."""
        (tmp_path / "project").mkdir()
        (tmp_path / "config").symlink_to(tmp_path / "project")
        args = settled(tmp_path, ["serve"], here="mode = 'shadow'\nrules = 'a.rules'")
        assert (args.mode, args.rules) == ("shadow", ["a.rules"])


class TestTold:
    def test_with_the_place(self, tmp_path: Path) -> None:
        """Whoever starts agents reads which rules come from where, whatever the file is called."""
        args = settled(tmp_path, ["serve"], here='rules = ["a.rules", "b\\u001b[2J.rules"]')
        where = f"{tmp_path}/project/interlock.toml"
        assert added(args) == (
            f"rules a.rules, b\\x1b[2J.rules from {where}: a working directory may add rules, and loosen "
            "nothing"
        )

    def test_of_those_that_count(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An agent file's own rules leave no room for others, which are then not told."""
        monkeypatch.chdir(tmp_path)
        args = Namespace(of_directory={"rules": ["a.rules", "b.rules"], "where": "interlock.toml"})
        assert (added(args, [tmp_path / "a.rules"]) or "").startswith("rules a.rules from interlock.toml")
        assert added(args, [tmp_path / "c.rules"]) is None


class TestGateway:
    def settings(self, tmp_path: Path, here: str, user: str) -> dict[str, tuple[str, ...]]:
        work, config = tmp_path / "project", tmp_path / "config"
        for folder, text in ((work, here), (config, user)):
            folder.mkdir()
            (folder / "interlock.toml").write_text(text)
        found = gateway_settings(environ={"INTERLOCK_CONFIG_DIR": str(config)}, directory=work)
        assert found.limits.rate == 9
        return dict(found.rules)

    def test_sets_are_added_to_the_users(self, tmp_path: Path) -> None:
        """A directory's table takes no limit and no rule out of the user's."""
        here = "[gateway.rules]\nstrict = 'none.rules'\nmore = 'more.rules'\n"
        user = "[gateway]\nlimits = {rate = 9}\n[gateway.rules]\nstrict = ['all.rules']\n"
        assert self.settings(tmp_path, here, user) == {
            "strict": (f"{tmp_path}/config/all.rules", "none.rules"),
            "more": ("more.rules",),
        }

    def test_the_users_alone(self, tmp_path: Path) -> None:
        """Without one in the directory the user's counts, and its files begin beside it."""
        user = "[gateway]\nlimits = {rate = 9}\n[gateway.rules]\nstrict = 'all.rules'\n"
        assert self.settings(tmp_path, "", user) == {"strict": (f"{tmp_path}/config/all.rules",)}
