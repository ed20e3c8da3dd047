"""What reaches down from an agent to the sessions its tools start: its hooks, and its limit."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .hooks import HookChain
from .spending import Spending

if TYPE_CHECKING:
    from .agent import Agent
    from .session import Session
    from .subagents import Children


@dataclass(frozen=True, slots=True)
class Above:
    """What holds for an agent because of those above it: their hooks, and what they may cost."""

    hooks: HookChain
    spending: Spending


class SupervisedChildren:
    """Makes children as `children` does, each under the hooks and the limit of the session above it."""

    def __init__(self, children: Children, above: Above) -> None:
        self._children = children
        self._above = above

    def open(self, agent: Agent, call_id: str) -> AbstractAsyncContextManager[Session]:
        """See `Children.open`."""
        return self._children.open(agent.below(self._above), call_id)
