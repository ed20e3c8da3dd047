"""Parser of conditions, the text after `when`.

    input.env = "prod" and not (input.path under "docs/" or input.command matches /--dry-run/)

`condition.lark` is the grammar. Whether an operator can compare with a value is checked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import TypeAlias, cast

from lark import Token, Tree

from ...engine.core.condition import And, Compare, Condition, Not, Operator, Or, Quantifier, Root, Scalar
from ...engine.core.sources import member_source
from ..errors.condition_errors import (
    bad_escape,
    bad_pattern,
    empty_folder,
    no_scalar,
    no_value_but_sources,
    too_deep,
    too_large,
    unexpected,
    value_as_source,
    wrong_member,
    wrong_source,
    wrong_value,
)
from ..errors.fault import Fault
from ..errors.field_errors import no_hint, no_hint_value, no_session_field, wrong_quantity
from ..errors.problems import quote
from ..errors.value_errors import unexpected_value
from .grammar import Parsed, grammar
from .patterns import Pattern, PatternError, compile_regex, no_pattern
from .statements import Let, Sources, Value

GRAMMAR = "condition.lark"
MAX_DEPTH = 40
UNREAD: Value = ("",)
"""Value of a name whose own line is faulty, so that its uses are not checked."""
_INPUT_FIELD = re.compile(r'input(?:\.(?:"(?:[^"\\]|\\.)*"|[^.#()\[\]"=<>!,\s]+))+')
_PATH = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.]+)')

_Tree: TypeAlias = Tree[Token]


def read_condition(line: str, start: int = 0) -> tuple[Condition | None, list[Fault]]:
    """The condition in a line from `start` on, and its faults.

    Parsing ends at a misplaced word; in the part before it every fault is reported.
    """
    condition, reason, faults = read_clauses(line, start)
    if reason is not None:
        faults = [
            *faults,
            Fault.at(reason, f"a condition has no reason, got {quote(reason)}", "leave it out"),
        ]
    return (None if faults else condition), faults


def read_clauses(
    line: str, start: int = 0, names: Mapping[str, Let] | None = None
) -> tuple[Condition | None, Token | None, list[Fault]]:
    """The condition and the text of a following `because`, if any; otherwise like `read_condition`.

    `names` are the names of values.
    """
    names = names or {}
    parsed = _parsed(line, start, "line", names)
    deep = _too_deep(parsed.words)
    if deep is not None:
        return None, None, [too_deep(deep, MAX_DEPTH)]
    if parsed.tree is None:
        assert parsed.unexpected is not None
        return None, None, [unexpected(line, start, parsed.words, parsed.unexpected.word, names)]
    if parsed.tree.data == "line":
        return None, None, [unexpected(line, start, (), Token("$END", "", start_pos=len(line)))]
    reader, tree, reason = _ConditionReader(line, names), parsed.tree, None
    if tree.data == "reasoned":
        inner, reason = tree.children
        assert isinstance(inner, Tree)
        assert isinstance(reason, Token)
        tree = inner
    condition = reader.condition(tree)
    return (None if reader.faults else condition), reason, reader.faults


def read_value(line: str, start: int) -> tuple[Value | ValueFile | Sources, list[Fault]]:
    """The value or the sources of a `let` line, from `start` on, and the faults."""
    parsed = _parsed(line, start, "given", {})
    if parsed.tree is None:
        assert parsed.unexpected is not None
        return None, [unexpected_value(line, start, parsed.words, parsed.unexpected.word)]
    reader, tree = _ConditionReader(line, {}), cast("Token | _Tree", parsed.tree)
    if isinstance(tree, Tree) and tree.data == "file":
        path = _first(tree.children[-1])
        return ValueFile(reader.text(path), path), reader.faults
    if isinstance(tree, Tree) and tree.data == "sources":
        return Sources(reader.sources(tree.children[1:])), reader.faults
    value, _ = reader.value(tree)
    return value, reader.faults


@dataclass(frozen=True, slots=True)
class ValueFile:
    """`lines "payees.txt"`, the value of a `let`: a text for each line of a file."""

    path: str
    word: Token


def _parsed(line: str, begin: int, start: str, names: Mapping[str, Let]) -> Parsed:
    """Parse result of a line from `begin` on, with the positions of its words in the line."""
    parsed = grammar(GRAMMAR, told_apart=True, starts=("line", "given")).parse(line[begin:], start, names)
    for word in parsed.words:
        word.start_pos = begin + (word.start_pos or 0)
    if parsed.unexpected is not None:
        word = parsed.unexpected.word
        word.start_pos = len(line) if word.start_pos is None else begin + word.start_pos
    return parsed


def input_path(field: str) -> tuple[str, ...] | None:
    """Path of a field as written, `input.pr` or `input."a.b"`; `None` for anything else."""
    if _INPUT_FIELD.fullmatch(field) is None:
        return None
    names = [found[1] for found in _PATH.finditer(field, len("input"))]
    try:
        return tuple(json.loads(name) if name.startswith('"') else name for name in names)
    except json.JSONDecodeError:
        return None


def _too_deep(words: tuple[Token, ...]) -> Token | None:
    """The word at which parentheses and `not` are nested too deeply."""
    depth = nots = 0
    for word in words:
        match word.type:
            case "LPAR":
                depth += 1 + nots
                nots = 0
            case "RPAR":
                depth -= 1
            case "NOT":
                nots += 1
            case _:
                nots = 0
        if depth + nots > MAX_DEPTH:
            return word
    return None


class _ConditionReader:
    """Converts trees to conditions, and collects their faults."""

    def __init__(self, line: str, names: Mapping[str, Let]) -> None:
        self._line = line
        self._names = names
        self.faults: list[Fault] = []

    def condition(self, tree: _Tree) -> Condition:
        parts = [part for part in tree.children if isinstance(part, Tree)]
        match str(tree.data):
            case "either":
                return Or(tuple(self.condition(part) for part in parts))
            case "both":
                return And(tuple(self.condition(part) for part in parts))
            case "negation":
                return Not(self.condition(parts[0]))
            case "comparison" | "elements":
                return self._comparison(tree)
            case "presence":
                return self._presence(tree)
            case "sourced":
                return self._sourced(tree)
            case other:
                raise AssertionError(f"{GRAMMAR} has a condition that nothing here makes: {other}")

    def _comparison(self, tree: _Tree) -> Condition:
        *quantified, field, operator, value = tree.children
        assert isinstance(field, Token)
        negated = isinstance(operator, Tree) and operator.data == "negated"
        quantifying = _first(quantified[0]) if quantified else None
        quantifier = None if quantifying is None else _quantifier(quantifying, turned=negated)
        sign = _first(operator)
        name = cast("Operator", str(sign))
        value_read, last = self.value(value)
        given = str(last) if last.type == "NAME" else None
        first = _first(value)
        kind = first.type if given is None else _kind(value_read)
        fault = None
        if isinstance(value_read, Sources):
            self.faults.append(no_value_but_sources(self._line, field, sign, last, negated=negated))
            value_read = None
        elif value_read is not UNREAD:
            fault = wrong_value(self._line, field, sign, (first, last), kind, negated=negated)
        if fault is not None:
            self.faults.append(fault)
            value_read = None
        elif name == "under" and (value_read == "" or "\0" in str(value_read)):
            self.faults.append(empty_folder(last))
        start, end = field.start_pos or 0, (last.start_pos or 0) + len(last)
        path = self._path(field)
        self._check_quantity(field, path, name, quantifying)
        if _root(field) == "hint" and not self.faults and not isinstance(value_read, bool):
            self.faults.append(no_hint_value(self._line, field, first, last))
        compare = Compare(path, name, value_read, start, end, quantifier, given, _root(field))
        return Not(compare) if negated else compare

    def _presence(self, tree: _Tree) -> Condition:
        field, words = (_first(part) for part in tree.children)
        start, end = field.start_pos or 0, (words.start_pos or 0) + len(words)
        return Compare(self._path(field), "is", words.split()[-1], start, end, root=_root(field))

    def _sourced(self, tree: _Tree) -> Condition:
        field, origin, *sources = (part for part in tree.children if not _is_quantifier(part))
        field, last, names = _first(field), _words(sources[-1])[-1], self.sources(sources)
        quantifier = _first(tree.children[0]) if _is_quantifier(tree.children[0]) else None
        start, end = field.start_pos or 0, (last.start_pos or 0) + len(last)
        path, turned = self._path(field), isinstance(origin, Tree) and origin.data == "negated"
        self._check_quantity(field, path, "from", quantifier)
        every = None if quantifier is None else _quantifier(quantifier, turned=turned)
        written = self._line[_first(sources[0]).start_pos or 0 : end] if _is_named(sources) else None
        compare = Compare(path, "from", names, start, end, every, written, _root(field))
        return Not(compare) if turned else compare

    def sources(self, parts: Iterable[Token | _Tree]) -> tuple[str, ...]:
        """The written sources, and those of named values, without duplicates."""
        return tuple(dict.fromkeys(name for part in parts for name in self._named(*_words(part))))

    def _named(self, first: Token, *rest: Token) -> tuple[str, ...]:
        if first.type != "NAME" or rest:
            return (self._source(first, *rest),)
        value = self._names[str(first)].value
        if isinstance(value, Sources):
            return value.names
        if value is not UNREAD:
            self.faults.append(value_as_source(self._line, first))
        return ()

    def _source(self, first: Token, *rest: Token) -> str:
        """Name of a source; after `of` comes the tool whose results have the member."""
        word = rest[-1] if rest else first
        name = self.text(word) if word.type == "TEXT" else str(word)
        fault = wrong_source(self._line, word, name)
        path = (self.text(first),) if first.type == "TEXT" else tuple(first.split("."))
        if rest and fault is None:
            fault = wrong_member(self._line, first, path, name)
        if fault is not None:
            self.faults.append(fault)
            return name
        return member_source(path, name) if rest else name

    def _path(self, field: Token) -> tuple[str, ...]:
        names: list[str] = []
        for found in _PATH.finditer(field, field.index(".")):
            name = found[1]
            if name.startswith('"'):
                begin = (field.start_pos or 0) + found.start(1)
                name = self.text(Token("TEXT", name, start_pos=begin))
            names.append(name)
        if _root(field) == "session" and (fault := no_session_field(self._line, field, names)):
            self.faults.append(fault)
        if _root(field) == "hint" and (fault := no_hint(self._line, field, names)):
            self.faults.append(fault)
        return tuple(names)

    def _check_quantity(
        self, field: Token, path: tuple[str, ...], operator: Operator, quantifier: Token | None
    ) -> None:
        """Add a fault if a field with a single value is compared like a list, or the other way round."""
        if _root(field) != "input" and not self.faults:
            fault = wrong_quantity(self._line, field, path[0], operator, quantifier)
            self.faults += [] if fault is None else [fault]

    def value(self, part: Token | _Tree) -> tuple[Value | Sources, Token]:
        """A value, or the sources that a name stands for, and its last word."""
        if isinstance(part, Token):
            if part.type == "NAME":
                return self._names[str(part)].value, part
            return self._pattern(part), part
        if part.data != "list":
            word = _first(part)
            return self._scalar(word), word
        last = part.children[-1]
        assert isinstance(last, Token)
        inside = part.children[1:-1]
        for item in inside:
            word = _first(item)
            if word.type in {"REGEX", "LSQB"}:
                self.faults.append(no_scalar(word))
                return (), last
        return tuple(self._scalar(_first(item)) for item in inside if isinstance(item, Tree)), last

    def _scalar(self, word: Token) -> Scalar:
        match word.type:
            case "TEXT":
                return self.text(word)
            case "NUMBER":
                return self._number(word)
            case "TRUE":
                return True
            case "FALSE":
                return False
            case _:
                return None

    def text(self, word: Token) -> str:
        try:
            return cast("str", json.loads(word, strict=False))
        except json.JSONDecodeError as error:
            self.faults.append(bad_escape(word, error))
            return "?"

    def _number(self, word: Token) -> int | float:
        try:
            number = cast("int | float", json.loads(word))
            if not (isinstance(number, float) and isinf(number)):
                return number
        except ValueError:
            # Python does not read integers with more than some thousand digits.
            pass
        self.faults.append(too_large(word))
        return 0

    def _pattern(self, word: Token) -> Value:
        try:
            if word in {"//", "//i"}:
                raise no_pattern(str(word))
            return compile_regex(str(word))
        except PatternError as error:
            self.faults.append(bad_pattern(word, error))
            return Pattern(str(word), _nothing, "")


def _kind(value: Value | Sources) -> str:
    """Type of the word with which a value begins as written."""
    match value:
        case bool() | None:
            return str(value).upper()
        case str():
            return "TEXT"
        case int() | float():
            return "NUMBER"
        case tuple():
            return "LSQB"
        case Pattern():
            return "REGEX"
        case Sources():
            return "FROM"


def _root(field: Token) -> Root:
    return cast("Root", field.partition(".")[0])


def _is_quantifier(part: Token | _Tree) -> bool:
    return isinstance(part, Tree) and part.data == "quantifier"


def _quantifier(word: Token, *, turned: bool) -> Quantifier:
    """Quantifier of a comparison whose rest is `turned` (negated): `any … not` is not `every`."""
    return "every" if (word == "every") is not turned else "any"


def _nothing(_text: str) -> bool:
    return False


def _words(source: Token | _Tree) -> list[Token]:
    """Words of a source, without the `of` between a member and its tool."""
    words = [source] if isinstance(source, Token) else list(source.scan_values(lambda _: True))
    return [word for word in words if word.type != "OF"]


def _is_named(sources: Sequence[Token | _Tree]) -> bool:
    """Return whether a name stands for some of the sources."""
    return any(_first(source).type == "NAME" and len(_words(source)) == 1 for source in sources)


def _first(part: Token | _Tree) -> Token:
    """First word of a part of a condition."""
    while isinstance(part, Tree):
        part = part.children[0]
    return part
