"""`python -m tests.bench.agentdojo`: prints the figures as a table, or writes JSON with `--json FILE`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path

from . import HERE, ExtractionError, Row, extract, half, rows

HEADINGS = (
    "suite",
    "user tasks",
    "undisturbed",
    "asked",
    "blocked",
    "injections",
    "through",
    "acting",
    "pass",
)


def table(found: list[Row]) -> str:
    """Return the rows below their headings."""
    lines = [HEADINGS, *map(_cells, found)]
    return "\n".join("".join(f"{cell:>13}" for cell in line) for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    undisturbed = f"{row.undisturbed} ({row.percent:.1f} %)"
    numbers = (row.asked, row.blocked, row.injections, row.complete, row.injected, row.passed)
    return row.suite, str(row.tasks), undisturbed, *map(str, numbers)


def main() -> int:
    """Measure and print."""
    parser = ArgumentParser(prog="python -m tests.bench.agentdojo")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has agentdojo")
    parser.add_argument("--json", type=Path, help="file that gets the numbers")
    parser.add_argument("--every-source", action="store_true", help="take every look-up for a source")
    parser.add_argument("--half", choices=("first", "second"), help="measure every other task only")
    parser.add_argument("--rules", type=Path, default=HERE, help="directory of the suites' rules files")
    args = parser.parse_args()
    try:
        suites = extract(args.python)
        if args.half is not None:
            suites = half(suites, args.half == "second")
        found = rows(suites, args.every_source, args.rules)
    except ExtractionError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(table(found))
    if args.json:
        text = json.dumps([asdict(row) for row in found], indent=2)
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
