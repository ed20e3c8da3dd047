"""Phase 1: the verdict of every active net on a call. Pure.

A roster is built whenever the set of active nets changes. From the names of a call it finds the nets that
know one of them. All other nets abstain without being evaluated, so the cost depends only on the nets
that know the tool.

Besides the names from nets, maps and the call itself, the gate adds two: `unclear` for a call that cannot
be analysed completely (G-64), and `anything-else` for one that no active rule names (G-66).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol, TypeAlias, cast, runtime_checkable
from weakref import WeakValueDictionary

from ..core.condition import NOWHERE, Surroundings
from ..core.rule import ANYTHING_ELSE, RESERVED, UNCLEAR
from ..core.sanitize import folded_name
from ..net.net import CallNames, GateState, Input, ReadsCalls, SkillNet, ToolCall, Transition, renamed_by
from . import reasons
from .conditions import EvaluationContext, Timekeeper, apply_condition
from .member import Member
from .name_changes import named_tools
from .types import NetVerdict, Step

log = logging.getLogger(__name__)

MemberVerdict: TypeAlias = tuple[Member, NetVerdict]

MOST_UNKNOWN_TOOLS = 4_096
"""Tools remembered as known to no net. Agents have fewer; invented names must not fill the memory."""


@dataclass(slots=True)
class Classification:
    """Names of a call, the most specific first, and the verdicts on it in active order.

    `abstaining` are the nets that know the call but abstain because their condition does not hold.
    `unclear` is why the call may do more than its names say. `judged_as` are names in the rules that
    equal the tool's name after folding, but not exactly (G-66).
    """

    names: tuple[str, ...]
    verdicts: list[MemberVerdict]
    abstaining: Sequence[MemberVerdict] = ()
    unclear: str | None = None
    judged_as: tuple[str, ...] = ()

    def first_block(self) -> MemberVerdict | None:
        for found in self.verdicts:
            if found[1].kind == "blocked":
                return found
        return None

    def gated(self) -> list[MemberVerdict]:
        return [found for found in self.verdicts if found[1].kind == "gated"]

    def reason(self, verdict: NetVerdict) -> str | None:
        """Reason of a verdict; for a reserved name, with the reason why the call has that name."""
        if verdict.reason is not None and verdict.tool in RESERVED:
            return reasons.reserved(verdict.reason, verdict.tool, self.names[-1], self.unclear)
        return verdict.reason


@dataclass(slots=True)
class _NamingGroup:
    """Active nets that get a call's names from the same function, and which of them know a name.

    Nets are given by their positions in the active order. A call with a name in `named` is not
    `anything-else` (G-66).
    """

    call_names: CallNames | None
    reads: ReadsCalls | None
    nets: list[int] = field(default_factory=list[int])
    by_name: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    named: set[str] = field(default_factory=set[str])

    def add(self, at: int, member: Member) -> None:
        self.nets.append(at)
        if not member.net.wish:
            self.named.update(member.knows.keys() - RESERVED)
        for name in member.knows:
            self.by_name.setdefault(name, []).append(at)


class _KnownNames:
    """Names that a sequence of active nets knows; shared by all sessions with these nets in this order.

    Nets are given by their positions in that order. `mapped` are the nets with a `tool_mapper`, `known`
    the nets that know a tool, and `lanes` the nets that gate it, see `Roster`. `unknown_tools` are tools
    seen so far that no net knows.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        nets = self.nets = tuple(member.net for member in members)
        self.mapped = [at for at, net in enumerate(nets) if net.tool_mapper is not None]
        groups: dict[CallNames | None, _NamingGroup] = {}
        for at, member in enumerate(members):
            if member.net.tool_mapper is not None:
                continue
            call_names = member.net.call_names
            group = groups.get(call_names)
            if group is None:
                group = groups[call_names] = _NamingGroup(call_names, as_unclear_reader(call_names))
            group.add(at, member)
        self.groups = list(groups.values())
        self.namers = tuple(nets[group.nets[0]] for group in self.groups)
        renamed = [renamed_by(call_names) for call_names in groups]
        self.opaque = bool(self.mapped) or None in renamed
        self.renamed = frozenset[str]().union(*(tools for tools in renamed if tools is not None))
        names = {name for group in self.groups for name in group.by_name}
        names.update(name for at in self.mapped for name in members[at].knows)
        self.named_else = ANYTHING_ELSE in names
        self.mentioned = names.union(self.renamed) - RESERVED
        self.named = self.mentioned
        if self.named_else and any(net.wish for net in nets):
            named = [named_tools(net) for net in nets]
            self.named = frozenset[str]().union(*(tools for tools in named if tools is not None))
            self.renamed |= self.mentioned - self.named
        self._folded: dict[str, tuple[str, ...]] | None = None
        self.unknown_tools: set[str] = set()
        self.known: dict[str, list[int]] = {}
        self.lanes: dict[str, list[int]] = {}
        if not self.opaque:
            for at, member in enumerate(members):
                for name in member.knows.keys() - RESERVED:
                    self.known.setdefault(name, []).append(at)
            self.lanes = {
                name: [at for at in places if not members[at].knows[name].free]
                for name, places in self.known.items()
                if name not in self.renamed and not any(members[at].knows[name].consults for at in places)
            }

    def similar(self, tool: str) -> tuple[str, ...]:
        """Names in the rules that equal a tool's name after folding, but not exactly (G-66)."""
        if tool in self.mentioned:
            return ()
        if self._folded is None:
            folded: dict[str, tuple[str, ...]] = {}
            for name in sorted(self.mentioned | RESERVED):
                folded[folded_name(name)] = (*folded.get(folded_name(name), ()), name)
            self._folded = folded
        return tuple(name for name in self._folded.get(folded_name(tool), ()) if name != tool)


