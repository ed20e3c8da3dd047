"""`interlock mcp login URL` and `interlock mcp logout URL`: logins at MCP servers that want OAuth."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from ....engine.core.sanitize import visible
from ...config.arguments import BAD_INPUT, refuse

if TYPE_CHECKING:
    from ....engine.gateway.mcp.logins import LoginFile

FAILED = 1
ACTIONS = ("login", "logout")


def is_action(words: list[str]) -> bool:
    """Tell whether the words after `interlock mcp` are about a login, and name no server's program."""
    return len(words) == 2 and words[0] in ACTIONS and words[1].startswith(("http://", "https://"))


def run_action(action: str, url: str) -> int:
    """Log in, or out. Returns the exit code."""
    from ....engine.gateway.mcp.logins import LoginFile, McpLoginError
    from ....engine.gateway.protocol.tokens import TokenError

    # Its errors come as exceptions; with their traces in the log they would be told twice.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
    file = LoginFile(url)
    try:
        return asyncio.run(_log_in(file) if action == "login" else _log_out(file))
    except McpLoginError as error:
        return refuse("mcp", f"login: {error}", FAILED)
    except (TokenError, ValueError) as error:
        return refuse("mcp", f"{action}: {error}", BAD_INPUT)
    except KeyboardInterrupt:
        return refuse("mcp", "login: given up", FAILED)


async def _log_in(file: LoginFile) -> int:
    from ....engine.gateway.mcp.logins import log_in

    login = await log_in(file, _show, _lines())
    if login is None:
        print(f"{visible(file.url)} answers without a login.")
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
