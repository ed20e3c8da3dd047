"""Arguments that many commands share (journal, masking, terminal), and reporting errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from ...engine.history.database.location import Location
    from ...engine.history.redaction.redaction import Redaction

# argparse has no public name for it.
Parts: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # pyright: ignore[reportPrivateUsage]
"""Commands of a parser, or subcommands of a command."""
BAD_INPUT = 2
"""Exit code for a faulty command line, or a faulty file named on it."""


class CommandParser(argparse.ArgumentParser):
    """A parser that lists its options: options missing on the command line are filled in from settings.

    `repeated` are the options that take one value each time they are given.
    """

    def __init__(self, **terms: Any) -> None:
        self.options: list[argparse.Action] = []
        self.repeated: list[argparse.Action] = []
        self._parts: Parts | None = None
        super().__init__(**terms)

    def add_argument(self, *names: str, **terms: Any) -> argparse.Action:
        action = super().add_argument(*names, **terms)
        if action.option_strings and action.dest != "help":
            self.options.append(action)
            if terms.get("action") == "append":
                self.repeated.append(action)
        return action

    def add_subparsers(self, **terms: Any) -> Parts:
        self._parts = cast("Parts", super().add_subparsers(**terms))
        return self._parts

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Reject an unknown command or subcommand, and suggest the nearest one."""
        parts = self._parts
        if parts is None or action is not parts or value in parts.choices:
            super()._check_value(action, value)
            return
        from difflib import get_close_matches

        word, names = str(value), list(parts.choices)
        near = get_close_matches(word[:40].lower(), names, n=1)
        hint = f"; did you mean '{near[0]}'? There are" if near else "; there are"
        kind = str(action.metavar or "part").lower()
        self.error(f"unknown {kind} {word!a}{hint}: {', '.join(names)}")

    @property
    def commands(self) -> Mapping[str, CommandParser]:
        """Parsers of the commands or subcommands, by name."""
        parts = {} if self._parts is None else self._parts.choices
        return {name: part for name, part in parts.items() if isinstance(part, CommandParser)}

    def all_options(self) -> list[argparse.Action]:
        """Options of this parser and of all its subcommands."""
        return [*self.options, *(o for part in self.commands.values() for o in part.all_options())]


def database(args: argparse.Namespace) -> Location:
    """Return the journal's location: `--db`, or the file in the user's data directory."""
    if args.db is not None:
        return args.db.expanduser() if isinstance(args.db, Path) else args.db
    return own_journal()


def own_journal() -> Path:
    """Return the journal's path in the user's data directory."""
    from platformdirs import user_data_path

    return user_data_path("interlock") / "interlock.db"


def journal_options(args: argparse.Namespace) -> list[str]:
    """Return the options with which another command finds this command's journal, if any are needed."""
    return ["--db", str(database(args))] if "db" in getattr(args, "typed", ()) else []


def is_for_this_run(
    args: argparse.Namespace, option: str, environ: Mapping[str, str] = os.environ
) -> bool:
    """Return whether an option was set on the command line or in the environment, not only in a file."""
    return option in args.typed or f"INTERLOCK_{option.upper()}" in environ


def redaction(args: argparse.Namespace) -> Redaction:
    """Return the masking for this command: the fields masked by default, and those of `--redact`."""
    from .rules_compiler import redaction as masking

    return masking(name.strip() for name in (args.redact or "").split(","))


def refuse(command: str, problem: object, code: int = BAD_INPUT) -> int:
    """Print why `interlock COMMAND` failed, safe for a terminal. Returns the exit code."""
    from ...engine.core.sanitize import visible

    name = f"interlock {command}".rstrip()
    print(f"{name}: {visible(str(problem), keep_newlines=True)}", file=sys.stderr)
    return code


def refuse_hosting(args: argparse.Namespace, command: str) -> int | None:
    """Report that no agent can be hosted here, and return the exit code; `None` if one can.

    A headless command without `--answer` has no operator, so its answer is set to deny.
    """
    if args.read_only:
        return refuse_read_only(command)
    if not args.headless and not in_terminal():
        return needs_terminal(command, "use --headless --answer approve|deny to run without one")
    if args.headless and args.answer is None:
        args.answer = "deny"
    return None


def refuse_read_only(command: str) -> int:
    """Report that a read-only console cannot host agents. Returns the exit code."""
    return refuse(
        command,
        "--read-only changes nothing, so no agent can be started under it. Leave it out (also read_only "
        "in interlock.toml and INTERLOCK_READ_ONLY), or watch what another process runs with: "
        "interlock console --read-only",
    )


def report_directory(
    args: argparse.Namespace, command: str, rules: Iterable[object] | None = None
) -> None:
    """Print `directory_notice`, if the working directory affects the rules of this command."""
    from .trust import directory_notice

    sentence = directory_notice(args, rules)
    if sentence is not None:
        print(f"interlock {command}: {sentence}", file=sys.stderr)


def in_terminal() -> bool:
    """Return whether a console can be shown here: it reads from stdin, and Textual writes to stderr.

    In the process of a browser tab, TEXTUAL_DRIVER is set.
    """
    if os.environ.get("TEXTUAL_DRIVER"):
        return True
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def needs_terminal(command: str, remedy: str) -> int:
    """Report that a console cannot be opened here. Returns the exit code."""
    return refuse(command, f"not a terminal; {remedy}.")
