"""The options of the commands around a server."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Add = Callable[..., argparse.ArgumentParser]
Options = Callable[[argparse.ArgumentParser], None]


def add_gateway(commands: object, command: Add, journal: Options, operator: Options) -> None:
    """`serve`, `token` and `protocol`."""
    serve = command(commands, "serve", "judge agents from elsewhere, and let consoles connect")
    serve.add_argument(
        "--rules", metavar="FILE", nargs="+", action="extend", help="rules that apply to every agent"
    )
    serve.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="127.0.0.1:PORT or unix:PATH (default: 127.0.0.1:8737)",
    )
    serve.add_argument("--mode", choices=("enforce", "shadow"), help="enforce (default) or shadow")
    serve.add_argument("--certificate", metavar="FILE", type=Path, help="serve TLS with this certificate")
    serve.add_argument("--key", metavar="FILE", type=Path, help="the certificate's private key")
    journal(serve)
    operator(serve)

    token = command(commands, "token", "make, list, rotate and revoke tokens for agents and operators")
    token.add_argument("--json", action="store_true", default=None, help="print the list as JSON")
    parts = token.add_subparsers(dest="part", metavar="PART")
    new = command(parts, "new", "make a token; it is shown this once")
    new.add_argument("kind", choices=("agent", "operator"), help="who is to use it")
    new.add_argument("name", metavar="NAME", help="whose it is; an operator decides under this name")
    rotate = command(parts, "rotate", "give a name a new token")
    rotate.add_argument("name", metavar="NAME", help="whose token")
    rotate.add_argument(
        "--overlap", metavar="TIME", help="how long the old one goes on, e.g. 15m (default: not at all)"
    )
    revoke = command(parts, "revoke", "end a token; its connections end within seconds")
    revoke.add_argument("name", metavar="NAME", help="whose token")

    protocol = command(commands, "protocol", "describe what is said over the wire")
    protocol.add_argument(
        "--schema", action="store_true", default=None, help="as JSON Schema (default: as a document)"
    )
