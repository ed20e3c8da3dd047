"""Checks the rules that a working directory adds: they may not take calls from the user's rules.

A rule on `anything-else` applies to every tool that no other rule names. A file that names a tool, or
maps its calls, would exclude that tool's calls from it, and an agent may write that file (G-66).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...engine.core.sanitize import visible
from ...engine.gate.name_changes import takes_from
from .rule_texts import RuleTexts


def loosened(texts: RuleTexts, users: Sequence[str | Path], added: Sequence[str | Path]) -> str | None:
    """Rule of `users` that applies to fewer calls once the files `added` join it; `None` if none does.

    Raises `RuleError`.
    """
    if not users or not added:
        return None
    own = [*texts.compiled(*users).registry.values()]
    together = [*texts.compiled(*users, *added).registry.values()]
    for guarded in own:
        if any(takes_from(net, guarded, own) for net in together):
            written = None if guarded.rule is None else guarded.rule.source
            return visible(guarded.name if written is None else written.text)
    return None
