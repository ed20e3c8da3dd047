"""Logins at MCP servers that require OAuth, with a server and an authorization server of the SDK."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import format_exception

import httpx2
import pytest
from pydantic import SecretStr

from interlock.app.cli.agent.mcp_login import ClientOptions
from interlock.app.cli.main import main
from interlock.engine.gateway.mcp.logins import (
    LoginFile,
    McpLogin,
    McpLoginError,
    RegisteredClient,
    StoredLogin,
    check_address,
    log_in,
    log_out,
)
from interlock.engine.gateway.protocol.tokens import TokenError

from ....support.ports import free_port
from ..served import served
from .test_mcp import program, session, text

SERVER = Path(__file__).parent / "oauth_server.py"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}


@dataclass
class Vault:
    """The server, with the files of its orders and its log."""

    url: str
    directory: Path

    @property
    def file(self) -> LoginFile:
        return LoginFile(self.url, self.directory / "config")

    def order(self, text: str) -> None:
        (self.directory / "orders").write_text(text)

    def log(self) -> list[str]:
        file = self.directory / "log"
        return file.read_text().splitlines() if file.exists() else []

    async def login(self) -> McpLogin:
        found = await log_in(self.file, Browser())
        assert found is not None
        return found

    async def ask(self, clock: float = 0.0) -> tuple[int, list[str]]:
        """Return the status of a request with the stored login at a time, and the reports."""
        reported: list[str] = []
        auth = StoredLogin(self.file, reported.append, lambda: clock or time.time())
        async with httpx2.AsyncClient(auth=auth) as http:
            answer = await http.post(self.url, json=INITIALIZE, headers=ACCEPT)
        return answer.status_code, reported


class Browser:
    """Opens an address and follows its redirect; first it sends the `strays` to the same port."""

    def __init__(self, *strays: str, paste: bool = False) -> None:
        self._strays = strays
        self._paste = paste
        self.pasted: asyncio.Queue[str] = asyncio.Queue()
        self.statuses: list[int] = []
        self._task: asyncio.Task[None] | None = None

    def __call__(self, address: str) -> None:
        self._task = asyncio.create_task(self._open(address))

    async def _open(self, address: str) -> None:
        async with httpx2.AsyncClient() as http:
            back = (await http.get(address)).headers["location"]
            base = back.partition("?")[0]
            for stray in self._strays:
                self.statuses.append((await http.get(stray.format(base=base))).status_code)
            if self._paste:
                await self.pasted.put("http://127.0.0.1/callback?code=x&state=wrong")
                await self.pasted.put(back)
            else:
                self.statuses.append((await http.get(back)).status_code)

    async def end(self) -> None:
        """Wait until the browser has read its last page."""
        assert self._task is not None
        await self._task

    async def lines(self) -> AsyncGenerator[str]:
        while True:
            yield await self.pasted.get()


@pytest.fixture
async def vault(tmp_path: Path) -> AsyncGenerator[Vault]:
    async with running(tmp_path) as found:
        yield found


@asynccontextmanager
async def running(directory: Path) -> AsyncGenerator[Vault]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SERVER)),
        stdout=asyncio.subprocess.PIPE,
        env={"OAUTH_ORDERS": str(directory / "orders"), "OAUTH_LOG": str(directory / "log")},
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield Vault(f"http://127.0.0.1:{port}/mcp", directory)
    finally:
        process.kill()
        await process.wait()


@pytest.fixture
def stored(tmp_path: Path) -> LoginFile:
    """A login that expires after 60 s, at a server that does not exist."""
    file = LoginFile("http://127.0.0.1:1/mcp", tmp_path)
    login = McpLogin(
        url=file.url,
        token_endpoint="http://127.0.0.1:1/token",
        resource=file.url,
        client_id="known",
        access_token=SecretStr("old"),
        refresh_token=SecretStr("renewal"),
        expires=60.0,
    )
    file.write(login)
    return file


class TestLogin:
    @pytest.mark.slow
    async def test_tokens_are_private_and_for_one_server(self, vault: Vault) -> None:
        """The tokens are in a file of mode 0600 and are valid for this server only (RFC 8707)."""
        login = await vault.login()
        assert login.resource == vault.url
        assert login.issuer == login.token_endpoint.removesuffix("/token") + "/"
        assert vault.file.path.stat().st_mode & 0o777 == 0o600
        assert vault.file.read() == login
        assert vault.log() == [f"code {vault.url}"]
        assert await vault.ask() == (200, [])
        # Neither a log nor an error contains the tokens.
        assert login.access_token.get_secret_value() not in repr(login)

    @pytest.mark.slow
    async def test_answer_without_state_is_refused(self, vault: Vault) -> None:
        """A request without the login's state is refused, and the login keeps waiting."""
        strays = ("{base}?code=x&state=y", "{base}?error=access_denied", "{base}x", "{base}")
        browser = Browser(*strays)
        assert await log_in(vault.file, browser) is not None
        await browser.end()
        assert browser.statuses == [400, 400, 400, 400, 200]

    @pytest.mark.slow
    async def test_address_of_remote_browser_can_be_pasted(self, vault: Vault) -> None:
        """The user can paste the address of a browser on another machine."""
        browser = Browser(paste=True)
        assert await log_in(vault.file, browser, browser.lines()) is not None
        assert browser.statuses == []

    @pytest.mark.slow
    async def test_refused_login_stores_nothing(self, vault: Vault) -> None:
        """A refused login raises an error and stores nothing."""
        vault.order("deny")
        with pytest.raises(McpLoginError, match="refused: access_denied"):
            await vault.login()
        assert vault.file.read() is None

    @pytest.mark.parametrize("url", ["http://shop.example/mcp", "http://127.0.0.1.example/mcp"])
    async def test_remote_login_requires_tls(self, url: str, tmp_path: Path) -> None:
        """A login without TLS is only possible at a local server."""
        with pytest.raises(McpLoginError, match="expected https"):
            await log_in(LoginFile(url, tmp_path), print)

    def test_endpoints_cannot_be_plain_http_or_local(self) -> None:
        """A remote server can lead neither to plain HTTP nor to a local address."""
        check_address("https://id.example/authorize?state=x", local=False)
        check_address("http://127.0.0.1:99/authorize", local=True)
        for url in ("http://id.example/a", "javascript:alert(1)", "file:///etc/passwd", "https://"):
            with pytest.raises(McpLoginError, match="expected https"):
                check_address(url, local=True)
        for url in ("http://127.0.0.1:99/token", "https://localhost/token", "http://[::1]/token"):
            with pytest.raises(McpLoginError, match="is on this machine"):
                check_address(url, local=False)


