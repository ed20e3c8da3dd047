"""All measurements, one line each: name, value, unit. Run `make bench`, or name those to run."""

from __future__ import annotations

import sys
from importlib import import_module

MEASUREMENTS = (
    "startup",
    "hook",
    "dialog",
    "traffic",
    "gate",
    "monitoring",
    "gate_clauses",
    "gate_values",
    "shell",
    "harmless",
    "verify",
    "agents",
    "adapters",
    "call_path",
    "journal",
    "cluster",
    "servers",
    "replay",
    "redaction",
    "backtest",
    "decisions",
    "fatigue",
    "gateway",
    "queue",
    "triage",
    "long_input",
    "phone",
    "flows",
)
SEPARATE = ("agentdojo",)
"""Measurements that run only if named: they need a package that is not in the development environment."""


def main(names: list[str]) -> int:
    """Run the named measurements, or by default all except `SEPARATE`."""
    known = MEASUREMENTS + SEPARATE
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"unknown measurement {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or MEASUREMENTS:
        for what, value, unit in import_module(f"tests.bench.{name}").measure():
            print(f"{what:<48} {value:>12.2f} {unit}", flush=True)
    return 0


sys.exit(main(sys.argv[1:]))