_known_names: WeakValueDictionary[tuple[int, ...], _KnownNames] = WeakValueDictionary()
"""Keyed by the `id` of each net; an entry keeps its nets alive, so their ids stay unique."""


def _names_known_to(members: Sequence[Member]) -> _KnownNames:
    key = tuple([id(member.net) for member in members])
    known = _known_names.get(key)
    if known is None:
        known = _known_names[key] = _KnownNames(members)
    return known


@dataclass(frozen=True, slots=True)
class CallbackError:
    """Exception that a net's callback raised instead of returning a name, and which callback it was."""

    callback: str
    problem: Exception


NetNames: TypeAlias = tuple[str, ...] | CallbackError


@dataclass(slots=True)
class Naming:
    """Names by which each active net knows one call, in the order of the nets.

    `unlocks` is true if the call's success may unlock something (G-64, G-66).
    """

    by_net: list[NetNames]
    unlocks: bool


@dataclass(slots=True)
class _CollectedNames:
    """Names of one call by the functions that gave them; `alike` are those its tool's name folds to."""

    tool: str
    alike: tuple[str, ...]
    groups: list[tuple[_NamingGroup, NetNames]] = field(
        default_factory=list[tuple[_NamingGroup, NetNames]]
    )
    mapped: list[tuple[Member, NetNames]] = field(default_factory=list[tuple[Member, NetNames]])
    unclear: str | None = None

    @property
    def unlocks(self) -> bool:
        """True if the call's success may unlock something: its effect is known, under its exact name."""
        return self.unclear is None and not self.alike

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the call, the most specific first."""
        each: dict[str, None] = {}
        for _, names in (*self.groups, *self.mapped):
            if not isinstance(names, CallbackError):
                each.update(dict.fromkeys(names))
        for last in (*self.alike, self.tool):
            each.pop(last, None)
        return (*each, *self.alike, self.tool)


@dataclass(frozen=True, slots=True)
class Lane:
    """Fast path of a tool that has only its own name and whose nets need neither approval nor a
    validator.

    `nets` are the nets that gate it, in active order, each with the transitions that may let it pass.
    """

    names: tuple[str, ...]
    nets: list[tuple[Member, tuple[tuple[Transition, NetVerdict], ...]]]


class Roster:
    """Active nets in order of activation, with an index from names to nets.

    `lanes` holds the tools used so far for which only markings count, see `decision.pass_at_once`.
    `unknown_tools` holds the tools seen so far that no net knows. A call has only its tool's own name,
    unless the tool is in `renamed`, is known to no net, or has a reserved name. If `opaque`, some nets do
    not say which tools they rename, and any call may have more names. `namers` has one net for each
    function that names calls.
    """

    def __init__(self, members: Iterable[Member], *, quotes_calls: bool = False) -> None:
        self.members = tuple(members)
        self.quotes_calls = quotes_calls
        for order, member in enumerate(self.members):
            member.order = order
        names = self._names = _names_known_to(self.members)
        self.namers = names.namers
        self.opaque = names.opaque
        self.renamed = names.renamed
        self.lanes: dict[str, Lane] = {}
        self.unknown_tools = names.unknown_tools

    def lane(self, tool: str) -> Lane | None:
        """Add a tool's lane to `lanes` and return it; `None` if the tool has none."""
        gating = self._names.lanes.get(tool)
        if gating is None or self.opaque:
            return None
        members = [self.members[at] for at in gating]
        lane = self.lanes[tool] = Lane((tool,), [(m, m.knows[tool].gated) for m in members])
        return lane

    def classify(self, call: ToolCall, context: EvaluationContext) -> Classification:
        """Classify `call`. A callback that fails blocks the call in the name of its net (G-59)."""
        tool = call.tool_name
        if self.opaque or tool in self.renamed:
            return self._classify_named(call, context)
        places = self._names.known.get(tool)
        if places is None:
            return self._classify_unknown(call, context)
        found: list[MemberVerdict] = []
        plain = True
        for at in places:
            member = self.members[at]
            if member.plain:
                found.append((member, member.knows[tool].verdict(member.state.marking)))
            else:
                found.append(apply_condition(member, (tool,), call, context))
                plain = False
        return Classification((tool,), found) if plain else _classification((tool,), found)

    def _classify_unknown(self, call: ToolCall, context: EvaluationContext) -> Classification:
        """Classify a call of a tool whose own name no active net knows."""
        tool = call.tool_name
        return (
            Classification((tool,), [])
            if self.is_unknown_tool(tool)
            else self._classify_named(call, context)
        )

    def is_unknown_tool(self, tool: str) -> bool:
        """Return whether no active net knows a tool's calls, with any input."""
        if tool in self.unknown_tools:
            return True
        names = self._names
        if self.opaque or names.named_else or tool in names.mentioned or tool in RESERVED:
            return False
        if names.similar(tool):
            return False
        if len(self.unknown_tools) >= MOST_UNKNOWN_TOOLS:
            self.unknown_tools.clear()
        self.unknown_tools.add(tool)
        return True

    def _collect_names(self, call: ToolCall) -> _CollectedNames:
        """Collect the names that every naming function gives a call, and those that the gate adds."""
        tool = call.tool_name
        known = self._names
        alike = known.similar(tool)
        collected = _CollectedNames(tool, alike)
        mentioned = tool in known.named or not known.named.isdisjoint(alike)
        for group in known.groups:
            try:
                names, unclear = names_and_reason(call, group.call_names, group.reads)
            except Exception as problem:
                collected.groups.append((group, CallbackError("call_names", problem)))
                continue
            collected.unclear = collected.unclear or unclear
            mentioned = mentioned or not group.named.isdisjoint(names)
            collected.groups.append((group, _with_more_names(tool, names, alike)))
        for member in map(self.members.__getitem__, known.mapped):
            try:
                name = resolve_tool(member.net, call)
            except Exception as problem:
                collected.mapped.append((member, CallbackError("tool_mapper", problem)))
                continue
            mentioned = mentioned or (name in member.knows and name not in RESERVED)
            collected.mapped.append((member, (name,)))
        if known.named_else and not mentioned:
            collected.groups = [
                (
                    group,
                    names if isinstance(names, CallbackError) else _with_more_names(tool, names, _ELSE),
                )
                for group, names in collected.groups
            ]
        return collected

    def naming(self, call: ToolCall) -> Naming:
        """Names of a call for each active net. Exceptions of callbacks become `CallbackError`s."""
        collected = self._collect_names(call)
        by_net = {member.order: names for member, names in collected.mapped}
        for group, names in collected.groups:
            by_net.update((at, names) for at in group.nets)
        return Naming([by_net[order] for order in range(len(self.members))], collected.unlocks)

    def _classify_named(self, call: ToolCall, context: EvaluationContext) -> Classification:
        collected = self._collect_names(call)
        found: dict[int, MemberVerdict] = {}
        for group, names in collected.groups:
            if isinstance(names, CallbackError):
                for at in group.nets:
                    member = self.members[at]
                    found[at] = (member, _blocked_by_error(member, names, collected.tool))
                continue
            for name in names:
                for at in group.by_name.get(name, ()):
                    if at not in found:
                        found[at] = apply_condition(self.members[at], names, call, context)
        for member, names in collected.mapped:
            if isinstance(names, CallbackError):
                found[member.order] = (member, _blocked_by_error(member, names, collected.tool))
            elif names[0] in member.knows:
                found[member.order] = apply_condition(member, names, call, context)
        in_order = [found[order] for order in sorted(found)]
        if self.quotes_calls:
            in_order = [(member, with_deed(member, verdict, call)) for member, verdict in in_order]
        if not collected.unlocks:
            in_order = [(member, without_unlocking(member, verdict)) for member, verdict in in_order]
        classification = _classification(collected.names, in_order)
        classification.unclear, classification.judged_as = collected.unclear, collected.alike
        return classification

    def verdicts(self, classification: Classification) -> list[NetVerdict]:
        """One verdict per active net, including those that abstain."""
        member_verdicts = (*classification.verdicts, *classification.abstaining)
        by_key = {member.registered: verdict for member, verdict in member_verdicts}
        return [by_key.get(m.key) or m.abstain(classification.names[0]) for m in self.members]


