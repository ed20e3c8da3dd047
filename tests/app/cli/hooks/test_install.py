"""`interlock hook install` adds hooks beside an agent's other settings, and `uninstall` removes them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.app.cli.hooks.command_line import HookLine
from interlock.app.cli.hooks.hook import run as hook
from interlock.app.cli.hooks.install import HookInstallError, install, settings_path, uninstall

from .running import INTERLOCK, Hook

COMMAND = ("/opt/my tools/interlock",)
EVENTS = ["SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"]
OTHERS = {
    "zeta": 1,
    "permissions": {"allow": ["Bash(ls:*)"], "größe": None},
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "./mine.sh", "timeout": 5}]}
        ],
        "Empty": [],
    },
    "alpha": [1.5, "x"],
}


def written(path: Path) -> dict[str, object]:
    return json.loads(path.read_text(encoding="utf-8"))


def commands(found: dict[str, object], event: str) -> list[dict[str, object]]:
    groups = cast("dict[str, list[dict[str, list[dict[str, object]]]]]", found["hooks"])[event]
    return [hook for group in groups for hook in group["hooks"]]


class TestInstall:
    def test_new_file(self, tmp_path: Path) -> None:
        """A missing settings file is created, with a hook for every event."""
        path = tmp_path / "a" / ".claude" / "settings.json"
        assert install("claude-code", path, COMMAND, 50.0, HookLine())
        found = written(path)
        assert list(cast("dict[str, object]", found["hooks"])) == EVENTS
        for event in EVENTS:
            (hook,) = commands(found, event)
            assert hook["timeout"] == 60
            assert str(hook["command"]).startswith(
                "'/opt/my tools/interlock' hook claude-code --timeout 60"
            )
        assert commands(found, "PreToolUse")[0]["onFailure"] == "block"

    def test_agent_timeout_exceeds_the_wait(self, tmp_path: Path) -> None:
        """The agent's timeout is longer than Interlock's wait, and the command gets it as an option."""
        path = tmp_path / "settings.json"
        install("claude-code", path, COMMAND, 540.0, HookLine())
        (hook,) = commands(written(path), "PreToolUse")
        assert hook["timeout"] == 550
        assert "--timeout 550" in str(hook["command"])

    def test_other_settings_are_kept(self, tmp_path: Path) -> None:
        """Other settings, other hooks and the key order stay; the old file is kept as a copy."""
        path = tmp_path / "settings.json"
        before = json.dumps(OTHERS)
        path.write_text(before, encoding="utf-8")
        path.chmod(0o640)
        install("claude-code", path, COMMAND, 50.0, HookLine())
        found = written(path)
        assert list(found) == list(OTHERS)
        theirs, ours = (str(hook["command"]) for hook in commands(found, "Stop"))
        assert theirs == "say done"
        # At code 2 Claude Code would continue to work.
        assert ours.endswith("|| exit 1")
        assert commands(found, "PreToolUse")[0] == OTHERS["hooks"]["PreToolUse"][0]["hooks"][0]  # type: ignore[index]
        assert len(commands(found, "PreToolUse")) == 2
        assert path.stat().st_mode & 0o777 == 0o640
        assert (tmp_path / "settings.json.before-interlock").read_text(encoding="utf-8") == before

    def test_second_installation_changes_nothing(self, tmp_path: Path) -> None:
        """Installing again changes nothing; with other options it replaces the hooks."""
        path = tmp_path / "settings.json"
        path.write_text(json.dumps(OTHERS), encoding="utf-8")
        assert install("claude-code", path, COMMAND, 50.0, HookLine())
        assert not install("claude-code", path, COMMAND, 50.0, HookLine())
        assert install("claude-code", path, ("/new/interlock",), 50.0, HookLine(project=tmp_path))
        ours = [hook for hook in commands(written(path), "PreToolUse") if "mine.sh" not in str(hook)]
        assert len(ours) == 1
        assert str(ours[0]["command"]).startswith(
            "/new/interlock hook claude-code --timeout 60 --project "
        )

    def test_uninstall(self, tmp_path: Path) -> None:
        """Uninstalling restores the earlier settings."""
        path = tmp_path / "settings.json"
        path.write_text(json.dumps(OTHERS), encoding="utf-8")
        install("claude-code", path, COMMAND, 50.0, HookLine())
        assert uninstall("claude-code", path)
        assert json.dumps(written(path)) == json.dumps(OTHERS)
        assert not uninstall("claude-code", path)
        assert not uninstall("claude-code", tmp_path / "none.json")

    @pytest.mark.slow
    @given(
        st.dictionaries(
            st.text(max_size=5).filter(lambda key: key != "hooks"),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
                max_leaves=5,
            ),
        )
    )
    def test_install_and_uninstall_round_trip(
        self, tmp_path_factory: pytest.TempPathFactory, others: dict[str, object]
    ) -> None:
        """For any settings, installing and uninstalling gives them back."""
        path = tmp_path_factory.mktemp("law") / "settings.json"
        path.write_text(json.dumps(others), encoding="utf-8")
        try:
            install("claude-code", path, COMMAND, 50.0, HookLine())
        except HookInstallError:
            assert others.get("disableAllHooks") is True
            return
        uninstall("claude-code", path)
        assert json.dumps(written(path)) == json.dumps(others)

    @pytest.mark.parametrize(
        "text",
        [
            "{",
            "[]",
            "// comment\n{}",
            '{"a": 1, "a": 2}',
            '{"hooks": []}',
            '{"hooks": {"PreToolUse": {}}}',
            '{"disableAllHooks": true}',
        ],
    )
    def test_unpreservable_settings_are_refused(self, tmp_path: Path, text: str) -> None:
        """Settings that cannot be preserved, or that disable hooks, are refused and stay unchanged."""
        path = tmp_path / "settings.json"
        path.write_text(text)
        with pytest.raises(HookInstallError, match=r"settings\.json"):
            install("claude-code", path, COMMAND, 50.0, HookLine())
        assert path.read_text() == text
        assert list(tmp_path.iterdir()) == [path]

    def test_link_stays_a_link(self, tmp_path: Path) -> None:
        """A settings file that is a symbolic link stays one."""
        real, path = tmp_path / "dotfiles.json", tmp_path / "settings.json"
        real.write_text("{}")
        path.symlink_to(real)
        install("claude-code", path, COMMAND, 50.0, HookLine())
        assert path.is_symlink()
        assert "hooks" in written(real)

    def test_codex(self, tmp_path: Path) -> None:
        """Codex's file has only Codex's events, and no key that Codex refuses."""
        path = tmp_path / "hooks.json"
        install("codex", path, COMMAND, 50.0, HookLine())
        found = written(path)
        assert list(found) == ["hooks"]
        assert list(cast("dict[str, object]", found["hooks"])) == [
            event for event in EVENTS if event != "PostToolUseFailure"
        ]
        assert "onFailure" not in path.read_text()
        # Codex waits no longer for this one, and prints a warning if a hook asks for more.
        (ending,) = commands(found, "SessionEnd")
        assert ending["timeout"] == 3
        assert "--timeout 3 " in str(ending["command"])
        # At code 2 Codex would continue to work, as Claude Code would.
        assert str(commands(found, "Stop")[0]["command"]).endswith("|| exit 1")


class TestCommand:
    def run(self, hook: Hook, *line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [INTERLOCK, "hook", *line],
            capture_output=True,
            text=True,
            env=hook.environment,
            cwd=hook.home,
            check=False,
        )

    def test_user_settings_without_project_option(self, tmp_path: Path) -> None:
        """Without `--project` the hooks are in the user's settings, with the path of this Interlock."""
        hook = Hook.at(tmp_path / "home")
        ran = self.run(hook, "install", "claude-code")
        path = hook.home / ".claude" / "settings.json"
        assert ran.returncode == 0, ran.stderr
        assert f"Wrote the hooks into {path}" in ran.stdout
        (found,) = commands(written(path), "PreToolUse")
        # As the script's first line names it: `python` and `python3.11` are the same program.
        interpreter = Path(INTERLOCK).read_text().splitlines()[0].removeprefix("#!")
        assert str(found["command"]).startswith(
            f"{interpreter} -I -m interlock.app.cli hook claude-code --timeout 60 "
            f"--config-dir {hook.config} --home {hook.home} "
            f"--data-dir {hook.home / 'data'} --state-dir {hook.home / 's'} ||"
        )

    @pytest.mark.slow
    def test_project_settings_with_project_option(self, tmp_path: Path) -> None:
        """With `--project` the hooks are in the project's settings, with a warning about duplicates."""
        hook = Hook.at(tmp_path / "home")
        (hook.home / "my shop").mkdir()
        self.run(hook, "install", "claude-code")
        ran = self.run(hook, "install", "claude-code", "--project", "my shop", "--wait", "9m")
        assert ran.returncode == 0, ran.stderr
        assert "asked about twice" in ran.stderr
        (found,) = commands(written(hook.home / "my shop/.claude/settings.json"), "PreToolUse")
        assert found["timeout"] == 550
        assert f"--project '{hook.home}/my shop'" in str(found["command"])
        assert self.run(hook, "uninstall", "claude-code", "--project", "my shop").returncode == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("part", ["install", "uninstall"])
    def test_project_link_to_user_settings_is_refused(self, tmp_path: Path, part: str) -> None:
        """A project's link to the user's settings is refused."""
        hook = Hook.at(tmp_path / "home")
        self.run(hook, "install", "claude-code")
        path = hook.home / ".claude" / "settings.json"
        before = path.read_text()
        shop = hook.home / "shop"
        shop.mkdir()
        (shop / ".claude").symlink_to(hook.home / ".claude")
        ran = self.run(hook, part, "claude-code", "--project", "shop")
        assert ran.returncode == 2
        assert f"{shop}/.claude/settings.json: expected a file in the project, found {path}" in ran.stderr
        assert path.read_text() == before
        assert [each.name for each in path.parent.iterdir()] == [path.name]

    @pytest.mark.slow
    def test_pipe_as_settings_is_refused(self, tmp_path: Path) -> None:
        """A pipe in place of the settings file is refused without waiting."""
        hook = Hook.at(tmp_path / "home")
        folder = hook.home / "shop" / ".claude"
        folder.mkdir(parents=True)
        os.mkfifo(folder / "settings.json")
        ran = self.run(hook, "install", "claude-code", "--project", "shop")
        assert ran.returncode == 2
        assert "settings.json: expected a file in the project" in ran.stderr

    @pytest.mark.slow
    def test_installation_inside_the_project_is_warned_about(self, tmp_path: Path) -> None:
        """If Interlock is in the project, where the agent could replace it, the command warns."""
        hook = Hook.at(tmp_path / "home")
        shop = hook.home / "shop"
        environment = shop / ".venv" / "bin"
        environment.mkdir(parents=True)
        shutil.copy(Path(sys.prefix) / "pyvenv.cfg", environment.parent)
        (environment.parent / "lib").symlink_to(Path(sys.prefix) / "lib")
        (environment / "python").symlink_to(sys.executable)
        ran = subprocess.run(
            [
                *(environment / "python", "-I", "-m", "interlock.app.cli"),
                *("hook", "install", "claude-code", "--project", shop),
            ],
            capture_output=True,
            text=True,
            env=hook.environment,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert f"Hooks run {environment / 'python'}, which is in the project" in ran.stderr

    @pytest.mark.slow
    def test_output_explains_how_codex_trusts_hooks(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Codex skips hooks that the user has not trusted, so the output says how to trust them."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
        for project in (None, tmp_path):
            asked = argparse.Namespace(part="install", agent="codex", project=project, wait="50s")
            assert hook(asked) == 0
            said = capsys.readouterr().out
            assert "until you have trusted them: open /hooks" in said
            assert ("trusts the project" in said) is (project is not None)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (["install", "claude-code", "--project", "nowhere"], "no such directory"),
            (["install", "claude-code", "--wait", "2h"], "60m"),
            (["install", "emacs"], "invalid choice"),
            ([], "PART"),
        ],
    )
    def test_wrong_options(self, tmp_path: Path, line: list[str], said: str) -> None:
        """Wrong options are reported with exit code 2."""
        ran = self.run(Hook.at(tmp_path / "home"), *line)
        assert ran.returncode == 2
        assert said in ran.stderr

    @pytest.mark.slow
    def test_help_lists_it(self, tmp_path: Path) -> None:
        """The help lists the command's parts and options."""
        hook = Hook.at(tmp_path / "home")
        assert "install" in self.run(hook, "--help").stdout
        assert "--timeout" in self.run(hook, "claude-code", "--help").stdout

    def test_variables_and_project_set_the_place(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """The agents' own variables and the project set the place of the settings file."""
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "c"))
        monkeypatch.setenv("CODEX_HOME", str(tmp_path / "x"))
        assert settings_path("claude-code", None) == tmp_path / "c" / "settings.json"
        assert settings_path("codex", None) == tmp_path / "x" / "hooks.json"
        assert settings_path("codex", tmp_path) == tmp_path / ".codex" / "hooks.json"
