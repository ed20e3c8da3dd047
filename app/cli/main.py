"""The `interlock` command: the table of its commands, their parser, and running one.

Each command is a module with `configure(parser)`, which adds its options, and `run(args)`. These modules
import their dependencies when they run: help and errors must not wait for Textual or litellm.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Protocol, cast

from ..config.arguments import BAD_INPUT, CommandParser, refuse
from ..config.identity import login_name
from .lark_import import keep_lark_small
from .options import EPILOG, HOOK_AGENTS, add_command

DESCRIPTION = "Approval console for AI agents: every tool call passes nets compiled from a rules file."


TASK_OPTION = (
    "resume: the task is written behind the session, without --task: "
    'interlock resume SESSION "go on with the tests"'
)


class CommandModule(Protocol):
    """Interface of a command's module."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


COMMANDS = {
    "demo": ("agent.demo", "watch an agent be stopped, approve its deploy, replay it"),
    "run": ("agent.run", "host an agent, under rules"),
    "resume": ("agent.resume", "resume a recorded session"),
    "console": ("agent.console", "open the console on the journal, without starting an agent"),
    "check": (
        "rules.check",
        "compile rules, verify them together, and print each net with its reachable states",
    ),
    "test": ("rules.test", "run the scenarios of *_test.rules files"),
    "explain": ("rules.explain", "explain what the rules do with a call, and how to get it allowed"),
    "lsp": ("rules.lsp", "check and complete rules in an editor (Language Server Protocol)"),
    "draw": ("rules.draw", "draw the nets of a rules file"),
    "history": ("history.history", "list, verify, export, import and prune recorded sessions"),
    "journal": ("history.journal_copy", "copy, back up or upgrade a journal"),
    "backtest": (
        "history.backtest",
        "judge recorded calls again under other rules, without running anything",
    ),
    "suggest": ("history.suggest", "suggest rules from recorded calls, without writing anything"),
    "notify": (
        "server.notify",
        "show what [notify] in interlock.toml runs or sends when nobody decides",
    ),
    "serve": (
        "server.serve",
        "run a server that judges the calls of external agents and that consoles connect to",
    ),
    "servers": ("server.servers", "list the servers that share a journal in PostgreSQL"),
    "approvals": (
        "server.approvals",
        "list, show, approve and deny a server's open requests, accept lost events",
    ),
    "freeze": ("server.freeze", "hold all new calls of a server's agents, or lift the freeze"),
    "rules": ("server.rules", "compare a running server's rules with files, and change them"),
    "login": (
        "server.login",
        "log in to a server through its identity provider, for consoles and commands",
    ),
    "token": ("server.token", "create, list, rotate and revoke tokens for agents and operators"),
    "protocol": ("server.protocol", "print the reference of the wire protocol"),
    "web": ("server.web", "show the console in a browser on this machine"),
    "hook": ("hooks.hook", "have Claude Code or Codex ask before each tool call"),
    "mcp": ("agent.mcp", "put an MCP server behind the rules"),
    "acp": ("agent.acp", "host an agent that speaks the Agent Client Protocol, under rules"),
    "flow": ("agent.flow", "run, resume, list, draw and check flows"),
    "replay": ("history.replay", "step through a recorded session"),
    "completion": ("completion", "print a completion script for bash, zsh or fish"),
}
"""Module of each command, by a name relative to this package, and its help."""


def load(command: str) -> CommandModule:
    """Import the module of a command."""
    return cast("CommandModule", import_module(f".{COMMANDS[command][0]}", __package__))


def parser(only: str | None = None) -> CommandParser:
    """Return the parser of the command line, without any setting applied: absent options are `None`.

    With `only`, just that command has its options, which is enough to parse a line of that command.
    """
    top = CommandParser(prog="interlock", description=DESCRIPTION, epilog=EPILOG)
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for command, (_, text) in COMMANDS.items():
        added = add_command(commands, command, text)
        if only in (None, command):
            load(command).configure(added)
    return top


def _settle(top: CommandParser, args: argparse.Namespace, extra: list[str], line: list[str]) -> None:
    """Assign the positional words of `run` to its arguments."""
    from ..agents.command_line import WordsError, assign_words

    try:
        assign_words(args, extra, line)
    except WordsError as error:
        top.error(f"run: {error}")