_ELSE = (ANYTHING_ELSE,)


@runtime_checkable
class _KnowsDeeds(Protocol):
    """A function that names calls and can quote the part of a call that matched a name."""

    def deed(self, call: ToolCall, name: str, /) -> tuple[str, str] | None: ...


def with_deed(member: Member, verdict: NetVerdict, call: ToolCall) -> NetVerdict:
    """A rule's verdict against a call, whose reason quotes the call if a map gave the name (G-18)."""
    namer, rule = member.net.call_names, member.net.rule
    if (
        verdict.reason is None
        or rule is None
        or verdict.tool in (call.tool_name, *RESERVED)
        or not verdict.reason.startswith(f"{verdict.tool} ")
        or not isinstance(namer, _KnowsDeeds)
    ):
        return verdict
    try:
        deed = namer.deed(call, verdict.tool)
    except Exception:
        # The verdict counts even without the quotation.
        log.exception("Call '%s' could not be quoted", call.tool_call_id)
        return verdict
    return (
        verdict
        if deed is None
        else replace(verdict, reason=reasons.with_deed(verdict.reason, *deed, rule))
    )


def _blocked_by_error(member: Member, error: CallbackError, tool: str) -> NetVerdict:
    """Verdict of a net whose callback failed to name the call."""
    return member.blocked(tool, reasons.callback_failed(member.key, error.callback, error.problem))


