"""`interlock web`: the console in a browser, on a server of its own or on a running one."""

from __future__ import annotations

import argparse

from ...config.arguments import refuse
from ..options import (
    add_appearance,
    add_certificate,
    add_journal,
    add_mode,
    add_operator,
    add_operator_connection,
    add_rules,
    add_switch,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="where the browser goes (default: 127.0.0.1:8738); with --certificate also from elsewhere",
    )
    add_certificate(parser)
    add_switch(parser, "--open", "open the login link in the browser at once")
    add_operator_connection(
        parser, "show the sessions of a server that runs already (default: one is started here)"
    )
    parser.add_argument(
        "--agents",
        metavar="ADDRESS",
        help="where agents reach the server that is started here (default: 127.0.0.1:8737)",
    )
    add_rules(parser, "rules that apply to every agent")
    add_mode(parser)
    add_journal(parser)
    add_operator(parser)
    add_appearance(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the console until told to end. Returns the exit code."""
    from ....engine.history.errors import JournalError
    from ....engine.net.net import NetError
    from ....rules import RuleError
    from ...web.serving import serve_console

    try:
        serve_console(args)
    except (JournalError, NetError, RuleError, ValueError, OSError) as error:
        return refuse("web", error)
    return 0
