"""What a session is hosted on, and where its nets stand when a record goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from .gate.types import Mode
from .history.state import SessionState
from .net import SkillNet
from .resuming import Nets, Standing, standing, with_required


@dataclass(frozen=True, slots=True)
class Terms:
    """What a session is hosted on.

    `None` for `active` and `mode` is what the record says, if there is one. `nets` says whether a record
    may go on under other nets than its own; `reason` is why it may go on under less (G-67). `required`
    are nets of the host's own: they are active unless people switched them off in the record.
    """

    registry: Mapping[str, SkillNet]
    active: Sequence[str] | None = None
    mode: Mode | None = None
    by: str | None = None
    explain_blocks: bool = False
    source: dict[str, JsonValue] | None = None
    nets: Nets = "recorded"
    reason: str | None = None
    required: Collection[str] = ()

    def fit(self, state: SessionState) -> Standing:
        """Where its nets stand after `state`. Raises `ResumeError` when they do not fit it."""
        fit = standing(state, self.registry, active=self.active, nets=self.nets)
        return with_required(fit, state, self.registry, self.required)
