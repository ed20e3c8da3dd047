"""Rule sets for external agents: the server's own rules, and named sets that agents may add."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from ...history.model.records import AppliedRules
from ...net.net import SkillNet
from ..protocol.framing import Code, WireError

KEPT = 64
"""Combinations of sets that are kept compiled."""


class RuleSets:
    """The server's rules and the named sets.

    `compiled` gives the nets of the server's rules together with the sets of these names: what one says
    about names of tools applies to all. Its errors are `NetError` or `ValueError`. `applied` says who
    replaced the server's rules by these.
    """

    def __init__(
        self,
        compiled: Callable[[tuple[str, ...]], Mapping[str, SkillNet]],
        names: Collection[str] = (),
    ) -> None:
        self.names = frozenset(names)
        self.applied: AppliedRules | None = None
        """Replacement of the server's rules by these; `None` for the first."""
        self._own = compiled(())
        self.always = frozenset(self._own)
        self._compiled = lru_cache(KEPT)(compiled)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the server's own rules, in their order."""
        return tuple(self._own)

    @classmethod
    def of(cls, registry: Mapping[str, SkillNet]) -> RuleSets:
        """The same nets for every agent."""
        return cls(lambda _: registry)

    async def registry(self, names: Collection[str]) -> Mapping[str, SkillNet]:
        """All nets for a session with these sets. Raises `WireError` for an unknown name."""
        for name in names:
            if name not in self.names:
                known = ", ".join(sorted(self.names)) or "none"
                raise WireError(Code.PARAMS, f"no rules are named '{name}' here; there are: {known}")
        if not names:
            return self._own
        # Compiling takes a while, and others wait for their calls.
        return await asyncio.to_thread(self._compiled, tuple(sorted(set(names))))
