"""Calls that there can be, as far as the names that nets gate tell.

A name that a map gives (`deploy`, of a `bash` call) comes with the tool's own name; one call may also
have several such names at once (`./test && ./deploy`). Those combinations are too many to list, so there
are two lists: calls that surely exist, and calls so loose that they do all that a combination does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ..core.rule import (
    ANYTHING_ELSE,
    RESERVED,
    UNCLEAR,
    ApprovalRule,
    Rule,
    causes_of,
    restricted,
)
from ..net.net import SkillNet
from .local_net import Action


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Known names: the tools that carry them and the tools that exist.

    `carriers` gives, for a name from a map or a dotted one, the tools whose calls can have it. `tools`
    are the tools that exist; `None` when unknown.
    """

    carriers: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    tools: frozenset[str] | None = None

    def exists(self, tool: str) -> bool:
        """True if there may be a tool of this very name, or for `anything-else` one nothing names."""
        if tool in RESERVED:
            return tool == ANYTHING_ELSE
        return tool not in self.carriers if self.tools is None else tool in self.tools

    def carried_by(self, name: str) -> tuple[str, ...]:
        """The tools that exist and carry `name`."""
        tools = self.carriers.get(name, ())
        return tools if self.tools is None else tuple(t for t in tools if t in self.tools)


@runtime_checkable
class Carrying(Protocol):
    """A `call_names` function that can say which tools' calls can have a name besides their own."""

    carriers: Mapping[str, tuple[str, ...]]


def vocabulary(nets: Iterable[SkillNet], tools: Iterable[str] | None = None) -> Vocabulary:
    """Vocabulary from the nets' own `call_names`; `tools` are those that exist, if that is known."""
    carriers: dict[str, dict[str, None]] = {}
    for source in dict.fromkeys(net.call_names for net in nets):
        if isinstance(source, Carrying):
            for name, carried in source.carriers.items():
                carriers.setdefault(name, {}).update(dict.fromkeys(carried))
    known = {name: tuple(carried) for name, carried in carriers.items()}
    return Vocabulary(known, None if tools is None else frozenset(tools))


def gated_names(nets: Iterable[SkillNet]) -> list[str]:
    """Every name that a net's transitions know, in order."""
    return list(dict.fromkeys(name for net in nets for t in net.transitions for name in t.tools))


def certain_actions(nets: Iterable[SkillNet], words: Vocabulary) -> list[Action]:
    """Calls that an agent can surely make: each name alone, or with the tool that carries it."""
    nets = list(nets)
    calls: dict[tuple[str, ...], None] = {}
    # Being unclear lets a call do nothing that it could not do without, and unlock nothing (G-64): with
    # such calls last, no way leads through one but the way to `unclear` itself.
    for name in sorted(gated_names(nets), key=lambda name: name == UNCLEAR):
        if words.exists(name):
            calls[(name,)] = None
        for tool in words.carried_by(name):
            calls[(name, tool)] = None
    return _with_failures(nets, calls)


def loose_actions(
    nets: Iterable[SkillNet], words: Vocabulary, impossible: frozenset[str]
) -> list[Action]:
    """Calls that can do all that any combination of names does: each name alone, free of its carrier.

    Names that only `impossible` tools carry are left out.
    """
    nets = list(nets)
    calls: dict[tuple[str, ...], None] = {}
    for name in gated_names(nets):
        if words.exists(name) or not impossible.issuperset(words.carried_by(name)):
            calls[(name,)] = None
    return _with_failures(nets, calls)


def _with_failures(nets: Iterable[SkillNet], calls: Iterable[tuple[str, ...]]) -> list[Action]:
    """The calls, and for what a hand-built net defers also the same call failing.

    In the nets of rules a success never leaves less possible than a failure, so those need no second.
    """
    deferred = {
        name
        for net in nets
        if net.rule is None
        for t in net.transitions
        if t.deferred
        for name in t.tools
    }
    actions: list[Action] = []
    for names in calls:
        actions.append(Action(names))
        if not deferred.isdisjoint(names):
            actions.append(Action(names, succeeds=False))
    return actions


def combines(nets: Iterable[SkillNet], words: Vocabulary) -> bool:
    """Tell whether one call may have two mapped names at once, so that the certain calls are not all.

    Being unclear besides lets a call do nothing that it could not do without, so that is no such name.
    """
    carried: dict[str, int] = {}
    for name in gated_names(nets):
        if name == UNCLEAR:
            continue
        for tool in words.carried_by(name):
            carried[tool] = carried.get(tool, 0) + 1
    return any(count > 1 for count in carried.values())


def late_successes(nets: Mapping[str, SkillNet]) -> dict[str, list[Action]]:
    """By tool, the ends of calls that began before another call blocked further ones of it.

    A call that runs beside others may end, and unlock or restore something, when no call of its tool
    could begin any more. Each such action moves one net, and has no name of a call.
    """
    blocked = dict.fromkeys(tool for net in nets.values() for tool in _blocked_later(net.rule))
    ends: dict[str, list[Action]] = {}
    for tool in blocked:
        for key, net in nets.items():
            if any(t.deferred and not t.voids and tool in t.tools for t in net.transitions):
                ends.setdefault(tool, []).append(Action((f"\0end {tool}",), by_net={key: (tool,)}))
    return ends


def _blocked_later(rule: Rule | None) -> tuple[str, ...]:
    """The tool that calls of another one block, whatever was unlocked before."""
    if isinstance(rule, ApprovalRule) or rule is None or not causes_of(rule):
        return ()
    return (restricted(rule),)


def loosely_covered(nets: Iterable[SkillNet], words: Vocabulary) -> bool:
    """True if `loose_actions` really do all that combinations do.

    One net that meets two names of one call can make the order of the names matter: then nothing is
    claimed. The nets of `require` rules do not.
    """
    for net in nets:
        plain = net.rule is not None and not any(t.transfers for t in net.transitions)
        if plain:
            continue
        names = gated_names([net])
        for position, name in enumerate(names):
            mine = {name, *words.carried_by(name)}
            if any(not mine.isdisjoint({n, *words.carried_by(n)}) for n in names[position + 1 :]):
                return False
    return True
