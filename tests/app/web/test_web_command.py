"""`interlock web` as operators use it: a remote agent makes a call, an operator decides in a browser."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar, TCPConnector
from playwright.async_api import Browser, Page

from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalDecided

from ...bench.terminal import Terminal
from ...support.command import command
from ...support.forked import HUB, python_with
from .fronts import (
    NEEDS_CHROMIUM,
    Seen,
    browsing,
    click_cell,
    connected,
    is_running,
    line_of,
    log_in,
    offered,
    opened,
    pages,
    processes,
    until,
)

CLI = (sys.executable, "-P", "-m", "interlock.app.cli")
WEB = ("interlock.app.cli.main", "interlock.app.config.loader", "interlock.app.web.serving", *HUB)
RULES = "require human-approval before deploy\n"
QUIET = 700
"""Milliseconds until a new dialog accepts keys."""


@dataclass
class Started:
    """A running `interlock web`."""

    process: asyncio.subprocess.Process
    directory: Path
    link: str
    agents: str

    @property
    def page(self) -> str:
        return self.link.partition("/login")[0]

    @property
    def database(self) -> Path:
        return self.directory / "interlock.db"

    def agent(self) -> AgentClient:
        return AgentClient(f"ws://{self.agents}", (self.directory / "agent.token").read_text().strip())

    @asynccontextmanager
    async def console(self) -> AsyncGenerator[ConsoleClient, None]:
        """A program that connects as an operator's console does."""
        secret = (self.directory / "operator.token").read_text().strip()
        client = ConsoleClient(f"ws://{self.agents}", secret)
        await client.open()
        try:
            yield client
        finally:
            await client.close()

    def decided_by(self) -> list[str]:
        """Return the operators of all decisions so far."""
        reader = open_reader(self.database)
        bodies = [event.body for each in reader.sessions() for event in reader.events(each.id)]
        return [body.by for body in bodies if isinstance(body, ApprovalDecided)]

    def consoles(self) -> list[int]:
        """Return the processes behind the tabs."""
        return processes(["console", "--connect", self.agents])


