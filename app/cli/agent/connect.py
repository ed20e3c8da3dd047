"""`interlock console --connect`: the console on the hub of a server, possibly one of several."""

from __future__ import annotations

import argparse
import os
import sys

from ....engine.core.sanitize import visible
from ....engine.gateway.client.connection import GatewayError
from ....engine.gateway.protocol.address import TOKEN
from ....engine.gateway.protocol.tokens import TokenError
from ...config.arguments import BAD_INPUT
from ...config.loader import SettingsError
from ...hosting.host import attach
from ...sources.deep_link import DeepLink

FAILED = 1
OTHERS = {
    "operator": ("--as", "the server knows by your token who decides"),
    "db": ("--db", "the server has the journal"),
    "redact": ("--redact", "the server masks what it sends; name the fields where it is started"),
}
"""Options of a console with a hub of its own."""


def connect(args: argparse.Namespace) -> int:
    """Open the console, with `--read-only` to look only. Returns the exit code."""
    for name, (option, why) in OTHERS.items():
        if name in args.typed:
            return _said(f"{option} does not go with --connect: {why}. Leave it out", BAD_INPUT)
    try:
        return attach(
            args.connect or None,
            None if TOKEN in os.environ and "token_file" not in args.typed else args.token_file,
            read_only=bool(args.read_only),
            appearance=args.appearance,
            open_at=DeepLink(args.session, args.approval),
        )
    except GatewayError as error:
        return _said(str(error), FAILED)
    except (SettingsError, TokenError, ValueError) as error:
        return _said(str(error), BAD_INPUT)


def _said(text: str, code: int) -> int:
    print(f"interlock console: {visible(text, keep_newlines=True)}", file=sys.stderr)
    return code
