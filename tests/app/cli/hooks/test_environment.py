"""A project cannot weaken the hooks through the agent's environment.

The tests run the commands as installed, each in its own process.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.app.cli.hooks.command_line import HookLine
from interlock.app.cli.hooks.install import HookInstallError, check_isolated
from tests.engine.gateway.served import served

from .running import INTERLOCK, Hook, Ran, ended, recorded
from .test_idle_exit import command_line
from .test_install import commands, written
from .test_starting import servers, started

SWITCHED_OFF = "import os\nos._exit(0)\n"
VARIABLES = ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
EVIL = '[serve]\nrules = []\nmode = "shadow"\n[hook]\non_wait = "ask"\non_allow = "allow"\n'


async def install_hooks(hook: Hook, *line: str) -> str:
    """Return the hook command for PreToolUse, as `hook install` writes it."""
    ran = await hook.command("install", "claude-code", *line)
    assert ran.code == 0, ran.err
    (found,) = commands(written(hook.home / ".claude" / "settings.json"), "PreToolUse")
    return str(found["command"])


async def run_as_agent(
    command: str, hook: Hook, project: Path, tool: str = "deploy", **environ: str
) -> Ran:
    """Run the command in a project as an agent does, with the given environment; return its answer."""
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=hook.environment | environ,
        cwd=project,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(recorded("pre_bash", tool_name=tool, tool_use_id=tool)).encode())
    process.stdin.close()
    return await ended(process)


def environment_of(process: int) -> dict[str, str]:
    found = Path(f"/proc/{process}/environ").read_text().split("\0")
    return dict(each.split("=", 1) for each in found if each)


class TestHostileProject:
    @pytest.mark.slow
    async def test_project_modules_are_not_loaded(self) -> None:
        """Neither the hook nor its server loads Python modules of the project."""
        async with started() as hook:
            project = hook.home / "project"
            (project / "interlock" / "app").mkdir(parents=True)
            for name in ("sitecustomize.py", "json.py", "interlock/app/cli.py"):
                (project / name).write_text(SWITCHED_OFF)
            environ = {"PYTHONPATH": f".:{project}", "PYTHONHOME": str(project), "PYTHONUSERBASE": "."}
            ran = await run_as_agent(await install_hooks(hook), hook, project, **environ)
            assert ran.decision["permissionDecision"] == "deny"
            [server] = servers(hook)
            assert command_line(server)[1:4] == [b"-I", b"-m", b"interlock.app.cli"]

    @pytest.mark.slow
    async def test_project_variables_are_ignored(self) -> None:
        """The hook ignores INTERLOCK variables of the project, and its server does not get them."""
        async with started() as hook:
            project = hook.home / "project"
            project.mkdir()
            (project / "interlock.toml").write_text(EVIL)
            environ = {
                "INTERLOCK_CONFIG_DIR": str(project),
                "INTERLOCK_CONFIG": str(project / "interlock.toml"),
                "INTERLOCK_MODE": "shadow",
                "INTERLOCK_RULES": "",
                "INTERLOCK_DB": str(project / "other.db"),
            }
            ran = await run_as_agent(await install_hooks(hook), hook, project, **environ)
            assert ran.decision["permissionDecision"] == "deny"
            [server] = servers(hook)
            said = {k: v for k, v in environment_of(server).items() if k.startswith("INTERLOCK_")}
            assert said == {"INTERLOCK_CONFIG_DIR": str(hook.config)}
            assert not list(project.glob("*.db"))

    @pytest.mark.slow
    async def test_project_socket_and_journal_are_not_used(self) -> None:
        """The hook does not connect to a project's socket; its server keeps no journal there."""
        async with started() as hook:
            command = await install_hooks(hook)
            project = hook.home / "p"
            (project / "interlock" / "hook").mkdir(parents=True, mode=0o700)
            came: list[bool] = []

            def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                came.append(True)
                writer.close()

            trap = await asyncio.start_unix_server(listens, project / "interlock" / "hook" / "user.sock")
            async with trap:
                elsewhere = dict.fromkeys(VARIABLES, str(project))
                ran = await run_as_agent(command, hook, project, **elsewhere)
            assert not came
            assert ran.decision["permissionDecision"] == "deny"
            [server] = servers(hook)
            said = environment_of(server)
            assert [said[name] for name in VARIABLES] == [hook.environment[name] for name in VARIABLES]
            assert not list(project.rglob("*.db"))

    @pytest.mark.slow
    async def test_project_cannot_set_on_wait(self, tmp_path: Path) -> None:
        """A project cannot make the agent ask its own user when no operator decided."""
        async with served(tmp_path, rules="require human-approval before deploy") as server:
            hook, project = Hook.at(tmp_path / "home", server), tmp_path / "project"
            project.mkdir()
            (project / "interlock.toml").write_text(EVIL + 'wait = "1s"\n')
            (hook.config / "interlock.toml").write_text('[hook]\nwait = "1s"\n')
            command = await install_hooks(hook)
            named = str(project / "interlock.toml")
            ran = await run_as_agent(command, hook, project, INTERLOCK_CONFIG=named)
            assert ran.decision["permissionDecision"] == "deny"


