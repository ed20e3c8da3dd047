"""Probe of a gate: a call that is blocked whatever the rules say, once the server has recorded it."""

from __future__ import annotations

from typing import Final

PROBE: Final = "interlock_probe"
"""Tool that a probe calls; no agent and no server has it."""
SHADOW: Final = ". The server is in shadow mode: it records decisions, and blocks no other call"
"""Behind `PROBED` where it is so: the gate is there, and stops nothing."""
PROBED: Final = "Interlock blocks this probe: the way to the gate, its server and its journal work"


def refusal_of_probe(*, shadow: bool) -> str:
    """The reason with which a probe is blocked."""
    return PROBED + SHADOW if shadow else PROBED
