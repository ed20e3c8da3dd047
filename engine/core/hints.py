"""Hints of tools: what the MCP server of a tool claims of it in the tool's annotations.

Nobody checks a claim, so hints prove nothing. In a session a server that claims otherwise than before has
claimed nothing: such a hint is missing from then on, and a rule that asks for it applies (G-113).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

Hint: TypeAlias = Literal["read_only", "destructive", "idempotent", "open_world"]
Hints: TypeAlias = Mapping[Hint, bool]

HINTS: Mapping[Hint, str] = MappingProxyType(
    {
        "read_only": "readOnlyHint",
        "destructive": "destructiveHint",
        "idempotent": "idempotentHint",
        "open_world": "openWorldHint",
    }
)
"""The hints as rules name them, each with the name that it has in MCP."""


def claimed_hints(annotations: object) -> dict[Hint, bool]:
    """The hints among a tool's annotations in MCP; what is neither true nor false is none."""
    if not isinstance(annotations, Mapping):
        return {}
    given = cast("Mapping[str, object]", annotations)
    return {name: value for name, in_mcp in HINTS.items() if isinstance(value := given.get(in_mcp), bool)}


def differing_hints(before: Mapping[str, bool], claimed: Hints) -> tuple[Hint, ...]:
    """The hints that two claims about one tool differ in, one that is only in one of them included."""
    return tuple(name for name in HINTS if before.get(name) is not claimed.get(name))


@dataclass(frozen=True, slots=True)
class ToolClaims:
    """Claims about one tool in a session: the hints that count, and those in which claims `differ`."""

    hints: Mapping[str, bool] = field(default_factory=dict[str, bool])
    differ: tuple[str, ...] = ()

    def joined(self, claimed: Hints) -> ToolClaims:
        """These and a later claim: only what both say counts."""
        differ = tuple(dict.fromkeys((*self.differ, *differing_hints(self.hints, claimed))))
        hints = {name: value for name, value in self.hints.items() if name not in differ}
        return ToolClaims(hints, differ)


def join_claims(known: ToolClaims | None, claimed: Hints, *, called: bool) -> ToolClaims:
    """Claims about a tool with a further one; `called` without any before, it had none until now."""
    if known is None:
        return ToolClaims().joined(claimed) if called else ToolClaims({**claimed})
    return known.joined(claimed)


class SessionClaims:
    """Claims in a session without a record; `called` has the tools that were called in it."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self._known: dict[str, ToolClaims] = {}

    def note(self, tool: str, claimed: Hints) -> dict[str, Mapping[str, bool]]:
        """Take in a claim; the hints of all tools that count from then on."""
        known = self._known.get(tool)
        self._known[tool] = join_claims(known, claimed, called=tool in self.called)
        return {name: each.hints for name, each in self._known.items()}
