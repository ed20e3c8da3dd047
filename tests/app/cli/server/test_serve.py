"""`interlock serve`, `token` and `protocol` as a user runs them."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from agentapprovalprotocol import AsyncClient, AsyncGate, Call

from interlock.app.config.loader import with_named_file
from interlock.app.hosting.server import own_token, own_tokens
from interlock.engine.gateway import AgentClient, GatewayError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol import schema as protocol
from interlock.engine.gateway.protocol.tokens import TokenFile, read_secret
from interlock.engine.history.errors import JournalError
from interlock.engine.hub.hub import Hub
from tests.engine.gateway.served import until
from tests.support.certificates import certified
from tests.support.command import command
from tests.support.forked import COMMANDS, python_with


def surroundings(directory: Path) -> dict[str, str]:
    return {
        "INTERLOCK_CONFIG_DIR": str(directory / "config"),
        "HOME": str(directory),
        "PATH": os.environ["PATH"],
        "INTERLOCK_DB": str(directory / "journal.db"),
    }


class Running:
    """A server in a separate process."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path, heard: str) -> None:
        self.process = process
        self.config = directory / "config"
        self.heard = heard
        self.where = heard.splitlines()[0].removeprefix("Listening on ")

    def agent(self, url: str | None = None, **options: object) -> AgentClient:
        secret = read_secret(self.config / "agent.token")
        return AgentClient(url or f"ws://{self.where}", secret, **options)  # type: ignore[arg-type]

    def console(self) -> ConsoleClient:
        return ConsoleClient(f"ws://{self.where}", read_secret(self.config / "operator.token"))

    async def ended(self, number: int = signal.SIGTERM) -> tuple[int | None, str]:
        """Signal the server to end; return its exit code and its stderr."""
        self.process.send_signal(number)
        async with asyncio.timeout(60):
            _, err = await self.process.communicate()
        return self.process.returncode, err.decode()


