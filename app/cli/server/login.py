"""`interlock login`: logs an operator in through a server's provider, for consoles and commands."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, refuse
from ..options import add_operator_connection, add_switch

if TYPE_CHECKING:
    from ....engine.gateway.oidc.client import DeviceLogin

FAILED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_operator_connection(parser)
    add_switch(parser, "--logout", "log out, here and at the server")
    add_switch(parser, "--no-qr", "print the provider's address without its QR code")


def run(args: argparse.Namespace) -> int:
    """Log in or log out. Returns the exit code."""
    from ....engine.core.sanitize import visible
    from ....engine.gateway.client.connection import GatewayError
    from ....engine.gateway.protocol.address import check_private, server_url
    from ....engine.gateway.protocol.tokens import TokenError
    from ...hosting.operator_login import log_out

    try:
        url = server_url(args.connect or None)
        check_private(url)
        if args.logout:
            ended = asyncio.run(log_out(url))
            name = "nobody" if ended is None else visible(ended.name)
            print(f"Logged out at {url}: {name}" if ended else f"Nobody is logged in at {url}.")
            return 0
        log_in_here(args, url)
    except GatewayError as error:
        return refuse("login", error, FAILED)
    except (TokenError, ValueError) as error:
        return refuse("login", error, BAD_INPUT)
    return 0


def log_in_here(args: argparse.Namespace, url: str) -> str:
    """Log in at a server, with instructions on stderr; returns the operator's token.

    Raises `GatewayError` and `TokenError`.
    """
    from ....engine.core.sanitize import visible
    from ...hosting.operator_login import log_in

    with_code = not getattr(args, "no_qr", None)
    login = asyncio.run(log_in(url, _known_token(args), lambda begun: _show(begun, with_code=with_code)))
    until = f"{login.ends.astimezone():%Y-%m-%d %H:%M}"
    print(f"Logged in at {url} as {visible(login.name)}, until {until}.", file=sys.stderr)
    return login.token


def _known_token(args: argparse.Namespace) -> str | None:
    """Return a token with which a server without TLS can prove its identity; `None` if there is none."""
    from ....engine.gateway.protocol.address import TOKEN
    from ....engine.gateway.protocol.token_paths import operator_token_file
    from ....engine.gateway.protocol.tokens import TokenError, read_secret

    if "token_file" not in args.typed and (token := os.environ.get(TOKEN)):
        return token
    try:
        return read_secret(args.token_file or operator_token_file())
    except TokenError:
        if "token_file" in args.typed:
            raise
        return None


def _show(login: DeviceLogin, *, with_code: bool) -> None:
    """Show the address where the person logs in, and the code to compare there."""
    from ....engine.core.sanitize import visible
    from ...terminal.qr_code import qr_lines

    address = login.verification_uri_complete or login.verification_uri
    print(f"Open {visible(login.verification_uri)} in a browser, on any machine,", file=sys.stderr)
    print(f"and enter or compare the code {visible(login.user_code)}", file=sys.stderr)
    if with_code and sys.stderr.isatty():
        print("\n".join(qr_lines(address)), file=sys.stderr)
    print("Waiting. Ctrl+C gives up.", file=sys.stderr, flush=True)
