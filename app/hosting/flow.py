"""Hosting of a flow's run, in a console or headless, and the command that resumes an unfinished one."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TextIO

from pydantic import JsonValue

from ...engine.core.sanitize import visible
from ...engine.history.errors import JournalError
from ...engine.history.journal.reader import open_reader
from ...engine.history.model.events import ApprovalRequested
from ...engine.hub.hub import Hub
from .headless import Answer, answered, machine_answer, print_events
from .host import Start, host

# Headless run of a flow: one line per event; approvals and answers are given as the options say.


Fills = Mapping[str, dict[str, JsonValue]]


class _Answers:
    """Answers of a headless run; `stuck` gets the first request whose answer no option fills in."""

    def __init__(self, hub: Hub, answer: Answer, fills: Fills, out: TextIO) -> None:
        self._hub = hub
        self._out = out
        self._answer: Answer = answer
        self._fills = fills
        self.stuck: asyncio.Future[ApprovalRequested] = asyncio.get_running_loop().create_future()

    async def give(self, asked: ApprovalRequested) -> str | None:
        """Answer a request. Gives why that failed."""
        (approved, _), filled_in = machine_answer(asked, self._answer), None
        if approved and asked.wants is not None:
            filled_in = self._fills.get(asked.tool)
            if filled_in is None:
                self._stop(asked)
                return None
        outcome = await answered(self._hub, asked, self._answer, self._out, filled_in)
        if not outcome.ok and asked.wants is not None:
            self._stop(asked)
        return None if outcome.ok else outcome.message

    def _stop(self, asked: ApprovalRequested) -> None:
        if not self.stuck.done():
            self.stuck.set_result(asked)


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
    """Start a run with `start` and print what happens until it ends, or waits for what `fills` has not.

    `journal` is the option that a command needs to find the run again. Returns 0 when the flow came to
    its end, else 1; the run can then be resumed.
    """
    answers = _Answers(hub, answer, fills, out)
    subscription = hub.subscribe()
    printing = asyncio.create_task(print_events(subscription.__aiter__(), answers.give, out))
    ended: asyncio.Task[None] | None = None
    session, done = "", False
    try:
        session = await start(hub)
        ended = asyncio.create_task(hub.flow_ended(session))
        await asyncio.wait([ended, answers.stuck], return_when=asyncio.FIRST_COMPLETED)
        done = (await hub.session(session)).status == "done"
    finally:
        if ended is not None:
            ended.cancel()
        await hub.close()
        await printing
    if answers.stuck.done():
        key = visible(answers.stuck.result().tool)
        print(
            f"interlock flow: {key} waits for an answer that a person fills in. Go on without a screen "
            f"with: interlock flow resume {visible(session)}{journal} --headless --answer "
            f"approve --fill {key}='{{…}}'; or in the console, without --headless",
            file=err or sys.stderr,
        )
    return 0 if done else 1


# Options that a suggested command takes over from the one that suggests it.


def same_journal(args: argparse.Namespace) -> str:
    """` --db FILE`, where the command line said so: the next command would look in another journal.

    A setting or the environment says it to that one, too. A name that cannot be seen is left out: it
    could not be checked before it is run.
    """
    if "db" not in getattr(args, "typed", ()):
        return ""
    given = str(args.db)
    return f" --db {shlex.quote(given)}" if visible(given) == given else ""


def host_flow(
    args: argparse.Namespace,
    database: Path,
    operator: str,
    start: Start,
    *,
    headless: bool,
    answer: Answer,
    answers: Mapping[str, dict[str, JsonValue]],
) -> int:
    """Host the run that `start` begins; `answer` and `answers` are for a headless one.

    Returns the exit code. A console left before the flow's end prints the command that resumes it.
    """
    begun: list[str] = []
    journal = same_journal(args)

    async def noted(hub: Hub) -> str:
        begun.append(await start(hub))
        return begun[0]

    async def follow(hub: Hub, start: Start) -> int:
        return await follow_flow(
            hub, start, answer=answer, fills=answers, out=sys.stdout, journal=journal
        )

    code = host(args, database, operator, noted, headless=headless, follow=follow)
    for session in () if headless else begun:
        _tell_how_it_stands(database, session, journal)
    return code


def _tell_how_it_stands(database: Path, session: str, journal: str) -> None:
    try:
        run = open_reader(database).session(session)
    except JournalError:
        return  # which the console has said
    if run.status == "failed":
        remedy = f"interlock flow resume {visible(run.id)}"
        said = visible(run.error or "failed")
        if remedy not in said:
            said += f"; go on with: {remedy}"
        print(f"{visible(run.id)}: {said.replace(remedy, remedy + journal)}")
