"""Differences between two rule sets as lines: the texts of their files, then the compiled rules.

All text comes from files, some on another machine, and is made visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import PurePath

from ...engine.core.rule import people_to_loosen
from ...engine.core.sanitize import visible
from ...engine.gate.classify import maps_digest
from ...engine.net.net import SkillNet
from ...engine.recording.records import net_record


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """Nets that differ between two rule sets, by key, and whether the maps differ.

    A rule that only moved to another line or file counts as the same.
    """

    gone: Mapping[str, SkillNet]
    new: Mapping[str, SkillNet]
    changed: Mapping[str, tuple[SkillNet, SkillNet]]
    maps: bool

    def __bool__(self) -> bool:
        return bool(self.gone or self.new or self.changed or self.maps)

    @classmethod
    def between(cls, old: Mapping[str, SkillNet], new: Mapping[str, SkillNet]) -> RuleChanges:
        """Compare the nets of two rule sets."""
        return cls(
            gone={key: net for key, net in old.items() if key not in new},
            new={key: net for key, net in new.items() if key not in old},
            changed={
                key: (net, new[key])
                for key, net in old.items()
                if key in new and not _is_same(key, net, new[key])
            },
            maps=maps_digest(old.values()) != maps_digest(new.values()),
        )


def _is_same(key: str, one: SkillNet, other: SkillNet) -> bool:
    without_rules = (net_record(key, net).model_copy(update={"rule": None}) for net in (one, other))
    first, second = without_rules
    return first == second and _text(one).split() == _text(other).split()


def _text(net: SkillNet) -> str:
    source = None if net.rule is None else net.rule.source
    return "" if source is None else source.text.strip()


def change_lines(changes: RuleChanges) -> Iterator[str]:
    """Yield removed, new and changed rules, and a line if the maps differ."""
    for key, net in changes.gone.items():
        yield visible(f"- {key}: {_text(net)}{_people(net)}")
    for key, net in changes.new.items():
        yield visible(f"+ {key}: {_text(net)}")
    for key, (before, now) in changes.changed.items():
        same = _text(before) == _text(now)
        words = "under other maps or rules beside it" if same else f"now {_text(now)}"
        yield visible(f"~ {key}: {_text(before)}{_people(before)}, {words}")
    if changes.maps:
        yield "~ maps: calls may have other effects"


def _people(net: SkillNet) -> str:
    """Return how many people it takes to turn a rule off in a session."""
    people = people_to_loosen(net.rule)
    return (
        f" (takes {'another person' if people == 1 else f'{people} people'} to turn off)"
        if people
        else ""
    )


def text_lines(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yield unified diffs of files, matched by file name regardless of folder."""
    rest = dict(old)
    for name, text in new.items():
        before = next((each for each in rest if PurePath(each).name == PurePath(name).name), None)
        yield from _difference(before, "" if before is None else rest.pop(before), name, text)
    for name, text in rest.items():
        yield from _difference(name, text, None, "")


def _difference(old: str | None, before: str, new: str | None, now: str) -> Iterator[str]:
    first = "none" if old is None else f"running {old}"
    second = "none" if new is None else new
    lines = unified_diff(before.splitlines(), now.splitlines(), first, second, lineterm="")
    yield from map(visible, lines)
