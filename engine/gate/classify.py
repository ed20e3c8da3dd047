"""Phase 1: what every active net says of a call. Pure; the cost depends on the nets that know the tool.

A roster is built when the active set changes. It finds, from the names of a call, the nets that have an
opinion; all others abstain without being looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from ..condition import NOWHERE, Surroundings
from ..net import CallNames, GateState, SkillNet, ToolCall, Transition, renamed_by
from . import reasons
from .jurisdiction import judged
from .member import Member
from .moment import Moment, Timekeeper
from .types import NetVerdict

Finding: TypeAlias = tuple[Member, NetVerdict]


@dataclass(slots=True)
class Findings:
    """The names of a call, the most specific first, and the opinions on it in active order.

    `exempted` are the nets that know the call but abstain since their condition does not hold.
    """

    names: tuple[str, ...]
    opinions: list[Finding]
    exempted: Sequence[Finding] = ()

    def first_block(self) -> Finding | None:
        for finding in self.opinions:
            if finding[1].kind == "blocked":
                return finding
        return None

    def gated(self) -> list[Finding]:
        return [finding for finding in self.opinions if finding[1].kind == "gated"]


@dataclass(slots=True)
class _Namesakes:
    """The active nets that take a call's names from the same function, and which of them know a name."""

    call_names: CallNames | None
    members: list[Member] = field(default_factory=list[Member])
    by_name: dict[str, list[Member]] = field(default_factory=dict[str, list[Member]])

    def add(self, member: Member) -> None:
        self.members.append(member)
        for name in member.knows:
            self.by_name.setdefault(name, []).append(member)


@dataclass(frozen=True, slots=True)
class Lane:
    """A tool that goes by its own name only and whose nets consult neither a person nor a validator.

    `nets` are those that gate it, in active order, each with the ways in which it lets the tool pass.
    """

    names: tuple[str, ...]
    nets: list[tuple[Member, tuple[tuple[Transition, NetVerdict], ...]]]


class Roster:
    """The active nets, in order of activation, with the index from names to nets.

    `lanes` holds the tools for which nothing but markings counts, see `phases.pass_at_once`. A call has
    its tool's own name only, unless the tool is among `renamed`; where that holds, `known` are the nets
    that have an opinion, by name. Where nets do not say whose names they know, `opaque`, any call may
    have others.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = tuple(members)
        self._mapped: list[Member] = []
        groups: dict[CallNames | None, _Namesakes] = {}
        for order, member in enumerate(self.members):
            member.order = order
            if member.net.tool_mapper is not None:
                self._mapped.append(member)
                continue
            call_names = member.net.call_names
            groups.setdefault(call_names, _Namesakes(call_names)).add(member)
        self._groups = list(groups.values())
        renamed = [renamed_by(call_names) for call_names in groups]
        self.opaque = bool(self._mapped) or None in renamed
        self.renamed = frozenset[str]().union(*(tools for tools in renamed if tools is not None))
        self.known: dict[str, list[Member]] = {}
        self.lanes: dict[str, Lane] = {}
        if not self.opaque:
            for member in self.members:
                for name in member.knows:
                    self.known.setdefault(name, []).append(member)
            self.lanes = {
                name: Lane((name,), [(m, m.knows[name].gated) for m in members if not m.knows[name].free])
                for name, members in self.known.items()
                if name not in self.renamed and not any(m.knows[name].consults for m in members)
            }

    def findings(self, call: ToolCall, moment: Moment) -> Findings:
        """The opinions on `call`. A callback that fails blocks in its net's name (G-59)."""
        tool = call.tool_name
        if self.opaque or tool in self.renamed:
            return self._named_findings(call, moment)
        found: list[Finding] = []
        plain = True
        for member in self.known.get(tool, ()):
            if member.plain:
                found.append((member, member.knows[tool].verdict(member.state.marking)))
            else:
                found.append((member, judged(member, (tool,), call, moment)))
                plain = False
        return Findings((tool,), found) if plain else _sorted_out((tool,), found)

    def _named_findings(self, call: ToolCall, moment: Moment) -> Findings:
        tool = call.tool_name
        all_names: dict[str, None] = {}
        found: dict[int, Finding] = {}
        for group in self._groups:
            try:
                names = _names(call, group.call_names)
            except Exception as problem:
                for member in group.members:
                    reason = reasons.callback_failed(member.key, "call_names", problem)
                    found[member.order] = (member, member.blocked(tool, reason))
                continue
            all_names.update(dict.fromkeys(names))
            for name in names:
                for member in group.by_name.get(name, ()):
                    if member.order not in found:
                        found[member.order] = (member, judged(member, names, call, moment))
        for member in self._mapped:
            try:
                name = resolve_tool(member.net, call)
            except Exception as problem:
                reason = reasons.callback_failed(member.key, "tool_mapper", problem)
                found[member.order] = (member, member.blocked(tool, reason))
                continue
            all_names[name] = None
            if name in member.knows:
                found[member.order] = (member, judged(member, (name,), call, moment))
        all_names.pop(tool, None)
        return _sorted_out((*all_names, tool), [found[order] for order in sorted(found)])

    def verdicts(self, findings: Findings) -> list[NetVerdict]:
        """One verdict per active net, those that abstain included."""
        known = (*findings.opinions, *findings.exempted)
        by_key = {member.key: verdict for member, verdict in known}
        return [by_key.get(m.key) or m.abstain(findings.names[0]) for m in self.members]


