"""Certificates of servers: refused ones, and renewal without interruption."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.app.hosting.certificate import Certificate

from ...support.certificates import certified
from ..cli.server.test_serve import serving, surroundings
from ..console.test_driver import Terminal
from ..web.fronts import OBEYS, client, fronted, program
from ..web.test_web_command import CLI


async def presented_certificate(where: str, *, name: str | None = None) -> bytes:
    """The certificate that a new connection gets, with `name` as the requested server name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = where.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name or host)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return found


def der_of(certificate: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.read_text())


@asynccontextmanager
async def echo_server(certificate: Certificate) -> AsyncGenerator[str, None]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0, ssl=certificate.tls) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def line_with(stream: asyncio.StreamReader | None, text: str) -> str:
    """Return the next line of a stream that contains `text`."""
    assert stream is not None
    async with asyncio.timeout(30):
        while True:
            line = (await stream.readline()).decode()
            assert line, f"{text!r} was not said"
            if text in line:
                return line


class TestRenewal:
    async def test_new_connections_get_the_new_certificate(self, tmp_path: Path) -> None:
        """New connections get the new certificate, with and without a name. Open ones continue."""
        certificate = Certificate(*certified(tmp_path))
        async with echo_server(certificate) as where:
            context = ssl.create_default_context(cafile=tmp_path / "cert.pem")
            reader, writer = await asyncio.open_connection(*where.split(":"), ssl=context)
            old = der_of(tmp_path / "cert.pem")
            assert await presented_certificate(where) == old
            certified(tmp_path, "hub.example")
            assert await presented_certificate(where) == old
            assert "valid until" in certificate.renew()
            assert certificate.names == ("hub.example", "127.0.0.1")
            for name in (None, "hub.example"):
                assert (
                    await presented_certificate(where, name=name) == der_of(tmp_path / "cert.pem") != old
                )
            writer.write(b"still here\n")
            assert await reader.readline() == b"still here\n"
            writer.close()

    @pytest.mark.parametrize("spoilt", ["cert.pem", "key.pem", "gone", "another key", "no names"])
    async def test_unusable_certificate_changes_nothing(self, tmp_path: Path, spoilt: str) -> None:
        """A certificate that cannot be used changes nothing, and the message names it."""
        certificate = Certificate(*certified(tmp_path))
        old = der_of(tmp_path / "cert.pem")
        async with echo_server(certificate) as where:
            match spoilt:
                case "gone":
                    (tmp_path / "cert.pem").unlink()
                case "another key":
                    before = (tmp_path / "key.pem").read_bytes()
                    certified(tmp_path)
                    (tmp_path / "key.pem").write_bytes(before)
                case "no names":
                    certified(tmp_path, alternative=False)
                case file:
                    (tmp_path / file).write_text("half of it")
            told = certificate.renew()
            assert f"--certificate {tmp_path / 'cert.pem'}: " in told
            assert "stays in use" in told
            assert await presented_certificate(where) == old

    async def test_page_has_only_the_current_names(self, tmp_path: Path) -> None:
        """A page can be reached by the names in its current certificate only."""
        certificate = Certificate(*certified(tmp_path))
        async with fronted(program(OBEYS), tls=certificate.tls) as front:
            host = f"hub.example:{front.url.rpartition(':')[2]}"
            async with client(front, logged_in=False, trusts=tmp_path / "cert.pem") as session:
                for names, status in (((), 421), (("hub.example",), 200)):
                    front.certify(names)
                    async with session.get(f"{front.url}/login", headers={"Host": host}) as answer:
                        assert answer.status == status


