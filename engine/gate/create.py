"""A manager from a list of nets or from a registry, whichever there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from ..condition import NOWHERE, Surroundings
from ..net import NetError, SkillNet
from .keyed import Nets
from .manager import GateManager
from .types import Mode, OnDecision, RecordDecision


def create_gate_manager(
    nets: Nets | None = None,
    *,
    registry: Mapping[str, SkillNet] | None = None,
    active: Sequence[str] | None = None,
    mode: Mode = "enforce",
    on_decision: OnDecision | None = None,
    record: RecordDecision | None = None,
    explain_blocks: bool = False,
    surroundings: Surroundings = NOWHERE,
    clock: Callable[[], float] = time.time,
) -> GateManager:
    """A gate over a list of nets, or over a `registry` from key to net of which `active` start active.

    A mapping given as `nets` is a registry too. Raises `NetError` when both or neither are given, and
    as `GateManager` does.
    """
    if (nets is None) == (registry is None):
        raise NetError("Give either a list of nets or a registry")
    chosen = registry if nets is None else nets
    assert chosen is not None
    return GateManager(
        chosen,
        active=active,
        mode=mode,
        on_decision=on_decision,
        record=record,
        explain_blocks=explain_blocks,
        surroundings=surroundings,
        clock=clock,
    )