def _sorted_out(names: tuple[str, ...], found: list[Finding]) -> Findings:
    """Opinions here, and there the nets that have none."""
    for finding in found:
        if finding[1].kind == "abstain":
            break
    else:
        return Findings(names, found)
    exempted = [finding for finding in found if finding[1].kind == "abstain"]
    return Findings(names, [finding for finding in found if finding[1].kind != "abstain"], exempted)


def _names(call: ToolCall, call_names: CallNames | None) -> tuple[str, ...]:
    if call_names is None:
        return (call.tool_name,)
    return _checked(call_names(call))


def _checked(names: object) -> tuple[str, ...]:
    """What a callback returned as names, without repetition. Raises `TypeError` for anything else."""
    if isinstance(names, Iterable) and not isinstance(names, str):
        each = tuple(cast("Iterable[object]", names))
        strings = [name for name in each if isinstance(name, str)]
        if strings and len(strings) == len(each):
            return tuple(dict.fromkeys(strings))
    raise TypeError(f"returned {names!r}, expected tool names")


def _checked_name(name: object) -> str:
    if isinstance(name, str):
        return name
    raise TypeError(f"returned {name!r}, expected a tool name")


def names_of(net: SkillNet, call: ToolCall) -> tuple[str, ...]:
    """The names that `net` knows `call` by: its mapper's one, or all of them, the most specific first.

    Raises what the net's callback raises, and `TypeError` for a name that is no string.
    """
    if net.tool_mapper is None:
        return _names(call, net.call_names)
    return (_checked_name(net.tool_mapper(call)),)


def resolve_tool(net: SkillNet, call: ToolCall) -> str:
    """The most specific name that `net` knows `call` by. Raises as `names_of` does."""
    return names_of(net, call)[0]


def unique_keys(nets: Iterable[SkillNet]) -> dict[str, SkillNet]:
    """Nets by name; a repeated name gets the key `name#2`, `name#3` … (G-43)."""
    keyed: dict[str, SkillNet] = {}
    for net in nets:
        key, count = net.name, 1
        while key in keyed:
            count += 1
            key = f"{net.name}#{count}"
        keyed[key] = net
    return keyed


def classify_nets(
    nets: Sequence[SkillNet],
    states: Sequence[GateState],
    call: ToolCall,
    *,
    surroundings: Surroundings = NOWHERE,
    clock: Callable[[], float] = time.time,
) -> list[NetVerdict]:
    """Phase 1 on its own: the verdict of each net in its state, in order. Changes nothing.

    `surroundings` and `clock` are as in `GateManager`. Raises `ValueError` when there is not one state
    for each net.
    """
    keyed = unique_keys(nets).items()
    members = [Member(key, net, state) for (key, net), state in zip(keyed, states, strict=True)]
    roster = Roster(members)
    return roster.verdicts(roster.findings(call, Timekeeper(clock, surroundings).moment()))
