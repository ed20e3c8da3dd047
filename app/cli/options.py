"""Options shared by several commands of `interlock`, and the types of their values."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.core.labels import checked_label
from ..config.arguments import Parts
from ..config.identity import operator_name
from ..config.quantities import parse_dollars

if TYPE_CHECKING:
    from ...engine.history.database.location import Location

EPILOG = (
    "Every option can also be set as INTERLOCK_<OPTION> in the environment, in interlock.toml in the "
    "user's config directory or, where that loosens nothing, in interlock.toml here."
)
HOOK_AGENTS = ("claude-code", "codex")
"""Agents that hooks exist for."""
SWITCH_ON = {"", "1", "true", "yes", "on"}
SWITCH_OFF = {"0", "false", "no", "off"}


def add_command(commands: Parts, name: str, text: str) -> argparse.ArgumentParser:
    """Add a command or subcommand, with its help."""
    return commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", epilog=EPILOG
    )


def add_switch(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", default=None, help=text)


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add the option for the journal."""
    parser.add_argument(
        "--db",
        metavar="JOURNAL",
        type=journal_location,
        help="the journal: a file, or postgresql://USER@HOST/DATABASE (default: a file in the user's "
        "data directory)",
    )


def add_journal(parser: argparse.ArgumentParser) -> None:
    """Add the options for the journal and its masking."""
    add_database(parser)
    parser.add_argument(
        "--redact",
        metavar="A,B",
        help="fields whose values are masked, in addition to password, token and the like",
    )


def add_operator(parser: argparse.ArgumentParser) -> None:
    """Add the option for the operator's name."""
    parser.add_argument(
        "--as",
        dest="operator",
        metavar="NAME",
        type=operator_name,
        help="your name, recorded with what you decide (default: the login name)",
    )


def add_read_only(parser: argparse.ArgumentParser) -> None:
    """Add the read-only option, for every command whose console may change something."""
    add_switch(parser, "--read-only", "show everything, change nothing")


def add_hosting(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that hosts an agent."""
    add_switch(parser, "--headless", "no screen: print one line per event, and all of what is approved")
    parser.add_argument(
        "--answer",
        choices=("approve", "deny"),
        help="the answer that a headless run gives to requests for approval",
    )
    add_journal(parser)
    add_operator(parser)
    add_read_only(parser)
    add_appearance(parser)


def add_appearance(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that opens a console."""
    parser.add_argument(
        "--theme", metavar="NAME", help="colours: interlock, interlock-light, interlock-contrast, …"
    )
    parser.add_argument(
        "--ascii",
        action=argparse.BooleanOptionalAction,
        help="symbols and lines in ASCII (default: where the locale is not UTF-8)",
    )


def add_rules(parser: argparse.ArgumentParser, text: str = "rules files; all of them apply") -> None:
    """Add the option for rules files."""
    parser.add_argument("--rules", metavar="FILE", nargs="+", action="extend", help=text)


def add_labels(parser: argparse.ArgumentParser, text: str = "a label for the session") -> None:
    """Add the option for labels of sessions."""
    parser.add_argument(
        "--label",
        dest="labels",
        metavar="NAME",
        type=label,
        action="append",
        help=f"{text}, for conditions in rules; may be repeated",
    )


def add_mode(parser: argparse.ArgumentParser) -> None:
    """Add the option for the mode of the rules."""
    parser.add_argument("--mode", choices=("enforce", "shadow"), help="enforce (default) or shadow")


def add_agent(parser: argparse.ArgumentParser) -> None:
    """Add the options of an agent and its rules, all but its cost limit."""
    parser.add_argument(
        "--model", metavar="MODEL", help="a litellm model name or URL, e.g. openai/gpt-4o"
    )
    parser.add_argument(
        "--api-base", metavar="URL", help="URL of the model's API, if it is not the provider's own"
    )
    add_rules(parser)
    parser.add_argument(
        "--tools", metavar="A,B", help="its tools: bash, read, …, or package.module:function"
    )
    parser.add_argument(
        "--active",
        metavar="NET",
        nargs="+",
        action="extend",
        help="nets that start active (default: all)",
    )
    add_mode(parser)
    add_labels(parser)
    add_switch(parser, "--explain-blocks", "tell the agent which calls lead to a blocked one")
    parser.add_argument(
        "--runtime",
        choices=("local", "sandbox", "just-bash", "vercel"),
        help="the runtime of the agent's tools (default: local)",
    )
    parser.add_argument(
        "--workdir",
        metavar="DIR",
        type=Path,
        help="directory in which the agent's tools run (default: here)",
    )
    parser.add_argument(
        "--network",
        action=argparse.BooleanOptionalAction,
        help="let the sandbox use the network (default: no)",
    )
    parser.add_argument(
        "--max-steps",
        metavar="N",
        type=positive,
        help="maximum number of model calls in a run (default: 100)",
    )
    parser.add_argument("--system-prompt", metavar="TEXT", help="the agent's instructions")


def add_resumption(parser: argparse.ArgumentParser) -> None:
    """Add the options for resuming with less than was recorded, with the reason (G-67)."""
    add_switch(
        parser,
        "--changed-nets",
        "resume although its rules have changed; nets that differ start fresh",
    )
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        help="why it resumes under less than before, such as without a rule; recorded with your name",
    )


