"""`interlock web`: the console in a browser, and its logins."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

from ....engine.core.sanitize import visible
from ....engine.history.database.location import Location
from ...config.arguments import database, refuse
from ..options import (
    add_appearance,
    add_certificate,
    add_command,
    add_database,
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
        help="address for the browser (default: 127.0.0.1:8738); with --certificate also from elsewhere",
    )
    add_certificate(parser)
    add_switch(parser, "--open", "open the login link in the browser at once")
    add_switch(parser, "--no-qr", "print the link for a phone without its QR code")
    add_operator_connection(parser, "show the sessions of a running server (default: start one here)")
    parser.add_argument(
        "--agents",
        metavar="ADDRESS",
        help="address for agents of the server that is started here (default: 127.0.0.1:8737)",
    )
    add_rules(parser, "rules that apply to every agent")
    add_mode(parser)
    add_journal(parser)
    add_operator(parser)
    add_appearance(parser)
    parts = parser.add_subparsers(dest="part", metavar="PART")
    add_command(parts, "logins", "list the browsers that are logged in here")
    add_database(add_command(parts, "keys", "list the passkeys that operators enrolled at a journal"))
    revoke = add_command(parts, "revoke", "revoke a browser's login; its tabs close within seconds")
    revoke.add_argument("id", metavar="ID", help="the login's id or the beginning of it")


def run(args: argparse.Namespace) -> int:
    """Serve the console until stopped, or list or end logins. Returns the exit code."""
    if args.part is not None:
        return _run_part(args)
    from ....engine.history.errors import JournalError
    from ....engine.net.net import NetError
    from ....rules import RuleError
    from ...web.serving import serve_console

    try:
        serve_console(args)
    except (JournalError, NetError, RuleError, ValueError, OSError) as error:
        return refuse("web", error)
    return 0


def _run_part(args: argparse.Namespace) -> int:
    from ....engine.gateway.protocol.tokens import TokenError
    from ...web.logins import kept_logins, revoke_login

    try:
        if args.part == "keys":
            return _list_keys(database(args))
        if args.part == "revoke":
            login = revoke_login(args.id)
            print(f"Login {login.id} was revoked: {login.browser or 'a browser'}", file=sys.stderr)
            return 0
        found = kept_logins()
    except TokenError as error:
        return refuse("web", error)
    for path, logins in found.items():
        for each in logins:
            where = visible(path.stem.removeprefix("web-"))
            times = f"since {_time(each.begun)}  renewed {_time(each.renewed)}  until {_time(each.ends)}"
            operator = f"  as {visible(each.operator)}" if each.operator else ""
            print(
                f"{visible(each.id)}  {visible(each.browser) or 'a browser'}  {where}  {times}{operator}"
            )
    if not any(found.values()):
        print("No browser is logged in here.", file=sys.stderr)
    return 0


def _list_keys(journal: Location) -> int:
    """Print the keys of a journal's log, and the entries that do not count."""
    from ....engine.gateway.protocol.token_paths import token_file
    from ....engine.gateway.protocol.tokens import TokenFile
    from ....engine.history.logs.key_log import KeyLog

    found, tokens = KeyLog(journal).read(), TokenFile(token_file())
    given_up = {name: tokens.given_up(name) for name in {e.key.operator for e in found.in_force()}}
    # A running server removes these keys from the log.
    keys = [
        each.key
        for each in found.in_force()
        if (at := given_up[each.key.operator]) is None or each.key.at > at
    ]
    for key in keys:
        by = "a code" if key.confirmed == "code" else "an earlier key"
        since = f"since {key.at:%Y-%m-%d %H:%M} UTC  confirmed by {by}"
        print(f"{visible(key.operator)}  {visible(key.name)}  {visible(key.origin)}  {since}")
    if not keys:
        print("No passkey is enrolled at this journal.", file=sys.stderr)
    for fault in found.faults:
        print(f"interlock web: {visible(fault)}", file=sys.stderr)
    return 1 if found.faults else 0


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
