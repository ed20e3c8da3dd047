"""The rules language as used by suggestions."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.core.condition import Condition
from ...engine.core.rule import Rule
from ...engine.net.net import Input, SkillNet
from ...rules import Problem, RuleError, RuleSet, compile_files
from ...rules.analysis.findings import examine
from ...rules.editing.narrowing import narrowed
from ...rules.scenarios.written_call import call_words


class RulesWriter:
    """Compiles rules, verifies them together, and writes conditions and calls."""

    def __init__(self) -> None:
        self._last: tuple[dict[str, str], RuleSet] | None = None

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        return self._set(rules).registry

    def findings(self, rules: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found = examine(self._set(rules))
        return tuple(map(_sentence, found.errors)), tuple(map(_sentence, found.warnings))

    def narrowed(self, line: str, rule: Rule, condition: Condition) -> str:
        return narrowed(line, rule.when, condition)

    def call_words(self, tool: str, values: Input) -> str | None:
        return call_words(tool, values)

    def _set(self, rules: Mapping[str, str]) -> RuleSet:
        """Compile the rules; the result is cached until others are given. Raises `ValueError`."""
        if self._last is None or self._last[0] != rules:
            try:
                self._last = dict(rules), compile_files(rules)
            except RuleError as error:
                raise ValueError(str(error)) from error
        return self._last[1]


def _sentence(problem: Problem) -> str:
    place = f"{problem.file}:{problem.line}" if problem.line else problem.file
    return f"{place}: {problem.message}"
