"""Making a manager under the name that the reference has for it."""

from __future__ import annotations

from .manager import GateManager

create_gate_manager = GateManager
"""A gate over a list of nets, or over a `registry` from key to net: see `GateManager`."""