class TestHangup:
    """SIGHUP, which tools for renewing certificates send."""

    @pytest.mark.slow
    async def test_server_shows_the_renewed_certificate(self, tmp_path: Path) -> None:
        """The server shows the renewed certificate and reports it. A connected agent stays connected."""
        certificate, key = certified(tmp_path)
        line = ("--listen", "127.0.0.1:0", "--certificate", str(certificate), "--key", str(key))
        async with serving(tmp_path, *line, real=True) as server:
            async with server.agent(f"wss://{server.where}", ca=certificate) as client:
                gate = await client.open("bot")
                certified(tmp_path)
                server.process.send_signal(signal.SIGHUP)
                await line_with(server.process.stderr, f"read {certificate} again; it is valid until")
                assert await presented_certificate(server.where) == der_of(certificate)
                assert (await gate.call("ls", {})).outcome == "allow"
            key.write_text("half of it")
            server.process.send_signal(signal.SIGHUP)
            await line_with(server.process.stderr, "stays in use")
            async with server.agent(f"wss://{server.where}", ca=certificate) as client:
                assert (await (await client.open("bot")).call("ls", {})).outcome == "allow"
            assert (await server.ended())[0] == 0

    @pytest.mark.slow
    async def test_server_without_a_certificate_continues(self, tmp_path: Path) -> None:
        """A server without a certificate continues, too."""
        async with serving(tmp_path, "--listen", "127.0.0.1:0") as server:
            server.process.send_signal(signal.SIGHUP)
            await line_with(server.process.stderr, "no certificate to read again")
            async with server.agent() as client:
                assert (await (await client.open("bot")).call("ls", {})).outcome == "allow"
            assert (await server.ended())[0] == 0

    @pytest.mark.slow
    async def test_operators_are_read_again(self, tmp_path: Path) -> None:
        """Roles and groups are read again. A table with an error changes nothing."""
        config = tmp_path / "config"
        config.mkdir()
        own = config / "interlock.toml"
        own.write_text('[operators.maria]\nrole = "decide"\ngroups = ["security"]\n')
        async with serving(tmp_path, "--listen", "127.0.0.1:0", "--as", "maria") as server:
            async with server.console() as console:
                assert (console.rights, console.groups_of("maria")) == ("decide", ("security",))
            own.write_text('[operators.maria]\nrole = "boss"\n')
            server.process.send_signal(signal.SIGHUP)
            await line_with(server.process.stderr, "the operators stay as they are")
            own.write_text('[operators.maria]\nrole = "look"\n')
            server.process.send_signal(signal.SIGHUP)
            await line_with(server.process.stderr, "the operators were read again: 1 in [operators]")
            async with server.console() as console:
                assert (console.rights, console.groups_of("maria")) == ("look", ())
            assert (await server.ended())[0] == 0

    @pytest.mark.slow
    async def test_web_page_renews_its_certificate(self, tmp_path: Path) -> None:
        """The console's web page renews its certificate, too."""
        certificate, key = certified(tmp_path)
        process = await asyncio.create_subprocess_exec(
            *CLI,
            *("web", "--listen", "127.0.0.1:0", "--agents", f"unix:{tmp_path / 's'}"),
            *("--certificate", str(certificate), "--key", str(key)),
            cwd=tmp_path,
            env=surroundings(tmp_path),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            link = (await line_with(process.stdout, "Open https://")).split()[1]
            where = link.removeprefix("https://").partition("/")[0]
            assert await presented_certificate(where) == der_of(certificate)
            certified(tmp_path, "hub.example")
            process.send_signal(signal.SIGHUP)
            await line_with(process.stderr, "valid until")
            assert await presented_certificate(where) == der_of(certificate)
        finally:
            process.terminate()
            await process.communicate()
        assert process.returncode == 0

    @pytest.mark.slow
    def test_closed_terminal_ends_the_server(self, tmp_path: Path) -> None:
        """A server in a terminal ends in order with it, because nobody could end it later."""
        terminal = Terminal(tmp_path, "serve", "--listen", f"unix:{tmp_path / 's'}", controlling=True)
        try:
            terminal.until(b"Ctrl+C ends it.\r\n")
            terminal.close()
            assert terminal.ends() == 0
        finally:
            terminal.end_by_force()
        assert not (tmp_path / "s").exists()


class TestRefused:
    @pytest.mark.parametrize("command", ["serve", "web"])
    def test_certificate_without_alternative_names(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        command: str,
    ) -> None:
        """A certificate without alternative names is refused at the start, with a remedy."""
        certificate, key = certified(tmp_path, alternative=False)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        line = [command, "--listen", "127.0.0.1:0", "--certificate", str(certificate), "--key", str(key)]
        assert main(line) == 2
        told = capsys.readouterr().err
        assert f"--certificate {certificate}: has no subject alternative names" in told
        assert "subjectAltName" in told
