"""Interface for writing the rules language, which the engine does not import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...core.condition import Condition
from ...core.rule import Rule
from ...net.net import Input, SkillNet


class RuleWriter(Protocol):
    """Compiles rules, adds conditions to their lines, and writes calls into scenarios."""

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        """Nets of the texts by file name, by key. Raises `ValueError` with every problem."""
        ...

    def findings(self, rules: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Errors and warnings about rules that compile, found by proving them together."""
        ...

    def narrowed(self, line: str, rule: Rule, condition: Condition) -> str:
        """The line of a rule that applies only if `condition` holds as well."""
        ...

    def call_words(self, tool: str, values: Input) -> str | None:
        """A call as written in a scenario, without the word `call`; `None` if it cannot be written."""
        ...
