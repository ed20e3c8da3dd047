"""`interlock run`: host an agent on any litellm model, under rules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from ...engine.agents import Agent, BashTool, LitellmModel, LocalRuntime, ModelError, Tool, WebFetchTool
from ...engine.hub import Hub
from ...engine.net import NetError, SkillNet
from ...rules import RuleError, load_rules
from ..hosting import host
from . import BAD_INPUT, in_terminal, needs_terminal

TOOLS: Mapping[str, Tool] = {"bash": BashTool, "web_fetch": WebFetchTool}


class RunError(ValueError):
    """What was asked for cannot be run; the message names the option and the remedy."""


def run(args: argparse.Namespace, database: Path, operator: str) -> int:
    """Host the agent on a screen, or without one. Returns the exit code."""
    headless = bool(args.headless)
    if not headless and not in_terminal():
        return needs_terminal("run", "use --headless --answer approve|deny to run without one")
    if headless and args.answer is None:
        # Nobody can be asked, and nobody said what to answer: the safe answer.
        args.answer = "deny"
    try:
        registry = _registry(args.rules)
        active = _active(args.active, registry)
        agent = _agent(args)
    except (RunError, RuleError, ModelError, NetError) as error:
        print(f"interlock run: {error}", file=sys.stderr)
        return BAD_INPUT

    async def start(hub: Hub) -> str:
        session = await hub.open_session(
            agent,
            registry=registry,
            active=active,
            mode=args.mode or "enforce",
            by=operator,
            explain_blocks=bool(args.explain_blocks),
        )
        await hub.send(session, args.task, by=operator)
        return session

    return host(args, database, operator, start, headless=headless)


def _registry(files: list[str] | None) -> Mapping[str, SkillNet]:
    if not files:
        raise RunError(
            "no rules were given; name at least one file with --rules "
            "(an empty file lets everything through, and says so)"
        )
    return load_rules(*(Path(file) for file in files)).registry


def _active(names: list[str] | None, registry: Mapping[str, SkillNet]) -> list[str] | None:
    if names is None:
        return None
    unknown = [name for name in names if name not in registry]
    if unknown:
        known = ", ".join(registry) or "none"
        raise RunError(
            f"--active: unknown net{'s' * (len(unknown) > 1)} {', '.join(unknown)}; known: {known}"
        )
    return names


def _agent(args: argparse.Namespace) -> Agent:
    if not args.model:
        raise RunError("no model was given; name one with --model, e.g. --model openai/gpt-4o")
    model = LitellmModel(args.model, api_base=args.api_base)
    model.check_environment()
    workdir = args.workdir or Path.cwd()
    if not workdir.is_dir():
        raise RunError(f"--workdir: {workdir} is not a directory")
    return Agent(
        model,
        name="agent",
        system_prompt=args.system_prompt,
        tools=_tools(args.tools or "bash"),
        runtime=LocalRuntime(cwd=workdir),
    )


def _tools(names: str) -> list[Tool]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in TOOLS]
    if unknown:
        raise RunError(f"--tools: unknown {', '.join(unknown)}; known: {', '.join(TOOLS)}")
    return [TOOLS[name] for name in wanted]
