"""What the engine asks of the rules language, which it does not know: it only has what is given to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, Protocol

from .condition import Condition
from .net import SkillNet


class Language(Protocol):
    """Reads rules where recorded calls are judged.

    Rules travel as text, never as nets: how calls get their names (`map` lines, shell commands) is code,
    which no wire carries, and the texts are on the operator's machine, where the journal may not be.
    """

    def compiled(self, rules: Mapping[str, str]) -> Mapping[str, SkillNet]:
        """The nets of texts by file name, by key. Raises `ValueError` with every problem."""
        ...

    def condition(self, text: str) -> Condition | None:
        """What stands after `when`; `None` for a text that is none."""
        ...


class NoLanguage:
    """Reads nothing: for a hub that nobody gave a language to."""

    def compiled(self, rules: Mapping[str, str]) -> NoReturn:
        raise ValueError(
            f"nothing here reads rules, so {', '.join(rules)} cannot be judged by; "
            "give the hub a language when it is made"
        )

    def condition(self, text: str) -> None:
        return None
