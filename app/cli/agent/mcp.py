"""`interlock mcp`: the gate in front of an MCP server."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ....engine.core.durations import parse_time
from ...config.arguments import refuse
from .mcp_login import SECRET, ClientOptions, is_action, run_action

if TYPE_CHECKING:
    from ....engine.gateway.mcp.gate import McpGate

SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization", "x-api-key")
"""Headers whose values are accepted only from the environment."""
_SESSION = r"[A-Za-z0-9._:-]{1,200}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.epilog = (
        "Where Interlock's server is and its token come from INTERLOCK_URL and INTERLOCK_TOKEN, or "
        "from this user's files. `interlock mcp login URL` logs in at a server that wants OAuth, for "
        "--url; `interlock mcp logout URL` ends that."
    )
    parser.add_argument("server", metavar="COMMAND", nargs="*", help="the server's command, after --")
    # The setting is not called `url`: INTERLOCK_URL is the address of Interlock's own server.
    parser.add_argument(
        "--url", dest="mcp_url", metavar="URL", help="a server behind streamable HTTP instead"
    )
    parser.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        action="append",
        help="sent to URL, e.g. 'Authorization: Bearer ${TOKEN}' with TOKEN from the environment",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="the agent's name (default: the client's and the server's)"
    )
    parser.add_argument(
        "--prefix",
        metavar="TEXT",
        help="prefix of the tools' names in rules: github_ makes github_push",
    )
    parser.add_argument(
        "--session", metavar="ID", help="share this session with an agent's other servers and programs"
    )
    parser.add_argument(
        "--plans",
        action="store_true",
        default=None,
        help="offer the tool interlock_plan, for rules that require human-approval before plan",
    )
    parser.add_argument(
        "--inform",
        action="store_true",
        default=None,
        help="let a client that can show forms (elicitation) tell its user when a call "
        "waits for an operator; the user can stop waiting there, but not decide",
    )
    parser.add_argument(
        "--wait",
        metavar="TIME",
        help="maximum time that a call waits for an operator, e.g. 5m, or never for no "
        "limit (default: 50s if the client asks for no progress, else never)",
    )
    parser.add_argument(
        "--client-id",
        metavar="ID",
        help="for login: a client that is registered where you log in, for servers that register none",
    )
    parser.add_argument(
        "--client-secret-file",
        metavar="FILE",
        type=Path,
        help=f"for login: a file with that client's secret, which only you may read (else {SECRET})",
    )
    parser.add_argument(
        "--callback-port",
        metavar="PORT",
        type=int,
        help="for login: port of that client's redirect URI, "
        "http://127.0.0.1:PORT/callback (default: any)",
    )
    parser.add_argument(
        "--self-test",
        action="store_true",
        default=None,
        help="start the server, have the gate block a harmless call, report what it does "
        "not see, and exit",
    )


def run(args: argparse.Namespace) -> int:
    """Run until the server or the client ends. Returns the exit code."""
    from ....engine.gateway.mcp.gate import McpGate

    # Accepted on the command line only: a settings file in the working directory could send calls
    # elsewhere, or rename tools so that no rule matches them.
    typed = {
        name: getattr(args, name) if name in args.typed else None
        for name in ("mcp_url", "header", "name", "prefix", "session", "plans", "inform", "wait")
    }
    url, command = typed["mcp_url"], args.server
    client = ClientOptions(
        id=args.client_id if "client_id" in args.typed else None,
        secret_file=args.client_secret_file if "client_secret_file" in args.typed else None,
        port=args.callback_port if "callback_port" in args.typed else None,
    )
    if is_action(command):
        used = any(value is not None for value in typed.values())
        if used or (command[0] == "logout" and client != ClientOptions()):
            return refuse("mcp", f"{command[0]} takes the URL of the server, but none of these options")
        return run_action(command[0], command[1], client)
    try:
        if client != ClientOptions():
            raise ValueError("--client-id, --client-secret-file and --callback-port are for login URL")
        if (url is None) == (not command):
            raise ValueError("expected either a command after -- or --url")
        if typed["session"] is not None and not re.fullmatch(_SESSION, typed["session"]):
            raise ValueError("--session: expected letters, digits and . _ : -, 200 at most")
        if url is None and typed["header"]:
            raise ValueError("--header is for --url")
        headers = {} if url is None else _headers(typed["header"] or (), os.environ)
        if args.self_test and "self_test" in args.typed:
            from .mcp_probe import self_test

            return asyncio.run(self_test(_own_line(typed, command)))
        gate = McpGate(
            prefix=typed["prefix"] or "", plans=bool(typed["plans"]), inform=bool(typed["inform"])
        )
        wait = None if typed["wait"] is None else _waiting_time(typed["wait"])
        return asyncio.run(_run(url, command, headers, gate, typed["name"], typed["session"], wait))
    except OSError as error:
        command_name = command[0] if command else error.filename
        return refuse(
            "mcp", f"{command_name} cannot be started: {error.strerror}" if error.strerror else error
        )
    except ValueError as error:
        return refuse("mcp", error)


def _own_line(
    typed: Mapping[str, str | bool | Sequence[str] | None], command: Sequence[str]
) -> list[str]:
    """Return the arguments of this command without the self-test option."""
    line: list[str] = []
    for name, value in typed.items():
        option = "--url" if name == "mcp_url" else f"--{name}"
        match value:
            case True:
                line.append(option)
            case str():
                line += [option, value]
            case None | False:
                pass
            case _:
                line += [word for each in value for word in (option, each)]
    return [*line, *(["--", *command] if command else [])]


async def _run(
    url: str | None,
    command: Sequence[str],
    headers: Mapping[str, str],
    gate: McpGate,
    name: str | None,
    session_id: str | None,
    wait: float | None,
) -> int:
    from ....engine.gateway.client.agent import AgentClient
    from ....engine.gateway.mcp.child import run_child
    from ....engine.gateway.mcp.http import run_http
    from ....engine.gateway.mcp.proxy import PATIENCE, ProxySession

    def agent_name() -> str:
        return name or "/".join(filter(None, (gate.client, gate.server))) or "mcp"

    session = ProxySession(
        agent_name,
        session=session_id,
        client=lambda: AgentClient(name="interlock mcp", patience=PATIENCE),
    )
    if url is None:
        return await run_child(command, gate, session, wait=wait)
    return await run_http(_checked(url), headers, gate, session, wait=wait)


def _waiting_time(text: str) -> float:
    """Parse the number of seconds for which a call waits. Raises `ValueError`."""
    seconds = inf if text == "never" else parse_time(text)
    if not seconds:
        raise ValueError(f"--wait: expected a time such as 5m, or never, found {text!r}")
    return float(seconds)


def _checked(url: str) -> str:
    """Check that a URL uses HTTP or HTTPS. Raises `ValueError`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"--url: expected http://… or https://…, found '{url}'")
    return url


def _headers(lines: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers, with `${NAME}` replaced from the environment, where secrets belong.

    Raises `ValueError`.
    """

    def variable(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise ValueError(f"--header: {match[1]} is not set in the environment")
        return environ[match[1]]

    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name.strip()):
            raise ValueError("--header: expected 'NAME: VALUE'")
        if name.strip().lower() in SECRET_HEADERS and "${" not in value:
            raise ValueError(
                f"--header: everybody on this machine can read a command line; write "
                f"'{name.strip()}: … ${{NAME}}', with NAME in the environment"
            )
        filled = re.sub(r"\$\{(\w+)\}", variable, value.strip())
        if not re.fullmatch(r"[\x20-\x7e\t]*", filled):
            raise ValueError(
                f"--header: the value of {name.strip()} contains characters that HTTP cannot send"
            )
        headers[name.strip()] = filled
    return headers
