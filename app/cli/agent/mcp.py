"""`interlock mcp`: the gate in front of an MCP server."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ....engine.core.sanitize import visible
from ....engine.gateway.client.agent import AgentClient
from ....engine.gateway.mcp.child import run_child
from ....engine.gateway.mcp.gate import McpGate
from ....engine.gateway.mcp.http import run_http
from ....engine.gateway.mcp.proxy import PATIENCE, GateSession
from ...config.arguments import BAD_INPUT

SECRET = ("authorization", "cookie", "proxy-authorization", "x-api-key")
"""Headers whose values come from the environment only."""
_SESSION = r"[A-Za-z0-9._:-]{1,200}"


def mcp(args: argparse.Namespace) -> int:
    """Run until the server or the client ends. Returns the exit code."""
    # From the line alone: a file in the working directory could send calls elsewhere, or name tools so
    # that no rule means them.
    given = {
        name: getattr(args, name) if name in args.typed else None
        for name in ("mcp_url", "header", "name", "prefix", "session")
    }
    url, command = given["mcp_url"], args.server
    try:
        if (url is None) == (not command):
            raise ValueError("expected either a command after -- or --url")
        if given["session"] is not None and not re.fullmatch(_SESSION, given["session"]):
            raise ValueError("--session: expected letters, digits and . _ : -, 200 at most")
        if url is None and given["header"]:
            raise ValueError("--header is for --url")
        headers = {} if url is None else _headers(given["header"] or (), os.environ)
        gate = McpGate(prefix=given["prefix"] or "")
        return asyncio.run(_run(url, command, headers, gate, given["name"], given["session"]))
    except (ValueError, OSError) as error:
        print(f"interlock mcp: {visible(_said(error, command))}", file=sys.stderr)
        return BAD_INPUT


async def _run(
    url: str | None,
    command: Sequence[str],
    headers: Mapping[str, str],
    gate: McpGate,
    name: str | None,
    session_id: str | None,
) -> int:
    def called() -> str:
        return name or "/".join(filter(None, (gate.client, gate.server))) or "mcp"

    session = GateSession(
        called, session=session_id, client=lambda: AgentClient(name="interlock mcp", patience=PATIENCE)
    )
    if url is None:
        return await run_child(command, gate, session)
    return await run_http(_checked(url), headers, gate, session)


def _said(error: ValueError | OSError, command: Sequence[str]) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{command[0] if command else error.filename} cannot be started: {error.strerror}"
    return str(error)


def _checked(url: str) -> str:
    """Check that a URL is of HTTP. Raises `ValueError`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"--url: expected http://… or https://…, found '{url}'")
    return url


def _headers(given: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The headers, with `${NAME}` from the environment, where secrets belong. Raises `ValueError`."""

    def found(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise ValueError(f"--header: {match[1]} is not set in the environment")
        return environ[match[1]]

    headers: dict[str, str] = {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name.strip()):
            raise ValueError("--header: expected 'NAME: VALUE'")
        if name.strip().lower() in SECRET and "${" not in value:
            raise ValueError(
                f"--header: everybody on this machine can read a command line; write "
                f"'{name.strip()}: … ${{NAME}}', with NAME in the environment"
            )
        filled = re.sub(r"\$\{(\w+)\}", found, value.strip())
        if not re.fullmatch(r"[\x20-\x7e\t]*", filled):
            raise ValueError(f"--header: the value of {name.strip()} holds what HTTP cannot send")
        headers[name.strip()] = filled
    return headers
