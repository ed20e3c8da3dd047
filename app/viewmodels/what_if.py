"""Trial of other nets: they decide the rest of a recorded session from a given moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...engine.history.model.records import NetRecord
from ...engine.history.model.state import SessionState
from ...engine.recording.records import net_record
from ...rules import RuleSet

OWN = "Its own rules: calls go by the names they were recorded under; a journal holds no `map` lines."
OTHER = (
    "Rules of the session with the same net keep its marking; all others start from their initial "
    "marking."
)
ALWAYS = (
    "From here on exactly the checked rules are active, whatever was switched later. Answered requests "
    "keep their answers; others count as approved."
)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Nets that decide the rest: those of `rules`, or the session's own; only `active` ones are on."""

    active: tuple[str, ...]
    rules: RuleSet | None = None

    @property
    def texts(self) -> Mapping[str, str] | None:
        """Return the rules' texts for the host of the journal."""
        return None if self.rules is None else self.rules.sources

    def words(self, state: SessionState) -> str:
        """Return a line that states which nets differ."""
        if self.rules is not None:
            of = len(self.rules.registry)
            files = ", ".join(self.rules.paths)
            off = of - len(self.active)
            return f"under {files}" + (f", {off} of its {of} rules off" if off else "")
        off = [key for key in state.active if key not in self.active]
        on = [key for key in self.active if key not in state.active]
        parts = [f"without {', '.join(off)}"] if off else []
        parts += [f"with {', '.join(on)}"] if on else []
        return " and ".join(parts) or "with its rules as they are here"


def nets_of(state: SessionState, rules: RuleSet | None) -> Mapping[str, NetRecord]:
    """Return the nets to choose from."""
    if rules is None:
        return {key: net.net for key, net in state.nets.items()}
    return {key: net_record(key, net) for key, net in rules.registry.items()}


def active_at(state: SessionState, rules: RuleSet | None) -> tuple[str, ...]:
    """Return the nets on by default: those on in the session, and those that the session lacks."""
    if rules is None:
        return tuple(state.active)
    return tuple(key for key in rules.registry if key not in state.nets or state.nets[key].active)
