"""`interlock mcp login URL` and `interlock mcp logout URL`: logins at MCP servers that require OAuth."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....engine.core.sanitize import visible
from ...config.arguments import BAD_INPUT, refuse

if TYPE_CHECKING:
    from ....engine.gateway.mcp.logins import LoginFile, RegisteredClient

FAILED = 1
SECRET = "INTERLOCK_MCP_CLIENT_SECRET"
"""Environment variable with the secret of a preregistered client, used if no file is named."""
ACTIONS = ("login", "logout")


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options for a client that is already registered at the authorization server."""

    id: str | None = None
    secret_file: Path | None = None
    port: int | None = None

    def registered(self, environ: Mapping[str, str]) -> RegisteredClient | None:
        """Return the client, with its secret from its file or the environment; `None` without an id.

        Raises `TokenError` and `ValueError`.
        """
        from pydantic import SecretStr

        from ....engine.gateway.mcp.logins import RegisteredClient
        from ....engine.gateway.protocol.tokens import read_private

        if self.id is None:
            if self.secret_file is not None or self.port is not None:
                raise ValueError("--client-secret-file and --callback-port are for --client-id")
            return None
        if not re.fullmatch(r"[\x20-\x7e]{1,2000}", self.id):
            raise ValueError("--client-id: expected the characters of ASCII")
        if self.port is not None and not 0 < self.port < 65_536:
            raise ValueError(f"--callback-port: expected 1 to 65535, found {self.port}")
        secret = environ.get(SECRET, "")
        if self.secret_file is not None:
            try:
                secret = read_private(self.secret_file.expanduser()).strip()
            except FileNotFoundError as error:
                raise ValueError(f"--client-secret-file: there is no '{self.secret_file}'") from error
            if not secret:
                raise ValueError(f"--client-secret-file: '{self.secret_file}' is empty")
        return RegisteredClient(self.id, SecretStr(secret) if secret else None, self.port or 0)


def is_action(words: list[str]) -> bool:
    """Return whether the arguments of `interlock mcp` are a login or logout, not a server's command."""
    return len(words) == 2 and words[0] in ACTIONS and words[1].startswith(("http://", "https://"))


def run_action(action: str, url: str, client: ClientOptions) -> int:
    """Log in or log out. Returns the exit code."""
    from ....engine.gateway.mcp.logins import LoginFile, McpLoginError
    from ....engine.gateway.protocol.tokens import TokenError

    # The library's errors arrive as exceptions; its log would report them a second time, with tracebacks.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
    file = LoginFile(url)
    try:
        return asyncio.run(_log_in(file, client) if action == "login" else _log_out(file))
    except McpLoginError as error:
        return refuse("mcp", f"login: {error}", FAILED)
    except (TokenError, ValueError) as error:
        return refuse("mcp", f"{action}: {error}", BAD_INPUT)
    except KeyboardInterrupt:
        return refuse("mcp", "login: given up", FAILED)


async def _log_in(file: LoginFile, client: ClientOptions) -> int:
    from ....engine.gateway.mcp.logins import log_in

    login = await log_in(file, _show, _lines(), client.registered(os.environ))
    if login is None:
        print(f"{visible(file.url)} does not require a login.")
        return 0
    issuer = "" if login.issuer is None else f" by {visible(login.issuer)}"
    print(f"Logged in at {visible(login.url)}{issuer}: {file.path}")
    print(f"Now: interlock mcp --url {visible(login.url)}")
    return 0


async def _log_out(file: LoginFile) -> int:
    from ....engine.gateway.mcp.logins import log_out

    login, fault = await log_out(file)
    if login is None:
        print(f"There is no login at {visible(file.url)}.")
        return 0
    print(f"Logged out at {visible(login.url)}: the login is removed here.")
    if fault is not None:
        print(f"It was not revoked there: {visible(fault)}.")
    return 0


def _show(address: str) -> None:
    print("Open this address in a browser and log in:", file=sys.stderr)
    print(f"\n{visible(address)}\n", file=sys.stderr)
    print(
        "Waiting. If the browser is on another machine, it ends at an address that begins with "
        "http://127.0.0.1: paste that here. Ctrl+C gives up.",
        file=sys.stderr,
        flush=True,
    )


async def _lines() -> AsyncGenerator[str]:
    from ....engine.gateway.mcp.stdio import own_lines

    async for line in own_lines():
        if line is not None:
            yield line.decode(errors="replace")
