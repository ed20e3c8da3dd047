"""Settings that a session runs on."""

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
"""A run's model calls at most, where nobody says otherwise."""

Spawn: TypeAlias = Callable[[Coroutine[None, None, None]], object]


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Settings of a session. `spawn` starts a run's coroutine; by default as a task.

    `subagents` makes the sessions of subagents; `spending` counts what all of them cost. `compact_at` is
    how many input tokens of a turn's last model call make for a compaction after it. With `tell_rules`
    the model reads the gate's rules in sentences (G-73).
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
