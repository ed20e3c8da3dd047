"""Definitions, references, outline, and renaming of names in rules files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...engine.core.sanitize import visible
from ...rules import RuleError
from ...rules.editing.occurrences import (
    VALUE_ROLES,
    Occurrence,
    rule_names,
    scenario_names,
    used_paths,
)
from ...rules.errors.problems import cut, quote
from ...rules.parse.lines import code
from ...rules.parse.statements import Let, Map
from ...rules.scenarios.scenarios import parse_scenarios
from .analysis import Analysis, is_scenarios, statements
from .hover import occurrence_at

LineKind: TypeAlias = Literal["rule", "map", "let", "use", "scenario"]


class RenameError(ValueError):
    """A name cannot be renamed; the message says why."""


@dataclass(frozen=True, slots=True)
class OutlineLine:
    """A statement of a file: its text, kind, line and column, from 1."""

    text: str
    kind: LineKind
    line: int
    column: int


def names_in(file: str, text: str) -> list[Occurrence]:
    """Return the names in a file of rules or scenarios."""
    return scenario_names(text) if is_scenarios(file) else rule_names(text)


def references(file: str, text: str, line: int, column: int) -> list[Occurrence]:
    """Return all occurrences of the name at a position; empty if there is no name."""
    names = names_in(file, text)
    here = occurrence_at(names, line, column)
    return [] if here is None else [each for each in names if each.same_name(here)]


def definitions(file: str, text: str, line: int, column: int) -> list[Occurrence]:
    """Return the maps and the `let` that define the name at a position."""
    return [each for each in references(file, text, line, column) if each.defines]


def used_file(file: str, text: str, line: int, column: int) -> str | None:
    """Return the path of the rules file that a `use` line names at a position; otherwise `None`."""
    paths = used_paths(text.split("\n")[line - 1]) if is_scenarios(file) else ()
    for each in paths:
        path = os.path.join(os.path.dirname(file), each.path)
        if each.column <= column <= each.end and os.path.isfile(path):
            return path
    return None


def renamable(analysis: Analysis, line: int, column: int) -> Occurrence:
    """Return the name at a position if it can be renamed. Raises `RenameError`."""
    here = occurrence_at(names_in(analysis.file, analysis.text), line, column)
    if here is None or is_scenarios(analysis.file):
        raise RenameError("only names of values and mapped names can be renamed, in their rules file")
    found = references(analysis.file, analysis.text, line, column)
    if not any(each.defines for each in found):
        raise RenameError(f"{visible(quote(here.name))} is a tool's own name and not defined in a file")
    if here.role not in VALUE_ROLES and any(each.role == "own" for each in found):
        raise RenameError(f"{visible(quote(here.name))} is also a tool's own name")
    if analysis.rules is None:
        raise RenameError("the file has errors, so not all names are found: fix them first")
    return here


def renamed(analysis: Analysis, line: int, column: int, name: str) -> list[Occurrence]:
    """Return the occurrences that change if the name at a position becomes `name`.

    Raises `RenameError`.
    """
    here = renamable(analysis, line, column)
    names = names_in(analysis.file, analysis.text)
    is_value = here.role in VALUE_ROLES
    names_taken = {each.name for each in names if (each.role in VALUE_ROLES) == is_value}
    if name in names_taken:
        raise RenameError(f"{visible(quote(name))} is already a name in this file")
    found = [each for each in names if each.same_name(here)]
    lines = analysis.text.split("\n")
    for each in reversed(found):
        row, at = lines[each.line - 1], each.column - 1
        lines[each.line - 1] = row[:at] + name + row[at + len(each.name) :]
    changed = "\n".join(lines)
    fault = next(iter(statements(analysis.file, changed)[1]), None)
    if fault is not None:
        raise RenameError(visible(f"{fault.message}: {fault.remedy}" if fault.remedy else fault.message))
    new_names = [each.name for each in names_in(analysis.file, changed)]
    if new_names != [name if each in found else each.name for each in names]:
        raise RenameError(f"{visible(quote(name))} would not be read as one name")
    return found


def outline(file: str, text: str) -> Iterator[OutlineLine]:
    """Yield the statements of a file that can be parsed, in order."""
    if is_scenarios(file):
        yield from _scenario_outline(file, text)
        return
    for statement in statements(file, text)[0]:
        source = statement.source
        kind: LineKind = "map" if isinstance(statement, Map) else "rule"
        if isinstance(statement, Let):
            kind = "let"
        if source is not None:
            yield OutlineLine(_shown(source.text), kind, source.line, source.column)


def _scenario_outline(file: str, text: str) -> Sequence[OutlineLine]:
    try:
        parsed = parse_scenarios(text, file=file)
    except RuleError:
        return ()
    uses = {use.spot.line: use.spot for use in parsed.uses}
    found = [OutlineLine(_shown(spot.text), "use", spot.line, spot.column) for spot in uses.values()]
    for scenario in parsed.scenarios:
        spot = scenario.spot
        found.append(OutlineLine(visible(scenario.name), "scenario", spot.line, spot.column))
    return found


def _shown(line: str) -> str:
    return visible(cut(code(line).strip()))
