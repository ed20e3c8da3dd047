"""`interlock freeze`: holds every new call of all agents of a server, or lifts the freeze."""

from __future__ import annotations

import argparse
import asyncio
import json

from ...config.arguments import BAD_INPUT, refuse
from ..options import add_operator_connection, add_switch, operator_connection

FAILED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "reason", metavar="REASON", nargs="?", help="the reason, for everyone and the record"
    )
    add_switch(
        parser,
        "--lift",
        "lift the freeze, so that waiting calls are judged; needs a REASON and an administrator",
    )
    add_switch(parser, "--json", "print JSON")
    add_operator_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Freeze all agents, or lift the freeze. Returns the exit code; 1 if the server refused."""
    from ....engine.gateway.client.connection import GatewayError
    from ....engine.gateway.protocol.tokens import TokenError

    # Accepted on the command line only, never from settings: lifting is a deliberate act.
    lift = "lift" in args.typed
    try:
        if lift and not (args.reason or "").strip():
            raise ValueError('lifting a freeze needs a reason: interlock freeze --lift "REASON"')
        return asyncio.run(_freeze(*operator_connection(args), args, lift=lift))
    except GatewayError as error:
        return refuse("freeze", error, FAILED)
    except (TokenError, ValueError) as error:
        return refuse("freeze", error, BAD_INPUT)


async def _freeze(url: str | None, secret: str | None, args: argparse.Namespace, *, lift: bool) -> int:
    from ....engine.core.sanitize import visible
    from ....engine.gateway.client.console import ConsoleClient

    async with ConsoleClient(url, secret) as client:
        if lift:
            outcome = await client.lift_freeze(by="", reason=args.reason)
        else:
            outcome = await client.freeze(by="", reason=args.reason or "")
    if args.json:
        print(json.dumps(outcome.model_dump(mode="json"), indent=2))
    elif outcome.ok:
        print(visible(outcome.message))
    else:
        return refuse("freeze", ValueError(outcome.message), FAILED)
    return 0 if outcome.ok else FAILED
