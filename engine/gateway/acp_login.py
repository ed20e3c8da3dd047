"""What to do for an ACP agent that wants to be logged in first, from what it offers for that."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TypeAlias

from acp.schema import AuthMethodAgent, EnvVarAuthMethod, TerminalAuthMethod

Method: TypeAlias = EnvVarAuthMethod | TerminalAuthMethod | AuthMethodAgent

LONGEST = 300
"""Characters of what an agent says of one way."""


def how_to_log_in(methods: Sequence[Method], command: Sequence[str]) -> str:
    """A sentence for each way; without any, that the agent's own program knows one."""
    wanted = "The agent wants to be logged in first"
    if not methods:
        return f"{wanted}. Start its own program and log in there, then start this again"
    return f"{wanted}. It offers:\n" + "\n".join(f"- {_way(each, command)}" for each in methods)


def _way(method: Method, command: Sequence[str]) -> str:
    said = f"{method.name}: {method.description}" if method.description else method.name
    said = " ".join(said.split())[:LONGEST].rstrip(".")
    match method:
        case EnvVarAuthMethod(vars=variables, link=link):
            names = " and ".join(each.name for each in variables)
            where = f" (from {link})" if link else ""
            return (
                f"{said}. Set {names or 'what it needs'} in the environment{where}, then start this again"
            )
        case TerminalAuthMethod(args=arguments, env=environment):
            settings = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
            line = " ".join([*settings, shlex.join([*command, *(arguments or ())])])
            return f"{said}. Run in a terminal: {line}"
        case _:
            return f"{said}. Start its own program and log in there, then start this again"
