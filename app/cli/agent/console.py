"""`interlock console`: the console on a journal, or with `--connect` on the hub of a server."""

from __future__ import annotations

import argparse
import os
import sys

from ...config.arguments import (
    BAD_INPUT,
    database,
    in_terminal,
    journal_options,
    needs_terminal,
    redaction,
    refuse,
)
from ..options import (
    add_appearance,
    add_journal,
    add_operator,
    add_operator_connection,
    add_read_only,
    connection_options,
    operator_connection,
)

FAILED = 1
OWN_HUB_OPTIONS = {
    "operator": ("--as", "your token tells the server who decides"),
    "db": ("--db", "the server has the journal"),
    "redact": ("--redact", "the server masks what it sends; name the fields where it is started"),
}
"""Options of a console with a hub of its own."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_operator_connection(
        parser, "show the sessions of a server (default: INTERLOCK_URL, else ws://127.0.0.1:8737)"
    )
    parser.add_argument("--session", metavar="SESSION", help="with --connect: open at this session")
    parser.add_argument("--approval", metavar="REQUEST", help="with --connect: open at this request")
    add_journal(parser)
    add_operator(parser)
    add_read_only(parser)
    add_appearance(parser)


def run(args: argparse.Namespace) -> int:
    """Open the console; with `--read-only` nothing can be decided or changed. Returns the exit code."""
    if not in_terminal():
        return needs_terminal("console", "start it in a terminal")
    return _on_journal(args) if args.connect is None else connect(args)


def _on_journal(args: argparse.Namespace) -> int:
    """Open the console on a journal; `--read-only` also opens one that another process writes."""
    from ....engine.history.errors import FoldError, JournalError
    from ...config.loader import SettingsError
    from ...hosting.host import show, watch

    for name in {"session", "approval"} & args.typed:
        return refuse("console", f"--{name} needs --connect: a server has it")
    try:
        if args.read_only:
            return watch(database(args), args.operator, redaction(args), args.appearance)
        return show(
            database(args),
            args.operator,
            None,
            redaction(args),
            args.appearance,
            named=journal_options(args),
        )
    except (JournalError, FoldError, SettingsError) as error:
        return refuse("", error)


def connect(args: argparse.Namespace) -> int:
    """Open the console on the hub of a server, or of one of several servers."""
    from ....engine.gateway.client.connection import GatewayError
    from ....engine.gateway.protocol.tokens import TokenError
    from ...config.loader import SettingsError
    from ...hosting.host import attach
    from ...sources.deep_link import DeepLink

    for name, (option, reason) in OWN_HUB_OPTIONS.items():
        if name in args.typed:
            return refuse("console", f"{option} cannot be used with --connect: {reason}. Leave it out")
    try:
        return attach(
            *_operator_connection(args),
            named=[*connection_options(args), *(["--read-only"] if args.read_only else [])],
            read_only=bool(args.read_only),
            appearance=args.appearance,
            open_at=DeepLink(args.session, args.approval),
        )
    except (GatewayError, SettingsError, TokenError, ValueError) as error:
        return refuse("console", error, FAILED if isinstance(error, GatewayError) else BAD_INPUT)


def _operator_connection(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return URL and token; operators without a token or a valid login log in first.

    Raises the errors of `operator_connection` and `log_in_here`.
    """
    from ....engine.gateway.client.connection import NotAdmittedError
    from ....engine.gateway.protocol.address import TOKEN, server_url
    from ....engine.gateway.protocol.token_paths import operator_token_file
    from ...hosting.operator_login import OperatorLoginError
    from ..server.login import log_in_here

    try:
        url, token = operator_connection(args)
    except OperatorLoginError as error:
        print(f"interlock console: {error}", file=sys.stderr)
        return args.connect or None, log_in_here(args, server_url(args.connect or None))
    if token is None and TOKEN not in os.environ and not operator_token_file().exists():
        try:
            return url, log_in_here(args, server_url(url))
        except NotAdmittedError as error:
            print(f"interlock console: {error}", file=sys.stderr)
    return url, token