def _with_more_names(tool: str, names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """`names` with `more` inserted before the tool's own name, which stays the least specific."""
    if not more:
        return names
    others = [name for name in (*names, *more) if name != tool]
    return (*dict.fromkeys(others), *(name for name in names[-1:] if name == tool))


def without_unlocking(member: Member, verdict: NetVerdict) -> NetVerdict:
    """Verdict on a call whose success proves nothing, without the steps that would unlock something.

    Such a call is unclear, or its name equals a rule's name only after folding (G-64, G-66). In the nets
    of rules all that deferred transitions do is unlock, except those that void others. A step that
    unlocks and needs approval is replaced by one that only needs approval. A deferred transition of a
    hand-built net may also lock something, so it stays.
    """
    of_rule = member.net.rule is not None or member.net.by_rule
    if not of_rule or not any(_unlocks(step.transition) for step in verdict.steps):
        return verdict
    steps = (_locked_step(member, step) if _unlocks(step.transition) else step for step in verdict.steps)
    return replace(verdict, steps=tuple(step for step in steps if step is not None))


def _unlocks(transition: Transition) -> bool:
    return transition.deferred and not transition.voids


def _locked_step(member: Member, step: Step) -> Step | None:
    """Replacement for a step that would unlock something: `None` unless the step needs approval."""
    if step.transition.type != "manual":
        return None
    asking = (
        t
        for t, _ in member.knows[step.tool].gated
        if t.type == "manual" and not t.deferred and t.inputs == step.transition.inputs
    )
    return Step(step.net, next(asking, step.transition), step.tool)


def _classification(names: tuple[str, ...], found: list[MemberVerdict]) -> Classification:
    """Classification of findings, with the abstaining nets kept apart."""
    for finding in found:
        if finding[1].kind == "abstain":
            break
    else:
        return Classification(names, found)
    abstaining = [finding for finding in found if finding[1].kind == "abstain"]
    return Classification(
        names, [finding for finding in found if finding[1].kind != "abstain"], abstaining
    )


def as_unclear_reader(call_names: CallNames | None) -> ReadsCalls | None:
    """`call_names`, if it can also report why a call is unclear; otherwise `None`."""
    return call_names if isinstance(call_names, ReadsCalls) else None


def names_and_reason(
    call: ToolCall, call_names: CallNames | None, reads: ReadsCalls | None
) -> tuple[tuple[str, ...], str | None]:
    """Names that a `call_names` function gives a call, and the reason why the call is unclear.

    If the function gives only names, the name `unclear` among them marks the call as unclear. Raises as
    `names_of` does.
    """
    if reads is not None:
        names, reason = reads.named(call)
        return _check_names(names), reason
    if call_names is None:
        return (call.tool_name,), None
    names = _check_names(call_names(call))
    return names, reasons.UNREAD if UNCLEAR in names and call.tool_name != UNCLEAR else None


def _check_names(names: object) -> tuple[str, ...]:
    """Names that a callback returned, without duplicates. Raises `TypeError` for anything else."""
    if isinstance(names, Iterable) and not isinstance(names, str):
        each = tuple(cast("Iterable[object]", names))
        strings = [name for name in each if isinstance(name, str)]
        if strings and len(strings) == len(each):
            return tuple(dict.fromkeys(strings))
    raise TypeError(f"returned {names!r}, expected tool names")


def _check_name(name: object) -> str:
    if isinstance(name, str):
        return name
    raise TypeError(f"returned {name!r}, expected a tool name")


def names_of(net: SkillNet, call: ToolCall) -> tuple[str, ...]:
    """Names by which `net` knows `call`: its mapper's one name, or all of them, the most specific first.

    They do not include the names that the gate adds. Raises what the net's callback raises, and
    `TypeError` for a name that is not a string.
    """
    if net.tool_mapper is None:
        return names_and_reason(call, net.call_names, None)[0]
    return (_check_name(net.tool_mapper(call)),)


def resolve_tool(net: SkillNet, call: ToolCall) -> str:
    """The most specific name by which `net` knows `call`. Raises as `names_of` does."""
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

    `surroundings` and `clock` are as in `GateManager`. Raises `ValueError` unless there is one state for
    each net.
    """
    keyed = unique_keys(nets).items()
    members = [Member(key, net, state) for (key, net), state in zip(keyed, states, strict=True)]
    roster = Roster(members)
    context = Timekeeper(clock, surroundings).context()
    return roster.verdicts(roster.classify(call.run_by(surroundings.shell), context))


# Completeness of a call's names: whether the whole call was analysed (G-51), and which fields no map
# reads.


class _Inspection(Protocol):
    @property
    def uninspectable(self) -> str | None: ...

    @property
    def unnamed(self) -> Sequence[str]: ...

    @property
    def commands(self) -> int: ...

    @property
    def marked(self) -> Sequence[int]: ...


@runtime_checkable
class _Inspects(Protocol):
    """A function that names calls and can also say whether the names are complete; compiled rules do."""

    def inspect(self, call: ToolCall, /) -> _Inspection: ...


@runtime_checkable
class _ReadsFields(Protocol):
    """A function that names calls and knows which fields its maps read; compiled rules do (G-74)."""

    @property
    def maps_digest(self) -> str: ...

    def unread(self, call: ToolCall, /) -> Input: ...

    def other_effect(self, call: ToolCall, /) -> str | None: ...

    def programs(self, call: ToolCall, /) -> tuple[str, ...]: ...


@runtime_checkable
class _ReadsCommands(Protocol):
    """A function that names calls and whose maps read shell commands in some fields."""

    def command_fields(self, tool: str, /) -> tuple[str, ...]: ...


@runtime_checkable
class _DeclaresShells(Protocol):
    """A function that names calls and knows which fields are declared to hold shell commands."""

    @property
    def declares_shells(self) -> bool: ...

    def shell_fields(self, tool: str, /) -> tuple[str, ...]: ...


class ShellFields:
    """Fields that maps of `nets` declare to hold shell commands, by tool (G-51); false without any."""

    def __init__(self, nets: Iterable[SkillNet]) -> None:
        namers = {id(net.call_names): net.call_names for net in nets}.values()
        self._namers = [n for n in namers if isinstance(n, _DeclaresShells) and n.declares_shells]

    def __bool__(self) -> bool:
        return bool(self._namers)

    def of(self, tool: str) -> tuple[str, ...]:
        """The fields of one tool; paths lead into objects."""
        return tuple(dict.fromkeys(path for namer in self._namers for path in namer.shell_fields(tool)))


def uninspectable(net: SkillNet, call: ToolCall) -> str | None:
    """Reason why a net's names for the call may be incomplete; `None` if they are complete.

    Raises what the net's naming function raises.
    """
    namer = net.call_names
    return namer.inspect(call).uninspectable if isinstance(namer, _Inspects) else None


def exact_input_reason(net: SkillNet, call: ToolCall) -> str | None:
    """Reason why calls with the same names may do something different; `None` if they cannot.

    A grant by names depends on this. Raises what the net's naming function raises.
    """
    namer = net.call_names
    if not isinstance(namer, _Inspects):
        return None
    found = namer.inspect(call)
    if found.uninspectable is not None:
        return reasons.MAY_BE_MORE
    if found.unnamed:
        return "the command runs more than its effects name"
    return namer.other_effect(call) if isinstance(namer, _ReadsFields) else None


def unmapped_fields(net: SkillNet, call: ToolCall) -> Input:
    """Fields of a call that do not affect its names; all fields if no map reads any (G-74).

    Raises what the net's naming function raises.
    """
    namer = net.call_names
    return namer.unread(call) if isinstance(namer, _ReadsFields) else call.input


def programs(net: SkillNet, call: ToolCall) -> tuple[str, ...]:
    """Programs of a call that its names do not determine; a grant covers only the same programs (G-74).

    Raises what the net's naming function raises.
    """
    namer = net.call_names
    return namer.programs(call) if isinstance(namer, _ReadsFields) else ()


def command_fields(net: SkillNet, tool: str) -> tuple[str, ...]:
    """Fields of a tool in which a net's maps read shell commands; paths lead into objects."""
    namer = net.call_names
    return namer.command_fields(tool) if isinstance(namer, _ReadsCommands) else ()


def maps_digest(nets: Iterable[SkillNet]) -> str:
    """Digest of the maps of `nets`; it is the same for two sets of nets only if their maps are (G-74)."""
    namers = {id(net.call_names): net.call_names for net in nets}.values()
    digests = {namer.maps_digest for namer in namers if isinstance(namer, _ReadsFields)}
    return sha256(repr(sorted(digests)).encode()).hexdigest()


def marked_commands(net: SkillNet, call: ToolCall) -> tuple[int, tuple[int, ...]]:
    """Number of simple commands behind a net's names, and the positions of the important ones.

    Important are the commands that a map names, and those with words that are not fully known. Raises
    what the net's naming function raises.
    """
    namer = net.call_names
    if not isinstance(namer, _Inspects):
        return 0, ()
    found = namer.inspect(call)
    return found.commands, tuple(found.marked)