@asynccontextmanager
async def serving(
    directory: Path,
    *line: str,
    real: bool = False,
    program: Sequence[str] = ("-m", "interlock.app.cli"),
    **env: str,
) -> AsyncGenerator[Running, None]:
    """Run `interlock serve` as a fork, or, if `real`, as a process like a user's."""
    process = await asyncio.create_subprocess_exec(
        *([sys.executable] if real else python_with(*COMMANDS)),
        *(*program, "serve", *line),
        cwd=directory,
        env=surroundings(directory) | env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            heard = (await process.stdout.readuntil(b"Ctrl+C ends it.\n")).decode()
        yield Running(process, directory, heard)
    except asyncio.IncompleteReadError as early:
        raise AssertionError((await process.stderr.read()).decode()) from early
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def approval_address(server: Running) -> str:
    """Read from a server's stderr where it answers clients of the Agent Approval Protocol."""
    assert server.process.stderr is not None
    async with asyncio.timeout(30):
        while not (said := (await server.process.stderr.readline()).decode()).startswith(
            "interlock serve: approval requests at "
        ):
            assert said
    return said.split()[-1]


class TestServe:
    @pytest.mark.slow
    async def test_waiting_call_is_answered_after_a_restart(self, tmp_path: Path) -> None:
        """The server judges calls, and a waiting call gets an operator's answer even after a restart."""
        (tmp_path / "a.rules").write_text("require human-approval before deploy\nblock rm\n")
        async with serving(
            tmp_path, "--rules", "a.rules", "--listen", "127.0.0.1:0", real=True
        ) as server:
            for name in ("tokens.json", "agent.token", "operator.token"):
                assert (server.config / name).stat().st_mode & 0o777 == 0o600
            assert "token" in server.heard
            assert "ilk_" not in server.heard
            port = server.where.rpartition(":")[2]
            client = server.agent()
            gate = await client.open("bot", labels={"rm": "Remove"})
            assert (await gate.call("rm", {})).outcome == "block"
            going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
            async with server.console() as console:
                await until(console.approvals)
            code, err = await server.ended()
            assert (code, err) == (0, "")
        (tmp_path / "interlock.toml").write_text('[serve]\nrules = ["a.rules"]\n')
        async with serving(tmp_path, "--listen", f"127.0.0.1:{port}", real=True) as server:
            async with server.console() as console:
                waiting = await until(console.approvals)
                outcome = await console.decide(waiting[0].id, approved=True, digest=waiting[0].digest)
                assert outcome.ok
            assert (await going).outcome == "allow"
            code, err = await server.ended(signal.SIGINT)
            assert code == 0
            assert err.startswith(f"interlock serve: rules a.rules from {tmp_path}/interlock.toml: ")
        await client.close()

    async def test_certificate_requires_trusting_tls_clients(self, tmp_path: Path) -> None:
        """A server with a certificate accepts only TLS clients that trust it."""
        certificate, key = certified(tmp_path)
        async with serving(
            tmp_path, "--listen", "127.0.0.1:0", "--certificate", str(certificate), "--key", str(key)
        ) as server:
            assert f"wss://{server.where}" in server.heard
            async with server.agent(f"wss://{server.where}", ca=certificate) as client:
                assert (await (await client.open("bot")).call("ls", {})).outcome == "allow"
            for url in (f"wss://{server.where}", f"ws://{server.where}"):
                with pytest.raises(GatewayError):
                    await server.agent(url).link.open()
            code, err = await server.ended()
            assert code == 0
            assert "every call is allowed" in err

    @pytest.mark.slow
    async def test_by_the_names_of_its_certificate(self, tmp_path: Path) -> None:
        """A server of all addresses is reached by a name in its certificate, and by no other."""
        certificate, key = certified(tmp_path, "hub.example")
        line = ("--listen", "0.0.0.0:0", "--certificate", str(certificate), "--key", str(key))
        async with serving(tmp_path, *line) as server:
            token = read_secret(server.config / "agent.token")
            port = int(server.where.rpartition(":")[2])
            trusting = ssl.create_default_context(cafile=certificate)

            async def answer(host: str) -> int:
                headers = f"Host: {host}:{port}\r\nAuthorization: Bearer {token}"
                request = f"GET /agent HTTP/1.1\r\n{headers}\r\n\r\n"
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=trusting, server_hostname="hub.example"
                )
                writer.write(request.encode())
                status = (await reader.readline()).split()[1]
                writer.close()
                return int(status)

            assert await answer("hub.example") != 421
            assert await answer("evil.example") == 421

    @pytest.mark.slow
    async def test_commands_on_open_journal_name_alternatives(self, tmp_path: Path) -> None:
        """Opening a server's journal fails with an error that names the commands for that server."""
        async with serving(tmp_path, "--listen", "127.0.0.1:0") as server:
            with pytest.raises(JournalError) as taken:
                Hub.open(tmp_path / "journal.db")
            assert f"interlock console --connect ws://{server.where}`" in str(taken.value)
            assert "interlock console --read-only`" in str(taken.value)

    @pytest.mark.slow
    async def test_socket_is_private_and_config_file_is_trusted(self, tmp_path: Path) -> None:
        """A socket is only for its owner; settings named by `--config` count as the user's own."""
        settings = tmp_path / "gate.toml"
        (tmp_path / "more.rules").write_text("block push\n")
        settings.write_text(
            '[gateway]\nlimits = {sessions_per_token = 1}\n[gateway.rules]\nmore = "more.rules"\n'
        )
        path = tmp_path / "gate.sock"
        async with serving(tmp_path, "--listen", f"unix:{path}", "--config", str(settings)) as server:
            assert path.stat().st_mode & 0o777 == 0o600
            async with server.agent(f"unix:{path}") as client:
                gate = await client.open("bot", rules=["more"])
                assert (await gate.call("push", {})).outcome == "block"
                with pytest.raises(GatewayError, match="1 sessions"):
                    await client.open("bot")
            assert (await server.ended())[0] == 0
        assert not path.exists()