class TestRules:
    @pytest.mark.slow
    @pytest.mark.parametrize("text", [None, '[hook]\nwait = "9m"\n'])
    async def test_no_named_rules_block_the_call(self, text: str | None) -> None:
        """If the user's settings name no rules, no server is started and the call is blocked."""
        async with started() as hook:
            own = hook.config / "interlock.toml"
            own.unlink() if text is None else own.write_text(text)
            ran = await hook.command("install", "claude-code")
            assert f"{own} names no rules" in ran.err
            ran = await run_as_agent(await install_hooks(hook), hook, hook.home)
            assert (ran.code, ran.out) == (2, "")
            assert f"{own}: names no rules" in ran.err
            assert servers(hook) == []

    async def test_project_rules_alone_start_no_server(self) -> None:
        """A project's rules alone start no server, because an agent may have written them."""
        async with started() as hook:
            hook.config.joinpath("interlock.toml").unlink()
            hook.home.joinpath("interlock.toml").write_text('[serve]\nrules = ["own.rules"]\n')
            hook.home.joinpath("own.rules").write_text("block ls\n")
            ran = await hook.run(recorded("pre_bash"), "--project", str(hook.home))
            assert (ran.code, ran.out) == (2, "")
            assert "names no rules" in ran.err

    @pytest.mark.slow
    async def test_empty_rules_list_allows_all_calls(self) -> None:
        """`rules = []` starts a server that records and allows all calls."""
        async with started() as hook:
            hook.config.joinpath("interlock.toml").write_text("[serve]\nrules = []\n")
            assert await run_as_agent(await install_hooks(hook), hook, hook.home) == Ran(0, "", "")
            assert len(servers(hook)) == 1

    @pytest.mark.slow
    async def test_fewer_rules_than_installed_start_no_server(self) -> None:
        """Settings with fewer rules than at the installation start no server; more rules may be added."""
        async with started() as hook:
            command = await install_hooks(hook)
            assert f" --rules {hook.config / 'mine.rules'} " in command
            own = hook.config / "interlock.toml"
            own.write_text('[serve]\nrules = ["other.rules"]\n')
            hook.config.joinpath("other.rules").write_text("block push\n")
            ran = await run_as_agent(command, hook, hook.home)
            assert (ran.code, ran.out) == (2, "")
            assert f"{own}: no longer names {hook.config / 'mine.rules'}" in ran.err
            own.write_text('[serve]\nrules = ["other.rules", "mine.rules"]\n')
            for tool in ("push", "deploy"):
                assert "deny" in (await run_as_agent(command, hook, hook.home, tool)).out


class TestOlder:
    """Hooks that an older version installed."""

    async def test_session_start_explains_the_update(self, tmp_path: Path) -> None:
        """The old hook command still works, and its session start says how to update."""
        async with served(tmp_path, rules="block deploy") as server:
            hook = Hook.at(tmp_path / "home", server)
            process = await asyncio.create_subprocess_exec(
                *(INTERLOCK, "hook", "claude-code", "--timeout", "60"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=hook.environment,
            )
            out, _ = await process.communicate(json.dumps(recorded("session_start_startup")).encode())
            assert "interlock hook install claude-code" in json.loads(out)["systemMessage"]
            assert (await hook.run(recorded("session_start_startup"))).out == ""

    @pytest.mark.slow
    async def test_installation_replaces_old_hooks(self, tmp_path: Path) -> None:
        """Installing replaces old hooks; with `--project` it warns about the user's old ones."""
        hook = Hook.at(tmp_path / "home")
        path = hook.home / ".claude" / "settings.json"
        await install_hooks(hook)
        path.write_text(path.read_text().replace(f"--config-dir {hook.config}", ""))
        ran = await hook.command("install", "claude-code", "--project", str(tmp_path))
        assert f"Those in {path} can be switched off" in ran.err
        ran = await hook.command("install", "claude-code")
        assert "The previous ones could be switched off" in ran.out
        assert "switched off" not in (await hook.command("install", "claude-code")).out


class TestInstalling:
    def test_installation_found_only_by_environment_is_refused(self) -> None:
        """An Interlock that Python finds only through the environment is refused: hooks would fail."""
        check_isolated((sys.executable, "-I", "-m", "interlock.app.cli"))
        with pytest.raises(HookInstallError, match="in an environment of its own"):
            check_isolated((sys.executable, "-I", "-S", "-m", "interlock.app.cli"))


class TestLine:
    paths = st.text(st.characters(exclude_characters="\0"), min_size=1).map(lambda text: f"/{text}")

    @given(
        st.builds(
            HookLine,
            timeout=st.integers(1, 86400).map(float),
            project=st.none() | paths.map(Path),
            config=st.none() | paths.map(Path),
            rules=st.lists(paths).map(tuple),
            directories=st.lists(st.tuples(st.sampled_from(VARIABLES), paths)).map(tuple),
        )
    )
    def test_round_trip(self, line: HookLine) -> None:
        """A hook line is read back as it was written."""
        assert HookLine.read(line.words) == line
