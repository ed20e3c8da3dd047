"""Hosting of a flow's run, in a console or headless, and resuming unfinished runs."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TextIO, TypeAlias

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from ...engine.core.sanitize import visible
from ...engine.flows import Graph
from ...engine.history.database.location import Location
from ...engine.history.errors import JournalError
from ...engine.history.journal.reader import open_reader
from ...engine.history.model.events import ApprovalRequested
from ...engine.history.model.state import Origin
from ...engine.hub.hub import Hub, Nets
from ...rules import RuleError
from ..agents.spec import BASE
from ..config.arguments import database, is_for_this_run, report_directory
from ..config.loader import SettingsError
from ..config.operators import report_approvers
from ..config.trust import rule_texts
from ..flows.builder import PreparedFlow, prepare_flow
from ..flows.inputs import as_input, fills, input_text
from ..flows.spec import FlowLimits, FlowSpec, FlowSpecError, recorded_flow
from ..sessions.flow_start import resume_flow, start_flow
from ..sessions.imported_session import refusal
from .farewell import close_aloud
from .headless import Answer, answer_request, machine_answer, own_events, print_events
from .host import Start, host

Fills: TypeAlias = Mapping[str, dict[str, JsonValue]]
"""Answers by the step that waits for them."""


def run_flow(args: argparse.Namespace) -> int:
    """Host a run of the flow named in `args`. Returns the exit code.

    Raises `FlowSpecError`, `FlowError` and `JournalError`.
    """
    here = Path.cwd()
    text, source = input_text(args.input, args.input_file)
    spec = _spec(
        {
            "flow": args.flow,
            "rules": args.rules or (),
            "mode": args.mode or "enforce",
            "labels": args.labels or (),
            "workdir": args.workdir or here,
            "commands": args.allow_command or (),
            "limits": limits_of(args),
            "import_from": [here],
        },
    )

    def value(graph: Graph) -> BaseModel:
        return as_input(text, graph.takes.type, source)

    prepared = _prepared(args, spec, value)
    first = value(prepared.graph)
    report_directory(args, "flow run")
    try:
        report_approvers("flow run", prepared.rules.nets)
    except (RuleError, SettingsError) as error:
        raise FlowSpecError([str(error)]) from error

    def start(hub: Hub) -> Awaitable[str]:
        return start_flow(hub, prepared, first, args.operator)

    return host_flow(args, start, fills(args.fill, prepared.graph))


def resume_run(args: argparse.Namespace) -> int:
    """Host the continuation of a recorded run. Returns the exit code.

    Raises `FlowSpecError`, `FlowError`, `ResumeError`, `SessionNotFound` and `JournalError`.
    """
    # Looked up before anything is opened for writing: a misspelt id is the most likely mistake.
    session = open_reader(database(args)).session(args.session)
    if session.kind != "flow":
        command = f"interlock resume {session.id}{same_journal(args)}"
        raise FlowSpecError([f"session '{session.id}' is not a run of a flow; {command} goes on with it"])
    if session.imported:
        origin = Origin(session=session.id, source=session.source, imported=True)
        raise FlowSpecError(refusal(origin, None, database(args)))
    recorded = recorded_flow(session.id, session.source)
    # Settings in interlock.toml are for new flows; a recorded one has its own.
    rules = args.rules if is_for_this_run(args, "rules") else None
    mode = args.mode if is_for_this_run(args, "mode") else None
    spec = _spec(
        {
            **recorded.model_dump(),
            "limits": limits_of(args),
            "rules": rules or recorded.rules,
            "mode": mode or recorded.mode,
        }
    )
    prepared = _prepared(args, spec)
    nets: Nets = "changed" if args.changed_nets or rules else "recorded"

    def start(hub: Hub) -> Awaitable[str]:
        return resume_flow(
            hub, session.id, prepared, args.operator, nets=nets, mode=mode, reason=args.reason
        )

    return host_flow(args, start, fills(args.fill, prepared.graph))


def limits_of(args: argparse.Namespace) -> FlowLimits:
    """Return the run's limits from the command line."""
    return FlowLimits(max_steps=args.max_steps, max_turns=args.max_turns, max_seconds=args.max_time)


def _prepared(
    args: argparse.Namespace, spec: FlowSpec, *checks: Callable[[Graph], object]
) -> PreparedFlow:
    return prepare_flow(spec, (*checks, lambda graph: fills(args.fill, graph)), rule_texts(args))


def _spec(fields: Mapping[str, object]) -> FlowSpec:
    try:
        return FlowSpec.model_validate(fields, context={BASE: Path.cwd()})
    except ValidationError as error:
        raise FlowSpecError(map(_as_option, error.errors(include_url=False))) from error


