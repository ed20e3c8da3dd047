"""`interlock hook`: put the hooks of agents in place; what they call is `hook_run`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...engine.gateway.hook_socket import HookError
from ...engine.text import visible
from ..hook_install import HookInstallError, install, installed, settings_path, uninstall
from ..hook_run import main, own_command
from ..hook_settings import hook_settings, waiting_time
from ..hook_stop import stop
from ..settings import SettingsError
from . import BAD_INPUT

TRUST = (
    "Codex passes over hooks without a word until you have trusted them: open /hooks in it now, and\n"
    "again after every change of them."
)
TRUST_PROJECT = "It reads those of a project only where it trusts the project."


def hook(args: argparse.Namespace) -> int:
    """Do what `args.part` says. Returns the exit code."""
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
    wait = waiting_time(args.wait) if args.wait else hook_settings(project).wait
    changed = install(args.agent, path, own_command(), wait, project)
    print(f"{'Wrote the hooks into' if changed else 'The hooks are in'} {path}")
    print(f"A call waits for an operator for {wait:.0f} s; then it is denied.")
    if args.agent == "codex":
        print(TRUST)
        if project is not None:
            print(TRUST_PROJECT)
    elsewhere = settings_path(args.agent, None)
    if project is not None and installed(args.agent, elsewhere):
        print(
            f"Interlock's hooks are in {elsewhere} too, so each call is asked about twice; take one out.",
            file=sys.stderr,
        )
