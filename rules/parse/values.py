"""Names for values: the `let` lines of a rules file, and the files that such lines name (G-85).

Texts of these files are passed together with the texts of the rules, under a separate kind of key, so
that a rules file cannot turn another one into a list of values.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lark import Token, Tree

from ...engine.core.rule import RuleSource
from ..errors.fault import Fault, start
from ..errors.problems import Problem, quote
from ..errors.value_errors import named_twice, no_lines, no_name
from ..ruleset import PREFIX
from .conditions import UNREAD, ValueFile, read_value
from .grammar import grammar
from .statements import Let, Value

MOST_LINES = 5_000
_LET = re.compile(r"[^\S\n]*let\s")


def has_names(text: str) -> bool:
    """Return whether a text may have a line that begins with `let`."""
    return "let" in text and any(_LET.match(line) for line in text.split("\n"))


@dataclass(slots=True)
class Names:
    """Names of one file, and the outcome of each `let` by its line's number."""

    values: dict[str, Let] = field(default_factory=dict[str, Let])
    lines: dict[int, tuple[Let | None, list[Fault]]] = field(
        default_factory=dict[int, "tuple[Let | None, list[Fault]]"]
    )


def read_names(text: str, file: str, texts: Mapping[str, str | Problem], rules: str) -> Names:
    """Names to which a file's `let` lines give values. `rules` is the grammar of its lines."""
    names = Names()
    for number, rule_line, words in _lets(text, rules):
        name, _, first = words
        source = RuleSource(file, number, start(words[0]) - len("let ") + 1, rule_line)
        line_faults = [fault] if (fault := no_name(name)) is not None else list[Fault]()
        if str(name) in names.values:
            line_faults.append(named_twice(name, names.values[str(name)].source.line))
        found, faults = read_value(rule_line, start(first))
        line_faults += faults
        if isinstance(found, ValueFile) and not faults:
            found = _from_file(found, file, texts, line_faults)
        let = (
            Let(str(name), found, source)
            if not line_faults and not isinstance(found, ValueFile)
            else None
        )
        names.lines[number] = let, line_faults
        if fault is None:
            # Uses of a value that could not be read are not reported as well.
            names.values.setdefault(str(name), let or Let(str(name), UNREAD, source))
    return names


def _lets(text: str, rules: str) -> Iterator[tuple[int, str, list[Token]]]:
    """Complete `let` lines of a text, with their numbers and their words."""
    for number, line in enumerate(text.split("\n"), 1):
        if _LET.match(line) is None:
            continue
        rule_line = line.rstrip("\r")
        reading = grammar(rules).read(rule_line)
        tree = reading.statement
        if isinstance(tree, Tree) and tree.data == "let" and reading.clean:
            yield number, rule_line, [word for word in reading.words if word.type != "LET"]


def value_files(text: str, file: str, rules: str) -> list[str]:
    """Keys of the files that a text's `let` lines read, with their paths after `PREFIX`."""
    if not has_names(text):
        return []
    found = (read_value(rule_line, start(words[-1]))[0] for _, rule_line, words in _lets(text, rules))
    return [key_of(value.path, file) for value in found if isinstance(value, ValueFile) and value.path]


def key_of(path: str, file: str) -> str:
    """Key of a file of values; relative paths start from the folder of the rules file."""
    folder = posixpath.dirname(file.replace(os.sep, "/"))
    return PREFIX + posixpath.normpath(posixpath.join(folder, path))


def _from_file(
    found: ValueFile, file: str, texts: Mapping[str, str | Problem], line_faults: list[Fault]
) -> Value:
    """Lines of a file that are neither empty nor comments. Faults are added to `wrong`."""
    text = texts.get(key_of(found.path, file))
    if isinstance(text, str):
        lines = [stripped for line in text.splitlines() if (stripped := line.strip())]
        values = tuple(line for line in lines if not line.startswith("#"))
        if 0 < len(values) <= MOST_LINES:
            return values
        line_faults.append(no_lines(found.word, len(values), MOST_LINES))
    elif text is None:
        message = f"{quote(found.word)} did not come with these rules"
        line_faults.append(Fault.at(found.word, message, "load them from a file, or write the list here"))
    else:
        at = f" in line {text.line}" if text.line else ""
        message = f"{quote(found.path)}{at}: {text.message.replace('rules file', 'file of values')}"
        line_faults.append(
            Fault.at(found.word, message, text.remedy.replace("rules file", "file of values"))
        )
    return ()
