"""Probe of a gate: a call that is blocked whatever the rules say, once the server has recorded it."""

from __future__ import annotations

from typing import Final

PROBE: Final = "interlock_probe"
"""Tool that a probe calls; no agent and no server has it."""
PROBED: Final = "Interlock blocks this probe: the way to the gate, its server and its journal work"
