"""`interlock console --connect`: the server, the token, and refused options."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import pytest

from interlock.app.cli.agent.console import connect
from interlock.app.cli.main import parser
from interlock.app.config.loader import SettingsError, apply_settings
from interlock.app.hosting import host as hosting
from interlock.engine.gateway.client.connection import Link, UnreachableError
from interlock.engine.gateway.protocol.address import server_url

from ...bench.terminal import Terminal
from .seats import served


def parsed_options(
    *line: str, environ: dict[str, str] | None = None, directory: Path = Path()
) -> argparse.Namespace:
    """Return the options of a command line, with settings applied."""
    top = parser()
    args = top.parse_args(["console", *line])
    args.typed = frozenset(name for name, value in vars(args).items() if value is not None)
    apply_settings(top, args, environ=environ or {}, directory=directory)
    args.appearance = None
    return args


@pytest.fixture
def attached_servers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The recorded server of each attach; a token is set, so that no login is needed."""
    monkeypatch.setenv("INTERLOCK_TOKEN", "x")
    found: list[object] = []

    def attach(url: str | None, secret: str | None, **options: object) -> int:
        found.append((url, secret, options["read_only"]))
        return 0

    monkeypatch.setattr("interlock.app.hosting.host.attach", attach)
    return found


class TestWhere:
    @pytest.mark.parametrize(
        ("line", "environ", "url"),
        [
            (["--connect"], {}, None),
            (["--connect", "ws://127.0.0.1:9000"], {}, "ws://127.0.0.1:9000"),
            (["--connect", "unix:/run/interlock.sock"], {}, "unix:/run/interlock.sock"),
            ([], {"INTERLOCK_CONNECT": "true"}, None),
            ([], {"INTERLOCK_CONNECT": "wss://hub.example"}, "wss://hub.example"),
        ],
    )
    def test_url_is_given_or_default(
        self,
        tmp_path: Path,
        attached_servers: list[object],
        line: list[str],
        environ: dict[str, str],
        url: str | None,
    ) -> None:
        """The URL is given, or the default for a plain `--connect`, as an option or a setting."""
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path), **environ}
        assert connect(parsed_options(*line, environ=environ, directory=tmp_path)) == 0
        assert attached_servers == [(url, None, False)]

    def test_without_connect_the_own_journal_is_used(self, tmp_path: Path) -> None:
        """Without `--connect`, or with the setting `no`, the console uses its own journal."""
        for environ in ({}, {"INTERLOCK_CONNECT": "no"}):
            environ["INTERLOCK_CONFIG_DIR"] = str(tmp_path)
            assert parsed_options(environ=environ, directory=tmp_path).connect is None

    @pytest.mark.parametrize("setting", ['connect = "wss://elsewhere.example"', 'token_file = "x"'])
    def test_working_directory_cannot_choose_the_server(self, tmp_path: Path, setting: str) -> None:
        """The working directory's settings must not choose where an operator's token is sent."""
        here, config = tmp_path / "work", tmp_path / "config"
        here.mkdir()
        config.mkdir()
        (here / "interlock.toml").write_text(f"[console]\n{setting}\n")
        environ = {"INTERLOCK_CONFIG_DIR": str(config)}
        with pytest.raises(SettingsError, match="agents may write in the working directory"):
            parsed_options(environ=environ, directory=here)
        (here / "interlock.toml").rename(config / "interlock.toml")
        args = parsed_options(environ=environ, directory=here)
        assert args.connect or args.token_file

    def test_invalid_url_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        """An invalid URL is refused before a connection is opened."""
        with pytest.raises(SystemExit):
            parser().parse_args(["console", "--connect", "http://x"])
        assert "--connect" in capsys.readouterr().err


class TestRefused:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (["--as", "eve"], "--as cannot be used with --connect"),
            (["--db", "x.db"], "--db cannot be used with --connect"),
            (["--redact", "a"], "--redact cannot be used with --connect"),
        ],
    )
    def test_options_of_the_server(
        self,
        tmp_path: Path,
        attached_servers: list[object],
        capsys: pytest.CaptureFixture[str],
        line: list[str],
        said: str,
    ) -> None:
        """Options for the name, the journal and masking are the server's and are refused, not ignored."""
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path)}
        assert connect(parsed_options("--connect", *line, environ=environ, directory=tmp_path)) == 2
        assert said in capsys.readouterr().err
        assert not attached_servers

    @pytest.mark.parametrize(
        "url",
        [
            "ws://hub.example:8737",
            "ws://192.168.1.7:8737",
            "ws://[fe80::1]:1",
            "ws://127.0.0.1.example:8737",
        ],
    )
    def test_unencrypted_remote_url(self, tmp_path: Path, url: str) -> None:
        """An unencrypted remote URL is refused, with a remedy."""
        with pytest.raises(ValueError, match=r"unencrypted; connect to wss://|ssh -L"):
            hosting.attach(url, None)

    def test_one_of_several_without_its_scheme(self) -> None:
        """The error names the faulty address."""
        with pytest.raises(ValueError, match=r"unix:PATH, found 'b.example:8737' in 'wss://a"):
            server_url("wss://a.example:8737,b.example:8737")

    async def test_tls_with_a_server_that_has_none(self) -> None:
        """The error is not empty: it names the scheme for a server without a certificate."""

        async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1 << 16)
            writer.close()

        async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(UnreachableError, match="closed the connection; wss:// needs"):
                await Link(f"wss://127.0.0.1:{port}", "ilk_operator_x", "/console").open()

    def test_no_server(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If no server answers, the error says so and no console opens."""
        secret = "ilk_operator_abcdefgh12345678"
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        with pytest.raises(UnreachableError, match="No Interlock server answers"):
            hosting.attach("ws://127.0.0.1:9", secret)

    def test_no_token(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Without a token the error says how to get one."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        monkeypatch.delenv("INTERLOCK_TOKEN", raising=False)
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path)}
        assert connect(parsed_options("--connect", environ=environ, directory=tmp_path)) == 2
        assert "`interlock serve` makes one" in capsys.readouterr().err


@pytest.mark.slow
class TestLeaving:
    async def test_shows_the_command_to_reconnect(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After the console closes, the terminal shows the command to reconnect with the same options."""
        async with served(tmp_path) as server:
            monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
            monkeypatch.setenv("INTERLOCK_TOKEN", server.ada)
            line = [sys.executable, "-P", "-m", "interlock.app.cli", "console", "--connect", server.url]
            with Terminal([*line, "--read-only"]) as terminal:
                await asyncio.to_thread(terminal.wait_for, "as ada", seconds=30)
                terminal.send("q")
                back = f"interlock console --connect {server.url} --read-only"
                await asyncio.to_thread(terminal.wait_for, back, seconds=30)
                assert await asyncio.to_thread(terminal.wait_for_end) == 0
