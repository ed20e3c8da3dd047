"""Implementation of the rules language for hubs and journals, which may not import it themselves."""

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
"""Number of compiled rule sets that are cached: a dialog shows their nets before they are applied."""


@lru_cache(maxsize=CACHED_SETS)
def _compiled(texts: tuple[tuple[str, str], ...]) -> RuleSet:
    return compile_files(dict(texts))


def rules_of_files(*paths: str) -> RuleSet:
    """Compile rules files on this machine. Raises `RuleError`."""
    return _compiled(tuple(read_rules(*paths).items()))


class RulesLanguage:
    """Parser of rules and shell commands in this version; see `interlock.rules`."""

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        try:
            return _compiled(tuple(rules.items())).registry
        except RuleError as error:
            raise ValueError(str(error)) from error

    def condition(self, text: str) -> Condition | None:
        return condition_of(text)

    def commands(self, text: str) -> tuple[str, ...]:
        # Imported with the first command: most programs that read rules never parse one.
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
        # This imports verification and scenarios, which only suggestions need.
        from .rules_writer import RulesWriter

        return RulesWriter()


LANGUAGE = RulesLanguage()


def redaction(also: Iterable[str] = ()) -> Redaction:
    """Return the masking of secrets, which uses the literal words of a shell command."""
    return Redaction(also, LANGUAGE)
