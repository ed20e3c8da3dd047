"""Interface to the rules language for what is written in it, which the engine does not import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...core.condition import Condition
from ...core.rule import Rule
from ...net.net import Input, SkillNet


class RuleWriter(Protocol):
    """Compiles rules, writes conditions into their lines, and calls into scenarios."""

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        """The nets of texts by file name, by key. Raises `ValueError` with every problem."""
        ...

    def findings(self, rules: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Errors and warnings of rules that compile, proved together."""
        ...

    def narrowed(self, line: str, rule: Rule, condition: Condition) -> str:
        """The line of a rule that applies only where `condition` holds besides."""
        ...

    def call_words(self, tool: str, values: Input) -> str | None:
        """A call as a scenario writes it, without the word `call`; `None` for one that cannot be."""
        ...
