"""The options of `interlock mcp`."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def add_mcp(commands: object, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add `mcp`, which puts the gate in front of an MCP server."""
    mcp = command(commands, "mcp", "put an MCP server behind the rules")
    mcp.epilog = (
        "Where Interlock's server is and its token come from INTERLOCK_URL and INTERLOCK_TOKEN, or "
        "from this user's files."
    )
    mcp.add_argument("server", metavar="COMMAND", nargs="*", help="the server's command, after --")
    # Named otherwise than it is written: INTERLOCK_URL is where Interlock's own server is.
    mcp.add_argument(
        "--url", dest="mcp_url", metavar="URL", help="a server behind streamable HTTP instead"
    )
    mcp.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        action="append",
        help="sent to URL, e.g. 'Authorization: Bearer ${TOKEN}' with TOKEN from the environment",
    )
    mcp.add_argument(
        "--name", metavar="NAME", help="the agent's name (default: the client's and the server's)"
    )
    mcp.add_argument(
        "--prefix",
        metavar="TEXT",
        help="stands before the tools' names in rules: github_ makes github_push",
    )
    mcp.add_argument(
        "--session", metavar="ID", help="share this session with an agent's other servers and programs"
    )
