"""Occurrences of names in rules files and in scenario files, with their positions.

In a faulty line, the names that can be parsed are found.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lark import Token, Tree

from ...engine.core.rule import RESERVED
from ...engine.core.sources import USER
from ..errors.fault import Fault, start
from ..parse.conditions import GRAMMAR as CONDITIONS
from ..parse.grammar import Grammar, LineReading, grammar
from ..parse.syntax import GRAMMAR as RULES
from ..scenarios.call_input import read_text
from ..scenarios.scenarios import GRAMMAR as SCENARIOS

Role: TypeAlias = Literal["tool", "own", "map", "let", "value"]
"""`own` is a tool by its own name, which no map gives. `map` and `let` define a name, of calls and of a
value; `tool` and `value` use one.
"""

VALUE_ROLES = frozenset[Role]({"let", "value"})
_CONDITION_ROLES: Mapping[str, Role] = {"NAME": "value", "WORD": "own"}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name with its line and column, both counted from 1; columns count characters."""

    name: str
    role: Role
    line: int
    column: int

    @property
    def end(self) -> int:
        """The column after the name."""
        return self.column + len(self.name)

    @property
    def defines(self) -> bool:
        """True if the name is defined here."""
        return self.role in {"map", "let"}

    def same_name(self, other: Occurrence) -> bool:
        """Return whether both names mean the same thing: a value, or calls."""
        return self.name == other.name and (self.role in VALUE_ROLES) == (other.role in VALUE_ROLES)


def condition_grammar() -> Grammar:
    """Grammar of conditions and values."""
    return grammar(CONDITIONS, told_apart=True, starts=("line", "given"))


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a rules file with their numbers from 1."""
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.rstrip("\r")


def let_names(text: str) -> frozenset[str]:
    """Names of values in a rules file."""
    found: set[str] = set()
    for _, line in numbered_lines(text):
        if line.lstrip().startswith("let") and (name := _let_name(grammar(RULES).read(line))):
            found.add(str(name))
    return frozenset(found)


def rule_names(text: str) -> list[Occurrence]:
    """Names in a rules file, in order, without reserved ones."""
    values = let_names(text)
    found: list[Occurrence] = []
    for number, line in numbered_lines(text):
        reading = grammar(RULES).read(line)
        if reading.statement is not None:
            names = (*_of_statement(reading), *_of_condition(line, reading, values))
            found += [Occurrence(str(word), role, number, start(word) + 1) for word, role in names]
    return sorted(found, key=lambda each: (each.line, each.column))


def fields_of(text: str) -> tuple[list[str], list[str]]:
    """Fields named in a rules file: in conditions, such as `input.env`, and in maps, such as
    `bash.command`.
    """
    in_conditions: dict[str, None] = {}
    in_maps: dict[str, None] = {}
    for _, line in numbered_lines(text):
        reading = grammar(RULES).read(line)
        for word in reading.words:
            if word.type == "CONDITION":
                words = condition_grammar().parse(line[start(word) :]).words
                in_conditions.update(dict.fromkeys(str(each) for each in words if each.type == "FIELD"))
            elif word.type == "FIELD":
                in_maps[str(word)] = None
    return [*in_conditions], [*in_maps]


def scenario_names(text: str) -> list[Occurrence]:
    """Tools that a scenario file calls."""
    found: list[Occurrence] = []
    for number, line in numbered_lines(text):
        reading = grammar(SCENARIOS).read(line)
        if reading.statement is not None and reading.statement.data == "call" and len(reading.words) > 1:
            word = reading.words[1]
            found.append(Occurrence(str(word), "tool", number, start(word) + 1))
    return found


@dataclass(frozen=True, slots=True)
class UsedPath:
    """A path in a `use` line, with its column from 1 and the column after it."""

    path: str
    column: int
    end: int


def used_paths(line: str) -> list[UsedPath]:
    """Paths in a `use` line of scenarios; empty for other lines, and for one with a faulty text."""
    reading = grammar(SCENARIOS).read(line.rstrip("\r"))
    if reading.statement is None or reading.statement.data != "use" or not reading.clean:
        return []
    faults: list[Fault] = []
    words = [(read_text(word, faults), start(word) + 1, len(word)) for word in reading.words[1:]]
    return [] if faults else [UsedPath(path, column, column + length) for path, column, length in words]


def _of_statement(reading: LineReading) -> Iterator[tuple[Token, Role]]:
    """Names in a statement, without those in its condition."""
    assert reading.statement is not None
    kind = str(reading.statement.data)
    unexpected_ids = {id(unexpected.word) for unexpected in reading.unexpected}
    words = [word for word in _tokens(reading.statement) if word and id(word) not in unexpected_ids]
    for word in words:
        if word.type == "FIELD" and kind in {"map", "shell_map"}:
            yield Token.new_borrow_pos("WORD", word.partition(".")[0], word), "own"
        elif word.type == "WORD" and kind == "let":
            yield word, "let"
        elif word.type == "WORD" and word not in RESERVED:
            yield word, "map" if kind in {"map", "shell_map"} and word is words[-1] else "tool"


def _of_condition(
    line: str, reading: LineReading, values: Container[str]
) -> Iterator[tuple[Token, Role]]:
    """Names in the condition of a line: of values, and of tools as sources."""
    condition = next((word for word in reading.words if word.type == "CONDITION"), None)
    if condition is None:
        return
    begin = start(condition)
    words = condition_grammar().parse(line[begin:], "line", values).words
    for at, word in enumerate(words):
        role = _CONDITION_ROLES.get(word.type)
        member = any(behind.type == "OF" for behind in words[at + 1 : at + 2])
        if role is not None and word != USER and not member:
            yield Token(word.type, str(word), start_pos=begin + start(word)), role


def _let_name(reading: LineReading) -> Token | None:
    """The name in a line that begins with `let`."""
    tree, words = reading.statement, reading.words
    is_let = tree is not None and tree.data == "let" and len(words) > 1 and words[1].type == "WORD"
    return words[1] if is_let else None


def _tokens(tree: Tree[Token]) -> Iterator[Token]:
    """Words of a tree, in order."""
    for child in tree.children:
        if isinstance(child, Tree):
            yield from _tokens(child)
        else:
            yield child
