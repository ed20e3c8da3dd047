"""`interlock login`: a login by the device flow, which other commands then use."""

from __future__ import annotations

import asyncio
import re
import stat
import subprocess
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import TokenContent
from tests.app.web.oidc.signing import offering
from tests.engine.gateway.served import Served, until
from tests.support.command import command
from tests.support.oidc_provider import OidcProvider, person, provided


@dataclass
class Desk:
    """A server, its login provider, and a user without a token."""

    server: Served
    provider: OidcProvider
    directory: Path

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def login_files(self) -> list[Path]:
        """The files that keep this user's logins."""
        return [*(self.directory / "config").glob("login-*.json")]

    async def run(self, *line: str, **env: str) -> subprocess.CompletedProcess[str]:
        every = {"INTERLOCK_CONFIG_DIR": str(self.directory / "config"), **env}
        return await asyncio.to_thread(command, self.directory, *line, env=every)

    async def log_in(self, *line: str, answer: str = "done") -> subprocess.CompletedProcess[str]:
        """Log in, and set the provider's answer once the device code exists."""
        running = asyncio.ensure_future(self.run("login", "--connect", self.url, *line))

        async def begun() -> bool:
            return bool(self.provider.devices) or running.done()

        await until(begun)
        for each in self.provider.devices.values():
            each.state = answer
        return await running


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[Desk, None]:
    (tmp_path / "config").mkdir(mode=0o700)
    address = Address(path=tmp_path / "s.sock")
    async with provided() as provider, offering(tmp_path, provider, address=address) as server:
        provider.person = person("maria", "dev")
        yield Desk(server, provider, tmp_path)


class TestLogin:
    @pytest.mark.slow
    async def test_a_login_is_for_all_commands(self, desk: Desk) -> None:
        """The login shows address and code, and stores a token with mode 600 that other commands use."""
        done = await desk.log_in()
        assert done.returncode == 0, done.stderr
        assert f"Open {desk.provider.issuer}/activate in a browser" in done.stderr
        assert "the code WDJB-MJHT" in done.stderr
        assert f"Logged in at {desk.url} as maria, until" in done.stderr
        [file] = desk.login_files
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        listed = await desk.run("approvals", "list", "--connect", desk.url)
        assert (listed.returncode, listed.stderr) == (0, "No request is open.\n")
        frozen = await desk.run("freeze", "--connect", desk.url, "a test")
        assert frozen.returncode == 0, frozen.stderr
        freeze = desk.server.hub.current_freeze()
        assert freeze is not None
        assert freeze.by == "maria"

    @pytest.mark.slow
    async def test_the_role_of_the_provider_is_enforced(self, desk: Desk) -> None:
        """An operator who may only look cannot freeze the agents."""
        desk.provider.person = person("maria", "staff")
        await desk.log_in()
        frozen = await desk.run("freeze", "--connect", desk.url, "a test")
        assert frozen.returncode == 1
        assert "needs a token of kind 'decide'" in frozen.stderr

    @pytest.mark.slow
    async def test_logging_out(self, desk: Desk) -> None:
        """A logout deletes the file and revokes the token at the server."""
        await desk.log_in()
        [entry] = [each for each in desk.server.tokens.tokens() if each.login is not None]
        done = await desk.run("login", "--connect", desk.url, "--logout")
        assert (done.returncode, done.stdout) == (0, f"Logged out at {desk.url}: maria\n")
        assert desk.login_files == []
        assert not desk.server.tokens.in_force(entry.id)
        again = await desk.run("login", "--connect", desk.url, "--logout")
        assert again.stdout == f"Nobody is logged in at {desk.url}.\n"

    @pytest.mark.slow
    async def test_environment_token_overrides_login(self, desk: Desk) -> None:
        """A token in the environment takes precedence over a login."""
        desk.provider.person = person("maria", "staff")
        await desk.log_in()
        frozen = await desk.run("freeze", "--connect", desk.url, "x", INTERLOCK_TOKEN=desk.server.ben)
        assert frozen.returncode == 0, frozen.stderr

    @pytest.mark.slow
    async def test_ended_login_names_the_command(self, desk: Desk) -> None:
        """The error names the command that logs in again."""
        await desk.log_in()
        [file] = desk.login_files
        old = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
        file.write_text(re.sub(r'"ends":"[^"]*"', f'"ends":"{old}"', file.read_text()))
        listed = await desk.run("approvals", "list", "--connect", desk.url)
        assert listed.returncode == 1
        assert f"log in again: interlock login --connect {desk.url}" in listed.stderr