def add_connect(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the option for the URL of a server."""
    parser.add_argument("--connect", metavar="URL", nargs="?", const="", type=server_address, help=text)


def add_operator_connection(
    parser: argparse.ArgumentParser,
    text: str = "the server (default: INTERLOCK_URL, else ws://127.0.0.1:8737)",
) -> None:
    """Add the options for a server and an operator's token, for `operator_connection`."""
    add_connect(parser, text)
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="your token for the server (default: INTERLOCK_TOKEN, else operator.token in the config "
        "directory)",
    )


def operator_connection(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the URL and token that a command line names; `None` for values that the client finds itself.

    A login takes precedence over a token file that only a setting names; the environment's token takes
    precedence over both. Raises `OperatorLoginError` for an expired login, `TokenError`, and `ValueError`
    for a URL that would send a token unencrypted.
    """
    from ...engine.gateway.protocol.address import TOKEN, check_private, server_url
    from ...engine.gateway.protocol.tokens import read_secret
    from ..hosting.operator_login import current_login

    url: str | None = args.connect or None
    check_private(server_url(url))
    if "token_file" in args.typed:
        return url, read_secret(args.token_file)
    if TOKEN in os.environ:
        return url, None
    login = current_login(server_url(url))
    if login is not None:
        return url, login.token
    return url, None if args.token_file is None else read_secret(args.token_file)


def connection_options(args: argparse.Namespace) -> list[str]:
    """Return the options with which another command finds the same server and token."""
    named = ["--connect", *([args.connect] if args.connect else [])]
    return [*named, "--token-file", str(args.token_file)] if "token_file" in args.typed else named


def add_certificate(parser: argparse.ArgumentParser) -> None:
    """Add the certificate options, for every command that is reachable over a network."""
    parser.add_argument(
        "--certificate", metavar="FILE", type=Path, help="serve TLS with this certificate"
    )
    parser.add_argument("--key", metavar="FILE", type=Path, help="the certificate's private key")


def positive(text: str) -> int:
    """Parse an option's value: an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1, not '{text}'")
    return int(text)


def journal_location(text: str) -> Location:
    """Parse an option's journal: a file or a database."""
    from ...engine.history.database.location import location_of
    from ...engine.history.errors import JournalError

    try:
        return location_of(text)
    except JournalError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def label(text: str) -> str:
    """Parse an option's label."""
    try:
        return checked_label(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def dollars(text: str) -> float:
    """Parse an option's amount in dollars."""
    try:
        return parse_dollars(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def server_address(text: str) -> str | None:
    """Parse a server's URL; empty means the default server, `None` that a setting switches it off."""
    word = text.strip().lower()
    if word in SWITCH_ON or word in SWITCH_OFF:
        return "" if word in SWITCH_ON else None
    from ...engine.gateway.protocol.address import server_url

    try:
        return server_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
