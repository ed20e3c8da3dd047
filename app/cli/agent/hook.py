"""`interlock hook`: installs the hooks of agents; their command is `hooks.main`."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from ....engine.core.sanitize import visible
from ....engine.gateway.hooks.websocket import HookError
from ....engine.gateway.protocol.token_paths import config_directory
from ...config.arguments import BAD_INPUT
from ...config.hooks import hook_settings, waiting_time
from ...config.loader import SettingsError, users_file
from ..hooks.command_line import HookLine, users_places
from ..hooks.install import (
    HookInstallError,
    check_inside,
    check_isolated,
    install,
    installed,
    older,
    settings_path,
    uninstall,
)
from ..hooks.main import main, own_command
from ..hooks.project_rules import users_rules
from ..hooks.stop import stop

TRUST = (
    "Codex passes over hooks without a word until you have trusted them: open /hooks in it now, and\n"
    "again after every change of them."
)
NO_RULES = (
    "{} names no rules, so hooks start no server, and every call is blocked where none runs. Name some, "
    'as in [serve] rules = ["FILE"], and install the hooks again.'
)
IN_PROJECT = (
    "Hooks run {}, which is in the project: an agent that may write there can replace it. Install "
    "Interlock elsewhere, as pipx and uv tool do, and install the hooks again with that one."
)
TRUST_PROJECT = "It reads those of a project only where it trusts the project."


def hook(args: argparse.Namespace) -> int:
    """Run the part that `args.part` names. Returns the exit code."""
    if args.part == "stop":
        return _stop()
    if args.part not in ("install", "uninstall"):
        line = ["--timeout", args.timeout] if args.timeout else []
        return main(args.part, [*line, *(["--project", str(args.project)] if args.project else [])])
    try:
        project = None if args.project is None else args.project.expanduser().resolve()
        if project is not None and not project.is_dir():
            raise HookInstallError(f"--project {args.project}: there is no such directory")
        path = settings_path(args.agent, project)
        if project is not None:
            check_inside(path, project)
        if args.part == "uninstall":
            found = uninstall(args.agent, path)
            print(
                f"Took the hooks out of {path}" if found else f"There are no hooks of Interlock in {path}"
            )
        else:
            _install(args, path, project)
    except (HookInstallError, SettingsError, ValueError) as error:
        print(f"interlock hook: {visible(str(error), keep_newlines=True)}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _stop() -> int:
    try:
        ended = stop()
    except HookError as error:
        print(f"interlock hook: {visible(str(error))}", file=sys.stderr)
        return 1
    for path in ended:
        print(f"Ended the server at {path}")
    if not ended:
        print("No server runs that a hook has started")
    return 0


def _install(args: argparse.Namespace, path: Path, project: Path | None) -> None:
    line = _line(project)
    environ = line.environment(os.environ)
    wait = waiting_time(args.wait) if args.wait else hook_settings(project, environ=environ).wait
    check_isolated(own_command())
    before = installed(args.agent, path)
    changed = install(args.agent, path, own_command(), wait, line)
    print(f"{'Wrote the hooks into' if changed else 'The hooks are in'} {path}")
    if older(before):
        print("Those that stood there could be switched off by a project's environment.")
    print(f"A call waits for an operator for {wait:.0f} s; then it is denied.")
    if args.agent == "codex":
        print(TRUST)
        if project is not None:
            print(TRUST_PROJECT)
    if users_rules(environ) is None:
        print(NO_RULES.format(users_file(environ)), file=sys.stderr)
    if project is not None and Path(sys.executable).is_relative_to(project):
        print(IN_PROJECT.format(sys.executable), file=sys.stderr)
    elsewhere = settings_path(args.agent, None)
    doubled = installed(args.agent, elsewhere) if project is not None else []
    if doubled:
        print(
            f"Interlock's hooks are in {elsewhere} too, so each call is asked about twice; take one out.",
            file=sys.stderr,
        )
    if older(doubled):
        print(
            f"Those in {elsewhere} can be switched off by a project's environment; install them again: "
            f"interlock hook install {args.agent}",
            file=sys.stderr,
        )


def _line(project: Path | None) -> HookLine:
    """Command line of the hooks, the same wherever an agent runs them. Raises `SettingsError`."""
    line = HookLine(project=project, config=config_directory().absolute(), places=users_places())
    return replace(line, rules=users_rules(line.environment(os.environ)) or ())
