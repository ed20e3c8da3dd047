"""Hints of tools: the claims of a tool's MCP server in the tool's annotations.

Claims are not verified, so hints prove nothing. If a server changes its claim within a session, it counts
as having claimed nothing: the hint is missing from then on, and a rule that reads it applies (G-113).
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
"""Hints by their names in rules, each with its name in MCP."""


def claimed_hints(annotations: object) -> dict[Hint, bool]:
    """Hints in a tool's MCP annotations; values other than true and false are ignored."""
    if not isinstance(annotations, Mapping):
        return {}
    claims = cast("Mapping[str, object]", annotations)
    return {
        name: value for name, in_mcp in HINTS.items() if isinstance(value := claims.get(in_mcp), bool)
    }


def differing_hints(before: Mapping[str, bool], claimed: Hints) -> tuple[Hint, ...]:
    """Hints in which two claims about one tool differ, including those present in only one of them."""
    return tuple(name for name in HINTS if before.get(name) is not claimed.get(name))


@dataclass(frozen=True, slots=True)
class ToolClaims:
    """Claims about one tool in a session: the hints that count, and those in which claims `differ`."""

    hints: Mapping[str, bool] = field(default_factory=dict[str, bool])
    differ: tuple[str, ...] = ()

    def joined(self, claimed: Hints) -> ToolClaims:
        """These claims with a later one: only hints on which both agree count."""
        differ = tuple(dict.fromkeys((*self.differ, *differing_hints(self.hints, claimed))))
        hints = {name: value for name, value in self.hints.items() if name not in differ}
        return ToolClaims(hints, differ)


def join_claims(known: ToolClaims | None, claimed: Hints, *, called: bool) -> ToolClaims:
    """Claims about a tool, joined with a further one.

    If there were none before but the tool was `called`, it had claimed nothing until now.
    """
    if known is None:
        return ToolClaims().joined(claimed) if called else ToolClaims({**claimed})
    return known.joined(claimed)


class SessionClaims:
    """Claims in a session without a record; `called` has the tools that were called in it."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self._claims: dict[str, ToolClaims] = {}

    def note(self, tool: str, claimed: Hints) -> dict[str, Mapping[str, bool]]:
        """Add a claim; return the hints of all tools that count from then on."""
        previous = self._claims.get(tool)
        self._claims[tool] = join_claims(previous, claimed, called=tool in self.called)
        return {name: each.hints for name, each in self._claims.items()}
