"""`interlock serve`: a hub without a screen, for agents and consoles that connect."""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

from ....engine.core.sanitize import visible
from ....engine.gateway.protocol.address import Address
from ....engine.gateway.protocol.token_paths import token_file
from ....engine.gateway.protocol.tokens import TokenError, TokenFile
from ....engine.history.errors import JournalError
from ....engine.history.redaction.redaction import Redaction
from ....engine.net.net import NetError
from ....rules import RuleError
from ...config.approvals import approval_settings
from ...config.arguments import BAD_INPUT
from ...config.gateway import gateway_settings
from ...config.loader import SettingsError, named_file
from ...config.rule_texts import RuleTexts, loosened
from ...config.trust import added, rule_texts
from ...hosting.certificate import server_certificate
from ...hosting.idle_exit import idle_time
from ...hosting.server import Serving, loop_factory, own_tokens, take_files
from ...hosting.server import serve as run_server

IN_CLEAR = (
    "{} can be reached from elsewhere, and what is sent there can be read on the way, tokens too. "
    "Serve TLS with --certificate and --key, or listen on 127.0.0.1"
)
NOTHING_JUDGED = "no rules were given: every call is allowed and recorded. Name files with --rules"


def serve(args: argparse.Namespace, database: Path, operator: str, redaction: Redaction) -> int:
    """Serve until told to end. Returns the exit code."""
    try:
        address = Address.parse(args.listen) if args.listen else Address()
        environ = named_file(args, os.environ)
        tokens = TokenFile(token_file())
        agent, console = own_tokens(tokens, operator)
        rules, added_rules = tuple(args.rules or ()), tuple(args.added_rules or ())
        serving = Serving(
            database=database,
            address=address,
            rules=(*rules, *added_rules),
            texts=_checked(rule_texts(args), rules, added_rules),
            mode=args.mode or "enforce",
            settings=gateway_settings(environ=environ),
            tokens=tokens,
            redaction=redaction,
            policy=approval_settings(environ=environ).policy,
            certificate=server_certificate(address, args.certificate, args.key),
            idle_exit=_idle_exit(args.idle_exit),
        )
        if not serving.rules:
            print(f"interlock serve: {NOTHING_JUDGED}", file=sys.stderr)
        if told := added(args):
            print(f"interlock serve: {told}", file=sys.stderr)
        if serving.certificate is None and not address.is_local:
            print(f"interlock serve: {IN_CLEAR.format(address)}", file=sys.stderr)

        def ready(where: Address) -> None:
            print(f"Listening on {where}", flush=True)
            print(f"agents connect with the token in {agent}")
            print(
                f"consoles with the one in {console}: interlock console --connect {_url(serving, where)}"
            )
            print(f"Ctrl+C ends it{_or_idle(args.idle_exit, serving)}.", flush=True)

        limits = serving.settings.limits
        take_files(limits.connections + limits.strangers)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(run_server(serving, ready))
    except (JournalError, NetError, RuleError, SettingsError, TokenError, ValueError, OSError) as error:
        said = (
            f"cannot listen on {args.listen or Address()}: {error.strerror}"
            if _is_listening(error)
            else error
        )
        print(f"interlock serve: {visible(str(said), keep_newlines=True)}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _checked(texts: RuleTexts, rules: Sequence[str], added_rules: Sequence[str]) -> RuleTexts:
    """Read and check all rules files. Raises `RuleError`, and `SettingsError` if added ones loosen."""
    texts = texts.reading([*rules, *added_rules])
    if (rule := loosened(texts, rules, added_rules)) is not None:
        raise SettingsError(
            f"--added-rules: what {', '.join(added_rules)} names would be taken out of '{rule}', and "
            "agents may write there; name the tools in rules of your own"
        )
    return texts


def _idle_exit(given: str | None) -> float | None:
    """Idle time in seconds after which the server ends. Raises `ValueError`."""
    try:
        return None if given is None else idle_time(given)
    except ValueError as error:
        raise ValueError(f"--idle-exit: {error}") from error


def _or_idle(given: str | None, serving: Serving) -> str:
    return "" if serving.idle_exit is None else f", or {given} without a session and a connection"


def _is_listening(error: Exception) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and not isinstance(error, ssl.SSLError)


def _url(serving: Serving, where: Address) -> str:
    return where.url if serving.certificate is None else where.url.replace("ws://", "wss://")
