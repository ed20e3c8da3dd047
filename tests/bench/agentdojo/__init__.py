"""AgentDojo's tasks at the gate: injected calls that run, and user tasks that need no approval.

`extract.py` records the tasks under an interpreter that has `agentdojo`, by default this one;
`AGENTDOJO_PYTHON` names another. Its dependencies (client libraries of several models) may conflict with
Interlock's, so it should have a separate environment. The rules are `*.rules` in this folder, revised by
half of the recorded tasks. `descriptions_only` has them as first written from the tools' descriptions
alone; `by_the_steps` and `asking_more` have others derived from these, by the steps of
`docs/how-to/write-rules.md`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from .trial import Tally, Trial, read_sessions, with_every_source

HERE = Path(__file__).parent
SUITES = ("banking", "slack", "travel", "workspace")
KINDS = ("user", "injection", "both")
SIZES = {"user": 97, "injection": 26, "both": 609}
"""Number of sessions of each kind in v1.2.2: user tasks, injections with calls, and both in sequence."""
INJECTION_TASKS = 35
INSTALLATION = (
    "agentdojo is not there: `python -m venv dojo && dojo/bin/pip install agentdojo`, "
    "then AGENTDOJO_PYTHON=dojo/bin/python"
)

Kind: TypeAlias = Mapping[str, Mapping[str, object]]
"""Sessions of one kind by name, in the format of `extract.py`."""
Suites: TypeAlias = Mapping[str, Mapping[str, Kind]]


class ExtractionError(RuntimeError):
    """Tasks that could not be recorded, or that differ from those the rules were measured with."""


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one suite, or of all suites."""

    suite: str
    tasks: int
    undisturbed: int
    asked: int
    blocked: int
    injections: int
    complete: int
    injected: int
    passed: int
    injected_blocked: int

    @property
    def percent(self) -> float:
        """Percentage of undisturbed user tasks."""
        return 100 * self.undisturbed / self.tasks


def measure() -> Iterator[tuple[str, float, str]]:
    """Yield the rows of `rows`, one number per line."""
    for row in rows(extract(os.environ.get("AGENTDOJO_PYTHON", sys.executable))):
        yield f"{row.suite}: user tasks undisturbed", row.percent, f"% of {row.tasks}"
        yield f"{row.suite}: calls of user tasks asked", row.asked, "calls"
        yield f"{row.suite}: calls of user tasks blocked", row.blocked, "calls"
        yield f"{row.suite}: injections through", row.complete, f"of {row.injections}"
        yield f"{row.suite}: injected calls that pass", row.passed, f"of {row.injected}"
        yield f"{row.suite}: injected calls blocked", row.injected_blocked, f"of {row.injected}"


def extract(python: str) -> Suites:
    """Record the tasks under `python`. Raises `ExtractionError` if that fails, or if the tasks differ."""
    probe = subprocess.run([python, "-c", "import agentdojo"], capture_output=True, check=False)
    if probe.returncode:
        raise ExtractionError(INSTALLATION)
    # Standard error has warnings of agentdojo's dependencies.
    found = subprocess.run(
        [python, str(HERE / "extract.py")], capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise ExtractionError(f"extract.py failed: {found.stderr.strip()[-2000:]}")
    suites: Suites = json.loads(found.stdout)["suites"]
    check_sizes(suites)
    return suites


def check_sizes(suites: Suites) -> None:
    """Raise `ExtractionError` unless the numbers of sessions are as expected."""
    if sorted(suites) != sorted(SUITES):
        raise ExtractionError(f"suites {', '.join(SUITES)} expected, found {', '.join(suites)}")
    sizes = {kind: sum(len(suite[kind]) for suite in suites.values()) for kind in KINDS}
    injections = sum(len(suite["injection_tasks"]) for suite in suites.values())
    if sizes != SIZES or injections != INJECTION_TASKS:
        raise ExtractionError(
            f"{SIZES} sessions and {INJECTION_TASKS} injection tasks expected, "
            f"found {sizes} and {injections}: pip install --upgrade agentdojo"
        )


def half(suites: Suites, second: bool) -> Suites:
    """Return every other user task and injection, from the first or the second, with their sequences."""
    return {name: _half(suite, int(second)) for name, suite in suites.items()}


def _half(suite: Mapping[str, Kind], first: int) -> dict[str, Kind]:
    user, injection = (
        {name: suite[kind][name] for name in [*suite[kind]][first::2]} for kind in KINDS[:2]
    )
    both = {f"{a}+{b}": suite["both"][f"{a}+{b}"] for a in user for b in injection}
    return {"user": user, "injection": injection, "both": both}


def rows(suites: Suites, every_source: bool = False, folder: Path = HERE) -> list[Row]:
    """Return a row per suite and one for all.

    `every_source` makes every look-up a source in the rules.
    """
    texts = {name: (folder / f"{name}.rules").read_text(encoding="utf-8") for name in SUITES}
    found = [asyncio.run(_row(name, text, suites[name], every_source)) for name, text in texts.items()]
    return [*found, total(found)]


async def _row(name: str, rules: str, suite: Mapping[str, Kind], every_source: bool) -> Row:
    sessions = [list(read_sessions(suite[kind])) for kind in KINDS]
    trial = Trial(with_every_source(rules, chain(*sessions)) if every_source else rules)
    user, alone, both = [await trial.tally(each) for each in sessions]
    return row_of(name, user, (alone, both))


def row_of(name: str, user: Tally, attacked: tuple[Tally, ...]) -> Row:
    """Return the row of user tasks alone and of sessions with injections."""
    injected = [tally.injected for tally in attacked]
    return Row(
        suite=name,
        tasks=user.sessions,
        undisturbed=user.undisturbed,
        asked=user.own["ask"],
        blocked=user.own["block"],
        injections=sum(tally.sessions for tally in attacked),
        complete=sum(tally.complete for tally in attacked),
        injected=sum(count.total() for count in injected),
        passed=sum(count["allow"] for count in injected),
        injected_blocked=sum(count["block"] for count in injected),
    )


def total(each: list[Row]) -> Row:
    """Return the sum of several rows."""
    names = [name for name in Row.__dataclass_fields__ if name != "suite"]
    return Row("all", **{name: sum(getattr(row, name) for row in each) for name in names})