@asynccontextmanager
async def started(
    directory: Path, *options: str, rules: str | None = None, real: bool = False
) -> AsyncGenerator[Started, None]:
    """`interlock web` with rules, on ports of the system's choice.

    It runs as a fork, or with `real` as a process that users would start.
    """
    if rules is None:
        rules = "one.rules"
        (directory / rules).write_text(RULES)
    process = await asyncio.create_subprocess_exec(
        *(CLI if real else (*python_with(*WEB), "-m", "interlock.app.cli")),
        *("web", "--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0", "--as", "ada"),
        *("--rules", rules, "--db", "interlock.db", *options),
        cwd=directory,
        env={**os.environ, "INTERLOCK_CONFIG_DIR": str(directory), "OPENAI_API_KEY": "sk-of-the-server"},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        where = (await process.stdout.readline()).decode().split()
        link = (await process.stdout.readline()).decode().split()
        yield Started(process, directory, link[1], where[3])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def deploy(env: str) -> str:
    return f"deployed to {env}"


@asynccontextmanager
async def tabs(count: int, size: tuple[int, int] = (1080, 700)) -> AsyncGenerator[list[Page], None]:
    async with browsing() as browser, pages(browser, count, size) as opened:
        yield opened


@asynccontextmanager
async def painted_tab(link: str, trusts: Path | None = None) -> AsyncGenerator[None, None]:
    """A program's tab on the console, up to its first screen; its process is that of a browser's tab.

    It trusts the certificate in the file `trusts`.
    """
    page, _, secret = link.partition("/login#")
    connector = None if trusts is None else TCPConnector(ssl=ssl.create_default_context(cafile=trusts))
    async with ClientSession(cookie_jar=CookieJar(unsafe=True), connector=connector) as session:
        assert (await offered(session, page, secret)).status == 204
        async with opened(session, page) as socket:
            painted = b""
            while b"as " not in painted or b"ada" not in painted:
                painted += await socket.receive_bytes(timeout=30)
            yield


@NEEDS_CHROMIUM
@pytest.mark.asyncio(loop_scope="session")
class TestDeciding:
    @pytest.mark.slow
    async def test_keyboard_decision_appears_in_the_terminal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Browser
    ) -> None:
        """An agent's request appears in a tab, a key approves it, and a terminal shows the decision."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        async with started(tmp_path) as web, pages(browser, 1) as [page]:
            seen = Seen(page)
            await log_in(page, web.link)
            await seen.until("as ada")
            console = [*CLI, "console", "--connect", f"ws://{web.agents}"]
            with Terminal(console) as terminal:
                await asyncio.to_thread(terminal.wait_for, "as ada", seconds=30)
                async with web.agent() as agent, agent.session("release-bot") as gate:
                    call = asyncio.create_task(gate(deploy)(env="prod"))
                    await seen.until("WHAT WILL RUN", '"prod"')
                    await asyncio.to_thread(terminal.wait_for, "WHAT WILL RUN", seconds=30)
                    assert await page.title() == "Interlock (1 waiting)"
                    await page.wait_for_timeout(QUIET)
                    await page.keyboard.press("a")
                    assert await call == "deployed to prod"
                    await asyncio.to_thread(terminal.wait_for, "by ada", seconds=30)
            assert web.decided_by() == ["ada"]

    @pytest.mark.thorough
    async def test_mouse_decision_appears_in_another_tab(self, tmp_path: Path, browser: Browser) -> None:
        """A click approves in one tab, and another tab's queue becomes empty."""
        async with started(tmp_path) as web, pages(browser, 2) as [one, two]:
            first, second = Seen(one), Seen(two)
            await log_in(one, web.link)
            await two.goto(web.page)
            await connected(two)
            await asyncio.gather(first.until("as ada"), second.until("as ada"))
            async with web.agent() as agent, agent.session("release-bot") as gate:
                call = asyncio.create_task(gate(deploy)(env="prod"))
                shown = await first.until("WHAT WILL RUN", "approve once")
                await second.until("WHAT WILL RUN", "1 waiting")
                await one.bring_to_front()
                await one.wait_for_timeout(QUIET)
                await click_cell(one, line_of(shown, "approve once"), first.size)
                assert await call == "deployed to prod"
                await asyncio.gather(first.until("0 waiting"), second.until("0 waiting"))
            assert web.decided_by() == ["ada"]


@NEEDS_CHROMIUM
@pytest.mark.asyncio(loop_scope="session")
class TestDeepLinks:
    @pytest.mark.thorough
    async def test_request_and_session_links(self, tmp_path: Path, browser: Browser) -> None:
        """`/a/REQUEST` opens the dialog, `/s/SESSION` the session or, after its end, its replay."""
        async with started(tmp_path) as web, pages(browser, 1) as [page]:
            seen = Seen(page)
            await log_in(page, web.link)
            await seen.until("as ada")
            async with web.agent() as agent:
                async with agent.session("one") as first, agent.session("two") as second:
                    assert await first(echo)(text="a") == "a"
                    assert await second(echo)(text="b") == "b"
                    call = asyncio.create_task(second(deploy)(env="prod"))
                    await seen.until("WHAT WILL RUN")
                    async with web.console() as console:
                        [request] = await console.approvals()
                        sessions = {state.agent: state.id for state in await console.sessions()}
                    await page.goto(f"{web.page}/a/{request.id}")
                    await seen.until("WHAT WILL RUN", '"prod"')
                    await page.wait_for_timeout(QUIET)
                    await page.keyboard.press("a")
                    assert await call == "deployed to prod"
                    for name in ("one", "two"):
                        await page.goto(f"{web.page}/s/{sessions[name]}")
                        await seen.until(f"Nets of {name}")
                await page.goto(f"{web.page}/s/{sessions['one']}")
                await seen.until(" replay ", "event 1 of")
                await page.keyboard.press("2")
                await seen.until("2 decisions", "verdict")
                await page.keyboard.press("1")
                await seen.until("1 live", "Sessions")


async def echo(text: str) -> str:
    return text


