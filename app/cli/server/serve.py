"""`interlock serve`: a hub without a screen, for agents and consoles that connect."""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.arguments import database, redaction, refuse, report_directory
from ..options import add_certificate, add_journal, add_mode, add_operator, add_rules, add_switch

if TYPE_CHECKING:
    from ....engine.gateway.protocol.address import Address
    from ...config.rule_texts import RuleTexts

IN_CLEAR = (
    "{} can be reached from elsewhere, and what is sent there can be read on the way, including tokens. "
    "Serve TLS with --certificate and --key, or listen on 127.0.0.1"
)

ONLY_HERE = (
    "--answer decides without a person, and {} can be reached from elsewhere. Listen on 127.0.0.1 or a "
    "unix:PATH, or leave --answer out"
)
CANNOT_LISTEN = "cannot listen on {}: {}; choose another address with --listen"
UNATTENDED = {
    "approve": "--answer approve: no operator decides, every request is approved. Use it for tests only",
    "deny": "--answer deny: no operator decides, every request is denied",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_rules(parser, "rules that apply to every agent")
    parser.add_argument(
        "--added-rules",
        metavar="FILE",
        nargs="+",
        action="extend",
        help="rules that agents may write; they come after the others, and take no calls from them",
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="HOST:PORT or unix:PATH (default: 127.0.0.1:8737); for other machines, with --certificate",
    )
    add_mode(parser)
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="settings to read instead of interlock.toml here; also INTERLOCK_CONFIG",
    )
    parser.add_argument(
        "--idle-exit",
        metavar="TIME",
        help="exit after this long without sessions and connections, e.g. 30m (default: never)",
    )
    parser.add_argument(
        "--answer",
        choices=("approve", "deny"),
        help="answer every request this way, without a person, for tests and scripts on "
        "this machine; only on the command line",
    )
    parser.add_argument(
        "--metrics",
        metavar="ADDRESS",
        help="127.0.0.1:PORT for Prometheus and probes (/metrics, /healthz, /readyz); from"
        " elsewhere, metrics require an operator's token",
    )
    add_switch(parser, "--trace-arguments", "include the masked arguments and results of calls in traces")
    parser.add_argument(
        "--approval-protocol",
        metavar="ADDRESS",
        help="127.0.0.1:PORT for clients of the Agent Approval Protocol, over HTTP",
    )
    add_certificate(parser)
    add_journal(parser)
    add_operator(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until stopped. Returns the exit code."""
    from ....engine.gateway.protocol.address import Address
    from ....engine.gateway.protocol.token_paths import token_file
    from ....engine.gateway.protocol.tokens import TokenError, TokenFile
    from ....engine.history.errors import JournalError
    from ....engine.net.net import NetError
    from ....rules import RuleError
    from ...config.approvals import approval_settings
    from ...config.gateway import gateway_settings
    from ...config.loader import SettingsError, with_named_file
    from ...config.oidc import oidc_settings
    from ...config.operators import operators
    from ...config.trust import rule_texts
    from ...hosting import server
    from ...hosting.arenas import share_one_arena
    from ...hosting.certificate import server_certificate
    from ...hosting.server_urls import local_url

    try:
        address = Address.parse(args.listen) if args.listen else Address()
        environ = with_named_file(args, os.environ)
        tokens = TokenFile(token_file())
        agent, console = server.own_tokens(tokens, args.operator)
        rules, added_rules = tuple(args.rules or ()), tuple(args.added_rules or ())
        serving = server.ServerOptions(
            database=database(args),
            address=address,
            rules=(*rules, *added_rules),
            texts=_checked(rule_texts(args), rules, added_rules),
            mode=args.mode or "enforce",
            settings=gateway_settings(environ=environ),
            tokens=tokens,
            redaction=redaction(args),
            policy=approval_settings(environ=environ).policy,
            operators=partial(operators, environ=environ),
            oidc=oidc_settings(environ=environ),
            certificate=server_certificate(address, args.certificate, args.key),
            idle_exit=_idle_exit(args.idle_exit),
            # Headless runs have a setting of this name; it must not decide for a server.
            answer=args.answer if "answer" in args.typed else None,
            metrics=_http_address("--metrics", args.metrics),
            trace_arguments=bool(args.trace_arguments),
            approvals=_http_address("--approval-protocol", args.approval_protocol),
        )
        if serving.answer is not None:
            if not address.is_local:
                return refuse("serve", ONLY_HERE.format(address))
            refuse("serve", UNATTENDED[serving.answer])
        if not serving.rules:
            refuse("serve", server.NOTHING_JUDGED)
        report_directory(args, "serve")
        for each in (address, serving.metrics, serving.approvals):
            if serving.certificate is None and each is not None and not each.is_local:
                refuse("serve", IN_CLEAR.format(each))

        def ready(where: Address) -> None:
            url = local_url(where, serving.names)
            idle = (
                ""
                if serving.idle_exit is None
                else f", or {args.idle_exit} without sessions and connections"
            )
            print(f"Listening on {where}", flush=True)
            print(f"agents connect with the token in {agent}")
            print(f"consoles with the one in {console}: interlock console --connect {url}")
            print(f"Ctrl+C ends it{idle}.", flush=True)

        share_one_arena()
        limits = serving.settings.limits
        server.raise_file_limit(limits.connections + limits.strangers)
        with asyncio.Runner(loop_factory=server.loop_factory()) as runner:
            runner.run(server.serve(serving, ready))
    except ssl.SSLError as error:
        return refuse("serve", error)
    except OSError as error:
        return refuse("serve", CANNOT_LISTEN.format(args.listen or Address(), _reason(error)))
    except (JournalError, NetError, RuleError, SettingsError, TokenError, ValueError) as error:
        return refuse("serve", error)
    return 0


def _reason(error: OSError) -> str:
    """Return the system's words for an error; asyncio's name the address again."""
    return (
        os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error.strerror)
    )


def _checked(texts: RuleTexts, rules: Sequence[str], added_rules: Sequence[str]) -> RuleTexts:
    """Read and check all rules files.

    Raises `RuleError`, and `SettingsError` if added rules loosen the others.
    """
    from ...config.loader import SettingsError
    from ...config.rule_texts import find_loosened_rule

    texts = texts.with_files([*rules, *added_rules])
    if (rule := find_loosened_rule(texts, rules, added_rules)) is not None:
        raise SettingsError(
            f"--added-rules: what {', '.join(added_rules)} names would no longer be covered by "
            f"'{rule}', and agents may write there; name the tools in rules of your own"
        )
    return texts


def _http_address(option: str, text: str | None) -> Address | None:
    """Parse the address of an HTTP endpoint. Raises `ValueError`."""
    from ....engine.gateway.protocol.address import Address

    try:
        address = None if text is None else Address.parse(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from error
    if address is not None and address.path is not None:
        raise ValueError(f"{option}: expected HOST:PORT, found '{address}'")
    return address


def _idle_exit(text: str | None) -> float | None:
    """Parse the idle time in seconds after which the server ends. Raises `ValueError`."""
    from ...hosting.idle_exit import idle_time

    try:
        return None if text is None else idle_time(text)
    except ValueError as error:
        raise ValueError(f"--idle-exit: {error}") from error