class TestRegisteredClient:
    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["client_secret_basic", "none"])
    async def test_logs_in_and_renews(self, vault: Vault, method: str) -> None:
        """Without registration, a preregistered client logs in and renews its token."""
        port = free_port()
        vault.order(f"closed {port} {method}")
        with pytest.raises(McpLoginError, match=r"[Rr]egist"):
            await vault.login()
        client = RegisteredClient("known", None if method == "none" else SecretStr("hush"), port)
        login = await log_in(vault.file, Browser(), client=client)
        assert login is not None
        assert (login.client_id, login.auth_method) == ("known", method)
        assert "hush" not in repr((client, login))
        assert await vault.ask(time.time() + 3600) == (200, [])
        assert [line.split()[0] for line in vault.log()] == ["code", "renewed"]

    @pytest.mark.slow
    async def test_wrong_secret_is_refused(self, vault: Vault) -> None:
        """A wrong secret is refused, and nothing is stored."""
        port = free_port()
        vault.order(f"closed {port} client_secret_basic")
        with pytest.raises(McpLoginError, match="Token exchange failed"):
            await log_in(
                vault.file, Browser(), client=RegisteredClient("known", SecretStr("wrong"), port)
            )
        assert vault.file.read() is None

    @pytest.mark.slow
    async def test_taken_callback_port_is_an_error(self, vault: Vault) -> None:
        """If the callback port is taken, the error says that the browser cannot return."""
        port = int(vault.url.split(":")[2].partition("/")[0])
        with pytest.raises(McpLoginError, match=f"cannot return to port {port}"):
            await log_in(vault.file, Browser(), client=RegisteredClient("known", None, port))

    def test_secret_comes_from_file_or_environment(self, tmp_path: Path) -> None:
        """The secret comes from a private file or from the environment; a public client has none."""
        file = tmp_path / "secret"
        file.write_text("hush\n")
        file.chmod(0o600)
        options = ClientOptions("known", file, 8765)
        environ = {"INTERLOCK_MCP_CLIENT_SECRET": "other"}
        assert options.registered(environ) == RegisteredClient("known", SecretStr("hush"), 8765)
        found = ClientOptions("known").registered(environ)
        assert found == RegisteredClient("known", SecretStr("other"))
        assert ClientOptions("known").registered({}) == RegisteredClient("known")
        assert ClientOptions().registered(environ) is None
        file.chmod(0o644)
        with pytest.raises(TokenError, match="others may read"):
            options.registered({})


