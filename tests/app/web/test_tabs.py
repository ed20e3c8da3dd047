"""The process behind a tab: its environment, and its end with the tab."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType

from interlock.app.web import tabs
from interlock.app.web.environment import tab_environment
from interlock.app.web.logins import LOGIN_LIFETIME, Logins

from .fronts import OBEYS, SMALL_APP, UNTIL_QUIT, client, fronted, is_running, program, tab, until


async def pid_of(socket: ClientWebSocketResponse) -> int:
    return int(await socket.receive_bytes())


async def output_until_closed(socket: ClientWebSocketResponse) -> bytes:
    """Return the output until the tab is closed."""
    return b"".join([m.data async for m in socket if m.type is WSMsgType.BINARY])


class TestEnvironment:
    def test_only_needed_variables_are_passed(self) -> None:
        """The server's keys and variables that load other code are not passed to tabs."""
        given = {
            "PATH": "/bin",
            "HOME": "/home/x",
            "LANG": "C",
            "LC_ALL": "C",
            "TEXTUAL_ANIMATIONS": "none",
            "INTERLOCK_CONFIG_DIR": "/conf",
            "INTERLOCK_DB": "/elsewhere.db",
            "OPENAI_API_KEY": "sk-1",
            "AWS_SECRET_ACCESS_KEY": "s",
            "PYTHONPATH": "/tmp",
            "LD_PRELOAD": "/tmp/x.so",
            "INTERLOCK_TOKEN": "another",
        }
        assert tab_environment("mine", given) == {
            "PATH": "/bin",
            "HOME": "/home/x",
            "LANG": "C",
            "LC_ALL": "C",
            "TEXTUAL_ANIMATIONS": "none",
            "INTERLOCK_CONFIG_DIR": "/conf",
            "TERM": "xterm-256color",
            "TEXTUAL_COLOR_SYSTEM": "truecolor",
            "TEXTUAL_DRIVER": "interlock.app.web.driver:TabDriver",
            "INTERLOCK_TOKEN": "mine",
        }

    async def test_tab_gets_its_token_and_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The tab's process has the token and the size, but not the server's environment."""
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        code = "send(repr(sorted(os.environ.items())).encode())\n"
        async with (
            fronted(program(code)) as front,
            client(front) as session,
            tab(session, front) as socket,
        ):
            said = (await output_until_closed(socket)).decode()
        assert "sk-1" not in said
        assert "('COLUMNS', '90')" in said
        assert "('ROWS', '30')" in said
        assert "secret-token" in said


class TestEnds:
    async def test_a_closed_tab_ends_its_process(self) -> None:
        """Closing a tab ends its process."""
        async with fronted(program(OBEYS)) as front, client(front) as session:
            async with tab(session, front) as socket:
                pid = await pid_of(socket)
                assert is_running(pid)
            await until(lambda: not is_running(pid), "its end")
            await until(lambda: front.tabs == 0, "the tab's end")

    async def test_console_that_does_not_end_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A console that does not end in time is killed."""
        monkeypatch.setattr(tabs, "GRACE", 0.1)
        code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + UNTIL_QUIT + "time.sleep(600)\n"
        async with fronted(program(code)) as front, client(front) as session:
            async with tab(session, front) as socket:
                pid = await pid_of(socket)
            await until(lambda: not is_running(pid), "its end")

    async def test_console_that_keeps_writing_is_ended(self) -> None:
        """The output of a closed tab's console is read until the console has ended."""
        code = (
            "import threading\n"
            "def paint():\n"
            "    while True: send(b'x' * 65536)\n"
            "threading.Thread(target=paint, daemon=True).start()\n" + OBEYS + "os._exit(0)\n"
        )
        async with fronted(program(code)) as front, client(front) as session:
            async with tab(session, front) as socket:
                pid = await pid_of(socket)
                await socket.receive_bytes()
            await until(lambda: not is_running(pid), "its end")

    async def test_end_of_the_server_ends_all_tabs(self) -> None:
        """Closing the server ends the processes of all tabs."""
        async with (
            fronted(program(OBEYS)) as front,
            client(front) as session,
            tab(session, front) as one,
            tab(session, front) as other,
        ):
            pids = [await pid_of(one), await pid_of(other)]
            await front.close()
            assert not any(map(is_running, pids))

    async def test_a_console_that_ends_closes_its_tab(self) -> None:
        """A console that ends closes its tab."""
        async with fronted(program("")) as front, client(front) as session, tab(session, front) as socket:
            pid = await pid_of(socket)
            assert (await socket.receive()).type is WSMsgType.CLOSE
            await until(lambda: not is_running(pid) and front.tabs == 0, "the tab's end")

    async def test_error_of_a_failing_console_is_shown(self) -> None:
        """A failing console's error output is shown in the tab without escape sequences."""
        code = "sys.stderr.write('no server there\\n\\x1b]0;evil\\x07'); sys.exit(2)\n"
        async with (
            fronted(program(code)) as front,
            client(front) as session,
            tab(session, front) as socket,
        ):
            said = await output_until_closed(socket)
        assert b"no server there" in said
        assert b"\x1b]0;" not in said

    async def test_logout_ends_the_tabs_of_the_login(self) -> None:
        """Logging out ends all tabs of the login, and no other login's tabs."""
        async with fronted(program(OBEYS)) as front, client(front) as mine, client(front) as other:
            async with tab(mine, front) as socket, tab(other, front) as stays:
                pid, kept = await pid_of(socket), await pid_of(stays)
                async with mine.post(front.url + "/logout", headers={"Origin": front.url}) as answer:
                    assert answer.status == 204
                await until(lambda: not is_running(pid), "its end")
                assert is_running(kept)
            async with mine.get(front.url) as answer:
                assert answer.status == 401

    @pytest.mark.slow
    async def test_expired_login_ends_its_tabs(self) -> None:
        """A tab ends when its login expires."""
        now = [0.0]
        logins = Logins(lambda: now[0])
        async with (
            fronted(program(OBEYS), logins=logins) as front,
            client(front) as session,
            tab(session, front) as socket,
        ):
            pid = await pid_of(socket)
            now[0] = LOGIN_LIFETIME
            await until(lambda: not is_running(pid), "its end")


