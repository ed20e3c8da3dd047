"""Completion of rules and scenarios: words of the language, and known names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...engine.core.condition import SESSION_FIELDS
from ...engine.core.hints import HINTS
from ...engine.core.rule import ANYTHING_ELSE, UNCLEAR
from ...engine.core.sources import USER
from ...rules.editing.next_words import NameKind, next_rule_words, next_scenario_words
from ...rules.editing.occurrences import fields_of, let_names, rule_names, scenario_names
from .analysis import is_scenarios

ProposalKind: TypeAlias = Literal["keyword", "tool", "field", "value", "file"]

_KINDS: Mapping[NameKind, ProposalKind] = {
    "tool": "tool",
    "source": "tool",
    "mapped field": "field",
    "field": "field",
    "value": "value",
    "file": "file",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A word to be written from column `start`, which counts from 1."""

    word: str
    kind: ProposalKind
    start: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Names from outside the file: tools, and fields by tool."""

    tools: Sequence[str] = ()
    fields: Sequence[tuple[str, str]] = ()


def proposals(file: str, text: str, line: int, column: int, seen: Seen = Seen()) -> list[Proposal]:
    """Return proposals for a position in a file, likeliest first."""
    rows = text.split("\n")
    if line > len(rows):
        return []
    before = rows[line - 1][: column - 1]
    found = (
        next_scenario_words(before) if is_scenarios(file) else next_rule_words(before, let_names(text))
    )
    # The word being typed does not count as a name of the file.
    rows[line - 1] = before[: found.start] + rows[line - 1][column - 1 :]
    known = _Known(file, "\n".join(rows), line, seen)
    names = known.scenario_names if is_scenarios(file) else known.rule_names
    words = _of_kind(found.words, "keyword")
    for kind in sorted(found.names):
        words += _of_kind(names(kind), _KINDS[kind])
    return [Proposal(word, shown, found.start + 1) for word, shown in dict.fromkeys(words)]


def _of_kind(words: Iterable[str], kind: ProposalKind) -> list[tuple[str, ProposalKind]]:
    return [(word, kind) for word in words]


@dataclass(frozen=True, slots=True)
class _Known:
    """Names of a file and those seen elsewhere, for one of its lines."""

    file: str
    text: str
    line: int
    seen: Seen

    def scenario_names(self, kind: NameKind) -> Iterator[str]:
        """Yield rules files in the scenarios' folder, or the tools that the scenarios call."""
        if kind == "file":
            yield from _rules_files(os.path.dirname(self.file))
            return
        yield from (each.name for each in scenario_names(self.text))
        yield from self.seen.tools

    def rule_names(self, kind: NameKind) -> Iterator[str]:
        """Yield the names of a kind."""
        in_conditions, in_maps = fields_of(self.text)
        match kind:
            case "tool" | "source":
                names = rule_names(self.text)
                yield from (each.name for each in names if each.role in {"tool", "own", "map"})
                yield from self.seen.tools
                yield from (USER,) if kind == "source" else (ANYTHING_ELSE, UNCLEAR)
            case "mapped field":
                yield from in_maps
                yield from (f"{tool}.{field}" for tool, field in self.seen.fields)
            case "field":
                tools = self._tools_of_line()
                yield from (f"input.{field}" for tool, field in self.seen.fields if tool in tools)
                yield from in_conditions
                yield from (f"input.{field}" for _, field in self.seen.fields)
                yield from (f"session.{name}" for name in SESSION_FIELDS)
                yield from (f"hint.{name}" for name in HINTS)
            case "value":
                yield from sorted(let_names(self.text))
            case "file":
                return

    def _tools_of_line(self) -> set[str]:
        """Return the tools that the line names, and those whose calls get such a name by a map."""
        names = rule_names(self.text)
        tools = {each.name for each in names if each.line == self.line}
        maps = {each.line for each in names if each.role == "map" and each.name in tools}
        return tools | {each.name for each in names if each.role == "own" and each.line in maps}


def _rules_files(folder: str) -> list[str]:
    """Return the rules files of a folder whose names need no quotes."""
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except OSError:
        return []
    found = [name for name in names if name.endswith(".rules") and not is_scenarios(name)]
    return [name for name in found if not re.search(r'[\s"#]', name)]