def _as_option(found: ErrorDetails) -> str:
    """Return a problem in terms of command-line options."""
    name = str(found["loc"][0])
    value = f"{found['input']!r:.80}"
    if name == "flow":
        return f"FLOW: expected package.module:FlowClass, found {value}"
    option = {"commands": "allow-command", "labels": "label"}.get(name, name.replace("_", "-"))
    return f"--{option}: {found['msg'].removeprefix('Value error, ')}, found {value}"


def host_flow(args: argparse.Namespace, start: Start, answers: Fills) -> int:
    """Host the run that `start` begins; `answers` are for a headless one.

    Returns the exit code. A console closed before the flow's end prints the command that resumes the run.
    """
    sessions: list[str] = []
    journal = same_journal(args)

    async def noted(hub: Hub) -> str:
        sessions.append(await start(hub))
        return sessions[0]

    async def follow(hub: Hub, start: Start) -> int:
        return await follow_flow(
            hub, start, answer=args.answer, fills=answers, out=sys.stdout, journal=journal
        )

    code = host(args, noted, follow=follow)
    for session in () if args.headless else sessions:
        _print_resumption(database(args), session, journal)
    return code


class _Answers:
    """Answers of a headless run.

    `stuck` is set to the first request that needs an answer no option supplies.
    """

    def __init__(self, hub: Hub, answer: Answer, fills: Fills, out: TextIO) -> None:
        self._hub = hub
        self._out = out
        self._answer: Answer = answer
        self._fills = fills
        self.stuck: asyncio.Future[ApprovalRequested] = asyncio.get_running_loop().create_future()

    async def give(self, request: ApprovalRequested) -> str | None:
        """Answer a request. Returns the reason if that failed."""
        (approved, _), filled_in = machine_answer(request, self._answer), None
        if approved and request.wants is not None:
            filled_in = self._fills.get(request.tool)
            if filled_in is None:
                self._stop(request)
                return None
        outcome = await answer_request(self._hub, request, self._answer, self._out, filled_in)
        if not outcome.ok and request.wants is not None:
            self._stop(request)
        return None if outcome.ok else outcome.message

    def _stop(self, request: ApprovalRequested) -> None:
        if not self.stuck.done():
            self.stuck.set_result(request)


async def follow_flow(
    hub: Hub,
    start: Callable[[Hub], Awaitable[str]],
    *,
    answer: Answer,
    fills: Fills,
    out: TextIO,
    err: TextIO | None = None,
    journal: str = "",
) -> int:
    """Start a run with `start`; print its events until it ends, or waits for an answer not in `fills`.

    `journal` is the option with which a command finds the run again. Returns 0 if the flow reached its
    end, else 1; the run can then be resumed, or goes on at another server of the database.
    """
    answers = _Answers(hub, answer, fills, out)
    subscription = hub.subscribe()
    printing = asyncio.create_task(print_events(own_events(hub, subscription), answers.give, out))
    end: asyncio.Task[None] | None = None
    session, done = "", False
    try:
        session = await start(hub)
        end = asyncio.create_task(hub.flow_ended(session))
        await asyncio.wait([end, answers.stuck], return_when=asyncio.FIRST_COMPLETED)
        done = (await hub.session(session)).status == "done"
    finally:
        if end is not None:
            end.cancel()
        await close_aloud(hub)
        await printing
    if answers.stuck.done():
        key = visible(answers.stuck.result().tool)
        if hub.lease.is_handed_over:
            remedy = (
                f"{visible(session)} goes on at another server of the database: answer there, "
                "in a console"
            )
        else:
            remedy = (
                f"Go on without a screen with: interlock flow resume {visible(session)}{journal} "
                f"--headless --answer approve --fill {key}='{{…}}'; or in the console, without --headless"
            )
        print(
            f"interlock flow: {key} waits for an answer that a person fills in. {remedy}",
            file=err or sys.stderr,
        )
    return 0 if done else 1


def same_journal(args: argparse.Namespace) -> str:
    """Return ` --db FILE` if the command line had it, for printed commands to find the same journal.

    A setting or the environment applies to those commands, too. A path with invisible characters is left
    out: it could not be reviewed before the command is run.
    """
    if "db" not in getattr(args, "typed", ()):
        return ""
    path = str(args.db)
    return f" --db {shlex.quote(path)}" if visible(path) == path else ""


def _print_resumption(database: Location, session: str, journal: str) -> None:
    try:
        run = open_reader(database).session(session)
    except JournalError:
        return  # the console has already shown this error
    if run.status == "failed":
        remedy = f"interlock flow resume {visible(run.id)}"
        text = visible(run.error or "failed")
        if remedy not in text:
            text += f"; go on with: {remedy}"
        print(f"{visible(run.id)}: {text.replace(remedy, remedy + journal)}")
