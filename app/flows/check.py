"""`interlock flow check`: problems of a flow, with the shortest way to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TextIO

from ...engine.core.sanitize import visible
from ...engine.flows import Finding
from ..format.text import count
from .builder import flow_class, flow_graph
from .inputs import waiting

WIDTH, INDENT = 80, 4
MOST_STEPS = 40
FAULTY = 1


def check_flow(name: str, *, out: TextIO) -> int:
    """Print the parts of `name` and every finding. Returns 1 if there are findings, else 0.

    Raises `FlowSpecError` for a flow that cannot run.
    """
    here = (Path.cwd(),)
    graph = flow_graph(name, flow_class(name, here), here)
    people = waiting(graph)
    print(
        f"{visible(name)}: {count(len(graph.distinct), 'node')}, {count(len(graph.states), 'state')}, "
        f"from {visible(graph.takes.key)} to {visible(graph.gives.key)}",
        file=out,
    )
    if people:
        print(f"people are asked at: {visible(', '.join(people))}", file=out)
    for finding in graph.findings:
        print(file=out)
        for line in _finding_lines(finding):
            print(line, file=out)
    if not graph.complete:
        print("\nIt has too many possible states to check them all; there may be more.", file=out)
    elif not graph.findings:
        print("Every run ends, and no value is lost on the way.", file=out)
    return FAULTY if graph.findings else 0


def _finding_lines(finding: Finding) -> Iterator[str]:
    states = ", ".join(f"'{state}'" for state in finding.states)
    if finding.kind == "overwrite":
        yield visible(f"overwrite: {finding.node} would overwrite state {states}, whose value is lost")
    else:
        yield visible(f"deadlock: no join can fire, and these wait forever: {states}")
    yield "  the shortest way there:" if finding.path else "  from the start"
    yield from _way(finding.path)


def _way(path: Sequence[str]) -> Iterator[str]:
    steps = (
        path if len(path) <= MOST_STEPS else [*path[: MOST_STEPS // 2], "…", *path[-MOST_STEPS // 2 :]]
    )
    for number, step in enumerate(steps, 1):
        label = f"{number}. " if len(steps) == len(path) else "- "
        indent = " " * (INDENT + len(label))
        text = visible(step)
        lines = wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False) or [""]
        yield f"{' ' * INDENT}{label}{lines[0]}"
        for line in lines[1:]:
            yield f"{indent}{line}"
