"""Comparison of rules files with the rules that a server runs, and what is proposed there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...engine.core.sanitize import visible
from ...engine.hub.api import RunningRules
from ...engine.net.net import SkillNet
from ...rules import compile_files
from ..format.rule_changes import RuleChanges, change_lines, text_lines

SAME = "The rules are the same."


@dataclass(frozen=True, slots=True)
class RulesComparison:
    """The rules of `files`, by name, compared with those that are `running`."""

    running: RunningRules
    files: Mapping[str, str]
    texts: tuple[str, ...]
    changes: RuleChanges

    @classmethod
    def between(cls, running: RunningRules, files: Mapping[str, str]) -> RulesComparison:
        """Compile and compare both. Raises `RuleError` and `NetError`."""
        changes = RuleChanges.between(_compiled(running.files), _compiled(files))
        return cls(running, files, tuple(text_lines(running.files, files)), changes)

    def __bool__(self) -> bool:
        return bool(self.texts or self.changes)

    def change_lines(self) -> list[str]:
        """Return the rules that differ, one line each."""
        return [*change_lines(self.changes)] if self.changes else [SAME]


def _compiled(files: Mapping[str, str]) -> Mapping[str, SkillNet]:
    return compile_files(files).registry if files else {}


def state_lines(running: RunningRules) -> Iterator[str]:
    """Yield lines on who replaced the rules since the server started, and on what is proposed."""
    if (applied := running.applied) is not None:
        people = " and ".join((*applied.others, applied.by))
        why = f": {applied.reason}" if applied.reason else ""
        yield visible(f"Applied by {people} at {applied.at:%Y-%m-%d %H:%M} UTC{why}")
    if (proposed := running.proposed) is not None:
        live = " for live sessions, too" if proposed.to == "all" else ""
        yield visible(
            f"Proposed by {' and '.join(proposed.by)}, {len(proposed.by)} of {proposed.people} "
            f"operators, until {proposed.expires:%H:%M} UTC{live}: {proposed.reason}"
        )
