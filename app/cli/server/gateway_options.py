"""Options of the commands about servers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ....engine.gateway.protocol.rights import KINDS

Add = Callable[..., argparse.ArgumentParser]
Options = Callable[[argparse.ArgumentParser], None]


TRUE, FALSE = {"", "1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def server_named(text: str) -> str | None:
    """A server's URL, empty for the default one; `None` where a setting switches it off."""
    word = text.strip().lower()
    if word in TRUE or word in FALSE:
        return "" if word in TRUE else None
    from ....engine.gateway.protocol.address import server_url

    try:
        return server_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_connection(console: argparse.ArgumentParser) -> None:
    """Add the options that connect a console to a server."""
    console.add_argument(
        "--connect",
        metavar="URL",
        nargs="?",
        const="",
        type=server_named,
        help="show the sessions of a server (default: INTERLOCK_URL, else ws://127.0.0.1:8737)",
    )
    console.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="your token for it (default: INTERLOCK_TOKEN, else operator.token in the config directory)",
    )
    console.add_argument("--session", metavar="SESSION", help="with --connect: begin at this session")
    console.add_argument("--approval", metavar="REQUEST", help="with --connect: begin at this request")


def add_certificate(command: argparse.ArgumentParser) -> None:
    """Add the certificate options, for every command that is reachable over a network."""
    command.add_argument(
        "--certificate", metavar="FILE", type=Path, help="serve TLS with this certificate"
    )
    command.add_argument("--key", metavar="FILE", type=Path, help="the certificate's private key")


def add_gateway(commands: object, command: Add, journal: Options, operator: Options) -> None:
    """Add `serve`, `token` and `protocol`."""
    serve = command(commands, "serve", "judge external agents, and let consoles connect")
    serve.add_argument(
        "--rules", metavar="FILE", nargs="+", action="extend", help="rules that apply to every agent"
    )
    serve.add_argument(
        "--added-rules",
        metavar="FILE",
        nargs="+",
        action="extend",
        help="rules that agents may write: they come behind the others, and take no calls from them",
    )
    serve.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="127.0.0.1:PORT or unix:PATH (default: 127.0.0.1:8737)",
    )
    serve.add_argument("--mode", choices=("enforce", "shadow"), help="enforce (default) or shadow")
    serve.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="settings to read instead of interlock.toml here; also INTERLOCK_CONFIG",
    )
    serve.add_argument(
        "--idle-exit",
        metavar="TIME",
        help="end after this long without a session and a connection, e.g. 30m (default: never)",
    )
    add_certificate(serve)
    journal(serve)
    operator(serve)

    token = command(commands, "token", "make, list, rotate and revoke tokens for agents and operators")
    token.add_argument("--json", action="store_true", default=None, help="print the list as JSON")
    parts = token.add_subparsers(dest="part", metavar="PART")
    new = command(parts, "new", "make a token; it is shown this once")
    new.add_argument("kind", choices=("agent", "operator"), help="who is to use it")
    new.add_argument("name", metavar="NAME", help="whose it is; an operator decides under this name")
    owner = "the operator whose agent it is, who is no other person where several must approve its calls"
    new.add_argument("--owner", metavar="NAME", help=f"{owner} (default: your login name)")
    kinds = "what an operator may do: look, also decide requests, or also administer"
    new.add_argument("--kind", dest="rights", choices=KINDS, help=f"{kinds} (default: decide)")
    rotate = command(parts, "rotate", "give a name a new token")
    rotate.add_argument("name", metavar="NAME", help="whose token")
    rotate.add_argument(
        "--overlap", metavar="TIME", help="how long the old one goes on, e.g. 15m (default: not at all)"
    )
    rotate.add_argument("--owner", metavar="NAME", help=f"{owner} (default: as before)")
    rotate.add_argument("--kind", dest="rights", choices=KINDS, help=f"{kinds} (default: as before)")
    revoke = command(parts, "revoke", "end a token; its connections end within seconds")
    revoke.add_argument("name", metavar="NAME", help="whose token")

    protocol = command(commands, "protocol", "describe what is said over the wire")
    protocol.add_argument(
        "--schema", action="store_true", default=None, help="as JSON Schema (default: as a document)"
    )
