"""Agent of a session as described in its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..agents.tool import labels_of
from ..core.condition import Shell
from .config import surroundings_of

if TYPE_CHECKING:
    from ..agents import Agent


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """Description of an agent, or of a flow, in the events that open and resume its sessions.

    `labels` are the tools' display names. `workdir` and `shell` are those of its calls, and `max_cost` is
    in US dollars. `tells_rules` says whether its model reads the rules in sentences (G-73).
    """

    name: str
    model: str = ""
    tools: tuple[str, ...] = ()
    workdir: str | None = None
    shell: Shell | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    max_cost: float | None = None
    tells_rules: bool = False

    @classmethod
    def of(cls, agent: Agent) -> AgentProfile:
        """Return the profile of an agent that is hosted here."""
        return cls(
            agent.name,
            agent.model.name,
            tuple(tool.name for tool in agent.tools),
            str(agent.runtime.cwd),
            surroundings_of(agent.runtime).shell,
            labels_of(agent.tools),
            agent.max_cost,
            agent.tell_rules,
        )
