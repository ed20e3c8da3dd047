"""If no server runs, a hook starts one with the user's rules, and the next hooks find it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.engine.gateway.served import until

from .running import Hook, recorded


@asynccontextmanager
async def started(**environ: str) -> AsyncGenerator[Hook, None]:
    """A user without a running server; servers started for them end with the block."""
    # The path of a socket has to be short.
    with tempfile.TemporaryDirectory(prefix="hook") as folder:
        hook = Hook.at(Path(folder) / "u", None, **environ)
        hook.config.joinpath("interlock.toml").write_text('[serve]\nrules = ["mine.rules"]\n')
        hook.config.joinpath("mine.rules").write_text("block deploy\nlimit push to 1 per session\n")
        try:
            yield hook
        finally:
            for pid in servers(hook):
                os.kill(pid, signal.SIGTERM)

            async def gone() -> bool:
                return not servers(hook)

            await until(gone)


def servers(hook: Hook) -> list[int]:
    """Return the servers that listen in this user's directory."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
            dead = "\nState:\tZ" in (process / "status").read_text()
        except OSError:
            continue
        if b"\0serve\0" in line and f"unix:{hook.home}".encode() in line and not dead:
            found.append(int(process.name))
    return found


class TestUsers:
    @pytest.mark.slow
    async def test_first_call_starts_server_with_user_rules(self) -> None:
        """The first call starts a server that judges it; later calls find this server."""
        async with started() as hook:
            ran = await asyncio.gather(
                *(hook.run(recorded("pre_bash", tool_name="push", tool_use_id=f"t{n}")) for n in range(3))
            )
            assert [each.code for each in ran] == [0, 0, 0], ran
            assert sum("limit of 1" in each.out for each in ran) == 2
            assert len(servers(hook)) == 1
            assert (await hook.run(recorded("pre_bash", tool_name="deploy"))).decision[
                "permissionDecision"
            ] == "deny"
            assert len(servers(hook)) == 1

    @pytest.mark.slow
    async def test_session_start_explains_how_to_connect(self) -> None:
        """The session's start says how an operator connects to the started server."""
        async with started() as hook:
            ran = await hook.run(recorded("session_start_startup"))
            socket = hook.home / "s" / "interlock" / "hook" / "user.sock"
            assert f"interlock console --connect unix:{socket}" in json.loads(ran.out)["systemMessage"]
            assert socket.stat().st_mode & 0o077 == 0

    @pytest.mark.slow
    async def test_killed_server_is_restarted_with_used_budget(self) -> None:
        """A killed server is started again, and the session keeps its used budget."""
        async with started() as hook:
            push = recorded("pre_bash", tool_name="push", tool_use_id="t1")
            assert (await hook.run(push)).out == ""
            os.kill(servers(hook)[0], signal.SIGKILL)

            async def gone() -> bool:
                return not servers(hook)

            await until(gone)
            assert (await hook.run(recorded("post_bash", tool_name="push", tool_use_id="t1"))).code == 0
            assert "limit of 1" in (await hook.run(push | {"tool_use_id": "t2"})).out

    @pytest.mark.slow
    async def test_invalid_rules_block_the_call(self) -> None:
        """Invalid rules block the call, and the error names their line."""
        async with started() as hook:
            hook.config.joinpath("mine.rules").write_text("block after before\n")
            ran = await hook.run(recorded("pre_bash"))
            assert (ran.code, ran.out) == (2, "")
            assert "mine.rules:1" in ran.err

    async def test_session_end_starts_no_server(self) -> None:
        """The end of a session starts no server."""
        async with started() as hook:
            assert (await hook.run(recorded("session_end_clear"))).code == 0
            assert servers(hook) == []

    async def test_socket_directory_writable_by_others_is_not_used(self) -> None:
        """A socket directory that other users can write is not used."""
        async with started() as hook:
            place = hook.home / "s" / "interlock" / "hook"
            place.mkdir(parents=True)
            place.chmod(0o777)
            ran = await hook.run(recorded("pre_bash"))
            assert (ran.code, ran.out) == (2, "")
            assert "chmod 700" in ran.err


class TestStop:
    @pytest.mark.slow
    async def test_stop_ends_started_servers(self) -> None:
        """`hook stop` ends the started servers; the next one starts with the current rules."""
        async with started() as hook:
            assert (await hook.run(recorded("pre_bash"))).code == 0
            ended = await hook.command("stop")
            assert ended.code == 0
            assert f"{hook.home}/s/interlock/hook/user.sock" in ended.out
            assert servers(hook) == []
            hook.config.joinpath("mine.rules").write_text("block Bash\n")
            assert "deny" in (await hook.run(recorded("pre_bash", session_id="next"))).out

    @pytest.mark.slow
    async def test_no_running_server_is_reported(self) -> None:
        """`hook stop` reports when no server runs."""
        async with started() as hook:
            ended = await hook.command("stop")
            assert (ended.code, ended.err) == (0, "")
            assert "No server that a hook started is running" in ended.out


@pytest.mark.slow
class TestProjects:
    async def test_project_rules_are_added_to_the_users(self) -> None:
        """A project's rules are added to the user's, which they cannot remove."""
        async with started() as hook:
            project = hook.home / "project"
            project.mkdir()
            project.joinpath("interlock.toml").write_text(
                '[serve]\nrules = ["ours.rules"]\nmode = "shadow"\n'
            )
            project.joinpath("ours.rules").write_text("block Bash\n")
            for tool in ("deploy", "Bash"):
                event = recorded("pre_bash", tool_name=tool, tool_use_id=tool)
                assert "deny" in (await hook.run(event, "--project", str(project))).out
            assert "deny" not in (await hook.run(recorded("pre_bash", session_id="other"))).out
            assert len(servers(hook)) == 2

    async def test_project_maps_cannot_rename_named_calls(self) -> None:
        """A project's maps come after the user's, so they cannot rename a call that has a name."""
        async with started() as hook:
            hook.config.joinpath("mine.rules").write_text("map Bash.command rm as delete\nblock delete\n")
            project = hook.home / "project"
            project.mkdir()
            project.joinpath("interlock.toml").write_text('[serve]\nrules = ["ours.rules"]\n')
            project.joinpath("ours.rules").write_text(
                "map Bash.command rm as harmless\nlimit harmless to 9 per session\n"
            )
            event = recorded("pre_bash", tool_input={"command": "rm -rf ."})
            assert "delete is blocked" in (await hook.run(event, "--project", str(project))).out

    async def test_lines_of_named_files_do_not_reach_the_agent(self) -> None:
        """Lines of a file that a project names as rules do not reach the agent, which may not read it."""
        async with started() as hook:
            project = hook.home / "project"
            project.mkdir()
            hook.home.joinpath("diary").write_text("my diary\n")
            project.joinpath("interlock.toml").write_text('[serve]\nrules = ["../diary"]\n')
            ran = await hook.run(recorded("pre_bash"), "--project", str(project))
            assert (ran.code, ran.out) == (2, "")
            assert "my" not in ran.err.split()
            [log] = (hook.home / "s" / "interlock" / "hook").glob("*.log")
            assert f"{log} says why" in ran.err
            assert "my diary" in log.read_text()

    async def test_project_without_rules_uses_the_users_server(self) -> None:
        """A project without rules is judged by the user's server."""
        async with started() as hook:
            project = hook.home / "project"
            project.mkdir()
            event = recorded("pre_bash", tool_name="deploy")
            assert "deny" in (await hook.run(event, "--project", str(project))).out
            assert "deny" in (await hook.run(event | {"tool_use_id": "2"})).out
            assert len(servers(hook)) == 1
