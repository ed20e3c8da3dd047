"""Probe of a gate: a call that the server records and then blocks, whatever the rules say."""

from __future__ import annotations

from typing import Final

PROBE: Final = "interlock_probe"
"""Name of the tool that a probe calls; no agent and no server has such a tool."""
SHADOW: Final = ". The server is in shadow mode: it records decisions, and blocks no other call"
"""Appended to `PROBED` in shadow mode, in which the gate works but blocks no other call."""
PROBED: Final = "Interlock blocks this probe: the way to the gate, its server and its journal work"


def refusal_of_probe(*, shadow: bool) -> str:
    """Return the reason with which a probe is blocked."""
    return PROBED + SHADOW if shadow else PROBED
