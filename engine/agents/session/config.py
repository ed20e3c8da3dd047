"""Settings of a session."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ...gate.types import CallGate
from ..hooks import HookChain
from ..models.base import Model
from ..runtime.base import Runtime
from ..stores.base import SessionStore
from ..tool import Tool
from ..turn.spending import Spending
from .inbox import FollowUp, SendMode

if TYPE_CHECKING:
    from .subagents import SubagentSessions

MAX_STEPS = 100
"""Default limit of a run's model calls."""

Spawn: TypeAlias = Callable[[Coroutine[None, None, None]], object]


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Settings of a session. `spawn` starts a run's coroutine; by default as a task.

    `subagents` creates the sessions of subagents; `spending` counts the cost of all of them. `compact_at`
    is the number of input tokens in a turn's last model call from which a compaction follows. With
    `tell_rules`, the model reads the gate's rules as sentences (G-73).
    """

    model: Model
    runtime: Runtime
    store: SessionStore
    tools: Mapping[str, Tool]
    gate: CallGate | None = None
    hooks: HookChain = field(default_factory=HookChain)
    system_prompt: str | None = None
    tell_rules: bool = True
    max_steps: int = MAX_STEPS
    compact_at: int | None = None
    send_mode: SendMode = "steer"
    follow_up: FollowUp = "one"
    spawn: Spawn | None = None
    subagents: SubagentSessions | None = None
    spending: Spending | None = None