class TestServeRefuses:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (("--listen", "nowhere"), "HOST:PORT"),
            (("--listen", "127.0.0.1:99999"), "HOST:PORT"),
            (("--listen", "unix:"), "path"),
            (("--listen", "unix:/nowhere/at/all/gate.sock"), "cannot listen on unix:/nowhere"),
            (("--listen", "unix:" + "x" * 200), "cannot listen"),
            (("--listen", "192.0.2.1:8737"), "choose another address with --listen"),
            (("--key", "key.pem"), "--certificate"),
            (("--certificate", "none.pem"), "none.pem"),
            (("--certificate", "a.pem", "--listen", "unix:gate.sock"), "unix:"),
            (("--rules", "none.rules"), "none.rules"),
            (("--rules", "bad.rules"), "bad.rules"),
            (("--config", "none.toml"), "none.toml"),
            (("--config", "bad.toml"), "limits.frame: expected more than 0, found -1"),
        ],
    )
    def test_each_fault_without_traceback(self, tmp_path: Path, line: tuple[str, ...], said: str) -> None:
        """Each fault is reported on stderr without a traceback, with exit code 2 and no stdout."""
        (tmp_path / "bad.rules").write_text("frobnicate the deploy\n")
        (tmp_path / "bad.toml").write_text("[gateway]\nlimits = {frame = -1}\n")
        ran = command(tmp_path, "serve", *line, env=surroundings(tmp_path))
        assert (ran.returncode, ran.stdout) == (2, "")
        assert said in ran.stderr
        assert "Traceback" not in ran.stderr

    def test_loosening_settings_in_the_working_directory(self, tmp_path: Path) -> None:
        """As agents may write there, settings there cannot add origins, raise limits or name a file."""
        loose = '[gateway]\norigins = ["https://evil.example"]\n', "[gateway]\nlimits = {rate = 9}\n"
        for text in loose:
            (tmp_path / "interlock.toml").write_text(text)
            ran = command(tmp_path, "serve", "--listen", "127.0.0.1:0", env=surroundings(tmp_path))
            assert ran.returncode == 2
            assert "agents may write in the working directory" in " ".join(ran.stderr.split())
        from_a_file = argparse.Namespace(config=Path("loose.toml"), typed=frozenset({"rules"}))
        assert with_named_file(from_a_file, {}) == {}
        on_the_line = argparse.Namespace(config=Path("mine.toml"), typed=frozenset({"config"}))
        assert with_named_file(on_the_line, {}) == {"INTERLOCK_CONFIG": "mine.toml"}

    def test_token_file_readable_by_others(self, tmp_path: Path) -> None:
        """A server does not start with a token file that others may read."""
        env = surroundings(tmp_path)
        command(tmp_path, "token", "new", "agent", "bot", env=env)
        (tmp_path / "config" / "tokens.json").chmod(0o644)
        ran = command(tmp_path, "serve", "--listen", "127.0.0.1:0", env=env)
        assert ran.returncode == 2
        assert "chmod 600" in ran.stderr