class TestUse:
    @pytest.mark.slow
    async def test_expired_token_is_renewed_once(self, vault: Vault) -> None:
        """An expired token is renewed for the same server, once for all its users."""
        first = await vault.login()
        later = time.time() + 3600
        found = await asyncio.gather(*(vault.ask(later - number) for number in range(3)))
        assert found == [(200, [])] * 3
        assert vault.log() == [f"code {vault.url}", f"renewed {vault.url}"]
        again = vault.file.read()
        assert again is not None
        assert again.access_token != first.access_token
        assert vault.file.path.stat().st_mode & 0o777 == 0o600

    async def test_renewal_gets_threads_despite_many_waiters(self, stored: LoginFile) -> None:
        """A renewal gets the threads that it needs, although many requests wait for it."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        renewed = list[str]()

        async def answer(request: httpx2.Request) -> httpx2.Response:
            if request.url.path != "/token":
                return httpx2.Response(200)
            await asyncio.to_thread(renewed.append, "once")
            tokens = {"access_token": "fresh", "token_type": "Bearer", "expires_in": 3600}
            return httpx2.Response(200, json=tokens)

        auth = StoredLogin(stored, renewed.append, lambda: 100.0)
        async with httpx2.AsyncClient(auth=auth, transport=httpx2.MockTransport(answer)) as http:
            async with asyncio.timeout(30):
                answers = await asyncio.gather(*(http.get(stored.url) for _ in range(10)))
        assert [each.status_code for each in answers] == [200] * 10
        assert renewed == ["once"]

    @pytest.mark.slow
    async def test_refused_token_is_renewed_once(self, vault: Vault) -> None:
        """A token that the server refuses is renewed once, and the request is sent again."""
        await vault.login()
        vault.order("forget")
        assert await vault.ask() == (200, [])
        assert len(vault.log()) == 2

    @pytest.mark.slow
    async def test_failed_renewal_is_reported(self, vault: Vault) -> None:
        """If the renewal fails, the refusal is returned and the failure reported."""
        await vault.login()
        vault.order("refuse")
        status, reported = await vault.ask()
        assert status == 401
        assert "could not be renewed (400)" in reported[0]

    @pytest.mark.slow
    @pytest.mark.parametrize("token", ["hush\r\nX-Other: 1", "hush\x00", "hush \u202e"])
    async def test_unsendable_renewed_token_is_discarded(self, vault: Vault, token: str) -> None:
        """A renewed token that no header can hold is discarded unshown, and the old one stays."""
        login, reported, sent = await vault.login(), list[str](), list[str]()

        def answer(request: httpx2.Request) -> httpx2.Response:
            if request.url.path == "/token":
                return httpx2.Response(200, json={"access_token": token, "token_type": "Bearer"})
            sent.append(request.headers["authorization"])
            return httpx2.Response(401)

        auth = StoredLogin(vault.file, reported.append, lambda: time.time() + 3600)
        async with httpx2.AsyncClient(auth=auth, transport=httpx2.MockTransport(answer)) as http:
            await http.get(vault.url)
        assert sent == [f"Bearer {login.access_token.get_secret_value()}"]
        assert reported == [f"the login at {vault.url} could not be renewed (200)"]
        assert vault.file.read() == login

    @pytest.mark.slow
    async def test_token_is_sent_to_its_origin_only(self, vault: Vault) -> None:
        """A request to another origin carries no token."""
        await vault.login()
        auth = StoredLogin(vault.file, print)
        seen: list[httpx2.Request] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            seen.append(request)
            return httpx2.Response(200)

        async with httpx2.AsyncClient(auth=auth, transport=httpx2.MockTransport(answer)) as http:
            await http.get("http://127.0.0.1:1/mcp")
            await http.get(vault.url)
        assert [("authorization" in request.headers) for request in seen] == [False, True]

    @pytest.mark.slow
    async def test_file_readable_by_others_is_not_used(self, vault: Vault) -> None:
        """A file that others can read is not used, and the reason is reported."""
        await vault.login()
        vault.file.path.chmod(0o644)
        status, reported = await vault.ask()
        assert status == 401
        assert "others may read or write it" in reported[0]

    @pytest.mark.slow
    async def test_login_for_another_server_is_refused(self, vault: Vault) -> None:
        """A login for another server is refused, and so is one with an endpoint without TLS."""
        login = await vault.login()
        for change in ({"url": "https://shop.example/mcp"}, {"token_endpoint": "http://id.example/t"}):
            vault.file.write(login.model_copy(update=change))
            with pytest.raises(TokenError, match="interlock mcp login"):
                vault.file.read()

    @pytest.mark.slow
    async def test_gate_uses_the_login(self, vault: Vault, tmp_path: Path) -> None:
        """`interlock mcp --url` uses the login; without one, the error names the login command."""
        async with served(tmp_path, rules="block other") as server:
            with pytest.raises(BaseExceptionGroup) as error:
                async with session(program(server, tmp_path, "--url", vault.url)):
                    pass
            assert f"interlock mcp login {vault.url}" in "".join(format_exception(error.value))
            await vault.login()
            async with session(program(server, tmp_path, "--url", vault.url)) as client:
                assert text(await client.call_tool("read", {})) == "42"


class TestLogout:
    async def test_refused_request_after_logout_renews_nothing(self, stored: LoginFile) -> None:
        """A request that is refused after the logout neither renews the login nor restores its file."""
        paths = list[str]()

        def answer(request: httpx2.Request) -> httpx2.Response:
            paths.append(request.url.path)
            stored.forget()
            return httpx2.Response(401)

        auth = StoredLogin(stored, paths.append, lambda: 0.0)
        async with httpx2.AsyncClient(auth=auth, transport=httpx2.MockTransport(answer)) as http:
            assert (await http.get(stored.url)).status_code == 401
        assert "/token" not in paths
        assert not stored.path.exists()

    @pytest.mark.slow
    async def test_removes_and_revokes(self, vault: Vault) -> None:
        """Logging out removes the file and revokes the tokens."""
        vault.order("secret")
        await vault.login()
        login, fault = await log_out(vault.file)
        assert login is not None
        assert fault is None
        assert vault.log()[-1] == f"revoked {vault.url}"
        assert not vault.file.path.exists()
        assert await log_out(vault.file) == (None, None)

    @pytest.mark.slow
    async def test_without_tls_removes_but_does_not_revoke(self, vault: Vault) -> None:
        """A login is not revoked without TLS; it is removed, and the fault is reported."""
        login = await vault.login()
        vault.file.write(login.model_copy(update={"revocation_endpoint": "http://id.example/revoke"}))
        found, fault = await log_out(vault.file)
        assert found is not None
        assert fault is not None
        assert "leads to http://id.example/revoke: expected https" in fault
        assert not vault.file.path.exists()

    @pytest.mark.slow
    async def test_unreachable_server_still_removes_the_file(self, tmp_path: Path) -> None:
        """If the server is unreachable, the file is removed and the fault is reported."""
        async with running(tmp_path) as vault:
            await vault.login()
        login, fault = await log_out(vault.file)
        assert login is not None
        assert fault
        assert not vault.file.path.exists()


class TestCommand:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (["login", "http://shop.example/mcp"], "expected https"),
            (["--prefix", "x_", "login", "https://shop.example/mcp"], "but none of these options"),
            (["--client-id", "x", "logout", "https://shop.example/mcp"], "but none of these options"),
            (["--client-id", "x", "--url", "https://shop.example/mcp"], "are for login URL"),
            (["--callback-port", "1", "login", "https://shop.example/mcp"], "are for --client-id"),
            (
                ["--client-id", "x", "--callback-port", "0", "login", "https://shop.example/mcp"],
                "expected 1 to 65535, found 0",
            ),
            (
                ["--client-id", "x", "--client-secret-file", "none", "login", "https://shop.example/mcp"],
                "there is no 'none'",
            ),
        ],
    )
    def test_invalid_command_line_is_an_error(
        self,
        line: list[str],
        said: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        assert main(["mcp", *line]) != 0
        assert said in capsys.readouterr().err

    def test_logout_without_login_succeeds(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Logging out without a login succeeds with a message."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        assert main(["mcp", "logout", "https://shop.example/mcp"]) == 0
        assert "There is no login at https://shop.example/mcp" in capsys.readouterr().out

    @pytest.mark.slow
    async def test_login_prints_the_address(self, vault: Vault, tmp_path: Path) -> None:
        """`interlock mcp login` prints the address on stderr and the next step on stdout."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "interlock.app.cli", "mcp", "login", vault.url),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")},
        )
        assert process.stderr is not None
        assert process.stdout is not None
        while not (line := (await process.stderr.readline()).decode().strip()).startswith("http"):
            assert process.returncode is None
        async with httpx2.AsyncClient(follow_redirects=True) as http:
            assert "Logged in" in (await http.get(line)).text
        out = (await process.stdout.read()).decode()
        assert await process.wait() == 0
        assert f"Logged in at {vault.url}" in out
        assert f"interlock mcp --url {vault.url}" in out
        assert await vault.ask() == (200, [])
