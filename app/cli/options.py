"""Options that several commands of `interlock` have, and the kinds of values they take."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..config.arguments import Parts
from ..config.identity import operator_name
from ..config.quantities import parse_dollars

EPILOG = (
    "Every option can also be set as INTERLOCK_<OPTION> in the environment, in interlock.toml in the "
    "user's config directory or, where that loosens nothing, in interlock.toml here."
)


def add_command(commands: Parts, name: str, text: str) -> argparse.ArgumentParser:
    """A command of its own, with its help."""
    return commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", epilog=EPILOG
    )


def add_journal(command: argparse.ArgumentParser) -> None:
    """Add the options for the journal and its masking."""
    command.add_argument(
        "--db", metavar="FILE", type=Path, help="the journal (default: in the user's data directory)"
    )
    command.add_argument(
        "--redact",
        metavar="A,B",
        help="fields whose values are masked, beside password, token and the like",
    )


def add_operator(command: argparse.ArgumentParser) -> None:
    """Add the option for the operator's name."""
    command.add_argument(
        "--as",
        dest="operator",
        metavar="NAME",
        type=operator_name,
        help="your name, recorded with what you decide (default: the login name)",
    )


def add_read_only(command: argparse.ArgumentParser) -> None:
    """Add the read-only option, for every command whose console may change something."""
    command.add_argument(
        "--read-only", action="store_true", default=None, help="show everything, change nothing"
    )


def add_hosting(command: argparse.ArgumentParser) -> None:
    """Options of every command that hosts an agent."""
    command.add_argument(
        "--headless",
        action="store_true",
        default=None,
        help="no screen: one line per event, and in full what is approved",
    )
    command.add_argument(
        "--answer",
        choices=("approve", "deny"),
        help="what a headless run answers when an approval is asked",
    )
    add_journal(command)
    add_operator(command)
    add_read_only(command)
    add_appearance(command)


def add_appearance(command: argparse.ArgumentParser) -> None:
    """Options of every command that opens a console."""
    command.add_argument(
        "--theme", metavar="NAME", help="colours: interlock, interlock-light, interlock-contrast, …"
    )
    command.add_argument(
        "--ascii",
        action=argparse.BooleanOptionalAction,
        help="symbols and lines in ASCII (default: where the locale is not UTF-8)",
    )


def positive(text: str) -> int:
    """An option's number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1, not '{text}'")
    return int(text)


def add_reason(command: argparse.ArgumentParser) -> None:
    """Add the option for the reason why a session is resumed under less than its record says (G-67)."""
    command.add_argument(
        "--reason",
        metavar="TEXT",
        help="why it goes on under less than before, such as without a rule; recorded with your name",
    )


def dollars(text: str) -> float:
    """An option's amount."""
    try:
        return parse_dollars(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