class TestRefusals:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("answer", "said"),
        [("access_denied", "the login was denied there"), ("expired_token", "the code has expired")],
    )
    async def test_denied_or_expired_code(self, desk: Desk, answer: str, said: str) -> None:
        """A denied or expired code is an error, and no login is kept."""
        done = await desk.log_in(answer=answer)
        assert done.returncode == 1
        assert said in done.stderr
        assert desk.login_files == []

    @pytest.mark.slow
    async def test_login_without_role(self, desk: Desk) -> None:
        """A login without a role is refused with the reason, and no login is kept."""
        desk.provider.person = person("eve", "sales")
        done = await desk.log_in()
        assert done.returncode == 1
        assert "'eve' has no role here" in done.stderr
        assert desk.login_files == []

    @pytest.mark.slow
    async def test_unreachable_provider_keeps_existing_login(self, desk: Desk) -> None:
        """A new login fails with an error; an existing login remains valid."""
        await desk.log_in()
        desk.provider.down = True
        done = await desk.run("login", "--connect", desk.url)
        assert done.returncode == 1
        assert "answers with status 503" in done.stderr
        listed = await desk.run("approvals", "list", "--connect", desk.url)
        assert listed.returncode == 0, listed.stderr

    async def test_unencrypted_server_is_refused(self, desk: Desk) -> None:
        """A login over unencrypted TCP is refused."""
        done = await desk.run("login", "--connect", "ws://127.0.0.1:9")
        assert done.returncode == 1
        assert "over wss:// or at a unix:PATH" in done.stderr


class TestRoles:
    @pytest.mark.slow
    async def test_later_commands_use_the_current_role(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Later commands use the current role from the provider; without a role the login ends."""
        monkeypatch.setattr("interlock.app.hosting.operator_login.READ_AGAIN", 0.0)
        await desk.log_in()
        desk.provider.person = person("maria", "staff")
        frozen = await desk.run("freeze", "--connect", desk.url, "a test")
        assert "needs a token of kind 'decide'" in frozen.stderr
        desk.provider.down = True
        listed = await desk.run("approvals", "list", "--connect", desk.url)
        assert listed.returncode == 0, listed.stderr
        desk.provider.down = False
        desk.provider.person = person("maria")
        listed = await desk.run("approvals", "list", "--connect", desk.url)
        assert "log in again" in listed.stderr
        assert desk.login_files == []
        assert not [each for each in desk.server.tokens.tokens() if each.login is not None]

    @pytest.mark.slow
    async def test_a_restart_keeps_a_login(self, desk: Desk) -> None:
        """The server's token file keeps logins with their names, but not their tokens."""
        await desk.log_in()
        text = desk.server.tokens.path.read_text()
        content = TokenContent.model_validate_json(text)
        assert [each.name for each in content.people or ()] == ["maria"]
        [file] = desk.login_files
        token = file.read_text().partition('"token":"')[2].partition('"')[0]
        assert token.startswith("ilk_operator_")
        assert token not in text


@pytest.mark.slow
class TestTokens:
    async def test_logins_are_listed_and_revoked(self, desk: Desk) -> None:
        """`interlock token` lists current and former logins; revoking a name removes all of them."""
        await desk.log_in()
        env = {"INTERLOCK_CONFIG_DIR": str(desk.server.tokens.path.parent)}
        listed = await desk.run("token", **env)
        login = f"{desk.provider.issuer} sub-maria"
        assert re.search(rf"operator  maria .* until .* decide  logged in as {login}\n", listed.stdout)
        await desk.run("login", "--connect", desk.url, "--logout")
        listed = await desk.run("token", **env)
        assert f"person    maria  not logged in  known as {login}\n" in listed.stdout
        await desk.log_in()
        assert (await desk.run("token", "revoke", "maria", **env)).returncode == 0
        assert "maria" not in (await desk.run("token", **env)).stdout
        done = await desk.run("approvals", "list", "--connect", desk.url)
        assert done.returncode == 1
