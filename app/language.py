"""The rules language, as hubs and journals are given it: they cannot know it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ..engine.condition import Condition
from ..engine.net import SkillNet
from ..rules import RuleError, RuleSet, compile_files, condition_of, read_rules

KEPT = 4
"""Sets of rules that are not compiled again: a dialog shows their nets before they judge."""


@lru_cache(maxsize=KEPT)
def _compiled(texts: tuple[tuple[str, str], ...]) -> RuleSet:
    return compile_files(dict(texts))


def rules_of_files(*paths: str) -> RuleSet:
    """The rules of files on this machine. Raises `RuleError`."""
    return _compiled(tuple(read_rules(*paths).items()))


class RulesLanguage:
    """Reads rules of this version; see `engine.language`."""

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        try:
            return _compiled(tuple(rules.items())).registry
        except RuleError as error:
            raise ValueError(str(error)) from error

    def condition(self, text: str) -> Condition | None:
        return condition_of(text)


LANGUAGE = RulesLanguage()