class TestToken:
    def test_secret_is_printed_only_once(self, tmp_path: Path) -> None:
        """A secret is printed once, alone on stdout; neither lists nor the file contain it."""
        env = surroundings(tmp_path)
        made = command(tmp_path, "token", "new", "agent", "bot", env=env)
        assert made.returncode == 0
        assert made.stdout.startswith("ilk_agent_")
        assert len(made.stdout.split()) == 1
        rotated = command(tmp_path, "token", "rotate", "bot", "--overlap", "15m", env=env)
        assert rotated.returncode == 0
        assert rotated.stdout != made.stdout
        assert "15m" in rotated.stderr
        listed = command(tmp_path, "token", "--json", env=env)
        entries = json.loads(listed.stdout)
        assert [(each["kind"], each["name"]) for each in entries] == [("agent", "bot")] * 2
        shown = listed.stdout + command(tmp_path, "token", env=env).stdout
        content = (tmp_path / "config" / "tokens.json").read_text()
        for secret in (made.stdout.strip(), rotated.stdout.strip()):
            assert secret not in shown
            assert secret not in content
        assert "digest" not in shown
        assert command(tmp_path, "token", "revoke", "bot", env=env).returncode == 0
        assert json.loads(command(tmp_path, "token", "--json", env=env).stdout) == []

    @pytest.mark.slow
    def test_owner_option_sets_the_owner(self, tmp_path: Path) -> None:
        """`--owner` sets the operator who owns an agent's token; the default is the login name."""
        env = surroundings(tmp_path)
        made = command(tmp_path, "token", "new", "agent", "bot", "--owner", "mia", env=env)
        assert "Its owner is mia." in made.stderr
        command(tmp_path, "token", "new", "agent", "other", env=env)
        command(tmp_path, "token", "rotate", "bot", "--owner", "ben", env=env)
        entries = json.loads(command(tmp_path, "token", "--json", env=env).stdout)
        owners = {each["name"]: each["owner"] for each in entries}
        assert owners["bot"] == "ben"
        assert owners["other"]
        assert "owner ben" in command(tmp_path, "token", env=env).stdout

    @pytest.mark.slow
    def test_labels_survive_rotation(self, tmp_path: Path) -> None:
        """An agent's token has labels for its sessions; a rotation keeps them unless it sets others."""
        env = surroundings(tmp_path)

        def labels() -> list[str]:
            [entry] = json.loads(command(tmp_path, "token", "--json", env=env).stdout)
            return entry["labels"]

        new = ("token", "new", "agent", "ci", "--label", "nightly", "--label", "ci")
        assert command(tmp_path, *new, env=env).returncode == 0
        assert labels() == ["ci", "nightly"]
        assert "labels ci, nightly" in command(tmp_path, "token", env=env).stdout
        command(tmp_path, "token", "rotate", "ci", "--owner", "ben", env=env)
        assert labels() == ["ci", "nightly"]
        command(tmp_path, "token", "rotate", "ci", "--label", "weekly", env=env)
        assert labels() == ["weekly"]
        command(tmp_path, "token", "rotate", "ci", "--no-labels", env=env)
        assert labels() == []
        (tmp_path / "config" / "interlock.toml").write_text('labels = ["of-runs"]')
        command(tmp_path, "token", "rotate", "ci", env=env)
        # An earlier version can read the file; the setting is only for sessions that start here.
        assert "labels" not in (tmp_path / "config" / "tokens.json").read_text()

    @pytest.mark.slow
    def test_output_file_has_mode_600(self, tmp_path: Path) -> None:
        """`-o` writes the token only to a new file with mode 600, and overwrites no file."""
        env = surroundings(tmp_path)
        made = command(tmp_path, "token", "new", "operator", "mia", "-o", "mia.token", env=env)
        assert (made.returncode, made.stdout) == (0, "")
        assert "ilk_" not in made.stderr
        assert "It is in mia.token, for the operator to use with --token-file." in made.stderr
        file = tmp_path / "mia.token"
        assert file.stat().st_mode & 0o777 == 0o600
        found = TokenFile(tmp_path / "config" / "tokens.json").find(read_secret(file))
        assert found is not None
        assert found.name == "mia"
        before = file.read_text()
        again = command(tmp_path, "token", "new", "operator", "ben", "-o", "mia.token", env=env)
        assert again.returncode == 2
        assert "-o: mia.token is there already, and is not overwritten; name a new file" in again.stderr
        assert file.read_text() == before
        taken = command(tmp_path, "token", "new", "operator", "mia", "-o", "two.token", env=env)
        nowhere = command(tmp_path, "token", "new", "operator", "ben", "-o", "no/ben.token", env=env)
        assert (taken.returncode, nowhere.returncode) == (2, 2)
        assert "cannot write no/ben.token: No such file" in nowhere.stderr
        assert not (tmp_path / "two.token").exists()
        listed = json.loads(command(tmp_path, "token", "--json", env=env).stdout)
        assert [each["name"] for each in listed] == ["mia"]

    @pytest.mark.slow
    def test_unknown_owner_is_reported(self, tmp_path: Path) -> None:
        """G-77: a mistyped owner is reported as a name under which no operator has a token."""
        env = surroundings(tmp_path)
        command(tmp_path, "token", "new", "operator", "mia", env=env)
        said = [
            command(tmp_path, "token", "new", "agent", f"bot-{owner}", "--owner", owner, env=env).stderr
            for owner in ("Mia", "mira")
        ]
        assert ["No operator has a token under that name yet." in each for each in said] == [False, True]

    @pytest.mark.slow
    def test_decide_is_the_default_kind(self, tmp_path: Path) -> None:
        """An operator's token has the kind `decide` by default; the list shows the kind."""
        env = surroundings(tmp_path)
        made = command(tmp_path, "token", "new", "operator", "mia", env=env)
        assert "Its kind is decide: answers requests" in made.stderr
        command(tmp_path, "token", "new", "operator", "ben", "--kind", "look", env=env)
        command(tmp_path, "token", "rotate", "mia", "--kind", "administer", env=env)
        entries = json.loads(command(tmp_path, "token", "--json", env=env).stdout)
        assert {each["name"]: each["rights"] for each in entries} == {"mia": "administer", "ben": "look"}
        listed = command(tmp_path, "token", env=env).stdout.splitlines()
        assert [line.split()[-1] for line in listed] == ["look", "administer"]

    def test_users_agent_token_has_user_as_owner(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The user's own agent token has the user as its owner, even if it is older than that field."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        tokens = TokenFile(tmp_path / "tokens.json")
        agent = own_token(tokens, "agent", "agent")
        assert [each.owner for each in tokens.tokens()] == [None]
        assert own_tokens(tokens, "mia")[0] == agent
        assert {each.name: each.owner for each in tokens.tokens()} == {"agent": "mia", "mia": None}

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (("new", "agent", "bot"), "rotate it"),
            (("new", "operator", "Bot"), "easily taken for 'bot'"),
            (("new", "operator", "mia", "--owner", "ben"), "only an agent's has an owner"),
            (("new", "agent", "bob", "--kind", "look"), "only an operator's token has one"),
            (("new", "agent", ""), "one line"),
            (("revoke", "nobody"), "there are: 'bot'"),
            (("rotate", "nobody"), "there are: 'bot'"),
            (("rotate", "bot", "--overlap", "soon"), "soon"),
            (("new", "operator", "mia", "--label", "ci"), "an operator's token has no labels"),
            (
                ("rotate", "bot", "--label", "ci", "--no-labels"),
                "--no-labels cannot be used with --label",
            ),
            (("new", "agent", "bob", "--label", "c i"), "a label has 1 to 64 letters a-z"),
        ],
    )
    def test_refused_command_changes_nothing(
        self, tmp_path: Path, line: tuple[str, ...], said: str
    ) -> None:
        """A refused command changes nothing, prints no secret and exits with 2."""
        env = surroundings(tmp_path)
        command(tmp_path, "token", "new", "agent", "bot", env=env)
        before = (tmp_path / "config" / "tokens.json").read_text()
        ran = command(tmp_path, "token", *line, env=env)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert said in ran.stderr
        assert (tmp_path / "config" / "tokens.json").read_text() == before


