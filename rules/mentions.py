"""Maps by which mentioning a command unlocks what only running it should.

A map looks anywhere in a command unless its pattern says where. For what is blocked or asked for that is
right: `sudo rm` is `rm`. A name whose success unlocks something is another matter: `echo ./test` succeeds
too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..engine.rule import LimitRule, Rule, SequenceRule
from .advice import at_word
from .names import is_shell_field
from .problems import Problem, quote
from .statements import SESSION, Map

_ANCHOR = re.compile(r"\^|\\A|\\B")


def mentions(rules: Iterable[Rule], maps: Sequence[Map]) -> Iterable[Problem]:
    """A warning for every map of a shell command that an `echo` can satisfy, and so unlock a tool."""
    unlocks: dict[str, str] = {}
    for rule in rules:
        match rule:
            case SequenceRule(prerequisite, dependent) if prerequisite != dependent:
                unlocks.setdefault(prerequisite, dependent)
            case LimitRule(tool, _, scope, window=None) if scope != SESSION:
                unlocks.setdefault(scope, tool)
            case _:
                pass
    for m in maps:
        shell = m.shell or is_shell_field(m.field)
        if shell and m.name in unlocks and _anywhere(m):
            pattern = m.pattern.text
            word = not pattern.startswith("/")
            said = f"echo {pattern}" if word else "a command that only mentions it"
            message = f"{quote(said) if word else said} counts as {quote(m.name)} too, and unlocks "
            message += quote(unlocks[m.name])
            start = rf"/^{_escaped(pattern)}(\s|$)/" if word else "a pattern that begins with ^"
            remedy = f"write {start} to look only where a command begins"
            yield at_word(m.source, pattern, message, remedy)


def _anywhere(m: Map) -> bool:
    """Whether the pattern is met wherever it stands. Only a regular expression can say where."""
    text = m.pattern.text
    return not text.startswith("/") or _ANCHOR.search(text) is None


def _escaped(word: str) -> str:
    return re.escape(word).replace("/", r"\/").replace(r"\-", "-").replace("#", "x23")
