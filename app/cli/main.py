"""The `interlock` command: options and dispatch.

Nothing heavy is imported here: help, errors and completion must not wait for Textual or litellm. Each
command is a module of `commands`, imported when it runs.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..config.arguments import BAD_INPUT, CommandParser
from ..config.identity import login_name
from .agent.acp_options import add_acp
from .agent.flow_options import add_flow
from .agent.hook_options import add_hook, answers
from .agent.mcp_options import add_mcp
from .agent_options import add_agent
from .dispatch import dispatch
from .history.history_options import add_parts
from .options import (
    EPILOG,
    add_appearance,
    add_command,
    add_hosting,
    add_journal,
    add_operator,
    add_read_only,
    add_reason,
    dollars,
    positive,
)
from .server.gateway_options import add_connection, add_gateway
from .server.web_options import add_web

DESCRIPTION = "Approval console for AI agents: every tool call passes nets compiled from a rules file."


def parser() -> CommandParser:
    """The command line, without any setting applied: absent options are `None`."""
    top = CommandParser(prog="interlock", description=DESCRIPTION, epilog=EPILOG)
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    demo = add_command(commands, "demo", "watch an agent be stopped, approve its deploy, replay it")
    demo.add_argument(
        "--flow",
        action="store_true",
        default=None,
        help="a release flow instead: agents and people in steps",
    )
    add_hosting(demo)

    run = add_command(commands, "run", "host an agent, under rules")
    run.add_argument(
        "target", metavar="AGENT", nargs="?", help="agent.toml or package.module:agent; else use --model"
    )
    run.add_argument("task", metavar="TASK", nargs="?", help="what the agent is asked to do; comes last")
    add_agent(run)
    run.add_argument(
        "--max-cost", metavar="USD", type=dollars, help="what the session may cost (default: no limit)"
    )
    add_hosting(run)

    resume = add_command(commands, "resume", "resume a recorded session")
    resume.add_argument("session", metavar="SESSION", help="its id, or the first letters of it")
    resume.add_argument("task", metavar="TASK", nargs="?", help="what the agent is asked to do next")
    resume.add_argument(
        "--at", metavar="EVENT", type=positive, help="begin a new session after this event of it"
    )
    resume.add_argument(
        "--changed-nets",
        action="store_true",
        default=None,
        help="go on although its rules have changed: nets that differ start fresh",
    )
    add_reason(resume)
    resume.add_argument(
        "--agent",
        metavar="AGENT",
        help="for a session that was imported, as the options below: agent.toml or package.module:agent",
    )
    add_agent(resume)
    resume.add_argument(
        "--max-cost",
        metavar="USD",
        type=dollars,
        help="what it may cost, from its first event on (default: as before)",
    )
    add_hosting(resume)

    console = add_command(
        commands, "console", "open the console on the journal, without starting an agent"
    )
    add_connection(console)
    add_journal(console)
    add_operator(console)
    add_read_only(console)
    add_appearance(console)

    check = add_command(
        commands, "check", "compile rules, prove them together, print each net with its reachable states"
    )
    check.add_argument("files", metavar="FILE", nargs="+", help="rules files")
    check.add_argument(
        "--tools", metavar="A,B|FILE.json", help="the tools there are; other names are doubted"
    )
    check.add_argument("--json", action="store_true", default=None, help="print the findings as JSON")
    check.add_argument("--strict", action="store_true", default=None, help="warnings fail the check too")

    scenarios = add_command(commands, "test", "run the scenarios of *_test.rules files")
    scenarios.add_argument(
        "paths", metavar="PATH", nargs="*", help="files or directories (default: here)"
    )

    explain = add_command(
        commands, "explain", "say what rules do with a call, and the way to have it allowed"
    )
    explain.add_argument("files", metavar="FILE", nargs="+", help="rules files")
    explain.add_argument(
        "call", metavar="CALL", help="""deploy, or with its input: 'bash command "./deploy staging"'"""
    )
    explain.add_argument(
        "--after",
        metavar="CALL",
        action="append",
        help="a call made before, approved, or 'wait 1h'; may be repeated",
    )
    explain.add_argument("--json", action="store_true", default=None, help="print it as JSON")

    draw = add_command(commands, "draw", "draw the nets of a rules file")
    draw.add_argument("file", metavar="FILE", help="a rules file")
    draw.add_argument("--net", metavar="NAME", help="only this net")
    draw.add_argument(
        "-o",
        "--out",
        metavar="OUT",
        type=Path,
        help="an .svg, .dot or .mmd file (default: Mermaid, printed)",
    )

    history = add_command(
        commands, "history", "list recorded sessions; check, export, import, prune them"
    )
    history.add_argument("--limit", metavar="N", type=positive, help="how many at most (default: 50)")
    add_journal(history)
    add_parts(history, add_command, add_operator)

    backtest = add_command(
        commands, "backtest", "judge recorded calls again under other rules; nothing is run"
    )
    backtest.add_argument("files", metavar="FILE", nargs="+", help="rules files; all of them apply")
    backtest.add_argument(
        "--session", metavar="SESSION", action="append", help="only this session; may be repeated"
    )
    backtest.add_argument(
        "--since", metavar="WHEN", help="sessions that went on since: 24h, 7d, or a date"
    )
    backtest.add_argument(
        "--messages",
        metavar="LOG",
        nargs="+",
        action="extend",
        help="OpenAI or Vercel AI SDK messages of other programs, as JSON or JSON lines",
    )
    backtest.add_argument(
        "--at", metavar="EVENT", type=positive, help="only what came after this event of one session"
    )
    backtest.add_argument(
        "--active",
        metavar="NET",
        nargs="+",
        action="extend",
        help="exactly these nets are active (default: as recorded, new ones are)",
    )
    backtest.add_argument("--json", action="store_true", default=None, help="print it as JSON")
    add_journal(backtest)

    notify = add_command(
        commands, "notify", "show what is run or sent when nobody decides, see [notify] in interlock.toml"
    )
    notify.add_argument(
        "--test", action="store_true", default=None, help="do it once, for a sample request"
    )

    add_gateway(commands, add_command, add_journal, add_operator)
    add_web(commands, add_command, add_journal, add_operator, add_appearance)
    add_hook(commands, add_command)
    add_mcp(commands, add_command)
    add_acp(commands, add_command, add_hosting)
    add_flow(commands, add_command, add_hosting, add_journal, positive)

    replay = add_command(commands, "replay", "step through a recorded session")
    replay.add_argument("session", help="its id, or the first letters of it")
    replay.add_argument("--plain", action="store_true", default=None, help="print instead of a screen")
    add_journal(replay)
    add_appearance(replay)
    return top


def _settle(top: CommandParser, args: argparse.Namespace, extra: list[str], line: list[str]) -> None:
    """Interpret the words of `run`."""
    from ..agents.command_line import WordsError, settle_words

    try:
        settle_words(args, extra, line)
    except WordsError as error:
        top.error(f"run: {error}")


def _settle_operator(args: argparse.Namespace) -> None:
    """Set the operator for a command that records one: the login name, unless another is given.

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

    It is 0 done, 1 the work failed, 2 the input was wrong; of a console also 129 when its terminal is
    gone (SIGHUP), 143 when it was told to end (SIGTERM). `args.typed` has the names of the options that
    were on the line.
    """
    if arguments is None:
        _own_process()
    line = sys.argv[1:] if arguments is None else list(arguments)
    if answers(line):
        return _answer_hook(line, leave=arguments is None)
    top = parser()
    args, extra = top.parse_known_args(line)
    args.typed = frozenset(name for name, value in vars(args).items() if value is not None)
    if args.command == "run":
        _settle(top, args, extra, line)
    elif extra:
        top.error(f"unrecognized arguments: {' '.join(extra)}")
    if args.version:
        from importlib.metadata import version

        print(f"interlock {version('interlock')}")
        return 0
    if args.command is None:
        top.print_help()
        return 0
    from ..config.loader import SettingsError, apply_settings

    try:
        apply_settings(top, args)
        _settle_operator(args)
        _settle_appearance(args)
    except SettingsError as error:
        from ...engine.core.sanitize import visible

        # A settings file may come with the directory, from another author.
        print(f"interlock: {visible(str(error), keep_newlines=True)}", file=sys.stderr)
        return BAD_INPUT
    try:
        code = dispatch(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _own_process() -> None:
    """Collect garbage less often in this command's process: it takes a third of its start and end.

    Imports stay to the end, and then go with the process: neither is worth collecting.
    """
    gc.set_threshold(50_000, 20, 50)
    atexit.register(gc.freeze)


def _answer_hook(line: list[str], *, leave: bool) -> int:
    """Answer a hook; with `leave`, exit at once, so that nothing later changes the exit code."""
    code = BAD_INPUT
    try:
        from .hooks.main import main as answer

        code = answer(line[1], line[2:])
    except BaseException as error:
        # Any other code would let a tool run.
        text = f"Interlock could not answer, so this is blocked: {type(error).__name__}: {error}\n"
        with suppress(OSError):
            os.write(2, text.encode("utf-8", "replace"))
    if leave:
        os._exit(code)
    return code
