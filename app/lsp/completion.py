"""Completion of rules and scenarios: words of the language, and names that are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...engine.core.rule import ANYTHING_ELSE, UNCLEAR
from ...engine.core.sources import USER
from ...rules.editing.next_words import NameKind, next_rule_words, next_scenario_words
from ...rules.editing.occurrences import fields_of, let_names, rule_names, scenario_names
from .analysis import is_scenarios

ProposalKind: TypeAlias = Literal["keyword", "tool", "field", "value"]

_KINDS: Mapping[NameKind, ProposalKind] = {
    "tool": "tool",
    "source": "tool",
    "mapped field": "field",
    "field": "field",
    "value": "value",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A word to write from column `start` on, which counts from 1."""

    word: str
    kind: ProposalKind
    start: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Names beyond a file's own: tools, and fields by their tool."""

    tools: Sequence[str] = ()
    fields: Sequence[tuple[str, str]] = ()


def proposals(file: str, text: str, line: int, column: int, seen: Seen = Seen()) -> list[Proposal]:
    """Proposals for a place of a file."""
    rows = text.split("\n")
    if line > len(rows):
        return []
    before = rows[line - 1][: column - 1]
    found = (
        next_scenario_words(before) if is_scenarios(file) else next_rule_words(before, let_names(text))
    )
    # The word that is being written is no name that the file has.
    rows[line - 1] = before[: found.start] + rows[line - 1][column - 1 :]
    names = _scenario_names if is_scenarios(file) else _rule_names
    words = _of_kind(found.words, "keyword")
    for kind in sorted(found.names):
        words += _of_kind(names(kind, "\n".join(rows), seen), _KINDS[kind])
    return [Proposal(word, shown, found.start + 1) for word, shown in dict.fromkeys(words)]


def _of_kind(words: Iterable[str], kind: ProposalKind) -> list[tuple[str, ProposalKind]]:
    return [(word, kind) for word in words]


def _scenario_names(_kind: NameKind, text: str, seen: Seen) -> Iterator[str]:
    """The tools that a file of scenarios calls, and those seen elsewhere."""
    yield from (each.name for each in scenario_names(text))
    yield from seen.tools


def _rule_names(kind: NameKind, text: str, seen: Seen) -> Iterator[str]:
    """The names of a kind that a rules file has, and those seen elsewhere."""
    in_conditions, in_maps = fields_of(text)
    match kind:
        case "tool" | "source":
            yield from (each.name for each in rule_names(text) if each.role in {"tool", "own", "map"})
            yield from seen.tools
            yield from (USER,) if kind == "source" else (ANYTHING_ELSE, UNCLEAR)
        case "mapped field":
            yield from in_maps
            yield from (f"{tool}.{field}" for tool, field in seen.fields)
        case "field":
            yield from in_conditions
            yield from (f"input.{field}" for _, field in seen.fields)
        case "value":
            yield from sorted(let_names(text))
