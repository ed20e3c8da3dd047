"""Every failure blocks the call: exit code 2 and a reason, because agents run the tool on other codes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from interlock.app.cli.hooks.command_line import HookLine
from interlock.app.cli.hooks.install import hook_command
from interlock.engine.gateway.protocol import server_proof as proof
from interlock.engine.gateway.server.limits import Limits
from tests.engine.gateway.served import served, until

from ...connect.seats import between
from .running import INTERLOCK, Hook, Ran, ended, recorded

RULES = "require human-approval before deploy"


def assert_blocked(ran: Ran, *said: str) -> None:
    assert (ran.code, ran.out) == (2, ""), ran
    for each in said:
        assert each in ran.err
    assert "interlock serve" in ran.err
    assert "Traceback" not in ran.err


@asynccontextmanager
async def foreign_server(answer: Callable[[bytes], bytes | None]):
    """A foreign server on loopback; it stays silent and open if the answer is `None`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await reader.readuntil(b"\r\n\r\n")
            said = answer(asked)
            if said is not None:
                writer.write(said)
                await writer.drain()
            else:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with AsyncExitStack() as stack:
        stack.callback(server.close)
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class TestEnvelope:
    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"", "not the JSON"),
            (b"{", "not the JSON"),
            (b"\xff\xfe{}", "not the JSON"),
            (b"[]", "a list"),
            (b"null", "nothing"),
            (b"{}", "hook_event_name"),
            (b"[" * 100_000, "not the JSON"),
        ],
        ids=["nothing", "half", "no text", "list", "null", "empty", "deep"],
    )
    async def test_non_event_blocks(self, tmp_path: Path, data: bytes, said: str) -> None:
        """Input that is not an event blocks the call, and the error describes it."""
        assert_blocked(await Hook.at(tmp_path / "home").run(data), said)

    @pytest.mark.parametrize(
        "changed",
        [
            {field: value}
            for field in ("session_id", "hook_event_name", "tool_name", "tool_use_id")
            for value in (..., None, "", 7, True, [], {})
        ]
        + [{"tool_input": value} for value in (..., None, "", "ls", 7, True, [])]
        + [{"cwd": value} for value in ("", 7, True, [], {})],
        ids=str,
    )
    async def test_missing_or_mistyped_field_blocks(
        self, tmp_path: Path, changed: dict[str, object]
    ) -> None:
        """A required field that is missing or of another type blocks the call and is named."""
        event = recorded("pre_bash", **changed)
        assert_blocked(await Hook.at(tmp_path / "home").run(event), *changed)

    @pytest.mark.parametrize("event", ["SubagentStop", "UserPromptSubmit", "PreToolUse2"])
    async def test_unknown_event_blocks(self, tmp_path: Path, event: str) -> None:
        """An unknown event blocks, because it may be a later name of a known one."""
        assert_blocked(
            await Hook.at(tmp_path / "home").run(recorded("pre_bash", hook_event_name=event)), event
        )

    @pytest.mark.parametrize(
        "given",
        [b'{"n": NaN}', b'{"n": 1e999}', b'{"s": "\\ud800"}', b'{"s": "' + b"x" * (2 << 20) + b'"}'],
        ids=["no number", "endless", "half a character", "too large"],
    )
    async def test_unsendable_input_blocks(self, tmp_path: Path, given: bytes) -> None:
        """Input that cannot be sent to the gate unchanged blocks the call."""
        event = json.dumps(recorded("pre_bash", tool_input="HERE")).encode().replace(b'"HERE"', given)
        async with served(tmp_path) as server:
            assert_blocked(await Hook.at(tmp_path / "home", server).run(event))