class TestProtocol:
    def test_document_and_schema_are_printed(self, tmp_path: Path) -> None:
        """The document and the schema are printed in full."""
        env = surroundings(tmp_path)
        assert command(tmp_path, "protocol", env=env).stdout == protocol.document()
        assert json.loads(command(tmp_path, "protocol", "--schema", env=env).stdout) == protocol.schema()


class TestApprovalProtocol:
    @pytest.mark.slow
    async def test_client_gets_verdicts_of_the_rules(self, tmp_path: Path) -> None:
        """The server reports its address, and a client of the protocol gets the rules' verdicts."""
        (tmp_path / "a.rules").write_text("block rm\n")
        line = ("--listen", "127.0.0.1:0", "--approval-protocol", "127.0.0.1:0", "--rules", "a.rules")
        async with serving(tmp_path, *line) as server:
            token = read_secret(server.config / "agent.token")
            gate = AsyncGate(AsyncClient(await approval_address(server), token))
            assert await gate.check(Call(key="1", tool="look", arguments={}))
            assert not await gate.check(Call(key="2", tool="rm", arguments={}))

    @pytest.mark.slow
    def test_port_in_use_is_an_error(self, tmp_path: Path) -> None:
        """A port that is in use is an error that names the address."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            where = f"127.0.0.1:{taken.getsockname()[1]}"
            line = ("--listen", "127.0.0.1:0", "--approval-protocol", where)
            ran = command(tmp_path, "serve", *line, env=surroundings(tmp_path))
            assert (ran.returncode, f"cannot listen on {where}" in ran.stderr) == (2, True)

    def test_path_is_refused(self, tmp_path: Path) -> None:
        """A path is refused, because no client of the protocol can connect to it."""
        ran = command(tmp_path, "serve", "--approval-protocol", "unix:a.sock", env=surroundings(tmp_path))
        assert ran.returncode == 2
        assert "--approval-protocol: expected HOST:PORT" in ran.stderr
