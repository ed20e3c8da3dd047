"""The options of `interlock web`."""

from __future__ import annotations

from pathlib import Path

from .gateway_options import Add, Options, add_certificate, server_named


def add_web(
    commands: object, command: Add, journal: Options, operator: Options, appearance: Options
) -> None:
    """Add `web`."""
    web = command(commands, "web", "show the console in a browser on this machine")
    web.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="where the browser goes (default: 127.0.0.1:8738); with --certificate also from elsewhere",
    )
    add_certificate(web)
    web.add_argument(
        "--open", action="store_true", default=None, help="open the login link in the browser at once"
    )
    web.add_argument(
        "--connect",
        metavar="URL",
        nargs="?",
        const="",
        type=server_named,
        help="show the sessions of a server that runs already (default: one is started here)",
    )
    web.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="with --connect: your token (default: INTERLOCK_TOKEN, else operator.token in the config "
        "directory)",
    )
    web.add_argument(
        "--agents",
        metavar="ADDRESS",
        help="where agents reach the server that is started here (default: 127.0.0.1:8737)",
    )
    web.add_argument(
        "--rules", metavar="FILE", nargs="+", action="extend", help="rules that apply to every agent"
    )
    web.add_argument("--mode", choices=("enforce", "shadow"), help="enforce (default) or shadow")
    journal(web)
    operator(web)
    appearance(web)