@pytest.mark.slow
class TestProcesses:
    @pytest.mark.parametrize(
        "how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGKILL]
    )
    async def test_tab_processes_end_with_the_server(self, tmp_path: Path, how: signal.Signals) -> None:
        """The processes of the tabs end with the server, however it ends."""
        async with started(tmp_path, real=True) as web, painted_tab(web.link):
            [console] = web.consoles()
            web.process.send_signal(how)
            code = await web.process.wait()
            assert code == (-how if how == signal.SIGKILL else 0)
            await until(lambda: not is_running(console), "the console's end")

    async def test_token_is_in_no_command_line(self, tmp_path: Path) -> None:
        """The token is in no command line, and the tab's environment lacks the server's keys."""
        async with started(tmp_path) as web, painted_tab(web.link):
            [console] = web.consoles()
            secret = (tmp_path / "operator.token").read_bytes().strip()
            process = Path(f"/proc/{console}")
            assert secret not in (process / "cmdline").read_bytes()
            assert secret in (process / "environ").read_bytes()
            assert b"sk-of-the-server" not in (process / "environ").read_bytes()


class TestStarting:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (["--listen", "0.0.0.0:8738"], "expected an address of this machine only"),
            (["--listen", "unix:x.sock"], "expected an address of this machine only"),
            (["--listen", "here"], "expected HOST:PORT"),
            (["--connect", "ws://127.0.0.1:1", "--rules", "one.rules"], "--rules is for a server"),
            (["--connect", "http://127.0.0.1:1"], "expected ws://HOST:PORT"),
            (["--connect", "ws://127.0.0.1:1"], "there is no token"),
            (["--connect", "--as", "ada"], "--as is for a server"),
            (["--token-file", "x", "--agents", "127.0.0.1:0"], "--token-file is for a server"),
            (["--agents", "nowhere"], "expected HOST:PORT"),
        ],
    )
    def test_invalid_options_are_reported(self, tmp_path: Path, line: list[str], said: str) -> None:
        """Invalid options are reported with what is expected, before the server listens."""
        ended = command(tmp_path, "web", *line, env={"INTERLOCK_CONFIG_DIR": str(tmp_path)})
        assert ended.returncode == 2
        assert said in ended.stderr

    def test_another_name_than_the_tokens_is_refused(self, tmp_path: Path) -> None:
        """`--as` with another name than the token's is refused."""
        env = {"INTERLOCK_CONFIG_DIR": str(tmp_path)}
        command(tmp_path, "web", "--as", "ada", "--agents", "nowhere", env=env)
        command(tmp_path, "token", "new", "operator", "ada", env=env)
        (tmp_path / "operator.token").unlink(missing_ok=True)
        made = command(tmp_path, "token", "rotate", "ada", env=env)
        secret = next(word for word in made.stdout.split() if word.startswith("ilk_operator_"))
        (tmp_path / "operator.token").write_text(secret)
        (tmp_path / "operator.token").chmod(0o600)
        ended = command(tmp_path, "web", "--as", "ben", "--agents", "127.0.0.1:0", env=env)
        assert ended.returncode == 2
        assert "ada" in ended.stderr
        assert "instead of ben" in ended.stderr

    @pytest.mark.parametrize("option", ["--session", "--approval"])
    def test_journal_console_refuses_server_options(self, tmp_path: Path, option: str) -> None:
        """A console on a journal refuses options that need a server."""
        env = {"INTERLOCK_CONFIG_DIR": str(tmp_path), "TEXTUAL_DRIVER": "none:None"}
        ended = command(tmp_path, "console", option, "abc", env=env)
        assert ended.returncode == 2
        assert f"{option} needs --connect" in ended.stderr

    @pytest.mark.slow
    async def test_open_shows_no_secret_on_a_command_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`--open` opens a page that only this user can read; it redirects to the link."""
        opened = tmp_path / "opened"
        browser = tmp_path / "browser"
        browser.write_text(
            "#!/bin/sh\n"
            f'page="${{1#file://}}"; cp "$page" {tmp_path}/page\n'
            f'(echo "$1"; stat -c %a "$(dirname "$page")") > {opened}.part\n'
            f"mv {opened}.part {opened}\n"
        )
        browser.chmod(0o700)
        monkeypatch.setenv("BROWSER", f"{browser} %s")
        async with started(tmp_path, "--open") as web:
            await until(opened.exists, "the browser's start")
            address, mode = opened.read_text().split()
            assert web.link.partition("#")[2] not in address
            assert mode == "700"
            assert f"url={web.link}" in (tmp_path / "page").read_text()

    @pytest.mark.thorough
    async def test_connect_shows_the_sessions_of_another_server(self, tmp_path: Path) -> None:
        """With `--connect` no second server is started: tabs connect to the given one."""
        async with started(tmp_path) as web:
            process = await asyncio.create_subprocess_exec(
                *CLI,
                *("web", "--listen", "127.0.0.1:0", "--connect", f"ws://{web.agents}"),
                cwd=tmp_path,
                env={**os.environ, "INTERLOCK_CONFIG_DIR": str(tmp_path)},
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            link = (await process.stdout.readline()).decode().split()[1]
            async with painted_tab(link):
                pass
            process.terminate()
            assert await process.wait() == 0

    @pytest.mark.slow
    async def test_login_survives_a_restart(self, tmp_path: Path) -> None:
        """A server restarted on the same port knows its logins; on another journal it knows none."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            listen = ("--listen", f"127.0.0.1:{free.getsockname()[1]}")
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
            async with started(tmp_path, *listen) as web:
                secret = web.link.partition("#")[2]
                assert (await offered(session, web.page, secret)).status == 204
                web.process.kill()
                await web.process.wait()
            async with started(tmp_path, *listen) as web, opened(session, web.page) as again:
                await again.receive_bytes()
            async with started(tmp_path, *listen, "--db", "other.db") as web:
                assert (await session.get(web.page)).status == 401

    @pytest.mark.slow
    async def test_enter_prints_another_link(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Enter in the terminal prints a new link for another browser."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        line = [*CLI, "web", "--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0", "--db", "x.db"]
        monkeypatch.chdir(tmp_path)
        with Terminal(line) as terminal:
            await asyncio.to_thread(terminal.wait_for, "█▀▀▀▀▀█", seconds=30)  # a QR code's corner
            await asyncio.to_thread(terminal.wait_for, "Ctrl+C ends it", seconds=30)
            terminal.send("\r")
            await asyncio.to_thread(terminal.wait_for, "/login#", seconds=30)
            terminal.send("\x03")
            assert await asyncio.to_thread(terminal.wait_for_end) == 0


class TestLogins:
    @pytest.mark.slow
    async def test_are_listed_and_ended(self, tmp_path: Path) -> None:
        """`web logins` lists the logged-in browsers, and `web revoke` ends one while the server runs."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {"INTERLOCK_CONFIG_DIR": str(tmp_path)}
        async with (
            ClientSession(
                cookie_jar=CookieJar(unsafe=True), headers={"User-Agent": "Firefox on Linux"}
            ) as session,
            started(tmp_path, "--listen", f"127.0.0.1:{port}") as web,
        ):
            assert (await offered(session, web.page, web.link.partition("#")[2])).status == 204
            listed = await asyncio.to_thread(command, tmp_path, "web", "logins", env=env)
            assert f"Firefox on Linux  127.0.0.1-{port}  since" in listed.stdout
            name = listed.stdout.split()[0]
            ended = await asyncio.to_thread(command, tmp_path, "web", "revoke", name[:5], env=env)
            assert (ended.returncode, name in ended.stderr) == (0, True)
            assert (await session.get(web.page)).status == 401
            listed = await asyncio.to_thread(command, tmp_path, "web", "logins", env=env)
            assert (listed.stdout, listed.stderr) == ("", "No browser is logged in here.\n")
            again = await asyncio.to_thread(command, tmp_path, "web", "revoke", name, env=env)
            assert (again.returncode, "no login has an id" in again.stderr) == (2, True)
