"""Possible calls, as far as the names that nets gate determine them.

A name that a map gives (such as `deploy`, to a `bash` call) comes together with the tool's own name. One
call may also have several such names at once (`./test && ./deploy`). Those combinations are too many to
list, so there are two lists: calls that surely exist, and calls loose enough to do everything that a
combination does.
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

    `carriers` has, for a name from a map or a dotted name, the tools whose calls can have it. `tools` are
    the tools that exist; `None` if unknown.
    """

    carriers: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    tools: frozenset[str] | None = None

    def exists(self, tool: str) -> bool:
        """True if a tool with this name may exist; for `anything-else`, one that no rule names."""
        if tool in RESERVED:
            return tool == ANYTHING_ELSE
        return tool not in self.carriers if self.tools is None else tool in self.tools

    def carried_by(self, name: str) -> tuple[str, ...]:
        """Existing tools that carry `name`."""
        tools = self.carriers.get(name, ())
        return tools if self.tools is None else tuple(t for t in tools if t in self.tools)


@runtime_checkable
class Carrying(Protocol):
    """A `call_names` function that knows which tools' calls can have a name besides their own."""

    carriers: Mapping[str, tuple[str, ...]]


def vocabulary(nets: Iterable[SkillNet], tools: Iterable[str] | None = None) -> Vocabulary:
    """Vocabulary from the nets' own `call_names`; `tools` are those that exist, if known."""
    carriers: dict[str, dict[str, None]] = {}
    for source in dict.fromkeys(net.call_names for net in nets):
        if isinstance(source, Carrying):
            for name, carried in source.carriers.items():
                carriers.setdefault(name, {}).update(dict.fromkeys(carried))
    known = {name: tuple(carried) for name, carried in carriers.items()}
    return Vocabulary(known, None if tools is None else frozenset(tools))


def gated_names(nets: Iterable[SkillNet]) -> list[str]:
    """Every name in a net's transitions, in order."""
    return list(dict.fromkeys(name for net in nets for t in net.transitions for name in t.tools))


def certain_actions(nets: Iterable[SkillNet], words: Vocabulary) -> list[Action]:
    """Calls that an agent can surely make: each name alone, or with the tool that carries it."""
    nets = list(nets)
    calls: dict[tuple[str, ...], None] = {}
    # An unclear call can do nothing more than a clear one, and unlocks nothing (G-64). With such calls
    # last, no way leads through one, except the way to `unclear` itself.
    for name in sorted(gated_names(nets), key=lambda name: name == UNCLEAR):
        if words.exists(name):
            calls[(name,)] = None
        for tool in words.carried_by(name):
            calls[(name, tool)] = None
    return _with_failures(nets, calls)


def loose_actions(
    nets: Iterable[SkillNet], words: Vocabulary, impossible: frozenset[str]
) -> list[Action]:
    """Calls that can do everything that combinations of names do: each name alone, without its carrier.

    Names that only `impossible` tools carry are left out.
    """
    nets = list(nets)
    calls: dict[tuple[str, ...], None] = {}
    for name in gated_names(nets):
        if words.exists(name) or not impossible.issuperset(words.carried_by(name)):
            calls[(name,)] = None
    return _with_failures(nets, calls)


def _with_failures(nets: Iterable[SkillNet], calls: Iterable[tuple[str, ...]]) -> list[Action]:
    """The calls, each also as a failing call if a hand-built net has a deferred transition for it.

    In the nets of rules a success never allows less than a failure, so the failing call is not needed.
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
    """Return whether one call may have two mapped names at once, so that the certain calls are
    incomplete.

    `unclear` does not count: an unclear call can do nothing more than a clear one.
    """
    carried: dict[str, int] = {}
    for name in gated_names(nets):
        if name == UNCLEAR:
            continue
        for tool in words.carried_by(name):
            carried[tool] = carried.get(tool, 0) + 1
    return any(count > 1 for count in carried.values())


def late_successes(nets: Mapping[str, SkillNet]) -> dict[str, list[Action]]:
    """Late results of calls, by tool: the calls began before another call blocked further ones.

    A call that runs at the same time as others may end, and unlock or restore something, when no call of
    its tool could begin any more. Each such action moves one net, and has a name that no call has.
    """
    blocked = dict.fromkeys(tool for net in nets.values() for tool in _blocked_later(net.rule))
    ends: dict[str, list[Action]] = {}
    for tool in blocked:
        for key, net in nets.items():
            if any(t.deferred and not t.voids and tool in t.tools for t in net.transitions):
                ends.setdefault(tool, []).append(Action((f"\0end {tool}",), by_net={key: (tool,)}))
    return ends


def _blocked_later(rule: Rule | None) -> tuple[str, ...]:
    """Tool that calls of another tool block, regardless of what was unlocked before."""
    if isinstance(rule, ApprovalRule) or rule is None or not causes_of(rule):
        return ()
    return (restricted(rule),)


def loosely_covered(nets: Iterable[SkillNet], words: Vocabulary) -> bool:
    """True if `loose_actions` really do everything that combinations do.

    If one net knows two names of one call, the order of the names may matter, and nothing is claimed. For
    the nets of `require` rules it does not matter.
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
