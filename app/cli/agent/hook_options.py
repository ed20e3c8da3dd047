"""The options of `interlock hook`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Add = Callable[..., argparse.ArgumentParser]

AGENTS = ("claude-code", "codex")


def add_hook(commands: object, command: Add) -> None:
    """`hook install`, `hook uninstall`, and the commands that they write."""
    hook = command(commands, "hook", "let Claude Code or Codex ask before each of its tool calls")
    parts = hook.add_subparsers(dest="part", metavar="PART", required=True)
    install = command(parts, "install", "write the hooks into an agent's settings")
    install.add_argument("agent", choices=AGENTS, help="whose")
    install.add_argument(
        "--project", metavar="DIR", type=Path, help="only for the agent in DIR (default: everywhere)"
    )
    install.add_argument(
        "--wait",
        metavar="TIME",
        help="how long a call waits for an operator at most, e.g. 9m (default: 50s)",
    )
    uninstall = command(parts, "uninstall", "take the hooks out of an agent's settings")
    uninstall.add_argument("agent", choices=AGENTS, help="whose")
    uninstall.add_argument(
        "--project", metavar="DIR", type=Path, help="those of DIR (default: those for everywhere)"
    )
    command(parts, "stop", "end the servers that hooks have started, e.g. to read changed rules")
    # Their other words are parsed by `command_line` only: they are no settings that a file may have.
    for agent in AGENTS:
        answer = command(parts, agent, f"answer an event of {agent} on stdin; the hooks call this")
        answer.add_argument(
            "--timeout", metavar="SECONDS", help="when the agent ends the command (default: 60)"
        )
        answer.add_argument("--project", metavar="DIR", type=Path, help="the project it is for")


def answers(line: list[str]) -> bool:
    """Tell whether a command line is a hook's, for which the other commands' options take too long."""
    return len(line) > 1 and line[0] == "hook" and line[1] in AGENTS and not {"-h", "--help"} & set(line)
