"""`interlock rules`: compares the rules of a running server with those of files, and replaces them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, refuse
from ..options import add_command, add_operator_connection, add_switch, operator_connection
from ..rules import import_permissions

if TYPE_CHECKING:
    from ....engine.gateway.client.console import ConsoleClient
    from ....engine.hub.api import Outcome, RunningRules

DIFFERENT = 1
NOT_APPLIED = 1
SINCE = "7d"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their options."""
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
    diff = add_command(
        parts,
        "diff",
        "compare files with a server's rules, and judge its recorded calls by them; "
        "exits with 0 for no difference, 1 for a difference, 2 for an error",
    )
    _add_comparison(diff)
    apply = add_command(
        parts,
        "apply",
        "show what `rules diff` shows, and apply it to new sessions, or to live ones "
        "as well; exits with 0 if it was applied or proposed, 1 if not, 2 for an "
        "error",
    )
    _add_comparison(apply)
    apply.add_argument(
        "--reason", metavar="TEXT", help="the reason, which is recorded; required to loosen rules"
    )
    apply.add_argument(
        "--to",
        choices=["new", "all"],
        help="new: new sessions only; all: live sessions, too (default: new)",
    )
    add_switch(apply, "--proposed", "apply the rules that another operator has proposed")
    add_switch(apply, "--yes", "apply without asking")
    import_permissions.configure(parts)
    drop = add_command(parts, "drop", "withdraw rules that operators have proposed to a server")
    add_operator_connection(drop)


def _add_comparison(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="all rules files that the server should have (default: its own, if they are here)",
    )
    parser.add_argument(
        "--since",
        metavar="WHEN",
        help=f"judge sessions active since: 24h, 7d, or a date (default: {SINCE})",
    )
    add_switch(parser, "--no-backtest", "do not judge recorded calls")
    add_operator_connection(parser)


def run(args: argparse.Namespace, *, zone: tzinfo | None = None, now: datetime | None = None) -> int:
    """Compare, print the differences, and apply the rules if requested. Returns the exit code."""
    from ....engine.gateway.client.connection import GatewayError
    from ....engine.gateway.protocol.tokens import TokenError
    from ....engine.history.errors import JournalError
    from ....engine.history.model.since import moment
    from ....engine.net.net import NetError
    from ....rules import RuleError

    if args.part == "import":
        return import_permissions.run(args)
    command = f"rules {args.part}"
    try:
        url, secret = operator_connection(args)
        if args.part == "drop":
            return asyncio.run(_drop(url, secret))
        since = moment(args.since or SINCE, now or datetime.now(UTC), zone)
        act = _diff if args.part == "diff" else _apply
        return asyncio.run(act(args, url, secret, since))
    except RuleError as error:
        return refuse(command, error)
    except (GatewayError, JournalError, NetError, TokenError, ValueError) as error:
        return refuse(command, error, BAD_INPUT)


async def _diff(args: argparse.Namespace, url: str | None, secret: str | None, since: datetime) -> int:
    from ....engine.gateway.client.console import ConsoleClient
    from ...viewmodels.rules_comparison import state_lines

    async with ConsoleClient(url, secret, read_only=True) as client:
        running = await client.running_rules()
        for line in state_lines(running):
            print(line)
        if running.proposed is not None:
            print("`interlock rules apply --proposed` shows these rules and agrees to them.")
        texts = await asyncio.to_thread(_files, args.files, running)
        return DIFFERENT if await _compare(client, args, running, texts, since) else 0


async def _apply(args: argparse.Namespace, url: str | None, secret: str | None, since: datetime) -> int:
    from ....engine.gateway.client.console import ConsoleClient

    if args.proposed and args.files:
        raise ValueError("expected either files or --proposed, got both")
    async with ConsoleClient(url, secret) as client:
        running = await client.running_rules()
        if args.proposed:
            texts = _proposed(running)
        else:
            texts = await asyncio.to_thread(_files, args.files, running)
        to = args.to or (running.proposed.to if args.proposed and running.proposed else "new")
        # Live sessions may still be under the server's earlier rules.
        if not await _compare(client, args, running, texts, since) and to == "new":
            return 0
        if not args.yes and not await asyncio.to_thread(_is_confirmed, to):
            print("Nothing was applied.")
            return NOT_APPLIED
        # Apply the texts that were shown, even if the files have changed since.
        outcome = await client.apply_rules(
            texts, by="", against=running.digest, reason=args.reason, to=to
        )
        return _report(outcome)


async def _drop(url: str | None, secret: str | None) -> int:
    from ....engine.gateway.client.console import ConsoleClient

    async with ConsoleClient(url, secret) as client:
        outcome = await client.drop_rules(by="")
        return _report(outcome)


def _report(outcome: Outcome) -> int:
    """Print the outcome; return the exit code."""
    from ....engine.core.sanitize import visible

    stream = sys.stdout if outcome.ok else sys.stderr
    for line in outcome.message.splitlines():
        print(visible(line), file=stream)
    return 0 if outcome.ok else NOT_APPLIED


def _is_confirmed(to: str) -> bool:
    """Ask for confirmation at the terminal. Raises `ValueError` if there is none."""
    if not sys.stdin.isatty():
        raise ValueError("there is no terminal to ask at; see what differs, then add --yes")
    live = "live sessions and to those" if to == "all" else "sessions"
    question = f"\nApply these rules to {live} that begin from now on? [y/N] "
    return input(question).strip().lower() == "y"


def _proposed(running: RunningRules) -> Mapping[str, str]:
    """Return the proposed texts. Raises `ValueError` if there is no proposal."""
    if running.proposed is None:
        raise ValueError("no rules are proposed to this server")
    return running.proposed.files


async def _compare(
    client: ConsoleClient,
    args: argparse.Namespace,
    running: RunningRules,
    texts: Mapping[str, str],
    since: datetime,
) -> bool:
    """Print the differences from the running rules; return whether there are any."""
    from ...viewmodels.rules_comparison import RulesComparison

    found = await asyncio.to_thread(RulesComparison.between, running, texts)
    if not found:
        print("The server runs these rules.")
        return False
    for line in (*found.texts, "", *found.change_lines()):
        print(line)
    if not args.no_backtest and found.changes:
        await _judge(client, texts, since, args.since or SINCE)
    return True


def _files(names: list[str], running: RunningRules) -> Mapping[str, str]:
    """Return the texts of the named files, or of the server's own files.

    Raises `RuleError`, and `ValueError` if no files are named and the server has none.
    """
    from ....rules import read_rules
    from ....rules.ruleset import rules_files

    files = names or rules_files(running.files)
    if not files:
        raise ValueError("this server runs without rules of its own; name the files to compare with")
    return read_rules(*files)


async def _judge(client: ConsoleClient, texts: Mapping[str, str], since: datetime, typed: str) -> None:
    """Judge the calls recorded by the server under other rules, and print the differences."""
    from ....engine.core.sanitize import visible
    from ...format.backtest import session_lines, total_lines

    print(f"\nCalls recorded since {visible(typed)}, judged by these files:\n")
    async for part in client.backtest(texts, since=since):
        for report in part.reports:
            for line in session_lines(report):
                print(line)
        if part.finished:
            for line in total_lines(part.totals):
                print(line)