class TestServers:
    async def test_down_server_blocks_the_call(self, tmp_path: Path) -> None:
        """If the named server is down, the call is blocked and no other server is started."""
        hook = Hook.at(tmp_path / "home", INTERLOCK_URL="ws://127.0.0.1:9", INTERLOCK_TOKEN="x")
        assert_blocked(
            await hook.run(recorded("pre_bash")), "no Interlock server listens on ws://127.0.0.1:9"
        )
        assert not (hook.home / "s").exists()

    async def test_next_server_is_asked_if_first_is_down(self, tmp_path: Path) -> None:
        """If the first of several servers is down, the hook asks the next one."""
        async with served(tmp_path, rules="block deploy") as server:
            urls = f"ws://127.0.0.1:9,{server.url}"
            hook = Hook.at(tmp_path / "home", server, INTERLOCK_URL=urls)
            ran = await hook.run(recorded("pre_bash", tool_name="deploy"))
            assert ran.decision["permissionDecision"] == "deny"
            assert "deploy" in str(ran.decision["permissionDecisionReason"])

    @pytest.mark.slow
    async def test_lost_connection_continues_at_next_server(self, tmp_path: Path) -> None:
        """If the connection is lost during a request, the hook continues at the next server."""
        async with (
            served(tmp_path, rules=RULES) as server,
            server.console() as console,
            AsyncExitStack() as first,
        ):
            _, url = await first.enter_async_context(between(server))
            hook = Hook.at(tmp_path / "home", server, INTERLOCK_URL=f"{url},{server.url}")
            running = await hook.start(recorded("pre_bash", tool_name="deploy"))
            [request] = await until(console.approvals)
            await first.aclose()
            assert [each.id for each in await console.approvals()] == [request.id]
            outcome = await console.decide(request.id, approved=True, digest=request.digest)
            assert outcome.ok, outcome.message
            assert (await ended(running)).decision["permissionDecision"] == "allow"

    @pytest.mark.parametrize("url", ["http://x", "ws://", "unix:", "ws://a:b", "ws://u:p@h"])
    async def test_invalid_url_is_named(self, tmp_path: Path, url: str) -> None:
        """An invalid URL is named."""
        hook = Hook.at(tmp_path / "home", INTERLOCK_URL=url, INTERLOCK_TOKEN="x")
        assert_blocked(await hook.run(recorded("pre_bash")), "INTERLOCK_URL")

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["pre_bash", "session_start_startup"])
    async def test_silent_server_is_given_up(self, tmp_path: Path, name: str) -> None:
        """The hook gives up a silent server before the agent's timeout."""
        async with foreign_server(lambda _: None) as url:
            hook = Hook.at(tmp_path / "home", INTERLOCK_URL=url, INTERLOCK_TOKEN="x")
            assert_blocked(await hook.run(recorded(name), "--timeout", "2"), "not answer")

    @pytest.mark.slow
    async def test_server_silent_after_greeting_is_given_up(self, tmp_path: Path) -> None:
        """The hook also gives up a server that is silent after its greeting."""
        greeted: list[str] = []

        async def serving(peer: ServerConnection) -> None:
            asked = json.loads(await peer.recv())
            greeted.append(asked["method"])
            await peer.send(
                json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"frame": 1 << 20}})
            )
            await peer.wait_closed()

        def proves(peer: ServerConnection, request: Request) -> Response | None:
            if request.path != proof.PATH:
                return None
            nonce, host = request.headers[proof.NONCE_HEADER], request.headers["Host"]
            return peer.respond(HTTPStatus.OK, proof.proof_of(proof.digest_of("x"), nonce, host))

        async with serve(
            serving,
            "127.0.0.1",
            0,
            subprotocols=[Subprotocol("interlock.v1")],
            compression=None,
            process_request=proves,
        ) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            hook = Hook.at(tmp_path / "home", INTERLOCK_URL=url, INTERLOCK_TOKEN="x")
            assert_blocked(await hook.run(recorded("pre_bash"), "--timeout", "2"))
            assert greeted == ["hello"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "said",
        [
            b"",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"\x00" * 100_000,
        ],
        ids=["nothing", "a page", "half a handshake", "ssh", "noise"],
    )
    async def test_foreign_program_on_the_port_allows_nothing(self, tmp_path: Path, said: bytes) -> None:
        """A foreign program on the server's port allows nothing."""
        async with foreign_server(lambda _: said) as url:
            hook = Hook.at(tmp_path / "home", INTERLOCK_URL=url, INTERLOCK_TOKEN="x")
            assert_blocked(await hook.run(recorded("pre_bash")))

    async def test_wrong_token(self, tmp_path: Path) -> None:
        """An unknown token blocks the call, and the error says how to create one."""
        async with served(tmp_path) as server:
            hook = Hook.at(tmp_path / "home", server, INTERLOCK_TOKEN="wrong")
            assert_blocked(
                await hook.run(recorded("pre_bash")), "INTERLOCK_TOKEN", "interlock token new agent"
            )

    async def test_operators_token(self, tmp_path: Path) -> None:
        """An operator's token blocks the call."""
        async with served(tmp_path) as server:
            hook = Hook.at(tmp_path / "home", server, INTERLOCK_TOKEN=server.ada)
            assert_blocked(await hook.run(recorded("pre_bash")))

    async def test_token_file_readable_by_others_is_not_used(self, tmp_path: Path) -> None:
        """A token file that other users can read is not used."""
        async with served(tmp_path) as server:
            hook = Hook.at(tmp_path / "home", server)
            del hook.environ["INTERLOCK_TOKEN"]
            file = hook.config / "agent.token"
            file.write_text(server.agent)
            file.chmod(0o644)
            assert_blocked(await hook.run(recorded("pre_bash")), "chmod 600")
            file.chmod(0o600)
            assert (await hook.run(recorded("pre_bash"))).code == 0

    @pytest.mark.slow
    async def test_server_end_during_request_blocks_the_call(self, tmp_path: Path) -> None:
        """If the server ends during an open request, the call is blocked."""
        async with served(tmp_path, rules=RULES) as server:
            hook = await Hook.at(tmp_path / "home", server).start(
                recorded("pre_bash", tool_name="deploy")
            )
            await until(server.hub.approvals)
        assert_blocked(await ended(hook))

    async def test_lost_result_is_reported(self, tmp_path: Path) -> None:
        """A result that no server accepts is reported as not recorded."""
        hook = Hook.at(tmp_path / "home", INTERLOCK_URL="ws://127.0.0.1:9", INTERLOCK_TOKEN="x")
        ran = await hook.run(recorded("post_bash"))
        assert ran.code == 2
        assert "The result of this call of Bash is not recorded" in ran.err

    async def test_session_end_needs_no_server(self, tmp_path: Path) -> None:
        """A session's end needs no server."""
        hook = Hook.at(tmp_path / "home", INTERLOCK_URL="ws://127.0.0.1:9", INTERLOCK_TOKEN="x")
        assert await hook.run(recorded("session_end_logout")) == Ran(0, "", "")


