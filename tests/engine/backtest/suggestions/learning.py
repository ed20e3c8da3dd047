"""Journals that were recorded by the real gate, and the suggestions from them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from interlock.app.cli.rules.scenario_runner import run_scenario
from interlock.app.config.rules_writer import RulesWriter
from interlock.engine.backtest.suggestions import History, Suggestion
from interlock.engine.backtest.suggestions.suggest import suggest
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.redaction.redaction import Redaction
from interlock.rules import compile_rules
from interlock.rules.scenarios.scenarios import parse_scenarios
from tests.support.clock import Clock

from ..recorder import Recorder

FILE = "deploy.rules"


@dataclass(frozen=True)
class Did:
    """A call with its input, and the answer to a request for it: yes, no, or an edited input."""

    tool: str
    input: dict[str, object] = field(default_factory=dict[str, object])
    approved: bool = True
    edited: dict[str, object] = field(default_factory=dict[str, object])
    fails: bool = False


def deploys(number: int, *, approved: bool = True, **values: object) -> list[Did]:
    """Return `number` equal calls of `deploy`."""
    return [Did("deploy", values, approved)] * number


async def _play(recorder: Recorder, calls: Iterable[Did]) -> None:
    for number, did in enumerate(calls, 1):
        call_id = f"c{number}"
        await recorder.call(call_id, did.tool, **did.input)
        while call_id in recorder.waiting:
            await recorder.answer(call_id, did.approved, **did.edited)
        if call_id in recorder.running:
            recorder.result(call_id, is_error=did.fails)


def record(
    path: Path,
    rules: str,
    sessions: Iterable[Iterable[Did]],
    *,
    clock: Clock | None = None,
    bot: str = "bot",
) -> None:
    """Write sessions under `rules` to the journal at `path`."""
    registry = compile_rules(rules, file=FILE).registry
    with Journal.open(path, clock=clock) if clock is not None else Journal.open(path) as journal:
        for number, calls in enumerate(sessions):
            recorder = Recorder(registry)
            asyncio.run(_play(recorder, calls))
            journal.write(f"{bot}-{number}", *recorder.bodies)


def suggested(
    path: Path,
    rules: str,
    *,
    since: datetime | None = None,
    redaction: Redaction | None = None,
) -> History:
    return suggest(path, {FILE: rules}, RulesWriter(), redaction or Redaction(), since=since)


def learned(path: Path, rules: str, sessions: Iterable[Iterable[Did]]) -> list[Suggestion]:
    """Return the suggestions for the rules under which the sessions were recorded."""
    record(path, rules, sessions)
    return list(suggested(path, rules).suggestions)


def changed(rules: str, suggestion: Suggestion) -> str:
    """Return the rules with a suggestion applied."""
    if suggestion.replaces is None:
        return f"{rules}\n{suggestion.rule}"
    lines = rules.split("\n")
    number = int(suggestion.replaces.rpartition(":")[2])
    return "\n".join([*lines[: number - 1], suggestion.rule, *lines[number:]])


def divergences(rules: str, suggestion: Suggestion) -> list[object]:
    """Run the scenarios of a suggestion with it applied: `None` for each that passes."""
    made = compile_rules(changed(rules, suggestion))
    found = parse_scenarios(f"use {FILE}\n{suggestion.scenarios}").scenarios
    return [run_scenario(scenario, made) for scenario in found]