class TestWhatBrowsersSend:
    @pytest.mark.parametrize(
        "message",
        [
            "no json",
            "{}",
            "[]",
            "[1]",
            '["stdin"]',
            '["stdin", 1]',
            '["stdin", "\\ud800"]',
            '["resize", {"width": 100000000, "height": 1}]',
            '["resize", {"width": -1, "height": 1}]',
            '["deliver_chunk_request", "x"]',
            "[" * 100_000,
        ],
    )
    async def test_invalid_message_closes_the_tab(self, message: str) -> None:
        """Only keys, sizes and focus reach the console; any other message ends this tab only."""
        async with (
            fronted(program(OBEYS)) as front,
            client(front) as session,
            tab(session, front) as socket,
        ):
            pid = await pid_of(socket)
            await socket.send_str(message)
            await until(lambda: not is_running(pid), "its end")
            async with tab(session, front) as another:
                assert is_running(await pid_of(another))

    async def test_a_huge_message_closes_the_tab(self) -> None:
        """A message longer than a long paste ends the tab."""
        async with (
            fronted(program(OBEYS)) as front,
            client(front) as session,
            tab(session, front) as socket,
        ):
            pid = await pid_of(socket)
            await socket.send_str(json.dumps(["stdin", "x" * (2 << 20)]))
            await until(lambda: not is_running(pid), "its end")

    async def test_typed_keys_arrive_in_order(self) -> None:
        """Typed keys reach the console unchanged and in order."""
        code = "data = b''\nwhile b'end' not in data: data += sys.stdin.buffer.read1()\nsend(data)\n"
        async with (
            fronted(program(code)) as front,
            client(front) as session,
            tab(session, front) as socket,
        ):
            await pid_of(socket)
            for part in ("ä", "\x1b[A", "end"):
                await socket.send_str(json.dumps(["stdin", part]))
            said = await output_until_closed(socket)
        assert said.index("ä".encode()) < said.index(b"\x1b[A") < said.index(b"end")

    async def test_flood_is_read_without_buffering(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A flooding tab is read at its rate, without buffering, and another tab still works."""
        monkeypatch.setattr(tabs, "MESSAGES_PER_SECOND", 20.0)
        code = (
            "data = b''\n"
            "while b'quit' not in data:\n"
            "    data = sys.stdin.buffer.read1()\n"
            "    send(b'got ' + data); sys.stdout.flush()\n"
        )
        async with (
            fronted(program(code)) as front,
            client(front) as session,
            tab(session, front) as flooding,
            tab(session, front) as other,
        ):
            await pid_of(flooding)
            await pid_of(other)
            sent = 0

            async def flood() -> None:
                nonlocal sent
                while sent < 2000:
                    await flooding.send_str(json.dumps(["stdin", "x" * 50_000]))
                    sent += 1

            flow = asyncio.create_task(flood())
            before = -1
            while before != sent:  # Until its socket accepts no more.
                before = sent
                for _ in range(5):
                    await other.send_str(json.dumps(["stdin", "hello"]))
                    assert b"hello" in await other.receive_bytes()
            assert not flow.done()
            flow.cancel()
            flooding._response.close()


@pytest.mark.slow
class TestOrphans:
    async def test_a_console_ends_with_a_server_that_was_killed(self) -> None:
        """A console whose server was killed ends by itself."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SMALL_APP),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**tab_environment("x"), "COLUMNS": "80", "ROWS": "24"},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdout.readuntil(tabs.PRELUDE)
        process.stdin.close()
        process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
        assert await asyncio.wait_for(process.wait(), 20) in (0, 1)
