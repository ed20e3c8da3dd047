"""Options of an agent and its rules, for every command that makes one."""

from __future__ import annotations

import argparse
from pathlib import Path

from .options import positive

AGENT = (
    "agent",
    "model",
    "api_base",
    "rules",
    "tools",
    "active",
    "mode",
    "explain_blocks",
    "runtime",
    "workdir",
    "network",
    "max_steps",
    "system_prompt",
)
"""Names of these options in the parsed arguments."""


def add_agent(command: argparse.ArgumentParser) -> None:
    """Options for the agent, all but its cost limit."""
    command.add_argument(
        "--model", metavar="MODEL", help="a litellm model name or URL, e.g. openai/gpt-4o"
    )
    command.add_argument(
        "--api-base", metavar="URL", help="where the model's API is, if not the provider's own"
    )
    command.add_argument(
        "--rules", metavar="FILE", nargs="+", action="extend", help="rules files; all of them apply"
    )
    command.add_argument(
        "--tools", metavar="A,B", help="its tools: bash, read, …, or package.module:function"
    )
    command.add_argument(
        "--active",
        metavar="NET",
        nargs="+",
        action="extend",
        help="nets that start active (default: all)",
    )
    command.add_argument("--mode", choices=("enforce", "shadow"), help="enforce (default) or shadow")
    command.add_argument(
        "--explain-blocks",
        action="store_true",
        default=None,
        help="tell the agent which calls lead to a blocked one",
    )
    command.add_argument(
        "--runtime",
        choices=("local", "sandbox", "just-bash", "vercel"),
        help="what the agent's tools run in (default: local)",
    )
    command.add_argument(
        "--workdir", metavar="DIR", type=Path, help="where the agent's tools run (default: here)"
    )
    command.add_argument(
        "--network",
        action=argparse.BooleanOptionalAction,
        help="whether the sandbox reaches the network (default: no)",
    )
    command.add_argument(
        "--max-steps", metavar="N", type=positive, help="a run's model calls at most (default: 100)"
    )
    command.add_argument("--system-prompt", metavar="TEXT", help="the agent's instructions")
