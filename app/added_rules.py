"""Rules that a working directory adds, held against the user's: they may not take calls from those.

A rule on `anything-else` counts for what no other rule names. A file that names a tool, or maps its
calls, would take that tool's calls out of it, and an agent may write that file (G-66).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..engine.gate.name_changes import takes_from
from ..engine.text import visible
from ..rules import RuleError, compile_files, read_rules


def loosened_by(users: Sequence[str | Path], added: Sequence[str | Path]) -> str | None:
    """The rule of `users` that judges fewer calls beside the files `added`; `None` where none does.

    Files that cannot be read or compiled loosen nothing here: whoever uses them says what is wrong.
    """
    try:
        return loosened(read_rules(*users), read_rules(*added))
    except RuleError:
        return None


def loosened(users: Mapping[str, str], added: Mapping[str, str]) -> str | None:
    """The same of texts by the names of their files. Raises `RuleError`."""
    if not users or not added:
        return None
    own = [*compile_files(users).registry.values()]
    together = [*compile_files({**users, **added}).registry.values()]
    for guarded in own:
        if any(takes_from(net, guarded, own) for net in together):
            written = None if guarded.rule is None else guarded.rule.source
            return visible(guarded.name if written is None else written.text)
    return None
