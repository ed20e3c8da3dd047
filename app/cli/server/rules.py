"""`interlock rules`: the rules of a running server beside those of files."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, refuse
from ..options import add_command, add_operator_connection, add_switch, operator_connection

if TYPE_CHECKING:
    from ....engine.gateway.client.console import ConsoleClient
    from ....engine.hub.api import RunningRules
    from ....engine.net.net import SkillNet
    from ....rules import RuleSet

DIFFERENT = 1
SINCE = "7d"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the parts and their options."""
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
    diff = add_command(
        parts,
        "diff",
        "compare files with what a server runs, and judge its recorded calls by them; exit code 0 for no "
        "difference, 1 for one, 2 for an error",
    )
    diff.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="rules files, all that the server is to have (default: its own, where they are here)",
    )
    diff.add_argument(
        "--since",
        metavar="WHEN",
        help=f"judge sessions that went on since: 24h, 7d, or a date (default: {SINCE})",
    )
    add_switch(diff, "--no-backtest", "judge no recorded calls")
    add_operator_connection(diff)


def run(args: argparse.Namespace, *, zone: tzinfo | None = None, now: datetime | None = None) -> int:
    """Compare, and print what differs. Returns the exit code."""
    from ....engine.gateway.client.connection import GatewayError
    from ....engine.gateway.protocol.tokens import TokenError
    from ....engine.history.errors import JournalError
    from ....engine.history.model.since import moment
    from ....engine.net.net import NetError
    from ....rules import RuleError

    try:
        since = moment(args.since or SINCE, now or datetime.now(UTC), zone)
        url, secret = operator_connection(args)
        return asyncio.run(_diff(args, url, secret, since))
    except RuleError as error:
        return refuse("rules diff", error)
    except (GatewayError, JournalError, NetError, TokenError, ValueError) as error:
        return refuse("rules diff", error, BAD_INPUT)


async def _diff(args: argparse.Namespace, url: str | None, secret: str | None, since: datetime) -> int:
    from ....engine.gateway.client.console import ConsoleClient
    from ...format.rule_changes import RuleChanges, change_lines, text_lines

    async with ConsoleClient(url, secret, read_only=True) as client:
        running = await client.running_rules()
        texts, rules = await asyncio.to_thread(_files, args.files, running)
        changes = RuleChanges.between(_compiled(running.files), rules.registry)
        lines = list(text_lines(running.files, texts))
        if not lines and not changes:
            print("The server runs these rules.")
            return 0
        for line in lines:
            print(line)
        print()
        for line in change_lines(changes) if changes else ["The rules are the same."]:
            print(line)
        if not args.no_backtest and changes:
            await _judge(client, texts, since, args.since or SINCE)
    return DIFFERENT


def _files(names: list[str], running: RunningRules) -> tuple[Mapping[str, str], RuleSet]:
    """The texts of the named files, or of the server's own, and what they compile to.

    Raises `RuleError`, and `ValueError` where nothing is named and the server has no files.
    """
    from ....rules import compile_files, read_rules

    files = names or list(running.files)
    if not files:
        raise ValueError("this server runs without rules of its own; name the files to compare with")
    texts = read_rules(*files)
    return texts, compile_files(texts)


def _compiled(texts: Mapping[str, str]) -> Mapping[str, SkillNet]:
    from ....rules import compile_files

    return compile_files(texts).registry if texts else {}


async def _judge(client: ConsoleClient, texts: Mapping[str, str], since: datetime, typed: str) -> None:
    """Judge the calls that the server has recorded by other rules, and print what would be different."""
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
