"""Rule sets for external agents: the server's own rules, and named sets that agents may add."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from ...history.model.records import AppliedRules
from ...net.net import SkillNet
from ..protocol.framing import Code, WireError

KEPT = 64
"""Maximum number of combinations of sets that are kept compiled."""


class RuleSets:
    """The server's rules and the named sets.

    `compiled` returns the nets of the server's rules together with those of the given sets: maps of tool
    names in one set apply to all. It raises `NetError` or `ValueError`. `applied` records who replaced
    the server's rules by these.
    """

    def __init__(
        self,
        compiled: Callable[[tuple[str, ...]], Mapping[str, SkillNet]],
        names: Collection[str] = (),
    ) -> None:
        self.names = frozenset(names)
        self.applied: AppliedRules | None = None
        """Record of the replacement of the server's rules by these; `None` for the first rules."""
        self._always_nets = compiled(())
        self.always = frozenset(self._always_nets)
        self._compiled = lru_cache(KEPT)(compiled)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the server's own rules, in order."""
        return tuple(self._always_nets)

    @classmethod
    def of(cls, registry: Mapping[str, SkillNet]) -> RuleSets:
        """Create rule sets with the same nets for every agent."""
        return cls(lambda _: registry)

    async def registry(self, names: Collection[str]) -> Mapping[str, SkillNet]:
        """Return all nets for a session with these sets. Raises `WireError` for an unknown name."""
        for name in names:
            if name not in self.names:
                known_names = ", ".join(sorted(self.names)) or "none"
                raise WireError(
                    Code.PARAMS, f"no rules are named '{name}' here; there are: {known_names}"
                )
        if not names:
            return self._always_nets
        # Compiled in a thread, because it takes a while and would delay others' calls.
        return await asyncio.to_thread(self._compiled, tuple(sorted(set(names))))
