"""`interlock hook test`: the installed hooks block a probe, and the report lists their limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.app.cli.hooks.command_line import HookLine
from interlock.app.cli.hooks.install import install, installed_hooks, weak_points
from interlock.engine.history.model.events import CallDecided
from tests.engine.gateway.served import Served, served

from .running import Hook, Ran

OWN = (sys.executable, "-I", "-m", "interlock.app.cli")
FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}


def installed(hook: Hook, agent: str = "claude-code") -> Path:
    """Install the hooks in the user's settings and return the file."""
    path = hook.home / FILES[agent]
    line = HookLine(config=hook.config, directories=(("HOME", str(hook.home)),))
    install(agent, path, OWN, 20.0, line)
    return path


def change(path: Path, how: Callable[[dict[str, Any]], object]) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    how(found)
    path.write_text(json.dumps(found), encoding="utf-8")


def narrowed(found: dict[str, Any]) -> None:
    """Limit the PreToolUse hook to one tool."""
    found["hooks"]["PreToolUse"][0]["matcher"] = "Bash"


async def probe(hook: Hook, agent: str = "claude-code") -> Ran:
    project = hook.home / "project"
    project.mkdir(exist_ok=True)
    return await hook.command("test", agent, "--project", str(project))


async def probed(server: Served) -> list[CallDecided]:
    """Return the recorded decisions of probe sessions."""
    sessions = [each.id for each in await server.hub.history() if "interlock-probe" in each.id]
    events = [event for each in sessions for event in await server.hub.recorded(each)]
    return [event.body for event in events if isinstance(event.body, CallDecided)]


class TestProbe:
    @pytest.mark.slow
    @pytest.mark.parametrize("agent", ["claude-code", "codex"])
    async def test_is_blocked(self, tmp_path: Path, agent: str) -> None:
        """The installed command asks the server, which blocks and records the probe."""
        async with served(tmp_path / "s") as server:
            hook = Hook.at(tmp_path / "home", server)
            installed(hook, agent)
            ran = await probe(hook, agent)
            assert ran.code == 0, ran.out + ran.err
            assert "ok: the probe was blocked by" in ran.out
            assert "note: not seen: " in ran.out
            [decided] = await probed(server)
            assert decided.tool == "interlock_probe"
            assert not await server.hub.approvals()

    @pytest.mark.slow
    async def test_shadow_mode_is_reported(self, tmp_path: Path) -> None:
        """In shadow mode the probe is blocked, and the report says that no other call is."""
        async with served(tmp_path / "s", mode="shadow") as server:
            hook = Hook.at(tmp_path / "home", server)
            installed(hook)
            ran = await probe(hook)
        assert ran.code == 0, ran.out + ran.err
        assert "The server is in shadow mode: it records decisions, and blocks no other call" in ran.out

    @pytest.mark.slow
    async def test_missing_server_is_reported(self, tmp_path: Path) -> None:
        """Without a server the hooks block every call, and the report says so."""
        hook = Hook.at(tmp_path / "home", INTERLOCK_URL="ws://127.0.0.1:9", INTERLOCK_TOKEN="ilk_agent_x")
        installed(hook)
        ran = await probe(hook)
        assert ran.code == 1
        assert "the gate does not work, so every call is blocked" in ran.out

    @pytest.mark.parametrize(
        ("member", "value", "said"),
        [
            ("async", True, "has 'async', with which it may not be run, or not be waited for"),
            ("if", "Bash(git *)", "has 'if', with which it may not be run, or not be waited for"),
            ("args", ["x"], "has 'args', with which it may not be run, or not be waited for"),
            ("type", "prompt", "is of the type 'prompt', not 'command'"),
            ("timeout", 1, "is cut off after 1 s, and its answer may take 30 s"),
        ],
    )
    @pytest.mark.parametrize("agent", ["claude-code", "codex"])
    async def test_weakened_hook_is_a_fault(
        self, tmp_path: Path, agent: str, member: str, value: object, said: str
    ) -> None:
        """A hook that the agent does not wait for, or runs for some calls only, is a fault."""
        path = installed(Hook.at(tmp_path), agent)
        change(path, lambda found: found["hooks"]["PreToolUse"][0]["hooks"][0].update({member: value}))
        [hook] = [each for each in installed_hooks(agent, path) if each.event == "PreToolUse"]
        [point] = weak_points(hook)
        assert said in point

    @pytest.mark.parametrize("agent", ["claude-code", "codex"])
    async def test_installed_hook_has_no_fault(self, tmp_path: Path, agent: str) -> None:
        """An installed hook has no weak point, even with `async` set to false."""
        path = installed(Hook.at(tmp_path), agent)
        change(path, lambda found: found["hooks"]["PreToolUse"][0]["hooks"][0].update({"async": False}))
        [hook] = [each for each in installed_hooks(agent, path) if each.event == "PreToolUse"]
        assert list(weak_points(hook)) == []

    @pytest.mark.slow
    async def test_fail_open_command_is_a_fault(self, tmp_path: Path) -> None:
        """A command whose failure would allow calls is a fault, although the probe is blocked."""

        def weaken(found: dict[str, Any]) -> None:
            hook = found["hooks"]["PreToolUse"][0]["hooks"][0]
            hook["command"] = hook["command"].partition(" || ")[0] + " || true"

        async with served(tmp_path / "s") as server:
            hook = Hook.at(tmp_path / "home", server)
            change(installed(hook), weaken)
            ran = await probe(hook)
        assert ran.code == 1
        assert "PreToolUse does not exit with code 2 when its command fails" in ran.out

    async def test_missing_hooks_are_reported(self, tmp_path: Path) -> None:
        """Without hooks the report says how to install them."""
        ran = await probe(Hook.at(tmp_path / "home"))
        assert ran.code == 1
        assert "interlock hook install claude-code" in ran.out

    async def test_command_that_allows_all_is_found(self, tmp_path: Path) -> None:
        """A hook command that was changed to allow every call is found."""
        hook = Hook.at(tmp_path / "home")
        path = installed(hook)
        path.write_text(path.read_text().replace(f"{sys.executable} -I", "true -I"))
        ran = await probe(hook)
        assert ran.code == 1
        assert "FAULT: the probe was not blocked" in ran.out


class TestFaults:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("fault", "how"),
        [
            ("disableAllHooks is true", lambda found: found.update(disableAllHooks=True)),
            (
                "PreToolUse sees Bash only",
                narrowed,
            ),
        ],
    )
    async def test_settings_that_bypass_hooks(
        self, tmp_path: Path, fault: str, how: Callable[[dict[str, Any]], object]
    ) -> None:
        """Settings that let calls bypass the hooks are a fault, although the probe is blocked."""
        async with served(tmp_path / "s") as server:
            hook = Hook.at(tmp_path / "home", server)
            change(installed(hook), how)
            ran = await probe(hook)
            assert (ran.code, fault in ran.out) == (1, True), ran.out

    @pytest.mark.slow
    async def test_project_settings_that_disable_hooks(self, tmp_path: Path) -> None:
        """Local settings of a project that disable hooks are found."""
        async with served(tmp_path / "s") as server:
            hook = Hook.at(tmp_path / "home", server)
            installed(hook)
            local = hook.home / "project" / ".claude" / "settings.local.json"
            local.parent.mkdir(parents=True)
            local.write_text('{"disableAllHooks": true}')
            ran = await probe(hook)
            assert ran.code == 1
            assert "settings.local.json: disableAllHooks" in ran.out
