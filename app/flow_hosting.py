"""Hosting a flow's run: a console or a headless run, and how it goes on where it did not end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from ..engine.history.errors import JournalError
from ..engine.history.queries import open_reader
from ..engine.hub import Hub
from ..engine.text import visible
from .flow_headless import follow_flow
from .headless import Answer
from .hosting import Start, host
from .next_command import same_journal


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
    """Host the run that `start` begins; `answer` and `answers` are for one without a screen.

    Returns the exit code. Whoever leaves a console before the flow's end is told how to go on.
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
