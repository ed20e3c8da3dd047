"""Statements of a rules file: rules for the engine, maps, allowances and names for values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ...engine.core.condition import Scalar
from ...engine.core.rule import Rule, RuleSource
from .patterns import Pattern

MAX_LIMIT = 1_000_000
SESSION = "session"
HUMAN = "human-approval"
MAX_PEOPLE = 10
MOST_REASON = 200
"""Most characters of the text after `because`."""


@dataclass(frozen=True, slots=True)
class Map:
    """`map tool.field pattern as name`: calls of `tool` with the pattern in `field` are also `name`.

    `shell` is for `map shell tool.field …`: the field holds a shell command (G-51).
    """

    tool: str
    field: str
    pattern: Pattern
    name: str
    source: RuleSource
    shell: bool = False


@dataclass(frozen=True, slots=True)
class Allowance:
    """`allow unclear tool`: calls of `tool` need no approval for being impossible to analyse (G-64)."""

    tool: str
    source: RuleSource


Value: TypeAlias = Scalar | tuple[Scalar, ...] | Pattern


@dataclass(frozen=True, slots=True)
class Sources:
    """`from user, email of get_contacts`: sources of values, as `from` in a condition accepts them."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """`let team = ["ada@x.org"]`: conditions of its file use `team` for the value, or the sources."""

    name: str
    value: Value | Sources
    source: RuleSource


Statement: TypeAlias = Rule | Map | Allowance | Let
