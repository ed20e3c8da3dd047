"""`interlock hook`: installs the hooks of agents, stops their servers, and answers the agents' events."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.arguments import refuse
from ..options import HOOK_AGENTS, add_command

if TYPE_CHECKING:
    from .command_line import HookLine

TRUST = (
    "Codex silently skips hooks until you have trusted them: open /hooks in it now, and\n"
    "again after every change to them."
)
NO_RULES = (
    "{} names no rules, so hooks start no server, and every call is blocked when none is running. Name "
    'some, as in [serve] rules = ["FILE"], and install the hooks again.'
)
IN_PROJECT = (
    "Hooks run {}, which is in the project: an agent that may write there can replace it. Install "
    "Interlock elsewhere, as pipx and uv tool do, and install the hooks again from there."
)
TRUST_PROJECT = "It reads a project's hooks only if it trusts the project."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add `install`, `uninstall` and `stop`, and the commands that the hooks run."""
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
    install = add_command(parts, "install", "add the hooks to an agent's settings")
    install.add_argument("agent", choices=HOOK_AGENTS, help="the agent")
    install.add_argument(
        "--project", metavar="DIR", type=Path, help="only for the agent in DIR (default: everywhere)"
    )
    install.add_argument(
        "--wait",
        metavar="TIME",
        help="maximum time that a call waits for an operator, e.g. 9m (default: 50s)",
    )
    uninstall = add_command(parts, "uninstall", "remove the hooks from an agent's settings")
    uninstall.add_argument("agent", choices=HOOK_AGENTS, help="the agent")
    uninstall.add_argument(
        "--project",
        metavar="DIR",
        type=Path,
        help="only the hooks of DIR (default: those for everywhere)",
    )
    probe = add_command(parts, "test", "make a harmless call that the installed hooks must block")
    probe.add_argument("agent", choices=HOOK_AGENTS, help="the agent")
    probe.add_argument(
        "--project", metavar="DIR", type=Path, help="the project to test (default: this directory)"
    )
    add_command(
        parts, "stop", "stop the servers that hooks have started, e.g. so that changed rules are read"
    )
    # Their other arguments are parsed by `command_line` only, so that no settings file can supply them.
    for agent in HOOK_AGENTS:
        answer = add_command(parts, agent, f"answer an event of {agent} on stdin; the hooks call this")
        answer.add_argument(
            "--timeout", metavar="SECONDS", help="when the agent ends the command (default: 60)"
        )
        answer.add_argument("--project", metavar="DIR", type=Path, help="the project it is for")


def run(args: argparse.Namespace) -> int:
    """Run the subcommand in `args.part`. Returns the exit code."""
    if args.part in HOOK_AGENTS:
        from .main import main

        line = ["--timeout", args.timeout] if args.timeout else []
        return main(args.part, [*line, *(["--project", str(args.project)] if args.project else [])])
    if args.part == "test":
        return _test(args)
    return _stop() if args.part == "stop" else _change_settings(args)


def _test(args: argparse.Namespace) -> int:
    """Probe an agent's hooks. Returns 1 if calls may run without a decision."""
    from .probe import findings

    project = (args.project or Path.cwd()).expanduser().resolve()
    if not project.is_dir():
        return refuse("hook", f"--project {args.project}: there is no such directory")
    faults = 0
    for each in findings(args.agent, project):
        faults += each.fault
        print(f"{'FAULT' if each.fault else 'ok' if 'blocked' in each.text else 'note'}: {each.text}")
    return 1 if faults else 0


def _stop() -> int:
    from ....engine.gateway.hooks.websocket import HookError
    from .stop import stop_servers

    try:
        sockets = stop_servers()
    except HookError as error:
        return refuse("hook", error, 1)
    for path in sockets:
        print(f"Ended the server at {path}")
    if not sockets:
        print("No server that a hook started is running")
    return 0


def _change_settings(args: argparse.Namespace) -> int:
    from .install import HookInstallError, check_inside, settings_path, uninstall

    try:
        project = None if args.project is None else args.project.expanduser().resolve()
        if project is not None and not project.is_dir():
            raise HookInstallError(f"--project {args.project}: there is no such directory")
        path = settings_path(args.agent, project)
        if project is not None:
            check_inside(path, project)
        if args.part == "install":
            _install(args, path, project)
        elif uninstall(args.agent, path):
            print(f"Removed the hooks from {path}")
        else:
            print(f"There are no Interlock hooks in {path}")
    except ValueError as error:  # includes HookInstallError and SettingsError
        return refuse("hook", error)
    return 0


def _install(args: argparse.Namespace, path: Path, project: Path | None) -> None:
    from ...config.hooks import hook_settings, waiting_time
    from ...config.loader import users_file
    from .install import any_outdated, check_isolated, install, installed_commands, settings_path
    from .main import own_command
    from .project_rules import user_rules

    line = _line(project)
    environ = line.environment(os.environ)
    wait = waiting_time(args.wait) if args.wait else hook_settings(project, environ=environ).wait
    check_isolated(own_command())
    before = installed_commands(args.agent, path)
    changed = install(args.agent, path, own_command(), wait, line)
    print(f"{'Wrote the hooks into' if changed else 'The hooks are in'} {path}")
    if any_outdated(before):
        print("The previous ones could be switched off by a project's environment.")
    print(f"A call waits for an operator for {wait:.0f} s; then it is denied.")
    if args.agent == "codex":
        print(TRUST)
        if project is not None:
            print(TRUST_PROJECT)
    if user_rules(environ) is None:
        print(NO_RULES.format(users_file(environ)), file=sys.stderr)
    if project is not None and Path(sys.executable).is_relative_to(project):
        print(IN_PROJECT.format(sys.executable), file=sys.stderr)
    elsewhere = settings_path(args.agent, None)
    doubled = installed_commands(args.agent, elsewhere) if project is not None else []
    if doubled:
        print(
            f"Interlock's hooks are in {elsewhere} too, so each call is asked about twice; remove one.",
            file=sys.stderr,
        )
    if any_outdated(doubled):
        print(
            f"Those in {elsewhere} can be switched off by a project's environment; install them again: "
            f"interlock hook install {args.agent}",
            file=sys.stderr,
        )


def _line(project: Path | None) -> HookLine:
    """Return the command line of the hooks, the same for every place where an agent runs them.

    Raises `SettingsError`.
    """
    from dataclasses import replace

    from ....engine.gateway.protocol.token_paths import config_directory
    from .command_line import HookLine, user_directories
    from .project_rules import user_rules

    line = HookLine(project=project, config=config_directory().absolute(), directories=user_directories())
    return replace(line, rules=user_rules(line.environment(os.environ)) or ())
