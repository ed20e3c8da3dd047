"""Implementation of the rules language for hubs and journals, which may not import it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from ...engine.core.condition import Condition
from ...engine.history.redaction.redaction import Redaction
from ...engine.history.redaction.shell.masking import QuotedWord
from ...engine.net.net import SkillNet
from ...rules import RuleError, RuleSet, compile_files, condition_of, read_rules

if TYPE_CHECKING:
    from ...engine.backtest.suggestions.writer import RuleWriter

CACHED_SETS = 4
"""Sets of rules that are not compiled again: a dialog shows their nets before they judge."""


@lru_cache(maxsize=CACHED_SETS)
def _compiled(texts: tuple[tuple[str, str], ...]) -> RuleSet:
    return compile_files(dict(texts))


def rules_of_files(*paths: str) -> RuleSet:
    """The rules of files on this machine. Raises `RuleError`."""
    return _compiled(tuple(read_rules(*paths).items()))


class RulesLanguage:
    """Reads rules and shell commands of this version; see `interlock.rules`."""

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        try:
            return _compiled(tuple(rules.items())).registry
        except RuleError as error:
            raise ValueError(str(error)) from error

    def condition(self, text: str) -> Condition | None:
        return condition_of(text)

    def commands(self, text: str) -> tuple[str, ...]:
        # Loaded with the first command: most programs that read rules never see one.
        from ...rules.shell import read

        return tuple(command.source for command in read(text).commands)

    def words(self, text: str) -> tuple[QuotedWord, ...] | None:
        from ...rules.shell.literals import literal_words

        found = literal_words(text)
        return None if found is None else tuple(QuotedWord(*word) for word in found)

    def programs(self, text: str) -> frozenset[str]:
        from ...rules.shell import read
        from ...rules.shell.literals import programs

        return programs(read(text).commands)

    def writer(self) -> RuleWriter:
        # Proofs and scenarios are imported with it, which only suggestions need.
        from .rules_writer import RulesWriter

        return RulesWriter()


LANGUAGE = RulesLanguage()


def redaction(also: Iterable[str] = ()) -> Redaction:
    """Masking of secrets for this program, which knows the literal words of a shell command."""
    return Redaction(also, LANGUAGE)
