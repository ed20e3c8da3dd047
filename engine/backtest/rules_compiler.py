"""Interface to the rules language, which the engine does not import: it is given one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn, Protocol

from ..core.condition import Condition
from ..history.redaction.shell.masking import QuotedWord
from ..net.net import SkillNet

if TYPE_CHECKING:
    from .suggestions.writer import RuleWriter


class Language(Protocol):
    """Reads rules where recorded calls are judged, and shell commands where they are shown.

    Rules travel as text, never as nets: how calls get their names (`map` lines, shell commands) is code,
    which no wire carries, and the texts are on the operator's machine, where the journal may not be.
    """

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        """The nets of texts by file name, by key. Raises `ValueError` with every problem."""
        ...

    def condition(self, text: str) -> Condition | None:
        """The condition in the text after `when`; `None` for an invalid one."""
        ...

    def commands(self, text: str) -> tuple[str, ...]:
        """The simple commands in a shell command (G-51), each as it is written, in their order."""
        ...

    def words(self, text: str) -> tuple[QuotedWord, ...] | None:
        """The words of a shell command in which something is literal; `None` where that is not known."""
        ...

    def programs(self, text: str) -> frozenset[str]:
        """The names of the programs that a shell command runs."""
        ...

    def writer(self) -> RuleWriter:
        """A writer of rules, for suggestions. Raises `ValueError` where there is none."""
        ...


class NoLanguage:
    """Reads nothing: for a hub without a language."""

    def compiled(self, rules: Mapping[str, str]) -> NoReturn:
        raise ValueError(
            f"nothing here reads rules, so {', '.join(rules)} cannot be judged by; "
            "give the hub a language when it is made"
        )

    def condition(self, text: str) -> None:
        return None

    def commands(self, text: str) -> tuple[str, ...]:
        return ()

    def words(self, text: str) -> None:
        return None

    def programs(self, text: str) -> frozenset[str]:
        return frozenset()

    def writer(self) -> NoReturn:
        raise ValueError("nothing here writes rules; give the hub a language when it is made")
