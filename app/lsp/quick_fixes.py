"""Quick fixes: replacements that a problem's remedy names, if they remove the problem."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...rules import Problem, RuleError
from ...rules.parse.lines import code
from ...rules.scenarios.scenarios import parse_scenarios
from .analysis import is_scenarios, statements

_WORD = re.compile(r"did you mean '([^'<>]+)'\?")
_LINE = re.compile(r"write: ([^<>…]+)")


@dataclass(frozen=True, slots=True)
class Fix:
    """Text that replaces `length` characters from a column of a line; both count from 1."""

    title: str
    line: int
    column: int
    length: int
    text: str


def fixes(text: str, problem: Problem) -> Iterator[Fix]:
    """Yield the replacement that a problem's remedy names, unless the line would still have an error."""
    if not problem.line:
        return
    for fix in _candidates(problem):
        if not _faults(problem.file, _applied(text, fix), problem.line):
            yield fix
            return


def _candidates(problem: Problem) -> Iterator[Fix]:
    word, line = _WORD.fullmatch(problem.remedy), _LINE.fullmatch(problem.remedy)
    if word is not None:
        title = f"Change to '{word[1]}'"
        yield Fix(title, problem.line, problem.column, problem.length, word[1])
    if line is not None:
        whole = code(problem.text)
        indent = len(whole) - len(whole.lstrip())
        title = f"Write: {line[1]}"
        yield Fix(title, problem.line, indent + 1, len(whole) - indent, line[1])
        yield Fix(title, problem.line, problem.column, problem.length, line[1])


def _applied(text: str, fix: Fix) -> str:
    lines = text.split("\n")
    row, at = lines[fix.line - 1], fix.column - 1
    lines[fix.line - 1] = row[:at] + fix.text + row[at + fix.length :]
    return "\n".join(lines)


def _faults(file: str, text: str, line: int) -> list[Problem]:
    """Return the problems of a line that keep its file from being parsed."""
    if is_scenarios(file):
        try:
            parse_scenarios(text, file=file)
        except RuleError as error:
            return [problem for problem in error.problems if problem.line == line]
        return []
    return [problem for problem in statements(file, text)[1] if problem.line == line]