class TestProcess:
    @pytest.mark.parametrize(
        "line",
        [["--timeout", "soon"], ["--timeout", "nan"], ["--timeout"], ["--project", "here"], ["--new"]],
    )
    async def test_invalid_options_block(self, tmp_path: Path, line: list[str]) -> None:
        """Invalid options block the call."""
        assert_blocked(
            await Hook.at(tmp_path / "home").run(recorded("pre_bash"), *line), "--timeout SECONDS"
        )

    @pytest.mark.parametrize("text", ["[hook]\nwait = 50", "[hook]\nnew = 1", "[hook", 'hook = "x"'])
    async def test_invalid_settings_block(self, tmp_path: Path, text: str) -> None:
        """Invalid settings block the call, and their file is named."""
        hook = Hook.at(tmp_path / "home")
        (hook.config / "interlock.toml").write_text(text)
        assert_blocked(await hook.run(recorded("pre_bash")), "interlock.toml")

    @pytest.mark.slow
    async def test_unending_stdin_blocks_before_timeout(self, tmp_path: Path) -> None:
        """If stdin does not end, the hook blocks before the agent's timeout."""
        process = await asyncio.create_subprocess_exec(
            INTERLOCK,
            "hook",
            "claude-code",
            "--timeout",
            "1",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=Hook.at(tmp_path / "home").environment,
        )
        assert_blocked(await ended(process), "in time")

    @pytest.mark.slow
    async def test_closed_stdout_blocks(self, tmp_path: Path) -> None:
        """If the answer cannot be written, the exit code blocks the call."""
        async with served(tmp_path, rules="block Bash") as server:
            hook = Hook.at(tmp_path / "home", server)
            line = f"'{INTERLOCK}' hook claude-code >&-"
            process = await asyncio.create_subprocess_shell(
                line, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=hook.environment
            )
            await process.communicate(json.dumps(recorded("pre_bash")).encode())
            assert process.returncode == 2

    @pytest.mark.parametrize(
        "missing", ["interlock.app.cli.hooks.main", "interlock.app.cli.hooks.answers", "json"]
    )
    def test_broken_installation(self, tmp_path: Path, missing: str) -> None:
        """A module that cannot be loaded blocks the call."""
        code = (
            "import sys; sys.argv = ['interlock', 'hook', 'claude-code']\n"
            f"sys.modules[{missing!r}] = None\n"
            "from interlock.app.cli.main import main; main()"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(recorded("pre_bash")).encode(),
            capture_output=True,
            env=Hook.at(tmp_path / "home").environment,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (2, b"")
        assert b"Interlock could not answer" in ran.stderr

    @pytest.mark.slow
    def test_nothing_heavy_is_loaded(self, tmp_path: Path) -> None:
        """The command loads only the modules it needs, because an agent waits for it at every call."""
        code = (
            "import os, sys; sys.argv = ['interlock', 'hook', 'claude-code']\n"
            "leave = os._exit\n"
            "def told(code):\n"
            "    os.write(2, '\\n'.join(['', *sys.modules, '']).encode()); leave(code)\n"
            "os._exit = told\n"
            "from interlock.app.cli.main import main; main()"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(recorded("pre_bash")).encode(),
            capture_output=True,
            env=Hook.at(
                tmp_path / "home", INTERLOCK_URL="ws://127.0.0.1:9", INTERLOCK_TOKEN="x"
            ).environment,
            check=False,
        )
        loaded = set(ran.stderr.decode().split("\n"))
        assert "interlock.engine.gateway.hooks.client" in loaded
        heavy = {
            "textual",
            "litellm",
            "sqlalchemy",
            "sqlmodel",
            "pydantic",
            "websockets",
            "asyncio",
            "lark",
        }
        assert not heavy & loaded


class TestShell:
    """The command line in the agent's settings."""

    async def start(self, hook: Hook, *interlock: str) -> asyncio.subprocess.Process:
        line = hook_command("claude-code", interlock, HookLine(config=hook.config))
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            line,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=hook.environment,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(recorded("pre_bash", tool_name="deploy")).encode())
        process.stdin.close()
        return process

    @pytest.mark.parametrize("command", ["/nowhere/it's gone/interlock", "false", "/dev/null"])
    async def test_missing_or_failing_installation_blocks(self, tmp_path: Path, command: str) -> None:
        """A missing or failing Interlock blocks the call, and the error says how to reinstall."""
        ran = await ended(await self.start(Hook.at(tmp_path / "home"), command))
        assert (ran.code, ran.out) == (2, "")
        assert "interlock hook install claude-code" in ran.err

    async def test_killed_hook_blocks_its_call(self, tmp_path: Path) -> None:
        """A killed hook blocks its call, and its request is withdrawn."""
        limits = Limits(absent=0.05)
        async with served(tmp_path, rules=RULES, limits=limits) as server:
            hook = Hook.at(tmp_path / "home", server)
            pid = tmp_path / "pid"
            script = tmp_path / "interlock"
            script.write_text(f"#!/bin/sh\necho $$ > '{pid}'\nexec '{INTERLOCK}' \"$@\"\n")
            script.chmod(0o755)
            process = await self.start(hook, str(script))
            await until(server.hub.approvals)
            os.kill(int(pid.read_text()), signal.SIGKILL)
            ran = await ended(process)
            assert (ran.code, ran.out) == (2, "")

            async def left() -> bool:
                return await server.hub.approvals() == []

            assert await until(left)

    @pytest.mark.slow
    async def test_allowed_call_is_not_blocked(self, tmp_path: Path) -> None:
        """An allowed call is not blocked by the shell line."""
        async with served(tmp_path, rules="block Bash") as server:
            hook = Hook.at(tmp_path / "home", server)
            assert await ended(await self.start(hook, INTERLOCK)) == Ran(0, "", "")