def _settle_operator(args: argparse.Namespace) -> None:
    """Set the operator for a command that records one: by default the user's login name.

    Raises `SettingsError`.
    """
    if "operator" in args and args.operator is None:
        import getpass

        from ..config.loader import SettingsError

        try:
            args.operator = login_name(getpass.getuser)
        except argparse.ArgumentTypeError as error:
            raise SettingsError(str(error)) from error


def _settle_appearance(args: argparse.Namespace) -> None:
    """Set `args.appearance` for a command that opens a console. Raises `SettingsError`."""
    if "theme" in args and not getattr(args, "headless", None) and not getattr(args, "plain", None):
        from ..terminal.appearance import appearance_of

        args.appearance = appearance_of(args)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code.

    It is 0 if the work succeeded, 1 if it failed, 2 for invalid input; for a host of sessions also 129 if
    its terminal closed (SIGHUP), 143 if it was told to end (SIGTERM), 130 for a headless one on Ctrl+C.
    `args.typed` has the names of the options that were on the command line.
    """
    if arguments is None:
        _own_process()
    line = sys.argv[1:] if arguments is None else list(arguments)
    if _is_hook(line):
        return _answer_hook(line, exit_at_once=arguments is None)
    top = parser(next((word for word in line if not word.startswith("-")), ""))
    args, extra = top.parse_known_args(line)
    args.typed = frozenset(name for name, value in vars(args).items() if value is not None)
    if args.command == "resume" and _is_task_option(line):
        top.error(TASK_OPTION)
    if extra and args.command != "run":
        from ...engine.core.sanitize import visible

        command = " ".join(filter(None, ("interlock", args.command, getattr(args, "part", None))))
        unknown = " ".join(map(visible, extra))
        top.exit(
            2, f"{command}: error: unrecognized arguments: {unknown}. Its options: {command} --help\n"
        )
    if args.version:
        from ...engine import __version__

        print(f"interlock {__version__}")
        return 0
    if args.command is None:
        top.print_help()
        return 0
    try:
        if args.command == "run":
            _settle(top, args, extra, line)
        return _run(top, args)
    except ModuleNotFoundError as missing:
        from ...engine.core.lazy_names import missing_part

        if (remedy := missing_part(missing)) is None:
            raise
        return refuse(args.command, remedy)


def _run(top: CommandParser, args: argparse.Namespace) -> int:
    """Run the command that `top` parsed from the command line, with its settings applied."""
    from ..config.loader import SettingsError, apply_settings

    try:
        apply_settings(top, args, whole=parser)
        _settle_operator(args)
        _settle_appearance(args)
    except SettingsError as error:
        return refuse("", error)
    try:
        code = load(args.command).run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has closed the pipe; what is still buffered is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _is_task_option(line: Sequence[str]) -> bool:
    """Return whether a `resume` command line gives the task as an option."""
    options = line[: line.index("--")] if "--" in line else line
    return any(word.partition("=")[0] == "--task" for word in options)


def _own_process() -> None:
    """Collect garbage less often in this command's process, and import less.

    Garbage collection takes a third of its start and end. Imported modules live as long as the process,
    so collecting gains nothing.
    """
    keep_lark_small()
    gc.set_threshold(50_000, 20, 50)
    atexit.register(gc.freeze)


def _is_hook(line: list[str]) -> bool:
    """Return whether an agent's hook runs this; the parser of all commands takes too long for a hook."""
    answers = len(line) > 1 and line[0] == "hook" and line[1] in HOOK_AGENTS
    return answers and not {"-h", "--help"} & set(line)


def _answer_hook(line: list[str], *, exit_at_once: bool) -> int:
    """Answer a hook; with `exit_at_once` exit here, so that nothing later can change the exit code."""
    code = BAD_INPUT
    try:
        from .hooks.main import main as answer

        code = answer(line[1], line[2:])
    except BaseException as error:
        # Any other code would let a tool run.
        text = f"Interlock could not answer, so this is blocked: {type(error).__name__}: {error}\n"
        with suppress(OSError):
            os.write(2, text.encode("utf-8", "replace"))
    if exit_at_once:
        os._exit(code)
    return code
