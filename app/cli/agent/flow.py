"""`interlock flow`: runs flows and resumes runs, on a screen or without one; draws and checks them."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from ....engine.core.sanitize import visible
from ....engine.flows import FlowError, Graph
from ....engine.history.errors import JournalError, SessionNotFound
from ....engine.history.journal.reader import open_reader
from ....engine.history.model.state import Origin
from ....engine.hub.hub import Hub, Nets, ResumeError
from ...agents.spec import BASE
from ...config.arguments import BAD_INPUT, in_terminal, needs_terminal
from ...config.trust import added, rule_texts
from ...flows.builder import PreparedFlow, prepare_flow
from ...flows.inputs import as_input, fills, input_text
from ...flows.spec import FlowLimits, FlowSpec, FlowSpecError, recorded_flow
from ...hosting.flow import host_flow, same_journal
from ...hosting.headless import Answer
from ...hosting.host import Start
from ...sessions.flow_start import resume_flow, start_flow
from ...sessions.imported_session import refusal


def flow(args: argparse.Namespace, database: Callable[[], Path], operator: Callable[[], str]) -> int:
    """Run the part of `interlock flow` that `args` names. Returns the exit code."""
    try:
        match args.part:
            case "run" | "resume":
                return _host(args, database, operator)
            case "draw":
                from ...flows.draw import draw_flow

                return draw_flow(
                    args.flow, out_file=args.out, live=args.live, database=database, out=sys.stdout
                )
            case "list":
                from .flow_list import list_runs

                return list_runs(database(), limit=args.limit or 50, out=sys.stdout)
            case _:
                from ...flows.check import check_flow

                return check_flow(args.flow, out=sys.stdout)
    except FlowSpecError as error:
        return _refuse(args, error, *error.problems)
    except ResumeError as error:
        changed = error.missing or error.changed or error.forgetful
        hint = ["here that is the option --changed-nets, with --reason TEXT"] if changed else []
        if error.unexplained:
            hint = ["here that is the option --reason TEXT"]
        return _refuse(args, error, str(error), *hint)
    except (SessionNotFound, JournalError, FlowError) as error:
        return _refuse(args, error, str(error))


def _host(args: argparse.Namespace, database: Callable[[], Path], operator: Callable[[], str]) -> int:
    headless = bool(args.headless)
    if not headless and not in_terminal():
        return needs_terminal(
            f"flow {args.part}", "use --headless --answer approve|deny to run without one"
        )
    journal, who = database(), operator()
    begin = _beginning if args.part == "run" else _going_on
    prepared, start = begin(args, journal, who)
    return host_flow(
        args,
        journal,
        who,
        start,
        headless=headless,
        answer=_answer(args),
        answers=fills(args.fill, prepared.graph),
    )


def _beginning(args: argparse.Namespace, _: Path, operator: str) -> tuple[PreparedFlow, Start]:
    """The named flow, and the start of its run."""
    here = Path.cwd()
    text, where = input_text(args.input, args.input_file)
    spec = _spec(
        {
            "flow": args.flow,
            "rules": args.rules or (),
            "mode": args.mode or "enforce",
            "workdir": args.workdir or here,
            "commands": args.allow_command or (),
            "limits": limits_of(args),
            "import_from": [here],
        },
    )

    def value(graph: Graph) -> BaseModel:
        return as_input(text, graph.takes.type, where)

    def answers(graph: Graph) -> Mapping[str, dict[str, JsonValue]]:
        return fills(args.fill, graph)

    prepared = prepare_flow(spec, (value, answers), rule_texts(args))
    begins = value(prepared.graph)
    if told := added(args):
        print(f"interlock flow run: {told}", file=sys.stderr)

    def start(hub: Hub) -> Awaitable[str]:
        return start_flow(hub, prepared, begins, operator)

    return prepared, start


def _going_on(args: argparse.Namespace, database: Path, operator: str) -> tuple[PreparedFlow, Start]:
    """The flow of a recorded run, and its continuation."""
    # Before anything is opened for writing: a misspelt id is the likeliest mistake.
    session = open_reader(database).session(args.session)
    if session.kind != "flow":
        command = f"interlock resume {session.id}{same_journal(args)}"
        raise FlowSpecError([f"session '{session.id}' is no run of a flow; {command} goes on with it"])
    if session.imported:
        raise FlowSpecError(refusal(Origin(session.id, session.source, imported=True), None, database))
    was = recorded_flow(session.id, session.source)
    # interlock.toml applies to new flows; a recorded one has its own settings.
    rules = args.rules if _said_now(args, "rules") else None
    mode = args.mode if _said_now(args, "mode") else None
    spec = _spec(
        {
            **was.model_dump(),
            "limits": limits_of(args),
            "rules": rules or was.rules,
            "mode": mode or was.mode,
        }
    )

    def answers(graph: Graph) -> Mapping[str, dict[str, JsonValue]]:
        return fills(args.fill, graph)

    prepared = prepare_flow(spec, (answers,), rule_texts(args))
    nets: Nets = "changed" if args.changed_nets or rules else "recorded"

    def start(hub: Hub) -> Awaitable[str]:
        return resume_flow(hub, session.id, prepared, operator, nets=nets, mode=mode, reason=args.reason)

    return prepared, start


def _answer(args: argparse.Namespace) -> Answer:
    """Answer to approval requests of a run without a screen: without an operator the default is deny."""
    return args.answer or "deny"


def limits_of(args: argparse.Namespace) -> FlowLimits:
    """Limits of this host for the run."""
    return FlowLimits(max_steps=args.max_steps, max_turns=args.max_turns, max_seconds=args.max_time)


def _said_now(args: argparse.Namespace, option: str) -> bool:
    return option in args.typed or f"INTERLOCK_{option.upper()}" in os.environ


def _spec(said: Mapping[str, object]) -> FlowSpec:
    try:
        return FlowSpec.model_validate(said, context={BASE: Path.cwd()})
    except ValidationError as error:
        raise FlowSpecError(map(_as_option, error.errors(include_url=False))) from error


def _as_option(found: ErrorDetails) -> str:
    """A problem in terms of the command line."""
    name = str(found["loc"][0])
    given = f"{found['input']!r:.80}"
    if name == "flow":
        return f"FLOW: expected package.module:FlowClass, found {given}"
    option = {"commands": "allow-command"}.get(name, name.replace("_", "-"))
    return f"--{option}: {found['msg'].removeprefix('Value error, ')}, found {given}"


def _refuse(args: argparse.Namespace, error: Exception, *problems: str) -> int:
    for problem in problems:
        print(f"interlock flow {args.part}: {visible(problem, keep_newlines=True)}", file=sys.stderr)
    if os.environ.get("INTERLOCK_DEBUG"):
        traceback.print_exception(error)
    return BAD_INPUT
