"""Rules with their positions, for messages about several of them."""

from __future__ import annotations

from dataclasses import dataclass

from ...engine.core.rule import Rule, RuleSource, SequenceRule
from ..parse.lines import code


@dataclass(frozen=True, slots=True)
class LocatedRule:
    """A rule with its position and the key of its net."""

    key: str
    rule: Rule
    source: RuleSource

    @property
    def gated(self) -> str:
        """The tool that the rule restricts."""
        return self.rule.dependent if isinstance(self.rule, SequenceRule) else self.rule.tool

    def line(self, other: LocatedRule) -> str:
        """`line 4`, or `deploy.rules:4` if `other` is in another file."""
        is_same_file = self.source.file == other.source.file
        return f"line {self.source.line}" if is_same_file else self.source.where

    def brief(self, other: LocatedRule) -> str:
        """`line 4 (block rm)`, as used in a message at `other`."""
        return f"{self.line(other)} ({code(self.source.text).strip()})"
