"""The console in a browser over TLS, as other machines reach it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import WSServerHandshakeError
from playwright.async_api import Browser

from interlock.app.cli.main import main
from interlock.app.hosting.certificate import Certificate
from interlock.app.web.policy import ServerNames
from interlock.app.web.server import ConsoleServer

from ...support.certificates import certified
from ..cli.server.test_serve import serving, surroundings
from .fronts import NEEDS_CHROMIUM, OBEYS, Seen, client, fronted, log_in, offer, program, secret_of, tab
from .test_web_command import CLI, painted_tab


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return certified(tmp_path)[0]


def tls_of(certificate: Path) -> ssl.SSLContext:
    return Certificate(certificate, certificate.with_name("key.pem")).tls


@pytest_asyncio.fixture
async def front(certificate: Path) -> AsyncGenerator[ConsoleServer, None]:
    async with fronted(program(OBEYS), tls=tls_of(certificate)) as running:
        yield running


class TestPage:
    async def test_page_and_websocket_use_tls(self, front: ConsoleServer, certificate: Path) -> None:
        """Link, page, WebSocket and content policy use TLS, and a tab opens."""
        assert front.link().startswith("https://127.0.0.1:")
        async with client(front, trusts=certificate) as session:
            async with session.get(front.url) as answer:
                page, policy = await answer.text(), answer.headers["Content-Security-Policy"]
            where = front.url.replace("https:", "wss:")
            assert f'data-session-websocket-url="{where}/ws/"' in page
            assert f"connect-src 'self' {where};" in policy
            async with tab(session, front) as opened:
                assert (await opened.receive_bytes()).isdigit()

    async def test_cookie_is_secure_with_host_prefix(
        self, front: ConsoleServer, certificate: Path
    ) -> None:
        """The cookie is `Secure` and has the `__Host-` prefix."""
        async with client(front, logged_in=False, trusts=certificate) as session:
            said = (await offer(session, front, secret_of(front.link()))).headers["Set-Cookie"]
            assert "Secure" in said
            assert said.startswith("__Host-")
            assert "Path=/;" in said
            origin = {"Origin": front.url}
            async with session.post(f"{front.url}/logout", headers=origin) as answer:
                assert "Secure" in answer.headers["Set-Cookie"]

    async def test_page_without_tls_cannot_log_in(self, front: ConsoleServer, certificate: Path) -> None:
        """A page of the same name without TLS cannot log in or open a terminal."""
        clear = front.url.replace("https:", "http:")
        async with client(front, trusts=certificate) as session:
            with pytest.raises(WSServerHandshakeError) as refusal:
                async with tab(session, front, Origin=clear):
                    pass
            assert refusal.value.status == 403
            async with session.post(
                f"{front.url}/login", data=secret_of(front.link()), headers={"Origin": clear}
            ) as answer:
                assert answer.status == 403

    async def test_public_address_without_tls_is_refused(self) -> None:
        """Listening on other addresses without TLS is refused."""
        front = ConsoleServer(program(OBEYS))
        with pytest.raises(ValueError, match="expected TLS"):
            await front.start("0.0.0.0", 0)

    async def test_incomplete_handshake_is_closed(
        self, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A connection that does not complete the TLS handshake in time is closed."""
        monkeypatch.setattr("interlock.app.web.server.TLS_TIMEOUT", 0.05)
        async with fronted(program(OBEYS), tls=tls_of(certificate)) as front:
            port = int(front.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            async with asyncio.timeout(20):
                assert await reader.read() == b""
            writer.close()


@NEEDS_CHROMIUM
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.thorough
async def test_browser_opens_the_terminal(tmp_path: Path, browser: Browser) -> None:
    """A browser accepts the cookie with that name and opens the terminal."""
    certificate, _ = certified(tmp_path)
    context = await browser.new_context(ignore_https_errors=True)
    try:
        async with fronted(tls=tls_of(certificate)) as front:
            page = await context.new_page()
            seen = Seen(page)
            await log_in(page, front.link())
            await seen.until("options:")
            [cookie] = await context.cookies()
            assert cookie["secure"]
            assert cookie["name"].startswith("__Host-")
    finally:
        await context.close()


class TestNames:
    def test_names_come_from_the_certificate(self, tmp_path: Path) -> None:
        """Links have the certificate's first name; the server answers under all its names."""
        names = Certificate(*certified(tmp_path, "hub.example", "*.example", "Board.example")).names
        assert names == ("hub.example", "board.example", "127.0.0.1")
        reached = ServerNames.at("0.0.0.0", 8738, secure=True, certified=names)
        assert reached.url == "https://hub.example:8738"
        for host in ("hub.example:8738", "board.example:8738", "localhost:8738", "192.0.2.7:8738"):
            assert reached.includes(host)
        for host in (
            "evil.example:8738",
            "hub.example",
            "hub.example:8738.evil.example",
            "x.example:8738",
        ):
            assert not reached.includes(host)

    @pytest.mark.parametrize(
        ("listen", "names", "url"),
        [
            ("192.0.2.7", ("hub.example",), "https://hub.example:8738"),
            ("192.0.2.7", ("hub.example", "192.0.2.7"), "https://192.0.2.7:8738"),
            ("2001:db8::7", (), "https://[2001:db8::7]:8738"),
            ("127.0.0.1", ("hub.example",), "https://127.0.0.1:8738"),
            ("0.0.0.0", (), f"https://{socket.gethostname().lower()}:8738"),
        ],
    )
    def test_links_lead_to_a_covered_address(self, listen: str, names: tuple[str, ...], url: str) -> None:
        """Links lead to the listening address if the certificate covers it or it is loopback."""
        assert ServerNames.at(listen, 8738, secure=True, certified=names).url == url

    def test_address_is_a_host_name_if_all_are_listened_on(self) -> None:
        """An address is accepted as a host name only if the server listens on all addresses."""
        assert not ServerNames.at("127.0.0.1", 8738).includes("192.0.2.7:8738")


class TestCommand:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (["--listen", "0.0.0.0:0"], "elsewhere, serve TLS with --certificate and --key, or go"),
            (["--certificate", "none.pem"], "--certificate none.pem: cannot be used"),
            (["--key", "key.pem"], "--key without --certificate"),
            (["--connect", "ws://192.0.2.7:1"], "unencrypted; connect to wss://192.0.2.7:1"),
            (["--agents", "0.0.0.0:0"], "--agents 0.0.0.0:0: expected an address of this machine only"),
        ],
    )
    def test_options_that_expose_secrets_are_refused(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        line: list[str],
        said: str,
    ) -> None:
        """Options that would expose page or token without TLS are refused with advice."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        assert main(["web", *line]) == 2
        assert said in capsys.readouterr().err

    @pytest.mark.slow
    async def test_connects_to_a_server_over_tls(self, tmp_path: Path) -> None:
        """Over TLS on both sides, a tab shows the operator of the remote server."""
        certificate, key = certified(tmp_path)
        files = ("--certificate", str(certificate), "--key", str(key))
        async with serving(tmp_path, "--listen", "127.0.0.1:0", "--as", "ada", *files) as server:
            line = ("--listen", "0.0.0.0:0", "--connect", f"wss://{server.where}", *files)
            env = surroundings(tmp_path) | {"INTERLOCK_CA": str(certificate)}
            process = await asyncio.create_subprocess_exec(
                *CLI, "web", *line, cwd=tmp_path, env=env, stdout=asyncio.subprocess.PIPE
            )
            try:
                assert process.stdout is not None
                link = (await process.stdout.readline()).decode().split()[1]
                assert link.startswith("https://127.0.0.1:")
                async with painted_tab(link, trusts=certificate):
                    pass
            finally:
                process.terminate()
                await process.wait()
