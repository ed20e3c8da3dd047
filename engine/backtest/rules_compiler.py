"""Interface to the rules language, which the engine does not import: the caller passes one in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn, Protocol

from ..core.condition import Condition
from ..history.redaction.shell.masking import QuotedWord
from ..net.net import SkillNet

if TYPE_CHECKING:
    from .suggestions.writer import RuleWriter


class Language(Protocol):
    """Parses rules where recorded calls are judged, and shell commands where they are shown.

    Rules are sent as text, never as nets: the naming of calls (`map` lines, shell commands) is code,
    which cannot be sent over a wire, and the texts are on the operator's machine, where the journal may
    not be.
    """

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        """Nets of the texts by file name, by key. Raises `ValueError` with every problem."""
        ...

    def condition(self, text: str) -> Condition | None:
        """The condition in the text after `when`; `None` for an invalid one."""
        ...

    def commands(self, text: str) -> tuple[str, ...]:
        """The simple commands in a shell command (G-51), each as written, in order."""
        ...

    def words(self, text: str) -> tuple[QuotedWord, ...] | None:
        """Words of a shell command with their literal parts; `None` if unknown."""
        ...

    def programs(self, text: str) -> frozenset[str]:
        """Names of the programs that a shell command runs."""
        ...

    def writer(self) -> RuleWriter:
        """A writer of rules, for suggestions. Raises `ValueError` if there is none."""
        ...


class NoLanguage:
    """Language of a hub without one: parses nothing."""

    def compiled(self, rules: Mapping[str, str]) -> NoReturn:
        raise ValueError(
            f"this hub has no rules language, so it cannot judge by {', '.join(rules)}; "
            "pass a language when you create the hub"
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
        raise ValueError(
            "this hub has no rules language to write rules in; pass a language when you create the hub"
        )
